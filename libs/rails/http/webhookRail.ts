import { createHmac } from 'node:crypto'
import { InvalidArgumentError, rejectUnknownKeys, requiredId } from '../../core/index.js'
import type { Rail, RailDeclaration } from '../types.js'
import type { HttpOptions } from './httpOptions.js'
import { HTTP_STATUS_OUTCOMES } from './httpOutcomes.js'
import { createHttpRail } from './httpRail.js'
import type { SignedParts } from './requestSignature.js'

export interface WebhookRailOptions<Type extends string = string>
  extends
    Pick<RailDeclaration<Type>, 'timeoutMs' | 'concurrency' | 'rate'>,
    Pick<HttpOptions, 'headers' | 'tls' | 'allowPlainHttp' | 'clock'> {
  /** Topic whose messages are posted, such as the `outcomeTopic` of an instruction. */
  readonly type: Type
  /** Address of the receiver. HTTPS, or plain HTTP to this machine. */
  readonly url: string
  /**
   * Secret that the receiver knows: `whsec_` and 24 to 64 bytes in base64. Two during a rotation: each request has a
   * signature of each.
   */
  readonly secret: string | readonly string[]
}

/**
 * Creates a rail that posts the payload of each message as JSON, signed as Standard Webhooks 1.0 describes. The headers
 * are `webhook-id` (`msg_` and the outbox id, the same on every attempt), `webhook-timestamp` and `webhook-signature`.
 * Any 2xx is a delivery. Every other answer is retried, 410 and other 4xx too, because an application must not miss an
 * outcome.
 */
export function webhookRail<const Type extends string>(options: WebhookRailOptions<Type>): Rail<Type> {
  const type = requiredId('type', options.type)
  rejectUnknownKeys(options, KEYS, (name) => `rail "${type}", ${name}`)
  const { type: _, secret, timeoutMs, concurrency, rate, ...http } = options
  const keys = readSecrets(`rail "${type}", secret`, secret)
  return createHttpRail(
    {
      type: options.type,
      onUnknown: 'resend',
      money: false,
      ...(timeoutMs === undefined ? {} : { timeoutMs }),
      ...(concurrency === undefined ? {} : { concurrency }),
      ...(rate === undefined ? {} : { rate }),
      http: { ...http, body: ({ payload }) => payload, statusOutcomes: RETRIED },
    },
    { headersOf: (parts) => signWebhook(keys, parts), referenceOf: webhookId },
  )
}

const KEYS: readonly (keyof WebhookRailOptions)[] = [
  'type',
  'url',
  'secret',
  'timeoutMs',
  'concurrency',
  'rate',
  'headers',
  'tls',
  'allowPlainHttp',
  'clock',
]

/**
 * Statuses with which a receiver refuses a webhook. All are retried, although an HTTP rail ends a payment after some of
 * them.
 */
const RETRIED = Object.freeze(
  Object.fromEntries(
    [...Object.keys(HTTP_STATUS_OUTCOMES), '410']
      .filter((status) => HTTP_STATUS_OUTCOMES[Number(status)] !== 'unknown')
      .map((status) => [status, 'retryable' as const]),
  ),
)

/** Returns the id of the webhook. It has no full stop, which separates the signed parts. */
function webhookId(reference: string): string {
  return `msg_${reference}`
}

function signWebhook(
  keys: readonly Buffer[],
  { reference, timestampSeconds, body }: SignedParts,
): Readonly<Record<string, string>> {
  const id = webhookId(reference)
  const signed = `${id}.${timestampSeconds}.${body}`
  return {
    'webhook-id': id,
    'webhook-timestamp': String(timestampSeconds),
    'webhook-signature': keys.map((key) => `v1,${createHmac('sha256', key).update(signed).digest('base64')}`).join(' '),
  }
}

function readSecrets(field: string, given: unknown): readonly Buffer[] {
  const secrets: readonly unknown[] = Array.isArray(given) ? given : [given]
  if (secrets.length < 1 || secrets.length > SECRETS_MAX) {
    throw new InvalidArgumentError(field, `expected one secret, or two during a rotation, got ${secrets.length}`)
  }
  return secrets.map((secret) => readSecret(field, secret))
}

/** Decodes a secret. The errors never quote it. */
function readSecret(field: string, secret: unknown): Buffer {
  const [, encoded] = typeof secret === 'string' ? (SECRET.exec(secret) ?? []) : []
  const key = Buffer.from(encoded ?? '', 'base64')
  if (encoded === undefined || key.length < SECRET_BYTES.min || key.length > SECRET_BYTES.max) {
    throw new InvalidArgumentError(
      field,
      `expected whsec_ and ${SECRET_BYTES.min} to ${SECRET_BYTES.max} bytes in base64`,
    )
  }
  return key
}

const SECRETS_MAX = 2
const SECRET_BYTES = { min: 24, max: 64 }
const SECRET = /^whsec_((?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?)$/
