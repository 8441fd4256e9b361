import { TokenBucket, type Clock } from '../../core/index.js'

/**
 * Limits the requests per second of each name, with a burst of twice as many. Keeps a bounded number of names; a name that
 * was dropped starts with a full bucket again.
 */
export class RateLimiter {
  readonly #perSecond: number
  readonly #clock: Clock | undefined
  readonly #buckets = new Map<string, TokenBucket>()

  constructor(perSecond: number, clock?: Clock) {
    this.#perSecond = perSecond
    this.#clock = clock
  }

  /** Takes `count` tokens and returns 0, or returns the whole seconds until there will be as many. */
  take(name: string, count = 1): number {
    const bucket = this.#bucketOf(name)
    // A full bucket is enough for any request: one that counts for more would never be allowed.
    const taken = Math.min(count, this.#perSecond * 2)
    const waitMs = bucket.waitMs(taken)
    if (waitMs > 0) return Math.ceil(waitMs / 1_000)
    bucket.take(taken)
    return 0
  }

  #bucketOf(name: string): TokenBucket {
    const bucket =
      this.#buckets.get(name) ??
      new TokenBucket({ perSecond: this.#perSecond, burst: this.#perSecond * 2, clock: this.#clock })
    // The name used last is last in the map, so that the idle names are dropped first.
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
