import type { Clock } from '../core/index.js'

/** So many per second, with a burst of at most one second's worth. Tokens are counted when asked, not by a timer. */
export class RateLimit {
  readonly #perSecond: number
  readonly #burst: number
  readonly #clock: Clock
  #tokens: number
  #countedAtMs: number

  constructor(perSecond: number, clock: Clock) {
    this.#perSecond = perSecond
    this.#burst = Math.max(1, perSecond)
    this.#clock = clock
    this.#tokens = this.#burst
    this.#countedAtMs = clock.monotonicMs()
  }

  /** How many may start now. */
  get available(): number {
    this.#refill()
    return Math.floor(this.#tokens)
  }

  /** How long until one more may start. */
  get nextInMs(): number {
    this.#refill()
    return this.#tokens >= 1 ? 0 : ((1 - this.#tokens) / this.#perSecond) * 1_000
  }

  take(): void {
    this.#refill()
    this.#tokens -= 1
  }

  #refill(): void {
    const now = this.#clock.monotonicMs()
    this.#tokens = Math.min(this.#burst, this.#tokens + ((now - this.#countedAtMs) / 1_000) * this.#perSecond)
    this.#countedAtMs = now
  }
}
