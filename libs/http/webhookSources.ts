import {
  ArgumentRangeError,
  boundedInteger,
  compileJsonPointer,
  InvalidArgumentError,
  isObject,
  requiredId,
  requiredText,
  type JsonPointer,
  type JsonValue,
} from '../core/index.js'

/** Settings of one sender of webhooks: its secrets, and the places of topic, id, time and signature. */
export interface WebhookSource {
  /**
   * Secrets of the sender, at least 16 characters each. All are accepted, so that a new secret can be added before the
   * old one is removed. A secret of the form `whsec_BASE64` is decoded to bytes, as in Standard Webhooks.
   */
  readonly secrets: readonly string[]
  /** Topic of all its messages; alternatively `topicPointer`. @default the name of the source */
  readonly topic?: string
  /** JSON pointer to the topic in the body: `/type`. */
  readonly topicPointer?: string
  /**
   * Header with the message id. The sender's signature must cover the id. @default webhook-id, unless
   * `messageIdPointer` is given
   */
  readonly messageIdHeader?: string
  /** JSON pointer to the message id in the body: `/id`. */
  readonly messageIdPointer?: string
  /** Header with the time of signing, in seconds since 1970. @default webhook-timestamp */
  readonly timestampHeader?: string
  /** Header with one or several signatures, in hexadecimal or base64. @default webhook-signature */
  readonly signatureHeader?: string
  /**
   * Maximum difference between the time of signing and this server's clock. A smaller value allows fewer replays; a
   * larger one tolerates more clock skew. @default 300
   */
  readonly toleranceSeconds?: number
}

export type WebhookSources = Readonly<Record<string, WebhookSource>>

export interface ResolvedWebhookSource {
  readonly keys: readonly Buffer[]
  readonly topic: { readonly fixed: string } | { readonly pointer: JsonPointer }
  readonly messageId: { readonly header: string } | { readonly pointer: JsonPointer }
  readonly timestampHeader: string
  readonly signatureHeader: string
  readonly toleranceSeconds: number
}

/** Parses sources from JSON, such as a settings file. An error names the place and never a secret. */
export function readWebhookSources(argument: string, value: JsonValue): WebhookSources {
  if (!isObject(value)) throw new InvalidArgumentError(argument, 'expected an object of sources by their names')
  const sources: Record<string, WebhookSource> = {}
  for (const [name, given] of Object.entries(value)) {
    const place = `${argument}: ${name}`
    if (!isObject(given)) throw new InvalidArgumentError(place, 'expected an object')
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- every field is checked before it is used
    const source = given as unknown as WebhookSource
    resolveWebhookSource(name, source, place)
    sources[name] = source
  }
  return sources
}

export function resolveWebhookSource(name: string, given: WebhookSource, place = name): ResolvedWebhookSource {
  const at = (field: string) => `${place}.${field}`
  requiredId(place, name)
  const unknownField = Object.keys(given).find((key) => !FIELDS.has(key))
  if (unknownField !== undefined) {
    throw new InvalidArgumentError(at(unknownField), `unknown; expected one of ${[...FIELDS].join(', ')}`)
  }
  refuseBoth(at, given, 'topic', 'topicPointer')
  refuseBoth(at, given, 'messageIdHeader', 'messageIdPointer')
  const { topicPointer, messageIdPointer } = given
  return {
    keys: signingKeys(at('secrets'), given.secrets),
    topic:
      topicPointer === undefined
        ? { fixed: requiredId(at('topic'), given.topic ?? name) }
        : { pointer: compileJsonPointer(at('topicPointer'), topicPointer) },
    messageId:
      messageIdPointer === undefined
        ? { header: headerName(at('messageIdHeader'), given.messageIdHeader ?? 'webhook-id') }
        : { pointer: compileJsonPointer(at('messageIdPointer'), messageIdPointer) },
    timestampHeader: headerName(at('timestampHeader'), given.timestampHeader ?? 'webhook-timestamp'),
    signatureHeader: headerName(at('signatureHeader'), given.signatureHeader ?? 'webhook-signature'),
    toleranceSeconds: boundedInteger(at('toleranceSeconds'), given.toleranceSeconds ?? 300, { min: 1, max: 86_400 }),
  }
}

function signingKeys(argument: string, secrets: unknown): readonly Buffer[] {
  if (!Array.isArray(secrets)) throw new InvalidArgumentError(argument, 'expected an array of secrets')
  if (secrets.length < 1 || secrets.length > SECRETS_MAX) {
    throw new ArgumentRangeError(argument, `expected 1 to ${SECRETS_MAX} secrets, got ${secrets.length}`)
  }
  return secrets.map((given: unknown, index) => {
    const place = `${argument}[${index}]`
    const secret = requiredText(place, given, 1_024)
    if (secret.length < SECRET_LENGTH_MIN) {
      throw new ArgumentRangeError(place, `expected at least ${SECRET_LENGTH_MIN} characters`)
    }
    if (!secret.startsWith(BASE64_MARK)) return Buffer.from(secret, 'utf8')
    return decodedKey(place, secret.slice(BASE64_MARK.length))
  })
}

/**
 * Decodes base64 strictly. Node.js ignores invalid characters, so a secret masked by asterisks would give an empty key.
 */
function decodedKey(place: string, text: string): Buffer {
  const key = Buffer.from(text, 'base64')
  if (key.toString('base64').replaceAll('=', '') !== text.replaceAll('=', '')) {
    throw new InvalidArgumentError(place, `expected base64 after ${BASE64_MARK}`)
  }
  if (key.length < SECRET_LENGTH_MIN) {
    throw new ArgumentRangeError(place, `expected at least ${SECRET_LENGTH_MIN} bytes after ${BASE64_MARK}`)
  }
  return key
}

/** Returns the name in lower case, as Node.js spells the headers of a request. */
function headerName(argument: string, value: unknown): string {
  if (typeof value !== 'string' || !HEADER_NAME.test(value)) {
    throw new InvalidArgumentError(argument, 'expected the name of a header')
  }
  return value.toLowerCase()
}

function refuseBoth(
  at: (field: string) => string,
  given: WebhookSource,
  one: keyof WebhookSource,
  other: keyof WebhookSource,
): void {
  if (given[one] !== undefined && given[other] !== undefined) {
    throw new InvalidArgumentError(at(other), `expected this or ${one}, got both`)
  }
}

const FIELDS: ReadonlySet<string> = new Set([
  'secrets',
  'topic',
  'topicPointer',
  'messageIdHeader',
  'messageIdPointer',
  'timestampHeader',
  'signatureHeader',
  'toleranceSeconds',
] satisfies (keyof WebhookSource)[])

const SECRETS_MAX = 5
const SECRET_LENGTH_MIN = 16
const BASE64_MARK = 'whsec_'
const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9a-z-]{1,64}$/i
