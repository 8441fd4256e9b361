import { BoundedSlots } from '../worker/index.js'
import type { Flight } from './Flight.js'
import type { RailLane } from './RailLane.js'

export interface Departure {
  readonly flight: Flight
  readonly lane: RailLane
}

/**
 * What may be leased and what may depart, over all lanes of one relayer: in memory alone, no clock and no database of its own.
 * It promises that lanes take turns, so that none waits behind another's backlog, that the rails which do not say how many
 * calls they bear share their slots, and that a suspect departs with nothing else in flight.
 */
export class Departures {
  readonly lanes: readonly RailLane[]
  /** For the rails that do not say how many calls they bear. */
  readonly #sharedSlots: BoundedSlots
  /** Items at once, running or waiting, all rails together. */
  readonly #capacity: number
  /**
   * Items whose lease expired twice in a row: each is carried with nothing else in flight in this process, so that what kills
   * its worker takes no other along. After one expiry its lane sees to it, which keeps no other rail waiting.
   */
  readonly #suspects: Departure[] = []
  #suspectInFlight = false
  #running = 0
  #nextLane = 0

  constructor(lanes: readonly RailLane[], { concurrency, prefetch }: { concurrency: number; prefetch: number }) {
    this.lanes = lanes
    this.#sharedSlots = new BoundedSlots(concurrency)
    const own = lanes.filter(({ sharesSlots }) => !sharesSlots)
    this.#capacity = own.reduce((sum, lane) => sum + lane.concurrency, concurrency) + prefetch
  }

  get waiting(): number {
    return this.lanes.reduce((sum, lane) => sum + lane.waiting, this.#suspects.length)
  }

  /** Items that may be leased, all rails together. */
  get room(): number {
    // A suspect is carried alone: what was leased beside it could only wait, and would be a suspect too if this process died.
    return this.#hasSuspect ? 0 : this.#capacity - this.#running - this.waiting
  }

  get #hasSuspect(): boolean {
    return this.#suspects.length > 0 || this.#suspectInFlight
  }

  /** Whether there is likely more to lease, and room that is worth a claim. */
  get isWorthAsking(): boolean {
    return this.lanes.some(isHungryForMore) && this.room > 0
  }

  /**
   * Groups hungry lanes by room, and payment rails apart from rails without money: each group is one claim. An idle relayer
   * asks once, or twice if it serves both, however many rails it has.
   */
  hungryLanes(): { readonly lanes: RailLane[]; readonly room: number }[] {
    const groups: { readonly lanes: RailLane[]; readonly room: number; readonly money: boolean }[] = []
    for (const lane of this.lanes) {
      const { room, isHungry, rail } = lane
      if (!isHungry) continue
      const group = groups.find((one) => one.room === room && one.money === rail.money)
      if (group === undefined) groups.push({ lanes: [lane], room, money: rail.money })
      else group.lanes.push(lane)
    }
    return groups
  }

  add(flight: Flight, lane: RailLane): void {
    const { expiryStreak } = flight.item
    // Nothing was leased beside it, whatever there is.
    if (expiryStreak > 0) lane.mayHaveMore = true
    if (expiryStreak > 1) {
      lane.beCautious()
      this.#suspects.push({ flight, lane })
    } else if (expiryStreak > 0) lane.addSuspect(flight)
    else lane.add(flight)
  }

  /** The next that may depart, if any; its slots are taken. */
  next(): Departure | undefined {
    const departure = this.#hasSuspect ? this.#nextSuspect() : this.#nextOfLanes()
    if (departure === undefined) return undefined
    if (departure.lane.sharesSlots) this.#sharedSlots.take()
    this.#running += 1
    return departure
  }

  #nextSuspect(): Departure | undefined {
    if (this.#suspectInFlight || this.#running > 0) return undefined
    const suspect = this.#suspects.shift()
    if (suspect === undefined) return undefined
    this.#suspectInFlight = true
    suspect.lane.departing(suspect.flight)
    return suspect
  }

  #nextOfLanes(): Departure | undefined {
    for (let tried = 0; tried < this.lanes.length; tried += 1) {
      const lane = this.lanes[this.#nextLane]!
      this.#nextLane = (this.#nextLane + 1) % this.lanes.length
      const flight = !lane.sharesSlots || this.#sharedSlots.free > 0 ? lane.next() : undefined
      if (flight !== undefined) return { flight, lane }
    }
    return undefined
  }

  landed({ flight, lane }: Departure): void {
    this.#running -= 1
    // A suspect is alone: whoever lands while one is in flight is that one.
    this.#suspectInFlight = false
    if (lane.sharesSlots) this.#sharedSlots.give()
    lane.landed(flight)
  }

  /** Takes out everything that waits for this rail: it is to be given back. */
  clear(lane: RailLane): Flight[] {
    const suspects = this.#suspects.filter((suspect) => suspect.lane === lane)
    for (const suspect of suspects) this.#suspects.splice(this.#suspects.indexOf(suspect), 1)
    return [...suspects.map(({ flight }) => flight), ...lane.clear()]
  }

  clearAll(): Flight[] {
    return this.lanes.flatMap((lane) => this.clear(lane))
  }

  /**
   * Takes out what was leased together with a suspect and could only wait for it: if the suspect is what kills its worker, its
   * company would be counted as deadly too, expiry by expiry, until a person has to look at payments that nothing is wrong with.
   */
  clearBesideSuspects(): Flight[] {
    const beside = this.lanes.flatMap((lane) => lane.clearBesideSuspect())
    if (!this.#hasSuspect) return beside
    const others = this.#suspects.splice(this.#suspectInFlight ? 0 : 1)
    return [...beside, ...others.map(({ flight }) => flight), ...this.lanes.flatMap((lane) => lane.clear())]
  }
}

function isHungryForMore(lane: RailLane): boolean {
  return lane.mayHaveMore && lane.isHungry
}
