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

  /** Takes as many as a request counts for, if there are as many; returns 0, or after how many whole seconds there will be. */
  take(name: string, count = 1): number {
    const bucket = this.#fill(name)
    // A full bucket is enough for anything: what counts for more would never be let in.
    const taken = Math.min(count, this.#perSecond * 2)
    if (bucket.tokens >= taken) {
      bucket.tokens -= taken
      return 0
    }
    return Math.max(1, Math.ceil((taken - bucket.tokens) / this.#perSecond))
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
