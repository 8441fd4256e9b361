import type { Clock } from '../core/index.js'
import type { Queryable } from '../db/index.js'
import { settleWithin, sleep } from '../worker/index.js'
import { releaseLease, renewLease } from './db.js'
import type { OnLeaseEvent } from './events.js'
import { LostLeaseError, type LossReason } from './LostLeaseError.js'
import { renewalTimeouts, trustedLeaseMs } from './options.js'
import type { LeaseRef, LeaseGrant, LeaseRequest } from './types.js'

interface LeaseDependencies {
  readonly role: Queryable
  readonly clock: Clock
  readonly onEvent: OnLeaseEvent
  readonly onEnd: (lease: Lease) => void
}

interface RenewedRequest extends LeaseRequest {
  readonly renewEveryMs: number
}

/**
 * A lease in hand. It renews itself until it is released or lost, and once lost it stays lost.
 *
 * It promises that `signal` aborts before the database gives the resource to anybody else, whether the database answers or
 * not. It cannot promise that no instruction of this process runs later: an event loop that is busy, a process that is
 * stopped or a machine that sleeps learns of the loss when it wakes. What must not be written then must be fenced where it
 * is written, by `fencingToken`.
 */
export class Lease implements AsyncDisposable {
  readonly resource: string
  readonly owner: string
  /** By the database's clock. */
  readonly acquiredAt: Date
  readonly #dependencies: LeaseDependencies
  readonly #ref: LeaseRef
  readonly #durationMs: number
  readonly #renewEveryMs: number
  readonly #ended = new AbortController()
  #fencingToken: bigint
  #expiresAt: Date
  /** By this process's monotonic clock. */
  #trustedUntilMs: number
  #releasing: Promise<boolean> | undefined

  /** Made by `Leases.acquire`. `sentAtMs` is when the grant was asked for, not when it came. */
  constructor(dependencies: LeaseDependencies, request: RenewedRequest, grant: LeaseGrant, sentAtMs: number) {
    this.resource = request.resource
    this.owner = request.owner
    this.acquiredAt = grant.acquiredAt
    this.#dependencies = dependencies
    this.#ref = { resource: request.resource, owner: request.owner, leaseId: grant.leaseId }
    this.#durationMs = request.durationMs
    this.#renewEveryMs = request.renewEveryMs
    this.#fencingToken = grant.fencingToken
    this.#expiresAt = grant.expiresAt
    this.#trustedUntilMs = sentAtMs + trustedLeaseMs(request.durationMs)
    void this.#watchDeadline()
    void this.#keepRenewing()
  }

  /** The latest one: every renewal makes it greater. */
  get fencingToken(): bigint {
    return this.#fencingToken
  }

  /** What the database said at the latest renewal, by its own clock; for display. */
  get expiresAt(): Date {
    return this.#expiresAt
  }

  /** Aborts, with a `LostLeaseError`, when the lease is lost or released. */
  get signal(): AbortSignal {
    return this.#ended.signal
  }

