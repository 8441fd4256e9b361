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
 * Held lease. It renews itself until it is released or lost. A lost lease stays lost.
 *
 * `signal` aborts before the database grants the resource to another owner, whether or not the database answers. Code
 * of this process may still run after the loss: a busy event loop, a stopped process or a sleeping machine notices the
 * loss only when it continues. To stop late writes, compare `fencingToken` at the target of each write.
 */
export class Lease implements AsyncDisposable {
  readonly resource: string
  readonly owner: string
  /** Start of the lease by the database's clock. */
  readonly acquiredAt: Date
  readonly #dependencies: LeaseDependencies
  readonly #ref: LeaseRef
  readonly #durationMs: number
  readonly #renewEveryMs: number
  readonly #ended = new AbortController()
  #fencingToken: bigint
  #expiresAt: Date
  /** Time until which the lease is trusted, by this process's monotonic clock. */
  #trustedUntilMs: number
  #releasing: Promise<boolean> | undefined

  /** Called by `Leases.acquire`. `sentAtMs` is the monotonic time just before the request was sent. */
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

  /** Latest fencing token. Every renewal increases it. */
  get fencingToken(): bigint {
    return this.#fencingToken
  }

  /** Expiry by the database's clock, as of the latest renewal, for display. */
  get expiresAt(): Date {
    return this.#expiresAt
  }

  /** Signal that aborts with a `LostLeaseError` when the lease is lost or released. */
  get signal(): AbortSignal {
    return this.#ended.signal
  }

  /**
   * Whether the lease is lost or released. Reads the clock, because a busy event loop may delay the abort of `signal`.
   */
  get isLost(): boolean {
    if (this.#trustedForMs <= 0) this.#end('expired')
    return this.signal.aborted
  }

  throwIfLost(): void {
    if (this.isLost) throw this.signal.reason
  }

  /**
   * Renews the lease now. Returns false if the lease is lost. Throws the database's error if the renewal failed and the
   * lease is still held; automatic renewals continue. Never waits longer than the lease is trusted.
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
   * Releases the lease for the next owner. Returns false if the database no longer had the lease, or did not answer
   * before its expiry. Throws the database's error; the lease then expires. May be called twice.
   */
  release(): Promise<boolean> {
    this.#releasing ??= this.#release()
    return this.#releasing
  }

  /** Releases the lease. Emits a failure as an event instead of throwing, because the lease expires anyway. */
  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await this.release()
    } catch (error) {
      this.#fault('releasing a lease', error)
    }
  }

  /** Ends this lease, because this process acquired the resource again as the same owner. */
  supersede(): void {
    this.#end('superseded')
  }

  get #trustedForMs(): number {
    return this.#trustedUntilMs - this.#dependencies.clock.monotonicMs()
  }

  async #watchDeadline(): Promise<void> {
    // A renewal during the sleep extends the deadline, so the loop sleeps again.
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
   * Renews once. Stops waiting after half the renewal interval, because a dead connection never answers and another
   * attempt needs the rest of the time. A later answer still counts.
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
    // Answers may arrive out of order. A greater token is newer.
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
    // Ends the lease before the request is sent, because another owner may acquire the resource from then on.
    this.#end('released')
    // The database no longer has this lease, so there is nothing to release.
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
