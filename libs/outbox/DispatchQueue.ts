import { Semaphore } from '../worker/index.js'
import type { LeasedItem } from './LeasedItem.js'
import type { RailLane } from './RailLane.js'

export interface LaneGroup {
  readonly lanes: RailLane[]
  readonly freeCapacity: number
}

/** Item in quarantine. It is kept here from its claim until its dispatch has finished. */
interface QuarantinedItem {
  readonly leased: LeasedItem
  isRunning: boolean
}

/**
 * Decides in memory which items of a relayer may be leased and which may start. Lanes take turns, so no lane waits
 * behind another lane's backlog. Rails without their own `concurrency` share slots.
 *
 * Quarantine is decided only here. An item whose last lease expired may have a payload that crashes its worker. After
 * one expiry it is dispatched alone on its rail, after two alone in the process. Items that wait on that rail or in
 * that process (batch-mates) are released first. No further item is leased there until the quarantined item is
 * finished. If the item crashed this process, the leases of its batch-mates would expire too and count against them.
 */
export class DispatchQueue {
  readonly lanes: readonly RailLane[]
  readonly #laneByRail: ReadonlyMap<string, RailLane>
  readonly #sharedSlots: Semaphore
  /** Maximum number of items, running or waiting, over all rails. */
  readonly #capacity: number
  /** Items that are dispatched alone on their rail. */
  readonly #alone = new Map<RailLane, QuarantinedItem>()
  /** Item that is dispatched alone in the process. */
  #aloneInProcess: QuarantinedItem | undefined
  /**
   * Lanes whose last claimed item had an expired lease. The leases of its batch-mates probably expired too, so the lane
   * claims one item at a time.
   */
  readonly #oneAtATime = new Set<RailLane>()
  #releases = 0
  #running = 0
  #nextLane = 0

  constructor(lanes: readonly RailLane[], { concurrency, prefetch }: { concurrency: number; prefetch: number }) {
    this.lanes = lanes
    this.#laneByRail = new Map(lanes.map((lane) => [lane.railType, lane]))
    this.#sharedSlots = new Semaphore(concurrency)
    const own = lanes.filter(({ sharesSlots }) => !sharesSlots)
    this.#capacity = own.reduce((sum, lane) => sum + lane.concurrency, concurrency) + prefetch
  }

  findLane(railType: string): RailLane | undefined {
    return this.#laneByRail.get(railType)
  }

  /** Returns the lane of a queued item. `add` queues only items that have a lane. */
  laneOf({ item }: LeasedItem): RailLane {
    return this.#laneByRail.get(item.railType)!
  }

  get running(): number {
    return this.#running
  }

