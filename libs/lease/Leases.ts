import { systemClock, type Clock } from '../core/index.js'
import { DatabaseClosedError, type Queryable } from '../db/index.js'
import { guardListener, settleWithin } from '../worker/index.js'
import { acquireLease } from './db.js'
import type { OnLeaseEvent } from './events.js'
import { Lease } from './Lease.js'
import { resolveAcquireOptions, type AcquireOptions, type LeaderOptions, type LeasesOptions } from './options.js'
import { runAsLeader, type LeaderFunction } from './runAsLeader.js'

/**
 * Leases of one database. The role is `database.as('symphony_executor')`, so that each call is a separate transaction.
 *
 * At most one owner holds a resource at a time. There is no queue: a refused caller must try again.
 */
export class Leases {
  readonly #role: Queryable
  readonly #clock: Clock
  readonly #onEvent: OnLeaseEvent
  readonly #held = new Map<string, Lease>()
  readonly #acquiring = new Set<Promise<Lease | null>>()
  #closed: Promise<void> | undefined

  constructor(role: Queryable, options: LeasesOptions = {}) {
    this.#role = role
    this.#clock = options.clock ?? systemClock
    this.#onEvent = guardListener(options.onEvent)
  }

  /**
   * Acquires a lease. Returns null if another owner holds it, if the answer came too late to trust the lease, or if a
   * concurrent call of the same owner got a newer lease.
   */
  async acquire(resource: string, options: AcquireOptions): Promise<Lease | null> {
    if (this.#closed !== undefined) throw new DatabaseClosedError()
    const acquired = this.#acquire(resource, options).finally(() => this.#acquiring.delete(acquired))
    this.#acquiring.add(acquired)
    return acquired
  }

  /**
   * Releases the held leases, so that other owners need not wait for their expiry. Waits for the database at most 2 s;
   * the timers of the leases end in any case. Later calls of `acquire` fail. May be called twice. `symphony.close()`
   * calls it.
   */
  close(): Promise<void> {
    this.#closed ??= this.#releaseAll()
    return this.#closed
  }

  async #acquire(resource: string, options: AcquireOptions): Promise<Lease | null> {
    const { request, renewEveryMs } = resolveAcquireOptions(resource, options)
    const sentAtMs = this.#clock.monotonicMs()
    const grant = await acquireLease(this.#role, request)
    if (grant === null) return null
    // A held lease with a greater token comes from a concurrent call of the same owner. The database granted that lease
    // after this one, so this one is already superseded.
    const former = this.#held.get(resource)
    if (former !== undefined && former.fencingToken > grant.fencingToken) return null
    former?.supersede()
    const dependencies = { role: this.#role, clock: this.#clock, onEvent: this.#onEvent, onEnd: this.#remove }
    const lease = new Lease(dependencies, { ...request, renewEveryMs }, grant, sentAtMs)
    if (lease.isLost) {
      await lease[Symbol.asyncDispose]()
      return null
    }
    if (this.#closed !== undefined) {
      await lease[Symbol.asyncDispose]()
      throw new DatabaseClosedError()
    }
    this.#held.set(resource, lease)
    this.#onEvent({ type: 'lease.acquired', resource, owner: lease.owner, fencingToken: lease.fencingToken })
    return lease
  }

  /**
   * Waits for the lease, calls the function, and releases the lease when the function ends. If the lease is lost before
   * the function ends, aborts the function's signal, and later calls the function again with a new lease. Two calls
   * never overlap. Ends when the function returns or throws while it holds the lease, or when `options.signal` aborts
   * and the function has ended.
   */
  async runAsLeader<T>(resource: string, lead: LeaderFunction<T>, options: LeaderOptions = {}): Promise<T | undefined> {
    return runAsLeader({ leases: this, onEvent: this.#onEvent }, resource, lead, options)
  }

  async #releaseAll(): Promise<void> {
    const released = [...this.#held.values()].map((lease) => lease[Symbol.asyncDispose]())
    // A lease that is being acquired is released by its own call.
    await settleWithin(Promise.allSettled([...released, ...this.#acquiring]), RELEASE_ALL_MS)
  }

  readonly #remove = (lease: Lease): void => {
    if (this.#held.get(lease.resource) === lease) this.#held.delete(lease.resource)
  }
}

/** Maximum wait of `close` for the database. A lease that is not released in time expires. */
const RELEASE_ALL_MS = 2_000
