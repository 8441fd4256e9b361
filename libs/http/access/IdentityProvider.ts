import type { authorizationCodeGrant, Configuration } from 'openid-client'
import { systemClock, TokenBucket, type Clock } from '../../core/index.js'
import { ProblemError } from '../Problem.js'
import type { Identity } from './Identity.js'
import { CLOCK_SKEW_SECONDS, identityOfClaims, type OidcOptions, type SignInOptions } from './oidcOptions.js'

interface StartedSignIn {
  /** URL of the provider that the browser opens. */
  readonly authorizationUrl: string
  /** State, nonce and PKCE verifier. The browser keeps them in a cookie until the provider redirects it back. */
  readonly started: string
}

/**
 * Signs people in by the authorization code flow of OpenID Connect with PKCE. Reads the metadata of the provider at the
 * first sign-in, so that an unreachable provider stops neither a starting server nor running sessions.
 */
export class IdentityProvider {
  readonly #options: OidcOptions
  readonly #signIn: SignInOptions
  readonly #clock: Clock
  readonly #requests: TokenBucket
  #discovered: { readonly configuration: Promise<Configuration>; untilMs: number } | undefined

  constructor(options: OidcOptions, signIn: SignInOptions, clock: Clock = systemClock) {
    this.#options = options
    this.#signIn = signIn
    this.#clock = clock
    this.#requests = new TokenBucket({ perSecond: SIGN_INS_PER_SECOND, burst: SIGN_INS_PER_SECOND * 2, clock })
  }

  get name(): string {
    return this.#signIn.name
  }

  async start(): Promise<StartedSignIn> {
    this.#limit()
    const configuration = await this.#discover()
    const client = await import('openid-client')
    const [state, nonce, verifier] = [client.randomState(), client.randomNonce(), client.randomPKCECodeVerifier()]
    const { href } = client.buildAuthorizationUrl(configuration, {
      redirect_uri: this.#signIn.publicUrl,
      scope: this.#signIn.scope,
      state,
      nonce,
      code_challenge: await client.calculatePKCECodeChallenge(verifier),
      code_challenge_method: 'S256',
    })
    return { authorizationUrl: href, started: [state, nonce, verifier].join('.') }
  }

