import { ArgumentRangeError, InvalidArgumentError, type Clock } from '../core/index.js'

/** Clock that moves only by `advance()`. Pass it wherever a `Clock` is accepted. */
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

  advance(ms: number): void {
    if (!Number.isSafeInteger(ms) || ms < 0) {
      throw new ArgumentRangeError('ms', `expected whole milliseconds, 0 or more, got ${String(ms)}`)
    }
    this.#nowMs += ms
    this.#monotonicMs += ms
  }
}
