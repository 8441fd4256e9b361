import { systemClock, type Clock } from './clock.js'

interface TokenBucketOptions {
  readonly perSecond: number
  /** Tokens of a full bucket, which a caller may take at once. */
  readonly burst: number
  /** Clock of the refill. @default systemClock */
  readonly clock?: Clock | undefined
}

/** Limits a rate. Starts full and counts its tokens when a caller asks, without a timer. */
export class TokenBucket {
  readonly #perSecond: number
  readonly #burst: number
  readonly #clock: Clock
  #tokens: number
  #countedAtMs: number

  constructor({ perSecond, burst, clock = systemClock }: TokenBucketOptions) {
    this.#perSecond = perSecond
    this.#burst = burst
    this.#clock = clock
    this.#tokens = burst
    this.#countedAtMs = clock.monotonicMs()
  }

  get available(): number {
    this.#refill()
    return Math.floor(this.#tokens)
  }

  /** Returns the milliseconds until the bucket holds `count` tokens. `count` must not exceed `burst`. */
  waitMs(count = 1): number {
    this.#refill()
    return this.#tokens >= count ? 0 : ((count - this.#tokens) / this.#perSecond) * 1_000
  }

  /** Takes tokens even if the bucket has too few. Later callers then wait longer. */
  take(count = 1): void {
    this.#refill()
    this.#tokens -= count
  }

  #refill(): void {
    const nowMs = this.#clock.monotonicMs()
    this.#tokens = Math.min(this.#burst, this.#tokens + ((nowMs - this.#countedAtMs) / 1_000) * this.#perSecond)
    this.#countedAtMs = nowMs
  }
}
