import type { Clock } from '../core/index.js'

/** More than an answer takes, and less than any lease that matters. */
const JUMP_MAX_MS = 5_000

/**
 * The database's clock, seen from here. Both clocks run at the same pace, so their difference is constant but for the time
 * an answer takes. When it jumps, one of them was set: leases may be shorter than this process believes.
 */
export class DatabaseClock {
  readonly #clock: Clock
  /** The database's clock minus ours, as last seen. */
  #aheadMs: number | undefined

  constructor(clock: Clock) {
    this.#clock = clock
  }

  /** Compares the clocks by an answer that told the database's time. Returns by how much they jumped, if they did. */
  observe(databaseNow: Date, sentAtMs: number): number | undefined {
    const answerMs = this.#clock.monotonicMs() - sentAtMs
    const aheadMs = databaseNow.getTime() - sentAtMs
    const before = this.#aheadMs
    this.#aheadMs = aheadMs
    if (before === undefined || Math.abs(aheadMs - before) - answerMs <= JUMP_MAX_MS) return undefined
    return aheadMs - before
  }

  /** How long until that moment by the database's clock; undefined when its time is not known yet. */
  msUntil(moment: Date): number | undefined {
    if (this.#aheadMs === undefined) return undefined
    return moment.getTime() - (this.#clock.monotonicMs() + this.#aheadMs)
  }
}
