import { systemClock, type Clock } from '../../core/index.js'

interface Bucket {
  tokens: number
  filledAtMs: number
}

/**
 * So many requests per second for each name, and twice as many at once: a bucket that fills by itself. It remembers a bounded
 * number of names; one that is forgotten begins with a full bucket again.
 */
export class RateLimiter {
  readonly #perSecond: number
  readonly #clock: Clock
  readonly #buckets = new Map<string, Bucket>()

  constructor(perSecond: number, clock: Clock = systemClock) {
    this.#perSecond = perSecond
    this.#clock = clock
  }

  /** Takes one; returns 0, or for how many whole seconds there will be none. */
  take(name: string): number {
    const bucket = this.#fill(name)
    if (bucket.tokens >= 1) {
      bucket.tokens -= 1
      return 0
    }
    return Math.max(1, Math.ceil((1 - bucket.tokens) / this.#perSecond))
  }

  #fill(name: string): Bucket {
    const nowMs = this.#clock.monotonicMs()
    const full = this.#perSecond * 2
    const known = this.#buckets.get(name)
    const bucket = known ?? { tokens: full, filledAtMs: nowMs }
    bucket.tokens = Math.min(full, bucket.tokens + ((nowMs - bucket.filledAtMs) * this.#perSecond) / 1_000)
    bucket.filledAtMs = nowMs
    // The one that was asked for last is last in the map, so that the idle are forgotten first.
    this.#buckets.delete(name)
    this.#buckets.set(name, bucket)
    for (const oldest of this.#buckets.keys()) {
      if (this.#buckets.size <= NAMES_MAX) break
      this.#buckets.delete(oldest)
    }
    return bucket
  }
}

const NAMES_MAX = 10_000
