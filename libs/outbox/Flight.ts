import { Cancellation, type Clock, type StopSignal, type TraceContext } from '../core/index.js'
import { after, type Timer } from '../worker/index.js'
import type { ClaimedItem } from './types.js'

/** Why a call in progress was told to stop. */
export class LeaseEndedError extends Error {
  override readonly name = 'LeaseEndedError'
}

/**
 * One leased item in this process: from the claim until its outcome is handed over. It knows how long the lease surely
 * lasts by this process's own monotonic clock, counted from before the claim was sent, so it always gives up before the
 * database would give the lease to another.
 */
export class Flight {
  readonly item: ClaimedItem
  /** When the claim was sent, by this process's monotonic clock. */
  readonly claimedAtMs: number
  /** What its rail is told of the trace it belongs to. */
  trace: TraceContext | undefined
  /** When this process stops trusting the lease. */
  #trustedUntilMs: number
  readonly #clock: Clock
  readonly #stop = new Cancellation()
  #timer: Timer | undefined
  #isLost = false

  /** @param trustMs How long the lease is trusted from the moment the claim was sent. */
  constructor(item: ClaimedItem, claimedAtMs: number, trustMs: number, clock: Clock) {
    this.item = item
    this.claimedAtMs = claimedAtMs
    this.#trustedUntilMs = claimedAtMs + trustMs
    this.#clock = clock
  }

  get trustedForMs(): number {
    return this.#trustedUntilMs - this.#clock.monotonicMs()
  }

  /** The same on the wall clock, for a rail that can refuse what arrives too late. */
  get trustedUntil(): Date {
    return new Date(this.#clock.now().getTime() + this.trustedForMs)
  }

  get signal(): StopSignal {
    return this.#stop
  }

  /**
   * A call begins that gives itself up after this long. Should the lease end before, the call is aborted then; nearly always
   * it does not, and there is nothing to watch.
   */
  callBegins(timeoutMs: number): void {
    if (this.trustedForMs < timeoutMs) this.#watch()
  }

  renewed(trustedUntilMs: number): void {
    this.#trustedUntilMs = Math.max(this.#trustedUntilMs, trustedUntilMs)
    if (this.#timer !== undefined) this.#watch()
  }

  /** Whether somebody has found that the lease is not this worker's any more. */
  get isLost(): boolean {
    return this.#isLost
  }

  /** False if that was known before. */
  lost(): boolean {
    if (this.#isLost) return false
    this.#isLost = true
    this.#stop.abort(new LeaseEndedError('the lease is held by someone else'))
    return true
  }

  /** Told to hurry by a shutdown that has run out of time. */
  abort(reason: Error): void {
    this.#stop.abort(reason)
  }

  land(): void {
    this.#timer?.cancel()
  }

  #watch(): void {
    this.#timer?.cancel()
    this.#timer = after(Math.max(0, this.trustedForMs), () =>
      this.#stop.abort(new LeaseEndedError('the lease is about to end')),
    )
  }
}
