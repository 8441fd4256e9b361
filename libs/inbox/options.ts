import {
  SymphonyError,
  BATCH_SIZE,
  boundedInteger,
  createWorkerId,
  definedOptions,
  LEASE_SECONDS,
  requiredId,
  requiredText,
} from '../core/index.js'
import { ATTEMPTS_MAX, ATTEMPTS_MAX_DEFAULT } from './db.js'

export interface InboxWorkerOptions {
  /**
   * Role in which handlers run: a role of the application, with rights to its tables and to none of Symphony's. The
   * login must be a member of this role and of symphony_executor.
   */
  readonly handlerRole: string
  /** Name of this process in claims. @default host, pid and a UUID made at start */
  readonly workerId?: string
  /**
   * Seconds of a claim. A handler that takes longer is rolled back and called again. With a longer claim, messages of a
   * crashed worker wait longer. @default 60
   */
  readonly leaseSeconds?: number
  /** Maximum number of attempts. A message becomes dead when the last one fails. @default 20 */
  readonly attemptsMax?: number
  /** Maximum number of messages per claim. A claim never takes more messages than there are free slots. @default 50 */
  readonly batchSize?: number
  /** Maximum number of concurrent handlers in this process, each with its own connection. @default 5 */
  readonly concurrency?: number
  /** Seconds until the next attempt if the topic has no handler here. @default 30 */
  readonly missingHandlerDelaySeconds?: number
  /** Maximum time between two polls. @default 500 */
  readonly pollMs?: number
  /** Whether to LISTEN for notifications. Without it, only polling finds messages. @default true */
  readonly listen?: boolean
  /** Time within which notifications count as one. @default 30 */
  readonly debounceMs?: number
  /** Time that a stop waits for handlers before it aborts their signals. @default 25000 */
  readonly shutdownMs?: number
}

export type ResolvedInboxWorkerOptions = Required<InboxWorkerOptions>

const DEFAULTS = Object.freeze({
  leaseSeconds: 60,
  attemptsMax: ATTEMPTS_MAX_DEFAULT,
  batchSize: 50,
  concurrency: 5,
  missingHandlerDelaySeconds: 30,
  pollMs: 500,
  listen: true,
  debounceMs: 30,
  shutdownMs: 25_000,
})

export class InboxWorkerOptionError extends SymphonyError {
  constructor(message: string, remedy: string) {
    super('INVALID_INBOX_WORKER_OPTION', message, { remedy })
  }
}

/** @param login Login of the database. As a handler role it is allowed, whatever its name. */
export function resolveInboxWorkerOptions(given: InboxWorkerOptions, login: string): ResolvedInboxWorkerOptions {
  const options = { ...DEFAULTS, workerId: createWorkerId(), ...definedOptions(given) }
  requiredId('workerId', options.workerId)
  boundedInteger('leaseSeconds', options.leaseSeconds, LEASE_SECONDS)
  boundedInteger('attemptsMax', options.attemptsMax, ATTEMPTS_MAX)
  boundedInteger('batchSize', options.batchSize, BATCH_SIZE)
  boundedInteger('concurrency', options.concurrency, { min: 1, max: 100 })
  boundedInteger('missingHandlerDelaySeconds', options.missingHandlerDelaySeconds, { min: 1, max: 86_400 })
  boundedInteger('pollMs', options.pollMs, { min: 10, max: 60_000 })
  boundedInteger('debounceMs', options.debounceMs, { min: 0, max: 1_000 })
  boundedInteger('shutdownMs', options.shutdownMs, { min: 0, max: 600_000 })
  const { handlerRole } = options
  if (requiredText('handlerRole', handlerRole, ROLE_LENGTH_MAX).startsWith('symphony_') && handlerRole !== login) {
    // In a role of Symphony, a handler could ack messages or read messages of other applications.
    throw new InboxWorkerOptionError(
      `handlerRole: ${handlerRole} is a role of Symphony`,
      'Give the role that owns or may write the tables of the application.',
    )
  }
  return options
}

/** PostgreSQL's limit for a role name, in bytes. */
const ROLE_LENGTH_MAX = 63
