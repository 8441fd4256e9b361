import type { Clock, TraceContext } from '../core/index.js'
import type { AbortListener, StopSignal } from '../rails/index.js'
import { runAfter, type Timer } from '../worker/index.js'
import type { AttemptOutcome, ClaimedItem } from './types.js'

/** Abort reason of a call whose lease has ended. */
class LeaseEndedError extends Error {
  override readonly name = 'LeaseEndedError'
}

/**
 * One leased item in this process, from its claim until its outcome is recorded. The lease is trusted for a fixed time
 * by the process's monotonic clock, counted from just before the claim was sent. A running process therefore stops
 * before the database leases the item to another worker; a suspended process cannot. The item is the stop signal of its
 * own rail call.
 */
export class LeasedItem implements StopSignal {
  readonly item: ClaimedItem
  /** Time at which the claim was sent, by this process's monotonic clock. */
  readonly claimedAtMs: number
  /** Trace context sent to the rail. */
  trace: TraceContext | undefined
  outcome: AttemptOutcome | undefined
  #trustedUntilMs: number
  readonly #clock: Clock
  #abortReason: Error | undefined
  #call: AbortListener | undefined
  #timer: Timer | undefined
  #isLost = false

  /** @param trustedLeaseMs Time for which the lease is trusted, from the moment the claim was sent. */
  constructor(item: ClaimedItem, claimedAtMs: number, trustedLeaseMs: number, clock: Clock) {
    this.item = item
    this.claimedAtMs = claimedAtMs
    this.#trustedUntilMs = claimedAtMs + trustedLeaseMs
    this.#clock = clock
  }

  get trustedForMs(): number {
    return this.#trustedUntilMs - this.#clock.monotonicMs()
  }

  /** End of the trusted time by the wall clock, for a rail that can refuse a call after this time. */
  get trustedUntil(): Date {
    return new Date(this.#clock.now().getTime() + this.trustedForMs)
  }

  get sinceClaimMs(): number {
    return this.#clock.monotonicMs() - this.claimedAtMs
  }

  /**
   * Returns the time since the item was enqueued: by the database's clock until the claim, by the process's clock after
   * it.
   */
  ageMs(nowMs: number): number {
    return nowMs - this.claimedAtMs + (this.item.claimedAt.getTime() - this.item.createdAt.getTime())
  }

  /** Begins a call. If the lease ends before the call's timeout, sets a timer that aborts the call with the lease. */
  startCall(timeoutMs: number): void {
    if (this.trustedForMs < timeoutMs) this.#abortAtLeaseEnd()
  }

  renewed(trustedUntilMs: number): void {
    this.#trustedUntilMs = Math.max(this.#trustedUntilMs, trustedUntilMs)
    if (this.#timer !== undefined) this.#abortAtLeaseEnd()
  }

  /** Whether a database call has shown that the lease is lost. */
  get isLost(): boolean {
    return this.#isLost
  }

  /** Marks the lease as lost and aborts the call. Returns false if the loss was already known. */
  markLost(): boolean {
    if (this.#isLost) return false
    this.#isLost = true
    this.abort(new LeaseEndedError('another worker holds the lease'))
    return true
  }

  /** Cancels the abort timer, because the call has ended. */
  finish(): void {
    this.#timer?.cancel()
  }

  /** Aborts the call. Only the first reason counts. */
  abort(reason: Error): void {
    if (this.#abortReason !== undefined) return
    this.#abortReason = reason
    this.#call?.handleEvent()
  }

  get aborted(): boolean {
    return this.#abortReason !== undefined
  }

  get reason(): unknown {
    return this.#abortReason
  }

  /** Registers the call to abort. An item has one call at a time. */
  addEventListener(_type: 'abort', call: AbortListener): void {
    this.#call = call
  }

  removeEventListener(_type: 'abort', call: AbortListener): void {
    if (this.#call === call) this.#call = undefined
  }

  #abortAtLeaseEnd(): void {
    this.#timer?.cancel()
    this.#timer = runAfter(Math.max(0, this.trustedForMs), () =>
      this.abort(new LeaseEndedError('the lease is about to end')),
    )
  }
}
