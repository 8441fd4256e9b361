import {
  InvalidArgumentError,
  kindOf,
  rejectUnknownKeys,
  requiredObject,
  requireKnownOptions,
  type Clock,
} from '../core/index.js'
import { DATABASE_OPTIONS, type DatabaseOptions, type Tx } from '../db/index.js'
import type { RelayerOptions } from '../outbox/index.js'
import type { RetentionOptions } from '../platform/index.js'
import type { MasterKeys } from '../protection/index.js'
import type { Rail, RailContract, TopicContracts } from '../rails/index.js'
import type { SchedulerOptions } from '../scheduler/index.js'
import type { TopicHandlersOf } from './contracts.js'
import type { InboxWork, MaintenanceOptions } from './SymphonyWorker.js'

export interface SymphonyOptions<
  Rails extends readonly RailContract[],
  Topics extends TopicContracts,
> extends Partial<DatabaseOptions> {
  /**
   * Rails of this process: contracts in a process that only enqueues, rails with an adapter in a worker. `enqueue`
   * validates payloads with them. @default any rail, unchecked
   */
  readonly rails?: Rails
  /** Schemas of messages, by topic. @default any topic, any JSON object */
  readonly topics?: Topics
  /** Master keys, for rails that encrypt fields. */
  readonly vault?: MasterKeys
  /** Clock, for tests. @default the system's */
  readonly clock?: Clock
}

export interface EnqueueOptions {
  /** Your transaction: a `pg` client after BEGIN, or one of another library through `fromPrisma`, `fromDrizzle` … */
  readonly tx: Tx
}

export interface WorkerOptions<Topics extends TopicContracts> extends RelayerOptions {
  /** Adapters for the contracts of the Symphony. @default its rails that have `dispatch` */
  readonly rails?: readonly Rail<string, object>[]
  /** Deadline of a call, for rails without `timeoutMs`. @default 30000 */
  readonly railTimeoutMs?: number
  /** Handlers of messages, by topic. @default none */
  readonly topics?: TopicHandlersOf<Topics>
  /** Handlers of inbox messages, by topic. @default none */
  readonly inbox?: InboxWork
  /** Whether to turn due timers and jobs into messages, or the options for it. @default false */
  readonly scheduler?: boolean | SchedulerOptions
  /** Whether to run lease repair, sealing, verification and retention, or their options. @default true */
  readonly maintenance?: boolean | MaintenanceOptions
}

/** Options in the order in which an error lists them. */
export const SYMPHONY_OPTIONS: readonly string[] = Object.keys({
  rails: true,
  topics: true,
  vault: true,
  clock: true,
} satisfies Record<Exclude<keyof SymphonyOptions<[], TopicContracts>, keyof DatabaseOptions>, true>).concat(
  DATABASE_OPTIONS,
)

export const WORKER_OPTIONS: readonly string[] = Object.keys({
  rails: true,
  railTimeoutMs: true,
  topics: true,
  inbox: true,
  scheduler: true,
  maintenance: true,
  workerId: true,
  leaseSeconds: true,
  batchSize: true,
  concurrency: true,
  pollMs: true,
  listen: true,
  poll: true,
  debounceMs: true,
  renewLeases: true,
  shutdownMs: true,
  breakerFailures: true,
  breakerOpenMs: true,
  heartbeatMs: true,
  epochFile: true,
  handlerRole: true,
} satisfies Record<keyof WorkerOptions<TopicContracts>, true>)

const MAINTENANCE_OPTIONS = Object.keys({
  repair: true,
  sealing: true,
  repairIntervalMs: true,
  repairBatchSize: true,
  sealIntervalMs: true,
  verifyRowsPerSecond: true,
  cleanupIntervalMs: true,
  retention: true,
} satisfies Record<keyof MaintenanceOptions, true>)

const RETENTION_OPTIONS = Object.keys({
  inboxDays: true,
  jobRunsDays: true,
  timersDays: true,
  leasesDays: true,
  searchDays: true,
} satisfies Record<keyof RetentionOptions, true>)

const SCHEDULER_OPTIONS = Object.keys({
  pollMs: true,
  batchSize: true,
  missedAfterMs: true,
  listen: true,
} satisfies Record<keyof SchedulerOptions, true>)

const INBOX_OPTIONS = Object.keys({
  handlers: true,
  handlerRole: true,
  workerId: true,
  leaseSeconds: true,
  attemptsMax: true,
  batchSize: true,
  concurrency: true,
  missingHandlerDelaySeconds: true,
  pollMs: true,
  listen: true,
  debounceMs: true,
  shutdownMs: true,
} satisfies Record<keyof InboxWork, true>)

/** Refuses unknown options of a worker and of its parts, even of parts that do not run. */
export function checkWorkerOptions<Topics extends TopicContracts>(options: WorkerOptions<Topics>): void {
  requireKnownOptions(options, WORKER_OPTIONS)
  const { maintenance = true } = options
  checkInboxAndScheduler(options)
  if (typeof maintenance === 'boolean') return
  requireKnownOptions(maintenance, MAINTENANCE_OPTIONS, 'maintenance.')
  const { retention = false } = maintenance
  if (retention !== false) requireKnownOptions(retention, RETENTION_OPTIONS, 'maintenance.retention.')
}

/**
 * Refuses unknown options of the inbox and the scheduler.
 *
 * @param refused known options that the caller does not take. @default none
 */
export function checkInboxAndScheduler(
  { inbox, scheduler = false }: { readonly inbox?: object; readonly scheduler?: boolean | object },
  refused: ReadonlySet<string> = new Set(),
): void {
  const isTaken = (name: string) => !refused.has(name)
  if (inbox !== undefined) requireKnownOptions(inbox, INBOX_OPTIONS.filter(isTaken), 'inbox.')
  if (typeof scheduler !== 'boolean') {
    requireKnownOptions(scheduler, SCHEDULER_OPTIONS.filter(isTaken), 'scheduler.')
  }
}

/**
 * Returns the transaction of the caller. Refuses other options, such as a `schema`, which belongs to the Symphony. Runs
 * for every payment, so it allocates nothing.
 */
export function requiredTx(options: EnqueueOptions, expected: string): Tx {
  rejectUnknownKeys(requiredObject('options', options, expected), TX_ONLY, optionName)
  return options.tx
}

const TX_ONLY = ['tx']

function optionName(key: string): string {
  return `options.${key}`
}

/** Refuses anything but an array or undefined. If null were ignored, any rail would be accepted unchecked. */
export function requiredRails<Rails extends readonly RailContract[]>(rails: Rails | undefined): Rails | readonly [] {
  if (rails === undefined) return []
  if (Array.isArray(rails)) return rails
  throw new InvalidArgumentError('rails', `expected an array of rails, got ${kindOf(rails)}`)
}
