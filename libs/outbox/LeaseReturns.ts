import type { Queryable } from '../db/index.js'
import { releaseOutboxLeases } from './db.js'
import type { OnRelayerEvent } from './events.js'
import type { Flight } from './Flight.js'
import type { LeaseKeeper } from './LeaseKeeper.js'

export interface LeaseReturnsOptions {
  readonly role: Queryable
  readonly workerId: string
  readonly onEvent: OnRelayerEvent
  readonly keeper: LeaseKeeper
}

/** Gives leases back whose call never began, so that another may have them. Best effort: one that stays ends by itself. */
export class LeaseReturns {
  readonly #options: LeaseReturnsOptions
  readonly #underWay = new Set<Promise<void>>()

  constructor(options: LeaseReturnsOptions) {
    this.#options = options
  }

  async give(flights: readonly Flight[]): Promise<void> {
    const { role, workerId, onEvent, keeper } = this.#options
    for (const flight of flights) keeper.forget(flight)
    for (let start = 0; start < flights.length; start += RETURNS_MAX) {
      const leases = flights.slice(start, start + RETURNS_MAX).map(({ item }) => item)
      try {
        const released = await releaseOutboxLeases(role, leases, workerId)
        onEvent({ type: 'released', items: released.filter((one) => one.released).length })
      } catch (error) {
        onEvent({ type: 'fault', during: 'giving leases back', error })
      }
    }
  }

  /** Nobody waits for it but who ends: a round, or a stop. */
  giveAside(flights: readonly Flight[]): void {
    const given = this.give(flights).finally(() => this.#underWay.delete(given))
    this.#underWay.add(given)
  }

  async settled(): Promise<void> {
    await Promise.all(this.#underWay)
  }
}

const RETURNS_MAX = 500
