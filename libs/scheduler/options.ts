import { BATCH_SIZE, boundedInteger, InvalidArgumentError } from '../core/index.js'

export interface SchedulerOptions {
  /**
   * Maximum time between two polls, at most a minute. A scheduler sleeps until the next due time. A notification wakes
   * it if a change makes work due within the next minute. Polling finds work that is due later. @default 5000
   */
  readonly pollMs?: number
  /**
   * Maximum number of jobs, runs and timers per round. After a full round, the next one starts at once. @default 100
   */
  readonly batchSize?: number
  /**
   * Age from which an occurrence counts as missed, so that the job's policy applies. With a longer age, all occurrences
   * of a short outage still run. @default 10000
   */
  readonly missedAfterMs?: number
  /** Whether to LISTEN for changes. Without it, only polling finds them. @default true */
  readonly listen?: boolean
}

export type ResolvedSchedulerOptions = Required<SchedulerOptions>

/** At most ten minutes. A job that runs every second then has 600 occurrences on time, which fit into one call. */
export const MISSED_AFTER_MS = Object.freeze({ min: 1_000, max: 600_000 })
export const MISSED_AFTER_DEFAULT_MS = 10_000

export function resolveSchedulerOptions(given: SchedulerOptions): ResolvedSchedulerOptions {
  const { listen = true } = given
  if (typeof listen !== 'boolean') throw new InvalidArgumentError('listen', 'expected true or false')
  return {
    pollMs: boundedInteger('pollMs', given.pollMs ?? 5_000, { min: 10, max: 60_000 }),
    batchSize: boundedInteger('batchSize', given.batchSize ?? 100, BATCH_SIZE),
    missedAfterMs: boundedInteger('missedAfterMs', given.missedAfterMs ?? MISSED_AFTER_DEFAULT_MS, MISSED_AFTER_MS),
    listen,
  }
}
