import {
  SymphonyError,
  BATCH_SIZE,
  boundedInteger,
  createWorkerId,
  LEASE_SECONDS,
  requiredId,
  requiredText,
} from '../core/index.js'
import { ATTEMPTS_MAX, ATTEMPTS_MAX_DEFAULT } from './db.js'

export interface InboxWorkerOptions {
  /**
   * The role in which handlers run: the application's own, with the rights to its tables and to none of Symphony's. The login
   * must be a member of it and of symphony_executor.
   */
  readonly handlerRole: string
  /** Names this process in claims. @default host, pid and a UUID made at start */
  readonly workerId?: string
  /**
   * How long a claim lasts. A handler that takes longer has its work rolled back and done again. Longer: the messages of a
   * crashed worker wait longer. @default 60
   */
  readonly leaseSeconds?: number
  /** The attempt that is the last: what fails then is dead. @default 20 */
  readonly attemptsMax?: number
  /** Messages per claim at the most; never more than there are free slots. @default 50 */
  readonly batchSize?: number
  /** Handlers at once in this process, each with a connection of its own. @default 5 */
  readonly concurrency?: number
  /** When to try again where no handler knows the topic. @default 30 */
  readonly missingHandlerDelaySeconds?: number
  /** How long to wait at the most before looking for work unasked. @default 500 */
  readonly pollMs?: number
  /** Whether to LISTEN for notifications. Without it, polling alone finds the work. @default true */
  readonly listen?: boolean
  /** Notifications within this time count as one. @default 30 */
  readonly debounceMs?: number
  /** How long a stop waits for handlers before it aborts their signals. @default 25000 */
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

export function resolveInboxWorkerOptions(given: InboxWorkerOptions): ResolvedInboxWorkerOptions {
  const options = { ...DEFAULTS, workerId: given.workerId ?? createWorkerId(), ...given }
  requiredId('workerId', options.workerId)
  boundedInteger('leaseSeconds', options.leaseSeconds, LEASE_SECONDS)
  boundedInteger('attemptsMax', options.attemptsMax, ATTEMPTS_MAX)
  boundedInteger('batchSize', options.batchSize, BATCH_SIZE)
  boundedInteger('concurrency', options.concurrency, { min: 1, max: 100 })
  boundedInteger('missingHandlerDelaySeconds', options.missingHandlerDelaySeconds, { min: 1, max: 86_400 })
  boundedInteger('pollMs', options.pollMs, { min: 10, max: 60_000 })
  boundedInteger('debounceMs', options.debounceMs, { min: 0, max: 1_000 })
  boundedInteger('shutdownMs', options.shutdownMs, { min: 0, max: 600_000 })
  if (requiredText('handlerRole', options.handlerRole, ROLE_LENGTH_MAX).startsWith('symphony_')) {
    // A handler that could ack, or read what others were told, would be no application's.
    throw new InboxWorkerOptionError(
      `handlerRole: ${options.handlerRole} is a role of Symphony's own`,
      'Give the role that owns or may write the tables of the application.',
    )
  }
  return options
}

/** PostgreSQL's own limit, in bytes. */
const ROLE_LENGTH_MAX = 63
