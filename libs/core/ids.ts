import { randomUUID } from 'node:crypto'
import { hostname } from 'node:os'
import { ArgumentRangeError, InvalidArgumentError, type ArgumentName } from './SymphonyError.js'
import { kindOf, requireStorableText } from './arguments.js'
import { ID_LENGTH_MAX, INBOX_ID_LENGTH_MAX } from './limits.js'

/**
 * Checks an instruction, participant, rail type or worker id: printable ASCII without spaces, so that different ids
 * look different.
 */
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

/**
 * Returns a UUID as 32 hexadecimal digits: the field `EndToEndId` of ISO 20022 holds 35 characters, a UUID has 36.
 * Slices the text, because the worker calls this function for each payment and `replaceAll` is slower.
 */
export function compactUuid(uuid: string): string {
  return uuid.slice(0, 8) + uuid.slice(9, 13) + uuid.slice(14, 18) + uuid.slice(19, 23) + uuid.slice(24)
}

/**
 * Checks the source or id of an inbox message: any printable text. The length counts characters, as PostgreSQL does.
 */
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

/** Checks the key of a client. The suffix `~redrive~<n>` is reserved for Symphony's redrives. */
export function requiredIdempotencyKey(argument: ArgumentName, value: unknown): string {
  const key = requiredId(argument, value)
  if (REDRIVE_SUFFIX.test(key)) {
    throw new InvalidArgumentError(argument, 'keys that end in ~redrive~<number> are reserved for Symphony')
  }
  return key
}

/**
 * Creates a worker id. Host and pid show where the worker runs; the UUID distinguishes containers that both have pid 1.
 * A repeated id would not cause a double payment, because the lease token fences the completion.
 */
export function createWorkerId(host = hostname(), pid = process.pid): string {
  const suffix = `:${pid}:${randomUUID()}`
  const printableHost = host.replaceAll(/[^!-~]+/g, '-').slice(0, ID_LENGTH_MAX - suffix.length) || 'host'
  return printableHost + suffix
}

const PRINTABLE_ASCII = /^[!-~]+$/
const REDRIVE_SUFFIX = /~redrive~\d+$/
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i
