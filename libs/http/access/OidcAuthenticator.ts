import type { JWTVerifyGetKey } from 'jose'
import { ProblemError } from '../Problem.js'
import type { Identity } from './Identity.js'
import { CLOCK_SKEW_SECONDS, identityOfClaims, type OidcOptions } from './oidcOptions.js'

/**
 * Authenticates tokens of an identity provider. A token is valid if the provider signed it for this audience, with an
 * allowed algorithm, and it has not expired. Its claims name the person and the scopes.
 */
export class OidcAuthenticator {
  readonly #options: OidcOptions
  #keys: Promise<JWTVerifyGetKey> | undefined

  constructor(options: OidcOptions) {
    this.#options = options
  }

  /** Returns the identity of a token; undefined if the text is no token or the token is invalid. */
  async identify(shown: string): Promise<Identity | undefined> {
    if (!JWT.test(shown)) return undefined
    const { issuer, audience, algorithms } = this.#options
    const { jwtVerify, errors } = await import('jose')
    try {
      const { payload } = await jwtVerify(shown, await this.#openKeys(), {
        issuer,
        audience,
        algorithms: [...algorithms],
        clockTolerance: CLOCK_SKEW_SECONDS,
        requiredClaims: ['exp', this.#options.ownerClaim],
      })
      const identity = identityOfClaims(this.#options, payload)
      return identity === undefined ? undefined : { via: 'jwt', ...identity }
    } catch (error) {
      // The token is invalid, and the caller does not learn why. A timeout or an unreadable answer of the provider says
      // nothing about the token.
      if (
        error instanceof errors.JOSEError &&
        !(error instanceof errors.JWKSTimeout) &&
        error.code !== KEYS_UNREADABLE
      ) {
        return undefined
      }
      throw new ProblemError('IDENTITY_PROVIDER_UNAVAILABLE', undefined, { retryAfterSeconds: 1 })
    }
  }

  /** Opens the provider's keys at the first token, so that servers that receive no token do not load jose. */
  async #openKeys(): Promise<JWTVerifyGetKey> {
    const { createRemoteJWKSet } = await import('jose')
    this.#keys ??= Promise.resolve(
      createRemoteJWKSet(new URL(this.#options.jwksUrl), { timeoutDuration: KEYS_TIMEOUT_MS }),
    )
    return this.#keys
  }
}

const JWT = /^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$/
const KEYS_TIMEOUT_MS = 5_000
/** Error code of jose if the provider answers the request for its keys with another status than 200 or without JSON. */
const KEYS_UNREADABLE = 'ERR_JOSE_GENERIC'