  /**
   * Exchanges the code of the provider's redirect for the person's identity. Throws SIGN_IN_REFUSED for an invalid
   * answer, and for a person without a scope.
   */
  async finish(answer: string, started: string | undefined): Promise<Omit<Identity, 'via'>> {
    const [expectedState, expectedNonce, pkceCodeVerifier] = STARTED.exec(started ?? '')?.slice(1) ?? []
    if (expectedState === undefined || expectedNonce === undefined || pkceCodeVerifier === undefined) {
      throw new ProblemError('SIGN_IN_REFUSED', 'No sign-in has started in this browser. Sign in again.')
    }
    this.#limit()
    const configuration = await this.#discover()
    const client = await import('openid-client')
    try {
      const checks = { expectedState, expectedNonce, pkceCodeVerifier, idTokenExpected: true }
      const tokens = await client.authorizationCodeGrant(configuration, this.#answeredAt(answer), checks)
      return await this.#identityOf(tokens)
    } catch (error) {
      throw problemOf(error)
    }
  }

  /** Returns the URL that ends the provider's own session; null if the provider has none or does not answer. */
  async signOutUrl(): Promise<string | null> {
    try {
      const configuration = await this.#discover()
      if (configuration.serverMetadata().end_session_endpoint === undefined) return null
      const { buildEndSessionUrl } = await import('openid-client')
      return buildEndSessionUrl(configuration, { post_logout_redirect_uri: this.#signIn.publicUrl }).href
    } catch {
      return null
    }
  }

  #answeredAt(answer: string): URL {
    const url = new URL(this.#signIn.publicUrl)
    url.search = answer
    return url
  }

  async #identityOf(tokens: Tokens): Promise<Omit<Identity, 'via'>> {
    const { decodeProtectedHeader } = await import('jose')
    const { algorithms, ownerClaim, scopeClaim } = this.#options
    const { alg = 'none' } = decodeProtectedHeader(tokens.id_token ?? '')
    if (!algorithms.includes(alg)) {
      throw new ProblemError('SIGN_IN_REFUSED', 'The token is signed with an algorithm that is not allowed.')
    }
    const claims = tokens.claims()
    const identity = claims === undefined ? undefined : identityOfClaims(this.#options, claims)
    if (identity === undefined) {
      throw new ProblemError('SIGN_IN_REFUSED', `The token does not name a person in the claim ${ownerClaim}.`)
    }
    if (identity.scopes.length === 0) {
      throw new ProblemError('SIGN_IN_REFUSED', `The claim ${scopeClaim} grants ${identity.owner} no scope here.`)
    }
    return identity
  }

  /**
   * Returns the metadata, read at most once per hour. Concurrent callers share one read. After a failed read, callers
   * within a second get the same error, and the next caller reads again.
   */
  async #discover(): Promise<Configuration> {
    const nowMs = this.#clock.monotonicMs()
    if (this.#discovered === undefined || this.#discovered.untilMs <= nowMs) {
      const read = { configuration: this.#readMetadata(), untilMs: nowMs + METADATA_MS }
      this.#discovered = read
      read.configuration.catch(() => (read.untilMs = this.#clock.monotonicMs() + RETRY_MS))
    }
    try {
      return await this.#discovered.configuration
    } catch (error) {
      throw unavailable(`The metadata of ${this.#options.issuer} cannot be read`, error)
    }
  }

  async #readMetadata(): Promise<Configuration> {
    const client = await import('openid-client')
    const { clientId, clientSecret } = this.#signIn
    const issuer = new URL(this.#options.issuer)
    return client.discovery(
      issuer,
      clientId,
      { [client.clockTolerance]: CLOCK_SKEW_SECONDS },
      clientSecret === undefined ? client.None() : client.ClientSecretBasic(clientSecret),
      {
        timeout: TIMEOUT_SECONDS,
        // Also verifies the signature of the token. By default openid-client trusts the TLS connection to the provider.
        execute: [
          client.enableNonRepudiationChecks,
          // Plain http is allowed only for an issuer on this machine (`requiredUrl`).
          ...(issuer.protocol === 'http:' ? [client.allowInsecureRequests] : []),
        ],
      },
    )
  }

  /** Limits the rate of requests to the provider, because unauthenticated callers can cause them. */
  #limit(): void {
    const waitMs = this.#requests.waitMs()
    if (waitMs > 0) {
      throw new ProblemError('RATE_LIMITED', undefined, { retryAfterSeconds: Math.ceil(waitMs / 1_000) })
    }
    this.#requests.take()
  }
}

type Tokens = Awaited<ReturnType<typeof authorizationCodeGrant>>

/**
 * Returns the problem of a failed exchange. Its detail contains nothing of the provider's answer except the error code.
 */
function problemOf(error: unknown): ProblemError {
  if (error instanceof ProblemError) return error
  const code = textIn(error, 'code') ?? ''
  const reason = /^[a-z_]{1,40}$/.exec(textIn(error, 'error') ?? '')?.[0] ?? code
  if (reason === 'invalid_client' || code === 'OAUTH_WWW_AUTHENTICATE_CHALLENGE') {
    return unavailable('The provider refuses the client id or the client secret of this server', error)
  }
  if (code === '' || AWAY.has(code)) return unavailable('The provider does not answer as expected', error)
  return new ProblemError('SIGN_IN_REFUSED', `The answer of the provider is not valid (${reason}). Sign in again.`)
}

function unavailable(message: string, error: unknown): ProblemError {
  const reason = textIn(error, 'code') ?? (error instanceof Error ? error.name : 'unknown')
  const detail = `${message} (${reason}). Sign in later, or with a token; running sessions continue.`
  return new ProblemError('IDENTITY_PROVIDER_UNAVAILABLE', detail, { retryAfterSeconds: 1 })
}

function textIn(error: unknown, field: string): string | undefined {
  const value = error instanceof Error ? Object.entries(error).find(([name]) => name === field)?.[1] : undefined
  return typeof value === 'string' ? value : undefined
}

/**
 * Error codes of openid-client that mean an unreachable or broken provider. Every other code means an invalid answer,
 * which the browser delivered.
 */
const AWAY = new Set(['OAUTH_TIMEOUT', 'OAUTH_ABORT', 'OAUTH_RESPONSE_IS_NOT_CONFORM', 'OAUTH_RESPONSE_IS_NOT_JSON'])

const STARTED = /^([\w-]{43})\.([\w-]{43})\.([\w-]{43})$/
const SIGN_INS_PER_SECOND = 20
const METADATA_MS = 3_600_000
const RETRY_MS = 1_000
const TIMEOUT_SECONDS = 5
