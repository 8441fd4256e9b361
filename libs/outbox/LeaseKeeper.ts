import type { Clock } from '../core/index.js'
import type { Queryable } from '../db/index.js'
import { PollLoop, Wakeup } from '../worker/index.js'
import { renewOutboxLeases } from './db.js'
import type { OnRelayerEvent } from './events.js'
import type { Flight } from './Flight.js'

export interface LeaseKeeperOptions {
  readonly role: Queryable
  readonly workerId: string
  readonly leaseSeconds: number
  readonly clock: Clock
  readonly onEvent: OnRelayerEvent
}

/**
 * Renews the leases of everything in hand, well before they end. A renewal that fails on the way is tried again until the
 * lease can no longer be trusted; then the flight gives up by itself. A lease found lost ends its call at once.
 */
export class LeaseKeeper {
  readonly #options: LeaseKeeperOptions
  readonly #flights = new Set<Flight>()
  readonly #loop: PollLoop

  constructor(options: LeaseKeeperOptions) {
    this.#options = options
    this.#loop = new PollLoop({
      turn: () => this.#renew(),
      pollMs: (options.leaseSeconds * 1_000) / 8,
      wakeup: new Wakeup(0, options.clock),
      onError: (error) => options.onEvent({ type: 'fault', during: 'renewing leases', error }),
    })
  }

  start(): void {
    this.#loop.start()
  }

  async stop(): Promise<void> {
    await this.#loop.stop()
  }

  keep(flight: Flight): void {
    this.#flights.add(flight)
  }

  forget(flight: Flight): void {
    this.#flights.delete(flight)
  }

  async #renew(): Promise<{ again: boolean }> {
    const { role, workerId, leaseSeconds, clock, onEvent } = this.#options
    const leaseMs = leaseSeconds * 1_000
    const ending = [...this.#flights].filter(({ trustedForMs }) => trustedForMs < leaseMs / 2).slice(0, RENEWALS_MAX)
    if (ending.length === 0) return { again: false }
    const sentAtMs = clock.monotonicMs()
    const leases = ending.map(({ item }) => ({ outboxId: item.outboxId, leaseToken: item.leaseToken }))
    const renewals = await renewOutboxLeases(role, leases, workerId, leaseSeconds)
    for (const [index, { renewed, outboxId }] of renewals.entries()) {
      const flight = ending[index]
      // One that landed meanwhile is not in our hands any more, and its lease is rightly gone.
      if (flight === undefined || !this.#flights.has(flight)) continue
      if (renewed) flight.renewed(sentAtMs + trustMs(leaseSeconds))
      else {
        this.#flights.delete(flight)
        if (flight.lost()) onEvent({ type: 'leaseLost', outboxId, during: 'renewal' })
      }
    }
    return { again: ending.length === RENEWALS_MAX }
  }
}

/** How long a lease is trusted, from the moment before it was asked for: it ends in the database at that much or later. */
export function trustMs(leaseSeconds: number): number {
  return leaseSeconds * 1_000 - Math.min(1_000, leaseSeconds * 100)
}

const RENEWALS_MAX = 500
