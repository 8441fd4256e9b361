import type { Clock, TraceContext } from '../core/index.js'
import type { AbortListener, StopSignal } from '../rails/index.js'
import { runAfter, type Timer } from '../worker/index.js'
import type { AttemptOutcome, ClaimedItem } from './types.js'

/** Reason for which a call was aborted: its lease ended. */
class LeaseEndedError extends Error {
  override readonly name = 'LeaseEndedError'
}

/**
 * One leased item in this process, from the claim until its outcome is recorded. It trusts its lease by this process's
 * monotonic clock, counted from before the claim was sent. So a running process stops before the database gives the lease to
 * another worker; a suspended one cannot. It is the stop signal of its own rail call.
 */
export class LeasedItem implements StopSignal {
  readonly item: ClaimedItem
  /** Time at which the claim was sent, by this process's monotonic clock. */
  readonly claimedAtMs: number
  /** Trace context that the rail is sent. */
  trace: TraceContext | undefined
  /** Outcome that the completer records. */
  outcome: AttemptOutcome | undefined
  #trustedUntilMs: number
  readonly #clock: Clock
  #abortReason: Error | undefined
  /** The rail call that this item can abort. */
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

  /** End of the trusted time on the wall clock, for a rail that can refuse a call that arrives later. */
  get trustedUntil(): Date {
    return new Date(this.#clock.now().getTime() + this.trustedForMs)
  }

  get sinceClaimMs(): number {
    return this.#clock.monotonicMs() - this.claimedAtMs
  }

  /** Time since the item was enqueued: by the database's clock up to the claim, by this process's clock from then on. */
  ageMs(nowMs: number): number {
    return nowMs - this.claimedAtMs + (this.item.claimedAt.getTime() - this.item.createdAt.getTime())
  }

  /** Begins a call that gives up after `timeoutMs`. A timer aborts it earlier only if the lease ends before that. */
  startCall(timeoutMs: number): void {
    if (this.trustedForMs < timeoutMs) this.#abortAtLeaseEnd()
  }

  renewed(trustedUntilMs: number): void {
    this.#trustedUntilMs = Math.max(this.#trustedUntilMs, trustedUntilMs)
    if (this.#timer !== undefined) this.#abortAtLeaseEnd()
  }

  /** Whether a database call has shown that this worker no longer holds the lease. */
  get isLost(): boolean {
    return this.#isLost
  }

  /** Records the loss and aborts the call. Returns false if the loss was known before. */
  markLost(): boolean {
    if (this.#isLost) return false
    this.#isLost = true
    this.abort(new LeaseEndedError('another worker holds the lease'))
    return true
  }

  /** Ends the call: nothing aborts it any more. */
  finish(): void {
    this.#timer?.cancel()
  }

  /** Aborts once; a second reason changes nothing. */
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

  /** An item has one call at a time. */
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