  get waiting(): number {
    let waiting = this.#aloneInProcess?.isRunning === false ? 1 : 0
    for (const lane of this.lanes) waiting += lane.waiting
    for (const { isRunning } of this.#alone.values()) if (!isRunning) waiting += 1
    return waiting
  }

  /** Number of items that may be leased now, over all rails. */
  get freeCapacity(): number {
    return this.#aloneInProcess === undefined ? this.#capacity - this.#running - this.waiting : 0
  }

  #freeCapacityOf(lane: RailLane): number {
    if (this.#aloneInProcess !== undefined || this.#alone.has(lane)) return 0
    return this.#oneAtATime.has(lane) ? Math.min(lane.freeCapacity, 1) : lane.freeCapacity
  }

  canLease(lane: RailLane): boolean {
    return this.#freeCapacityOf(lane) > 0
  }

  needsItems(lane: RailLane): boolean {
    return lane.needsItems(this.#freeCapacityOf(lane))
  }

  /**
   * Groups the lanes that need items by free capacity, and separates payment rails from message topics. One claim
   * serves a group, so an idle relayer needs at most two claims if its rails have the same capacity.
   */
  lanesToClaim(): LaneGroup[] {
    const groups: (LaneGroup & { readonly money: boolean })[] = []
    for (const lane of this.lanes) {
      const freeCapacity = this.#freeCapacityOf(lane)
      if (!lane.needsItems(freeCapacity)) continue
      const { money } = lane.rail
      const group = groups.find((one) => one.freeCapacity === freeCapacity && one.money === money)
      if (group === undefined) groups.push({ lanes: [lane], freeCapacity, money })
      else group.lanes.push(lane)
    }
    return groups
  }

  /**
   * Queues claimed items. Returns the items to release: batch-mates of a quarantined item, further quarantined items,
   * and items without a lane. If there are any, the caller releases them and then calls `batchMatesReleased`. No
   * quarantined item starts before that.
   */
  add(items: readonly LeasedItem[]): LeasedItem[] {
    const surplus: LeasedItem[] = []
    for (const leased of items) {
      const lane = this.findLane(leased.item.railType)
      // Unexpected, because a claim names only rails of lanes. Releases the item; otherwise its lease would be renewed
      // for ever.
      if (lane === undefined) surplus.push(leased)
      else if (leased.item.expiryStreak === 0) {
        this.#oneAtATime.delete(lane)
        lane.add(leased)
      } else {
        this.#oneAtATime.add(lane)
        if (!this.#quarantine(leased, lane)) surplus.push(leased)
      }
    }
    const batchMates = [...surplus, ...this.#takeBatchMates()]
    if (batchMates.length > 0) this.#releases += 1
    return batchMates
  }

  batchMatesReleased(): void {
    this.#releases -= 1
  }

  /** Quarantines an item. Returns false if another quarantined item already occupies the lane or the process. */
  #quarantine(leased: LeasedItem, lane: RailLane): boolean {
    if (this.#aloneInProcess !== undefined) return false
    if (leased.item.expiryStreak > 1) this.#aloneInProcess = { leased, isRunning: false }
    else if (this.#alone.has(lane)) return false
    else this.#alone.set(lane, { leased, isRunning: false })
    return true
  }

  #takeBatchMates(): LeasedItem[] {
    if (this.#aloneInProcess !== undefined) {
      return this.lanes.flatMap((lane) => [...this.#takeAlone(lane), ...lane.takeWaiting()])
    }
    return [...this.#alone.keys()].flatMap((lane) => lane.takeWaiting())
  }

  #takeAlone(lane: RailLane): LeasedItem[] {
    const alone = this.#alone.get(lane)
    if (alone === undefined || alone.isRunning) return []
    this.#alone.delete(lane)
    return [alone.leased]
  }

  /** Removes and returns the items that wait for this rail. The caller must release them. */
  takeWaiting(lane: RailLane): LeasedItem[] {
    const waiting = [...this.#takeAlone(lane), ...lane.takeWaiting()]
    const alone = this.#aloneInProcess
    if (alone === undefined || alone.isRunning || alone.leased.item.railType !== lane.railType) return waiting
    this.#aloneInProcess = undefined
    return [alone.leased, ...waiting]
  }

  /** Returns the next item that may start, if any, and takes its slots. */
  next(): LeasedItem | undefined {
    const leased = this.#nextQuarantined() ?? this.#nextOfLanes()
    if (leased === undefined) return undefined
    const lane = this.laneOf(leased)
    lane.start(leased)
    if (lane.sharesSlots) this.#sharedSlots.acquire()
    this.#running += 1
    return leased
  }

  #nextQuarantined(): LeasedItem | undefined {
    if (this.#releases > 0) return undefined
    const alone = this.#aloneInProcess
    if (alone !== undefined) {
      return this.#running === 0 ? this.#startAlone(alone, this.laneOf(alone.leased)) : undefined
    }
    for (const [lane, one] of this.#alone) {
      const leased = lane.running === 0 ? this.#startAlone(one, lane) : undefined
      if (leased !== undefined) return leased
    }
    return undefined
  }

  #startAlone(alone: QuarantinedItem, lane: RailLane): LeasedItem | undefined {
    if (alone.isRunning || !this.#canStart(lane)) return undefined
    alone.isRunning = true
    return alone.leased
  }

  #nextOfLanes(): LeasedItem | undefined {
    if (this.#aloneInProcess !== undefined) return undefined
    for (let tried = 0; tried < this.lanes.length; tried += 1) {
      const lane = this.lanes[this.#nextLane]!
      this.#nextLane = (this.#nextLane + 1) % this.lanes.length
      const leased = !this.#alone.has(lane) && this.#canStart(lane) ? lane.takeNext() : undefined
      if (leased !== undefined) return leased
    }
    return undefined
  }

  #canStart(lane: RailLane): boolean {
    return (!lane.sharesSlots || this.#sharedSlots.free > 0) && lane.canStart
  }

  finish(leased: LeasedItem): void {
    const lane = this.laneOf(leased)
    this.#running -= 1
    if (this.#aloneInProcess?.leased === leased) this.#aloneInProcess = undefined
    if (this.#alone.get(lane)?.leased === leased) this.#alone.delete(lane)
    if (lane.sharesSlots) this.#sharedSlots.release()
    lane.finish(leased)
  }
}
