import {
  ArgumentRangeError,
  BATCH_SIZE,
  boundedInteger,
  encodePayload,
  InvalidArgumentError,
  rejectUnknownKeys,
  requiredId,
  requiredInboxId,
  requiredObject,
  requiredUuid,
  redact,
} from '../core/index.js'
import type { ClaimRetry, InboxClaimRef, InboxKey, InboxMessage } from './types.js'

/** Checks arguments before any I/O and converts them into columns. Each error names the argument and its index. */

export function keyValues(key: InboxKey): [source: string, messageId: string] {
  return [requiredInboxId('source', key.source), requiredInboxId('messageId', key.messageId)]
}

interface MessageColumns {
  readonly sources: string[]
  readonly messageIds: string[]
  readonly topics: string[]
  readonly payloads: string[]
  readonly notBefore: (Date | null)[]
}

export function messageColumns(messages: readonly InboxMessage[]): MessageColumns {
  requireList('messages', messages)
  if (messages.length < BATCH_SIZE.min || messages.length > BATCH_SIZE.max) throw wrongLength('messages', messages)
  const columns: MessageColumns = { sources: [], messageIds: [], topics: [], payloads: [], notBefore: [] }
  for (const [index, message] of messages.entries()) {
    const at = (field: string) => (messages.length === 1 ? field : `messages[${index}].${field}`)
    rejectUnknownKeys(requiredObject(at('message'), message), FIELDS, at)
    columns.sources.push(requiredInboxId(at('source'), message.source))
    columns.messageIds.push(requiredInboxId(at('messageId'), message.messageId))
    columns.topics.push(requiredId(at('topic'), message.topic))
    columns.payloads.push(encodePayload(message.payload, at('payload')))
    columns.notBefore.push(optionalDate(at('notBefore'), message.notBefore))
  }
  return columns
}

const FIELDS = Object.keys({
  source: true,
  messageId: true,
  topic: true,
  payload: true,
  notBefore: true,
} satisfies Record<keyof InboxMessage, true>)

interface ClaimColumns {
  readonly sources: string[]
  readonly messageIds: string[]
  readonly fences: string[]
}

/**
 * Returns the claims that name a message. Skips blank keys, because no message has one. Keeps a malformed fence, which
 * `claimColumns` refuses as a bug of the caller.
 */
export function namedClaims<Claim extends InboxClaimRef>(claims: readonly Claim[]): Claim[] {
  requireList('claims', claims)
  if (claims.length > BATCH_SIZE.max) throw wrongLength('claims', claims)
  return claims.filter(({ source, messageId }) => !isBlank(source) && !isBlank(messageId))
}

export function claimColumns(claims: readonly InboxClaimRef[]): ClaimColumns {
  const each = (field: keyof InboxClaimRef, check: (argument: string, value: unknown) => string) =>
    claims.map((claim, index) => check(`claims[${index}].${field}`, claim[field]))
  return {
    sources: each('source', requiredInboxId),
    messageIds: each('messageId', requiredInboxId),
    fences: each('fence', requiredUuid),
  }
}

/** Redacts the texts, because symphony_readonly may read `last_error` but no payload. Never throws. */
export function errorColumn(claims: readonly ClaimRetry[]): (string | null)[] {
  return claims.map(({ error }) => (error === undefined ? null : redact(error)))
}

export function delayColumn(claims: readonly ClaimRetry[]): (number | null)[] {
  return claims.map(({ retryDelaySeconds }, index) =>
    retryDelaySeconds === undefined
      ? null
      : boundedInteger(`claims[${index}].retryDelaySeconds`, retryDelaySeconds, RETRY_DELAY_SECONDS),
  )
}

function requireList(argument: string, items: unknown): void {
  if (!Array.isArray(items)) throw new InvalidArgumentError(argument, 'expected an array')
}

function wrongLength(argument: string, items: readonly unknown[]): ArgumentRangeError {
  return new ArgumentRangeError(argument, `expected 1 to ${BATCH_SIZE.max} items, got ${items.length}`)
}

function isBlank(id: unknown): boolean {
  return id === undefined || id === null || (typeof id === 'string' && id.trim() === '')
}

function optionalDate(argument: string, value: Date | undefined): Date | null {
  if (value === undefined) return null
  if (!(value instanceof Date) || Number.isNaN(value.getTime())) {
    throw new InvalidArgumentError(argument, 'expected a valid Date')
  }
  return value
}

/** Seconds, up to thirty days. */
const RETRY_DELAY_SECONDS = Object.freeze({ min: 0, max: 2_592_000 })
