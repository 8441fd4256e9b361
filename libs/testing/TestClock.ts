import { ArgumentRangeError, InvalidArgumentError, type Clock } from '../core/index.js'

/** A clock that stands still until it is told to move. Give it to whatever takes a `Clock`, such as `OutboxRelayer`. */
export class TestClock implements Clock {
  #nowMs: number
  #monotonicMs = 0

  constructor(start: Date = new Date('2026-01-01T00:00:00Z')) {
    if (!(start instanceof Date) || Number.isNaN(start.getTime())) {
      throw new InvalidArgumentError('start', 'expected a valid Date')
    }
    this.#nowMs = start.getTime()
  }

  now(): Date {
    return new Date(this.#nowMs)
  }

  monotonicMs(): number {
    return this.#monotonicMs
  }

  /** Forwards only: time that ran backwards would be another test than the one that was meant. */
  advance(ms: number): void {
    if (!Number.isSafeInteger(ms) || ms < 0) {
      throw new ArgumentRangeError('ms', `expected whole milliseconds, 0 or more, got ${String(ms)}`)
    }
    this.#nowMs += ms
    this.#monotonicMs += ms
  }
}
