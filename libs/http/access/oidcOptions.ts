import type { JWTPayload } from 'jose'
import { SCOPES, type Scope } from '../../access/index.js'
import { boundedInteger, InvalidArgumentError, isObject, requiredText, type JsonValue } from '../../core/index.js'
import type { Identity } from './Identity.js'

/** An identity provider and the meaning of its claims. */
export interface OidcOptions {
  readonly issuer: string
  readonly audience: string
  /** URL of the issuer's keys. Plain http only on this machine. */
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
  /** Sign-in of people to the dashboard. @default none: the dashboard asks for a token */
  readonly signIn?: SignInOptions | undefined
}

/** Settings of this server as a client of the identity provider. */
export interface SignInOptions {
  readonly clientId: string
  /** Secret of the client. @default none: a public client, protected only by PKCE */
  readonly clientSecret: string | undefined
  /**
   * URL of the dashboard in the browser, ending with `/`. Plain http only on this machine. The provider must allow it
   * as redirect URL after sign-in and after sign-out.
   */
  readonly publicUrl: string
  /** Name of the provider on the sign-in button. @default the host of the issuer */
  readonly name: string
  /** Requested scopes of the provider. @default openid profile email */
  readonly scope: string
  /** Duration of a session in seconds, 60 to 28,800. @default 28800 */
  readonly sessionSeconds: number
}

/**
 * Returns the identity in the verified claims of a token. Returns undefined if they name no valid person or expiry, or
 * if `participantsClaim` is set and they name no participant.
 */
export function identityOfClaims(
  { issuer, ownerClaim, scopeClaim, participantsClaim, scopes }: OidcOptions,
  claims: JWTPayload,
): Omit<Identity, 'via'> | undefined {
  const owner = claims[ownerClaim]
  const participants = participantsClaim === undefined ? null : wordsIn(claims[participantsClaim])
  if (typeof owner !== 'string' || !OWNER.test(owner) || participants?.length === 0) return undefined
  // At some providers, a person can register another person's email address without verification.
  if (ownerClaim === 'email' && claims['email_verified'] === false) return undefined
  // A token may contain an expiry that no Date can represent.
  const expiresAt = new Date((claims.exp ?? Number.NaN) * 1_000)
  if (Number.isNaN(expiresAt.getTime())) return undefined
  const granted = new Set<Scope>(wordsIn(claims[scopeClaim]).flatMap((word) => scopes.get(word) ?? []))
  const keyScope = keyScopeOf(issuer, owner)
  return { owner, keyScope, scopes: [...granted], participants, apiKey: null, expiresAt }
}

/** Returns the scope of a person's idempotency keys, the same for tokens and sessions. */
export function keyScopeOf(issuer: string, owner: string): string {
  // The length of the issuer makes the text unique for each pair of issuer and person.
  return `oidc:${issuer.length}:${issuer}:${owner}`
}

function wordsIn(claim: unknown): string[] {
  const words = typeof claim === 'string' ? claim.split(' ') : Array.isArray(claim) ? claim : []
  return [...new Set(words.filter((word) => typeof word === 'string' && word !== ''))]
}

/** Tolerated difference between the clocks of the provider and of this server. */
export const CLOCK_SKEW_SECONDS = 30

/** Format that the database requires of a person: no space at either end, no control characters, no " via ". */
const OWNER = /^(?=.{1,200}$)(?!.* via )[^\s\p{Cc}](?:[^\p{Cc}]*[^\s\p{Cc}])?$/u

/** Parses the settings file. The client secret is passed separately, because the file contains no secrets. */
export function readOidcOptions(
  value: JsonValue,
  { clientSecret }: { readonly clientSecret?: string } = {},
): OidcOptions {
  if (!isObject(value)) throw new InvalidArgumentError('oidc', 'expected an object')
  refuseUnknownFields('', value, FIELDS)
  const { signIn } = value
  return {
    // The issuer is part of the key scope, which PostgreSQL indexes. An index entry has a maximum size.
    issuer: requiredText('issuer', value['issuer'], 255),
    audience: requiredText('audience', value['audience'], 2_000),
    jwksUrl: requiredUrl('jwksUrl', value['jwksUrl']),
    algorithms: algorithmsOf(value['algorithms']),
    ownerClaim: optionalName('ownerClaim', value['ownerClaim']) ?? 'sub',
    scopeClaim: optionalName('scopeClaim', value['scopeClaim']) ?? 'scope',
    scopes: scopesOf(value['scopes']),
    participantsClaim: optionalName('participantsClaim', value['participantsClaim']),
    signIn: signIn === undefined ? undefined : readSignIn(signIn, value['issuer'], clientSecret),
  }
}

function readSignIn(value: JsonValue, issuer: JsonValue | undefined, clientSecret: string | undefined): SignInOptions {
  if (!isObject(value)) throw new InvalidArgumentError('signIn', 'expected an object')
  refuseUnknownFields('signIn.', value, SIGN_IN_FIELDS)
  const publicUrl = requiredUrl('signIn.publicUrl', value['publicUrl'])
  if (publicUrl !== new URL('./', publicUrl).href) {
    throw new InvalidArgumentError('signIn.publicUrl', 'expected the address of the dashboard, ending with /')
  }
  const { host } = new URL(requiredUrl('issuer', issuer))
  const minutes = value['sessionMinutes'] ?? SESSION_MINUTES_MAX
  return {
    clientId: requiredText('signIn.clientId', value['clientId'], 255),
    clientSecret,
    publicUrl,
    name: optionalName('signIn.name', value['name']) ?? host,
    scope: optionalName('signIn.scope', value['scope']) ?? 'openid profile email',
    sessionSeconds: boundedInteger('signIn.sessionMinutes', minutes, { min: 1, max: SESSION_MINUTES_MAX }) * 60,
  }
}

const SIGN_IN_FIELDS: readonly string[] = ['clientId', 'publicUrl', 'name', 'scope', 'sessionMinutes']
const SESSION_MINUTES_MAX = 480

/** Refuses unknown fields. A misspelt field would silently get its default. */
function refuseUnknownFields(place: string, value: object, fields: readonly string[]): void {
  const unknownField = Object.keys(value).find((field) => !fields.includes(field))
  if (unknownField === undefined) return
  throw new InvalidArgumentError(`${place}${unknownField}`, `unknown field; expected ${fields.join(', ')}`)
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
  'signIn',
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

function requiredUrl(argument: string, value: JsonValue | undefined): string {
  const text = requiredText(argument, value, 2_000)
  const { protocol, hostname } = new URL(URL.canParse(text) ? text : 'none:')
  const isLocal = ['127.0.0.1', 'localhost', '[::1]'].includes(hostname)
  if (protocol === 'https:' || (protocol === 'http:' && isLocal)) return text
  throw new InvalidArgumentError(argument, 'expected an https address')
}

function optionalName(argument: string, value: JsonValue | undefined): string | undefined {
  return value === undefined ? undefined : requiredText(argument, value, 255)
}
