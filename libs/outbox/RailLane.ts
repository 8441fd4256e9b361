import type { Clock } from '../core/index.js'
import { BoundedSlots, CircuitBreaker, RateLimit, type BreakerState } from '../worker/index.js'
import type { LoadedRail } from '../rails/index.js'
import type { Flight } from './Flight.js'

export interface LaneOptions {
  readonly rail: LoadedRail
  readonly concurrency: number
  /** Whether its calls take slots that other lanes want too. A rail that says how many it bears has slots of its own. */
  readonly sharesSlots: boolean
  /** Items that may be leased before there is a slot for them, at the most. 0 for rails whose calls are announced. */
  readonly prefetchMax: number
  readonly perSecond: number | undefined
  readonly breaker: { readonly failuresMax: number; readonly openMs: number }
  readonly clock: Clock
  readonly onBreaker: (state: BreakerState) => void
}

/**
 * Everything a relayer keeps for one rail: the items it has leased, how many calls run, how fast they finish, whether the
 * rail is up. A lane decides how much more may be leased; a rail that is slow or down fills its own lane and no other.
 */
export class RailLane {
  readonly rail: LoadedRail
  readonly railType: string
  readonly sharesSlots: boolean
  readonly breaker: CircuitBreaker
  readonly #options: LaneOptions
  readonly #slots: BoundedSlots
  readonly #rate: RateLimit | undefined
  readonly #waiting: Flight[] = []
  /** Items whose lease expired once: each is carried with nothing else of this rail beside it. */
  readonly #suspects: Flight[] = []
  #suspectRunning = false
  /** The one item whose call is to tell whether the rail is up again. */
  #trial: Flight | undefined
  /** The last item was a suspect, and its company likely are too: they are leased one by one, not to be given back. */
  #cautious = false
  #paused = false
  /** Whether there may be more to lease than was: the last claim was filled, or nobody has asked since there was word of work. */
  mayHaveMore = false
  /** Calls finished per second, smoothed: what the prefetch is measured by. */
  #speed = 0
  #finishedSince = 0
  #measuredAtMs: number

  constructor(options: LaneOptions) {
    const { rail, concurrency, perSecond, breaker, clock } = options
    this.#options = options
    this.rail = rail
    this.railType = rail.type
    this.sharesSlots = options.sharesSlots
    this.#slots = new BoundedSlots(concurrency)
    this.#rate = perSecond === undefined ? undefined : new RateLimit(perSecond, clock)
    this.breaker = new CircuitBreaker({ ...breaker, clock, onChange: options.onBreaker })
    this.#measuredAtMs = clock.monotonicMs()
  }

  /** Calls at once, at the most. */
  get concurrency(): number {
    return this.#slots.size
  }

  get running(): number {
    return this.#slots.taken
  }

  /** Items leased and not departed yet. */
  get waiting(): number {
    return this.#waiting.length + this.#suspects.length
  }

  get paused(): boolean {
    return this.#paused
  }

  pause(): void {
    this.#paused = true
  }

  resume(): void {
    this.#paused = false
  }

  /** How many more items this lane may lease now. */
  get room(): number {
    // What was leased beside a suspect could only wait, and would be a suspect too if this process died.
    if (this.#paused || this.#hasSuspect) return 0
    const capacity = this.#capacity
    const held = this.#slots.taken + this.#waiting.length
    const allowed = Math.min(this.breaker.admits(capacity), this.#rateAllows())
    const room = Math.max(0, Math.min(allowed - this.#waiting.length, capacity - held))
    return this.#cautious ? Math.min(room, 1) : room
  }

  /** Whether a claim is worth its while: a slot stands empty, or half of what may be held is gone. */
  get isHungry(): boolean {
    const { room } = this
    return room > 0 && ((this.waiting === 0 && this.#slots.free > 0) || room * 2 >= this.#capacity)
  }

  /** Items at once, running or waiting. */
  get #capacity(): number {
    const { clock, prefetchMax } = this.#options
    this.#measure(clock.monotonicMs())
    // No more than half a second's work waits in memory: its lease is surely honoured, and another worker is not starved.
    return this.#slots.size + Math.min(prefetchMax, Math.floor(this.#speed / 2))
  }

  /** How long there will be no room for certain; 0 when that is not known. */
  get fullForMs(): number {
    return Math.max(this.breaker.closedForMs, this.#rate?.nextInMs ?? 0)
  }

  add(flight: Flight): void {
    this.#cautious = false
    this.#waiting.push(flight)
  }

  addSuspect(flight: Flight): void {
    this.beCautious()
    this.#suspects.push(flight)
  }

  /** A suspect of this rail was leased. */
  beCautious(): void {
    this.#cautious = true
  }

  /** The next item that may depart, if any; its slot is taken. */
  next(): Flight | undefined {
    const queue = this.#hasSuspect ? this.#suspects : this.#waiting
    if (this.#slots.free === 0 || (this.#hasSuspect && this.#slots.taken > 0)) return undefined
    if (this.breaker.admits(1) === 0 || this.#rateAllows() < 1) return undefined
    const flight = queue.shift()
    if (flight === undefined) return undefined
    this.#suspectRunning = queue === this.#suspects
    this.departing(flight)
    return flight
  }

  get #hasSuspect(): boolean {
    return this.#suspects.length > 0 || this.#suspectRunning
  }

  /** A call starts: one of `next`, or one that never waited in this lane. */
  departing(flight: Flight): void {
    this.#slots.take()
    this.#rate?.take()
    if (this.breaker.started()) this.#trial = flight
  }

  landed(flight: Flight): void {
    this.#slots.give()
    // Not every item calls its rail: one may be recorded, held or given back without. Then the next one is the trial.
    if (flight === this.#trial) {
      this.#trial = undefined
      this.breaker.abandoned()
    }
    // It was alone: whoever lands while a suspect runs is that one.
    this.#suspectRunning = false
    this.#finishedSince += 1
  }

  /** Takes all waiting items out: they are to be given back. */
  clear(): Flight[] {
    return [...this.#suspects.splice(0), ...this.#waiting.splice(0)]
  }

  /** Takes out what could only wait beside a suspect: all but the one suspect that goes next, or that is under way. */
  clearBesideSuspect(): Flight[] {
    if (!this.#hasSuspect) return []
    return [...this.#suspects.splice(this.#suspectRunning ? 0 : 1), ...this.#waiting.splice(0)]
  }

  #rateAllows(): number {
    return this.#rate?.available ?? Number.POSITIVE_INFINITY
  }

  #measure(nowMs: number): void {
    const elapsedMs = nowMs - this.#measuredAtMs
    if (elapsedMs < MEASURE_MS) return
    const latest = (this.#finishedSince * 1_000) / elapsedMs
    // Slows down at once, speeds up by halves: a lane that has just become slow must not hoard.
    this.#speed = latest < this.#speed ? latest : (this.#speed + latest) / 2
    this.#finishedSince = 0
    this.#measuredAtMs = nowMs
  }
}

const MEASURE_MS = 50
