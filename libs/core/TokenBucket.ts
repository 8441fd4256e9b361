import { systemClock, type Clock } from './clock.js'

interface TokenBucketOptions {
  readonly perSecond: number
  /** Tokens of a full bucket, which a caller may take at once. */
  readonly burst: number
  /** @default systemClock */
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

  /** Whole tokens that a caller may take now. */
  get available(): number {
    this.#refill()
    return Math.floor(this.#tokens)
  }

  /** Milliseconds until the bucket holds `count` tokens. More than `burst` never come together. */
  waitMs(count = 1): number {
    this.#refill()
    return this.#tokens >= count ? 0 : ((count - this.#tokens) / this.#perSecond) * 1_000
  }

  /** Takes tokens, also if the bucket has too few: later callers then wait longer. */
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
