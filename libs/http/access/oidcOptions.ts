import { SCOPES, type Scope } from '../../access/index.js'
import { InvalidArgumentError, isObject, requiredText, type JsonValue } from '../../core/index.js'

/** Whose tokens are taken, and what their claims mean here. */
export interface OidcOptions {
  readonly issuer: string
  readonly audience: string
  /** Where the issuer publishes its keys; https, but for this machine. */
  readonly jwksUrl: string
  /** @default RS256, PS256, ES256, EdDSA */
  readonly algorithms: readonly string[]
  /** The claim that names the person. @default sub */
  readonly ownerClaim: string
  /** The claim that lists what they may do: an array, or words separated by spaces. @default scope */
  readonly scopeClaim: string
  /** What each word of that claim means here. A word that is not listed means nothing. */
  readonly scopes: ReadonlyMap<string, readonly Scope[]>
  /** The claim that lists the participants they are bound to. @default none: all participants */
  readonly participantsClaim: string | undefined
}

/** Settings as a file has them. Whatever is not known is refused: a misspelt name would otherwise mean a default. */
export function readOidcOptions(value: JsonValue): OidcOptions {
  if (!isObject(value)) throw new InvalidArgumentError('oidc', 'expected an object')
  const stranger = Object.keys(value).find((field) => !FIELDS.includes(field))
  if (stranger !== undefined) throw new InvalidArgumentError(stranger, `unknown field; expected ${FIELDS.join(', ')}`)
  return {
    // Part of the key scope, which an index bounds.
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

/** With asymmetric keys alone: a secret that both sides know would let a reader of tokens make them. */
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
