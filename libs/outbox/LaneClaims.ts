import type { Clock } from '../core/index.js'
import { DispatchFrozenError, type Queryable } from '../db/index.js'
import { claimOutboxBatch } from './db.js'
import type { Departures } from './Departures.js'
import type { DispatchGuard } from './DispatchGuard.js'
import type { OnRelayerEvent } from './events.js'
import { Flight } from './Flight.js'
import { trustMs, type LeaseKeeper } from './LeaseKeeper.js'
import type { LeaseReturns } from './LeaseReturns.js'
import type { RailLane } from './RailLane.js'
import type { ClaimedItem, UnleasedTakeover } from './types.js'

export interface LaneClaimsOptions {
  readonly role: Queryable
  readonly workerId: string
  readonly leaseSeconds: number
  /** Rails whose calls are announced before they are made. */
  readonly announcedRails: readonly string[]
  readonly clock: Clock
  readonly guard: DispatchGuard
  readonly keeper: LeaseKeeper
  readonly returns: LeaseReturns
  readonly departures: Departures
  readonly onEvent: OnRelayerEvent
  /** Told the time by the database's clock, and when it was asked by ours. */
  readonly onDatabaseTime: (databaseNow: Date, sentAtMs: number) => void
}

/**
 * Leases items for lanes that have room and lets them wait for departure. It promises that what was leased beside a suspect is
 * given back before the claim is over.
 */
export class LaneClaims {
  readonly #options: LaneClaimsOptions
  #isAsking = false
  #isGivingBack = false

  constructor(options: LaneClaimsOptions) {
    this.#options = options
  }

  /** Whether the database is being asked. */
  get isAsking(): boolean {
    return this.#isAsking
  }

  /** Whether a suspect waits for its company to be back. */
  get isGivingBack(): boolean {
    return this.#isGivingBack
  }

  /** Returns how many items were leased; or that the server has changed, or somebody has frozen dispatch. */
  async claim(lanes: readonly RailLane[], wanted: number): Promise<number | 'refused'> {
    const { clock, guard, onEvent } = this.#options
    const unleased: UnleasedTakeover[] = []
    const sentAtMs = clock.monotonicMs()
    let items: ClaimedItem[]
    this.#isAsking = true
    try {
      items = await this.#ask(lanes, wanted, (takeover) => unleased.push(takeover))
    } catch (error) {
      if (!(error instanceof DispatchFrozenError)) throw error
      guard.refused()
      return 'refused'
    } finally {
      this.#isAsking = false
    }
    const claimMs = clock.monotonicMs() - sentAtMs
    // What came back from a worker that fell silent has waited for its lease, not for us.
    const fresh = items.filter(({ expiryStreak }) => expiryStreak === 0)
    const takeovers = unleased.length + items.filter(({ takenOver }) => takenOver).length
    const lagsMs = fresh.map(({ claimedAt, dueAt }) => claimedAt.getTime() - dueAt.getTime())
    onEvent({ type: 'claimed', items: items.length, takeovers, claimMs, lagsMs })
    for (const { holdReason, ...item } of unleased)
      if (holdReason !== null) onEvent({ type: 'held', ...item, reason: holdReason })
    for (const lane of lanes) lane.mayHaveMore = items.length === wanted
    this.#keep(items, lanes, sentAtMs)
    const [first] = items
    if (first !== undefined) this.#options.onDatabaseTime(first.claimedAt, sentAtMs)
    await this.#giveBackBesideSuspects()
    return items.length
  }

  #ask(
    lanes: readonly RailLane[],
    wanted: number,
    onUnleased: (takeover: UnleasedTakeover) => void,
  ): Promise<ClaimedItem[]> {
    const { role, workerId, leaseSeconds, guard, announcedRails } = this.#options
    return claimOutboxBatch(role, wanted, workerId, leaseSeconds, {
      rails: lanes.map(({ railType }) => railType),
      // A payment rail gets payments only. Lanes that are claimed for together are of one kind.
      ...(lanes[0]!.rail.money ? { isMessage: false } : {}),
      onUnleased,
      ...guard.shown,
      ...(announcedRails.length === 0 ? {} : { announcedRails }),
    })
  }

  #keep(items: readonly ClaimedItem[], lanes: readonly RailLane[], sentAtMs: number): void {
    const { clock, keeper, departures, leaseSeconds } = this.#options
    for (const item of items) {
      const lane = lanes.find(({ railType }) => railType === item.railType)
      if (lane === undefined) continue
      const flight = new Flight(item, sentAtMs, trustMs(leaseSeconds), clock)
      keeper.keep(flight)
      departures.add(flight, lane)
    }
  }

  /** A suspect departs when its company is back: if it ends this process, their leases must not be found expired beside its own. */
  async #giveBackBesideSuspects(): Promise<void> {
    const { departures, returns } = this.#options
    const company = departures.clearBesideSuspects()
    if (company.length === 0) return
    this.#isGivingBack = true
    try {
      await returns.give(company)
    } finally {
      this.#isGivingBack = false
    }
  }
}
