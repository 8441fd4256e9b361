/**
 * The only reader of this process's clocks. Due times and expiry are judged by PostgreSQL's clock; these may only make
 * a worker stop earlier. Code that measures takes a `Clock`, so that a test can move it.
 */
export interface Clock {
  /** Wall clock, for display and log lines. It jumps: never subtract two of them. */
  now(): Date
  /**
   * Whole milliseconds since an arbitrary moment of this process; never goes back. For durations and deadlines: timers
   * and `latency_ms` refuse fractions.
   */
  monotonicMs(): number
}

export const systemClock: Clock = Object.freeze({
  now: () => new Date(Date.now()),
  monotonicMs: () => Math.floor(performance.now()),
})
