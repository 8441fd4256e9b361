import { TokenBucket, type Clock } from '../core/index.js'
import { CircuitBreaker, Semaphore, type BreakerState } from '../worker/index.js'
import type { LoadedRail } from '../rails/index.js'
import type { LeasedItem } from './LeasedItem.js'

interface RailLaneOptions {
  readonly rail: LoadedRail
  readonly concurrency: number
  /** Maximum number of items that are leased before a slot is free. 0 for rails with a dispatch mark. */
  readonly prefetchMax: number
  readonly breaker: { readonly failuresMax: number; readonly openMs: number }
  readonly clock: Clock
  readonly onBreaker: (state: BreakerState) => void
}

/**
 * Queue of one rail in a relayer: its leased items, slots, rate limit and circuit breaker. A lane reports how much more
 * it may lease, so a rail that is slow or down fills only its own lane. `DispatchQueue` decides on quarantine.
 */
export class RailLane {
  readonly rail: LoadedRail
  readonly railType: string
  /** Whether calls take slots that other lanes use too. A rail with its own `concurrency` has its own slots. */
  readonly sharesSlots: boolean
  readonly breaker: CircuitBreaker
  readonly #options: RailLaneOptions
  readonly #slots: Semaphore
  readonly #rate: TokenBucket | undefined
  readonly #waiting: LeasedItem[] = []
  /** Item whose call is the trial of a half-open breaker. */
  #trial: LeasedItem | undefined
  #isPaused = false
  /** Calls finished per second, smoothed. Limits the prefetch. */
  #speed = 0
  #finishedSince = 0
  #measuredAtMs: number

  constructor(options: RailLaneOptions) {
    const { rail, concurrency, breaker, clock } = options
    this.#options = options
    this.rail = rail
    this.railType = rail.type
    this.sharesSlots = rail.concurrency === undefined
    this.#slots = new Semaphore(concurrency)
    this.#rate =
      rail.ratePerSecond === undefined
        ? undefined
        : new TokenBucket({ perSecond: rail.ratePerSecond, burst: Math.max(1, rail.ratePerSecond), clock })
    this.breaker = new CircuitBreaker({ ...breaker, clock, onChange: options.onBreaker })
    this.#measuredAtMs = clock.monotonicMs()
  }

  get concurrency(): number {
    return this.#slots.size
  }

  get running(): number {
    return this.#slots.taken
  }

  get waiting(): number {
    return this.#waiting.length
  }

  pause(): void {
    this.#isPaused = true
  }

  resume(): void {
    this.#isPaused = false
  }

  get freeCapacity(): number {
    if (this.#isPaused) return 0
    const capacity = this.#capacity
    const allowed = Math.min(this.breaker.admits(capacity), this.#rateAllows())
    return Math.max(0, Math.min(allowed - this.waiting, capacity - this.running - this.waiting))
  }

  /**
   * Returns whether a claim is worth its cost: a slot is free and no item waits, or at least half of the capacity is
   * free.
   */
  needsItems(freeCapacity: number): boolean {
    return freeCapacity > 0 && ((this.waiting === 0 && this.#slots.free > 0) || freeCapacity * 2 >= this.#capacity)
  }

  /** Maximum number of items, running or waiting. */
  get #capacity(): number {
    const { clock, prefetchMax } = this.#options
    this.#measure(clock.monotonicMs())
    // At most half a second's work waits in memory, so that leases stay trusted and other workers get items too.
    return this.#slots.size + Math.min(prefetchMax, Math.floor(this.#speed / 2))
  }

  /** Time for which the breaker or the rate limit admits no call; 0 if both admit one, or if a trial call runs. */
  get busyForMs(): number {
    return Math.max(this.breaker.openForMs, this.#rate?.waitMs() ?? 0)
  }

  /** Whether a slot is free and the breaker and the rate limit admit a call. */
  get canStart(): boolean {
    return this.#slots.free > 0 && this.breaker.admits(1) > 0 && this.#rateAllows() >= 1
  }

  add(leased: LeasedItem): void {
    this.#waiting.push(leased)
  }

  takeNext(): LeasedItem | undefined {
    return this.#waiting.shift()
  }

  takeWaiting(): LeasedItem[] {
    return this.#waiting.splice(0)
  }

  start(leased: LeasedItem): void {
    this.#slots.acquire()
    this.#rate?.take()
    if (this.breaker.started()) this.#trial = leased
  }

  finish(leased: LeasedItem): void {
    this.#slots.release()
    // The trial item may have finished without a call. Then the next item becomes the trial.
    if (leased === this.#trial) {
      this.#trial = undefined
      this.breaker.abandoned()
    }
    this.#finishedSince += 1
  }

  #rateAllows(): number {
    return this.#rate?.available ?? Number.POSITIVE_INFINITY
  }

  #measure(nowMs: number): void {
    const elapsedMs = nowMs - this.#measuredAtMs
    if (elapsedMs < MEASURE_MS) return
    const latest = (this.#finishedSince * 1_000) / elapsedMs
    // The speed falls at once, but rises only halfway to a higher measurement. A lane that became slow must not hold
    // leases that others could use.
    this.#speed = latest < this.#speed ? latest : (this.#speed + latest) / 2
    this.#finishedSince = 0
    this.#measuredAtMs = nowMs
  }
}

const MEASURE_MS = 50
