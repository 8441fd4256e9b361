/**
 * Clocks of this process, read only through this interface. PostgreSQL's clock decides due times and expiry; the clock
 * of a process may only make a worker stop earlier. Code that measures takes a `Clock`, so that a test can move the
 * time.
 */
export interface Clock {
  /** Wall clock, for display and log lines. It may jump, so never subtract two readings. */
  now(): Date
  /**
   * Whole milliseconds since an arbitrary moment of this process; never goes back. For durations and deadlines. Whole,
   * because the column `latency_ms` is an integer.
   */
  monotonicMs(): number
}

export const systemClock: Clock = Object.freeze({
  now: () => new Date(Date.now()),
  monotonicMs: () => Math.floor(performance.now()),
})

/**
 * Parses an RFC 3339 timestamp: a date that exists, a time of day and an offset. Without an offset the text would mean
 * another moment on another machine. Returns undefined for any other text; `Date` alone reads 30 February as 2 March.
 */
export function parseTimestamp(text: string): Date | undefined {
  const [, year, month, day] = RFC_3339.exec(text)?.map(Number) ?? []
  if (year === undefined || month === undefined || day === undefined) return undefined
  const time = new Date(text)
  // Day 0 of the next month is the last day of this month.
  const daysOfMonth = new Date(Date.UTC(2_000 + (year % 400), month, 0)).getUTCDate()
  return Number.isNaN(time.getTime()) || day > daysOfMonth ? undefined : time
}

const RFC_3339 = /^(\d{4})-(\d{2})-(\d{2})T\d{2}:\d{2}:\d{2}(?:\.\d{1,6})?(?:Z|[+-]\d{2}:\d{2})$/
