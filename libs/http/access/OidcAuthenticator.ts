import type { JWTPayload, JWTVerifyGetKey } from 'jose'
import { SCOPES, type Scope } from '../../access/index.js'
import { InvalidArgumentError, isObject, requiredText, type JsonValue } from '../../core/index.js'
import { ProblemError } from '../Problem.js'
import type { Identity } from './Identity.js'

/** An identity provider and the meaning of its claims. */
export interface OidcOptions {
  readonly issuer: string
  readonly audience: string
  /** URL of the issuer's keys; https, except on this machine. */
  readonly jwksUrl: string
  /** Accepted algorithms. @default RS256, PS256, ES256, EdDSA */
  readonly algorithms: readonly string[]
  /** Claim that names the person. @default sub */
  readonly ownerClaim: string
  /** Claim that lists the rights: an array, or words separated by spaces. @default scope */
  readonly scopeClaim: string
  /** Scopes per word of the scope claim. Other words grant nothing. */
  readonly scopes: ReadonlyMap<string, readonly Scope[]>
  /** Claim that lists the participants of the person. @default none: all participants */
  readonly participantsClaim: string | undefined
}

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
      return this.#identityIn(payload)
    } catch (error) {
      // An invalid token authenticates no caller. The answer does not say why.
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

  /** Loads the keys with the first token, so that servers without tokens do not load jose. */
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
    // With a participants claim, a token without participants is refused.
    if (typeof owner !== 'string' || !OWNER.test(owner) || participants?.length === 0) return undefined
    // The standard allows any expiry, but a Date has a limit.
    const expiresAt = new Date((payload.exp ?? Number.NaN) * 1_000)
    if (Number.isNaN(expiresAt.getTime())) return undefined
    const granted = new Set<Scope>(wordsIn(payload[scopeClaim]).flatMap((word) => scopes.get(word) ?? []))
    return {
      via: 'jwt',
      owner,
      // The length separates issuer and person, so that no two pairs give the same text.
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
/** The format that the database requires of a person: no space at either end, no control characters. */
const OWNER = /^(?=.{1,200}$)[^\s\p{Cc}](?:[^\p{Cc}]*[^\s\p{Cc}])?$/u
const CLOCK_SKEW_SECONDS = 30
const KEYS_TIMEOUT_MS = 5_000
/** Error code of jose if the provider's answer contains no keys. */
const KEYS_UNREADABLE = 'ERR_JOSE_GENERIC'

/** Parses the settings of a file. Refuses unknown fields, because a misspelt one would silently get its default. */
export function readOidcOptions(value: JsonValue): OidcOptions {
  if (!isObject(value)) throw new InvalidArgumentError('oidc', 'expected an object')
  const unknownField = Object.keys(value).find((field) => !FIELDS.includes(field))
  if (unknownField !== undefined)
    throw new InvalidArgumentError(unknownField, `unknown field; expected ${FIELDS.join(', ')}`)
  return {
    // The issuer is a part of the key scope, whose length an index limits.
    issuer: requiredText('issuer', value['issuer'], 255),
    audience: requiredText('audience', value['audience'], 2_000),
    jwksUrl: requiredUrl(value['jwksUrl']),
    algorithms: algorithmsOf(value['algorithms']),
    ownerClaim: optionalName('ownerClaim', value['ownerClaim']) ?? 'sub',
    scopeClaim: optionalName('scopeClaim', value['scopeClaim']) ?? 'scope',
    scopes: scopesOf(value['scopes']),
    participantsClaim: optionalName('participantsClaim', value['participantsClaim']),
  }
}

const FIELDS: readonly string[] = [
  'issuer',
  'audience',
  'jwksUrl',
  'algorithms',
  'ownerClaim',
  'scopeClaim',
  'scopes',
  'participantsClaim',
]

/** Asymmetric algorithms only: with a shared secret, every verifier could forge tokens. */
const ALGORITHMS: readonly string[] = [
  'RS256',
  'RS384',
  'RS512',
  'PS256',
  'PS384',
  'PS512',
  'ES256',
  'ES384',
  'ES512',
  'EdDSA',
]
const ALGORITHMS_DEFAULT: readonly string[] = ['RS256', 'PS256', 'ES256', 'EdDSA']

function algorithmsOf(value: JsonValue | undefined): readonly string[] {
  if (value === undefined) return ALGORITHMS_DEFAULT
  const words = Array.isArray(value) ? value.map(String) : []
  if (words.length > 0 && words.every((word) => ALGORITHMS.includes(word))) return words
  throw new InvalidArgumentError('algorithms', `expected some of ${ALGORITHMS.join(', ')}`)
}

function scopesOf(value: JsonValue | undefined): ReadonlyMap<string, readonly Scope[]> {
  if (!isObject(value)) throw new InvalidArgumentError('scopes', 'expected an object: word of the claim to scopes')
  return new Map(
    Object.entries(value).map(([word, given]) => {
      const names: readonly JsonValue[] = Array.isArray(given) ? given : []
      const scopes = SCOPES.filter((scope) => names.includes(scope))
      if (scopes.length === 0 || scopes.length < names.length) {
        throw new InvalidArgumentError(`scopes.${word}`, `expected an array of some of ${SCOPES.join(', ')}`)
      }
      return [word, scopes]
    }),
  )
}

function requiredUrl(value: JsonValue | undefined): string {
  const text = requiredText('jwksUrl', value, 2_000)
  const { protocol, hostname } = new URL(URL.canParse(text) ? text : 'none:')
  const isLocal = ['127.0.0.1', 'localhost', '[::1]'].includes(hostname)
  if (protocol === 'https:' || (protocol === 'http:' && isLocal)) return text
  throw new InvalidArgumentError('jwksUrl', 'expected an https address')
}

function optionalName(argument: string, value: JsonValue | undefined): string | undefined {
  return value === undefined ? undefined : requiredText(argument, value, 255)
}
