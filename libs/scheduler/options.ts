import { BATCH_SIZE, boundedInteger, InvalidArgumentError } from '../core/index.js'

export interface SchedulerOptions {
  /**
   * How long to wait at the most before looking unasked. A scheduler sleeps until the next event and is woken when one comes
   * nearer; this is for what it was not told. At most a minute: nobody is woken for what is due later than that. @default 5000
   */
  readonly pollMs?: number
  /** Jobs, runs and timers per round; while a round is full, the next one follows at once. @default 100 */
  readonly batchSize?: number
  /**
   * An occurrence older than this was missed, and the job's policy says what becomes of it; younger ones are on time. Longer: a
   * short outage is made up for in full. @default 10000
   */
  readonly missedAfterMs?: number
  /** Whether to LISTEN for changes. Without it, polling alone sees them. @default true */
  readonly listen?: boolean
}

export type ResolvedSchedulerOptions = Required<SchedulerOptions>

/** At most ten minutes: a job of every second then has 600 occurrences on time, fewer than one call can make. */
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