  /** Asks the clock, so that it is right even if the event loop was too busy for the timer. */
  get isLost(): boolean {
    if (this.#trustedForMs <= 0) this.#end('expired')
    return this.signal.aborted
  }

  throwIfLost(): void {
    if (this.isLost) throw this.signal.reason
  }

  /**
   * Extends the lease now. False: it is lost. Rejects with the database's error if the lease is still ours and the
   * renewal failed; the automatic ones go on. Never waits longer than the lease can be trusted.
   */
  async tryRenewNow(): Promise<boolean> {
    if (this.isLost) return false
    const renewal = this.#renew()
    const over = new AbortController()
    const lost = untilAborted(this.signal, over.signal).then(() => false)
    try {
      return await Promise.race([renewal, lost])
    } catch (error) {
      if (this.isLost) return false
      throw error
    } finally {
      over.abort()
    }
  }

  /**
   * Gives the lease back; whoever asks next gets it. False: it was lost already, or the database did not answer for as
   * long as it would have lasted. Rejects with the database's error; then it expires by itself. Safe to call twice.
   */
  release(): Promise<boolean> {
    this.#releasing ??= this.#release()
    return this.#releasing
  }

  /** Releases. A failure is an event and not an error: the block that ends here is over, and the lease will expire. */
  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await this.release()
    } catch (error) {
      this.#fault('releasing a lease', error)
    }
  }

  /** Called when this process holds a later lease of the same owner. */
  supersede(): void {
    this.#end('superseded')
  }

  get #trustedForMs(): number {
    return this.#trustedUntilMs - this.#dependencies.clock.monotonicMs()
  }

  async #watchDeadline(): Promise<void> {
    // A renewal moves the deadline while this sleeps: it then wakes too early once, and looks again.
    while (!this.isLost) await sleep(this.#trustedForMs, this.signal)
  }

  async #keepRenewing(): Promise<void> {
    const { retryMs } = renewalTimeouts(this.#renewEveryMs)
    let renewed = true
    for (;;) {
      await sleep(renewed ? this.#renewEveryMs : retryMs, this.signal)
      if (this.isLost) return
      renewed = await this.#renewInTime()
    }
  }

  /**
   * One attempt, given up on after a while: the connection may be dead without a word, and there is time to try another.
   * If its answer does come later, it counts.
   */
  async #renewInTime(): Promise<boolean> {
    let renewed = false
    const settled = new AbortController()
    const settle = () => settled.abort()
    this.signal.addEventListener('abort', settle, { once: true })
    this.#renew()
      .then(
        (held) => (renewed = held),
        (error: unknown) => this.#fault('renewing a lease', error),
      )
      .finally(settle)
    await sleep(renewalTimeouts(this.#renewEveryMs).answerMs, settled.signal)
    this.signal.removeEventListener('abort', settle)
    return renewed
  }

  async #renew(): Promise<boolean> {
    const { role, clock, onEvent } = this.#dependencies
    const sentAtMs = clock.monotonicMs()
    const renewal = await renewLease(role, this.#ref, this.#durationMs)
    if (this.isLost) return false
    if (renewal === null) {
      this.#end('refused')
      return false
    }
    // Answers may overtake each other; only the greatest is the latest.
    if (renewal.fencingToken > this.#fencingToken) {
      this.#fencingToken = renewal.fencingToken
      this.#expiresAt = renewal.expiresAt
    }
    this.#trustedUntilMs = Math.max(this.#trustedUntilMs, sentAtMs + trustedLeaseMs(this.#durationMs))
    onEvent({ type: 'lease.renewed', resource: this.resource, owner: this.owner, fencingToken: renewal.fencingToken })
    return true
  }

  async #release(): Promise<boolean> {
    const lostBefore = this.isLost ? this.#lossReason : undefined
    // Before the request is sent: from then on somebody else may have it.
    this.#end('released')
    // The database itself has another holder, or none.
    if (lostBefore === 'refused' || lostBefore === 'superseded') return false
    const lastsMs = this.#trustedForMs + this.#durationMs - trustedLeaseMs(this.#durationMs)
    const request = releaseLease(this.#dependencies.role, this.#ref)
    return (await settleWithin(request, Math.max(0, lastsMs))) && request
  }

  get #lossReason(): LossReason | undefined {
    const reason: unknown = this.signal.reason
    return reason instanceof LostLeaseError ? reason.reason : undefined
  }

  #end(reason: LossReason): void {
    if (this.signal.aborted) return
    const { onEvent, onEnd } = this.#dependencies
    this.#ended.abort(new LostLeaseError(this.resource, reason))
    onEnd(this)
    onEvent({ type: 'lease.ended', resource: this.resource, owner: this.owner, reason })
  }

  #fault(during: string, error: unknown): void {
    this.#dependencies.onEvent({ type: 'lease.fault', resource: this.resource, during, error })
  }
}

/** Resolves when the signal aborts, or when nobody wants to know any more. */
function untilAborted(signal: AbortSignal, over: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const finish = () => {
      signal.removeEventListener('abort', finish)
      resolve()
    }
    signal.addEventListener('abort', finish, { once: true })
    over.addEventListener('abort', finish, { once: true })
  })
}
