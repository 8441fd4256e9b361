import type { JWTPayload, JWTVerifyGetKey } from 'jose'
import type { Scope } from '../../access/index.js'
import { ProblemError } from '../Problem.js'
import type { Identity } from './Identity.js'
import type { OidcOptions } from './oidcOptions.js'

/**
 * Authenticates tokens of an identity provider. A token is valid if the provider signed it for this audience, with an
 * allowed algorithm, and its time has not passed. Its claims name the person and the scopes.
 */
export class OidcAuthenticator {
  readonly #options: OidcOptions
  #keys: Promise<JWTVerifyGetKey> | undefined

  constructor(options: OidcOptions) {
    this.#options = options
  }

  /** Undefined: it is no token, or none that counts. */
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
      return this.#identityIn(payload)
    } catch (error) {
      // Whatever is wrong with the token is nobody's business but its holder's: it does not count.
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

  /** Loaded when the first token comes: who uses keys alone does not pay for it. */
  async #openKeys(): Promise<JWTVerifyGetKey> {
    const { createRemoteJWKSet } = await import('jose')
    this.#keys ??= Promise.resolve(
      createRemoteJWKSet(new URL(this.#options.jwksUrl), { timeoutDuration: KEYS_TIMEOUT_MS }),
    )
    return this.#keys
  }

  #identityIn(payload: JWTPayload): Identity | undefined {
    const { issuer, ownerClaim, scopeClaim, participantsClaim, scopes } = this.#options
    const owner = payload[ownerClaim]
    const participants = participantsClaim === undefined ? null : wordsIn(payload[participantsClaim])
    // Somebody bound to participants whose token does not say to which is bound to none.
    if (typeof owner !== 'string' || !OWNER.test(owner) || participants?.length === 0) return undefined
    // 1e30 is a number to the standard, and no time to anybody.
    const expiresAt = new Date((payload.exp ?? Number.NaN) * 1_000)
    if (Number.isNaN(expiresAt.getTime())) return undefined
    const granted = new Set<Scope>(wordsIn(payload[scopeClaim]).flatMap((word) => scopes.get(word) ?? []))
    return {
      via: 'jwt',
      owner,
      // The length keeps two different pairs of issuer and person from being joined to one text.
      keyScope: `oidc:${issuer.length}:${issuer}:${owner}`,
      scopes: [...granted],
      participants,
      apiKey: null,
      expiresAt,
    }
  }
}

function wordsIn(claim: unknown): string[] {
  if (typeof claim === 'string') return claim.split(' ').filter((word) => word !== '')
  return Array.isArray(claim) ? claim.filter((word) => typeof word === 'string') : []
}

const JWT = /^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$/
/** As the database wants a person to be named: no space at either end, no control characters. */
const OWNER = /^(?=.{1,200}$)[^\s\p{Cc}](?:[^\p{Cc}]*[^\s\p{Cc}])?$/u
const CLOCK_SKEW_SECONDS = 30
const KEYS_TIMEOUT_MS = 5_000
/** What jose says when the provider answers with something else than keys. */
const KEYS_UNREADABLE = 'ERR_JOSE_GENERIC'
