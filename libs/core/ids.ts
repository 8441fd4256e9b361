import { randomUUID } from 'node:crypto'
import { hostname } from 'node:os'
import { ArgumentRangeError, InvalidArgumentError, type ArgumentName } from './SymphonyError.js'
import { kindOf, requireStorableText } from './arguments.js'
import { ID_LENGTH_MAX, INBOX_ID_LENGTH_MAX } from './limits.js'

/** An instruction, participant, rail type or worker id: printable ASCII without spaces, so that two never look alike. */
export function requiredId(argument: ArgumentName, value: unknown): string {
  if (typeof value !== 'string') {
    throw new InvalidArgumentError(argument, `expected text, got ${kindOf(value)}`)
  }
  if (value === '') throw new InvalidArgumentError(argument, 'expected an id, got empty text')
  if (value.length > ID_LENGTH_MAX) {
    throw new ArgumentRangeError(argument, `expected at most ${ID_LENGTH_MAX} characters, got ${value.length}`)
  }
  if (!PRINTABLE_ASCII.test(value)) {
    throw new InvalidArgumentError(argument, 'expected printable ASCII characters without spaces')
  }
  return value
}

export function requiredUuid(argument: ArgumentName, value: unknown): string {
  if (!isUuid(value)) throw new InvalidArgumentError(argument, 'expected a UUID')
  return value
}

export function isUuid(value: unknown): value is string {
  return typeof value === 'string' && UUID.test(value)
}

/** The source or id of an inbox message: any text that can be printed. Counted in characters, as PostgreSQL counts them. */
export function requiredInboxId(argument: ArgumentName, value: unknown): string {
  if (typeof value !== 'string') {
    throw new InvalidArgumentError(argument, `expected text, got ${kindOf(value)}`)
  }
  if (value.trim() === '') throw new InvalidArgumentError(argument, 'expected an id that is not blank')
  requireStorableText(argument, value)
  if (/\p{Cc}/u.test(value)) throw new InvalidArgumentError(argument, 'expected an id without control characters')
  if (Array.from(value).length > INBOX_ID_LENGTH_MAX) {
    throw new ArgumentRangeError(argument, `expected at most ${INBOX_ID_LENGTH_MAX} characters`)
  }
  return value
}

/** A key given by a user. Symphony itself writes `<key>~redrive~<n>` when a dead payment is sent again. */
export function requiredIdempotencyKey(argument: ArgumentName, value: unknown): string {
  const key = requiredId(argument, value)
  if (REDRIVE_SUFFIX.test(key)) {
    throw new InvalidArgumentError(argument, 'keys that end in ~redrive~<number> are reserved for Symphony')
  }
  return key
}

/**
 * Host and pid tell an operator where to look; the UUID tells apart two containers that both are pid 1. The fence is
 * the lease token: an id that repeated would be a nuisance, not a double payment.
 */
export function createWorkerId(host = hostname(), pid = process.pid): string {
  const suffix = `:${pid}:${randomUUID()}`
  const printableHost = host.replaceAll(/[^!-~]+/g, '-').slice(0, ID_LENGTH_MAX - suffix.length) || 'host'
  return printableHost + suffix
}

const PRINTABLE_ASCII = /^[!-~]+$/
const REDRIVE_SUFFIX = /~redrive~\d+$/
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i
