import type { Clock } from '../core/index.js'
import type { Queryable } from '../db/index.js'
import { PollLoop, Wakeup, type Emitter, type PollResult } from '../worker/index.js'
import { renewOutboxLeases } from './db.js'
import type { RelayerEvent } from './events.js'
import type { LeasedItem } from './LeasedItem.js'

interface LeaseRenewerOptions {
  readonly role: Queryable
  readonly workerId: string
  readonly leaseSeconds: number
  readonly clock: Clock
  readonly events: Emitter<RelayerEvent>
}

/**
 * Renews the leases of all waiting and running items well before they expire. A failed renewal is retried until the
 * lease is no longer trusted; then the item aborts its own call. A lease that the database reports as lost aborts its
 * call at once.
 */
export class LeaseRenewer {
  readonly #options: LeaseRenewerOptions
  readonly #items = new Set<LeasedItem>()
  readonly #loop: PollLoop

  constructor(options: LeaseRenewerOptions) {
    this.#options = options
    this.#loop = new PollLoop({
      poll: () => this.#renew(),
      pollMs: (options.leaseSeconds * 1_000) / 8,
      wakeup: new Wakeup(0, options.clock),
      onError: (error) => options.events.emit({ type: 'outbox.fault', during: 'renewing leases', error }),
    })
  }

  start(): void {
    this.#loop.start()
  }

  async stop(): Promise<void> {
    await this.#loop.stop()
  }

  add(leased: LeasedItem): void {
    this.#items.add(leased)
  }

  remove(leased: LeasedItem): void {
    this.#items.delete(leased)
  }

  /** Renews each lease that has passed half its time. The next poll repeats this for items that were locked. */
  async #renew(): Promise<PollResult> {
    const leaseMs = this.#options.leaseSeconds * 1_000
    const expiringSoon = [...this.#items].filter(({ trustedForMs }) => trustedForMs < leaseMs / 2)
    for (let start = 0; start < expiringSoon.length; start += RENEWALS_MAX) {
      await this.#renewGroup(expiringSoon.slice(start, start + RENEWALS_MAX))
    }
    return { pollAgain: false }
  }

  async #renewGroup(group: readonly LeasedItem[]): Promise<void> {
    const { role, workerId, leaseSeconds, clock, events } = this.#options
    const sentAtMs = clock.monotonicMs()
    const leases = group.map(({ item }) => item)
    const renewals = await renewOutboxLeases(role, leases, workerId, leaseSeconds)
    for (const [index, { renewed, outboxId }] of renewals.entries()) {
      const leased = group[index]
      // Skips an item that finished in the meantime: it was removed, and its lease ended correctly.
      if (renewed === null || leased === undefined || !this.#items.has(leased)) continue
      if (renewed) leased.renewed(sentAtMs + trustedLeaseMs(leaseSeconds))
      else {
        this.#items.delete(leased)
        if (leased.markLost()) events.emit({ type: 'outbox.leaseLost', outboxId, during: 'renewal' })
      }
    }
  }
}

/**
 * Returns how long a lease is trusted, counted from just before its claim or renewal was sent. In the database the
 * lease ends later.
 */
export function trustedLeaseMs(leaseSeconds: number): number {
  return leaseSeconds * 1_000 - Math.min(1_000, leaseSeconds * 100)
}

const RENEWALS_MAX = 500
