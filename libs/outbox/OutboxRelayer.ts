import { AppError, systemClock, type Clock } from '../core/index.js'
import { DispatchFrozenError, isLeaseLostError, type Database, type Listener, type RoleHandle } from '../db/index.js'
import { VERDICT_CODES, type LoadedRail, type RailVerdict } from '../rails/index.js'
import {
  BoundedSlots,
  PollLoop,
  settleWithin,
  turnOfEventLoop,
  Wakeup,
  type Turn,
  type Worker,
} from '../worker/index.js'
import { AttemptSpans } from './AttemptSpans.js'
import { carryItem, type CarryTools, type Landing } from './carryItem.js'
import { CompletionQueue } from './CompletionQueue.js'
import { DatabaseClock } from './DatabaseClock.js'
import {
  beginOutboxDispatch,
  claimOutboxBatch,
  heartbeatOutboxWorker,
  holdLeasedOutboxItem,
  nextOutboxEvent,
  releaseOutboxLeases,
} from './db.js'
import { DispatchGuard } from './DispatchGuard.js'
import type { OnRelayerEvent } from './events.js'
import { Flight } from './Flight.js'
import { LeaseKeeper, trustMs } from './LeaseKeeper.js'
import { LEASE_MARGIN_MS, resolveRelayerOptions, type RelayerOptions, type ResolvedRelayerOptions } from './options.js'
import { RailLane } from './RailLane.js'
import { RelayerTally, type RelayerCounts } from './RelayerTally.js'
import type { ClaimedItem, HeldTakeover } from './types.js'

const EXECUTOR = 'symphony_executor'
const CHANNEL = 'outbox_pending'

/**
 * Carries due items to their rails: claims what it has room for, calls each rail once, records each outcome once.
 *
 * It promises that a call starts only under a lease that outlives it, that an outcome is never lost for a database that is
 * away for a while, and that a stop leaves no lease behind that it could have given back. It does not promise that a rail is
 * called only once over many attempts: what is done about an unknown outcome is what the rail declares.
 */
export class OutboxRelayer implements Worker<RelayerCounts> {
  readonly workerId: string
  readonly #database: Database
  readonly #role: RoleHandle
  readonly #rails: ReadonlyMap<string, LoadedRail>
  readonly #lanes: readonly RailLane[]
  readonly #options: ResolvedRelayerOptions
  readonly #clock: Clock
  readonly #onEvent: OnRelayerEvent
  /** For the rails that do not say how many calls they bear. */
  readonly #sharedSlots: BoundedSlots
  readonly #wakeup: Wakeup
  readonly #loop: PollLoop
  readonly #heartbeat: PollLoop
  readonly #keeper: LeaseKeeper
  readonly #completions: CompletionQueue
  readonly #spans: AttemptSpans
  readonly #inFlight = new Map<Flight, Promise<void>>()
  readonly #tools = new Map<RailLane, CarryTools>()
  readonly #givingBack = new Set<Promise<void>>()
  /**
   * Items whose lease expired twice in a row: each is carried with nothing else in flight in this process, so that what kills
   * its worker takes no other along. After one expiry its lane sees to it, which keeps no other rail waiting.
   */
  readonly #suspects: { readonly flight: Flight; readonly lane: RailLane }[] = []
  #suspectInFlight = false
  #isClaiming = false
  #nextLane = 0
  #listener: Listener | undefined
  #stopping = false
  #tally = new RelayerTally()
  readonly #databaseClock: DatabaseClock
  #claimsPausedUntilMs = 0
  readonly #guard: DispatchGuard

  constructor(
    database: Database,
    rails: ReadonlyMap<string, LoadedRail>,
    options: RelayerOptions = {},
    onEvent: OnRelayerEvent = () => {},
    clock: Clock = systemClock,
  ) {
    this.#options = resolveRelayerOptions(options, [...rails.values()])
    this.workerId = this.#options.workerId
    this.#database = database
    this.#role = database.as(EXECUTOR)
    this.#clock = clock
    this.#databaseClock = new DatabaseClock(clock)
    this.#onEvent = (event) => {
      this.#tally.add(event)
      onEvent(event)
    }
    this.#rails = rails
    this.#lanes = [...rails.values()].map((rail) => this.#createLane(rail))
    this.#sharedSlots = new BoundedSlots(this.#options.concurrency)
    this.#wakeup = new Wakeup(this.#options.debounceMs, clock, () => this.#inFlight.size + this.#completions.size === 0)
    this.#loop = new PollLoop({
      turn: () => this.#turn(),
      pollMs: this.#options.poll ? this.#options.pollMs : NEVER_MS,
      wakeup: this.#wakeup,
      onError: (error) => this.#onEvent({ type: 'fault', during: 'claiming', error }),
    })
    this.#heartbeat = new PollLoop({
      turn: () => this.#beat(),
      pollMs: this.#options.heartbeatMs,
      wakeup: new Wakeup(0, clock),
      onError: (error) => this.#onEvent({ type: 'fault', during: 'reporting this worker', error }),
    })
    const shared = { role: this.#role, workerId: this.workerId, onEvent: this.#onEvent }
    this.#keeper = new LeaseKeeper({ ...shared, leaseSeconds: this.#options.leaseSeconds, clock })
    this.#completions = new CompletionQueue({ ...shared, clock, groupSize: 500, parallel: 2 })
    this.#spans = new AttemptSpans(this.workerId)
    this.#guard = new DispatchGuard({
      ...shared,
      clock,
      heartbeatMs: this.#options.heartbeatMs,
      keeper: this.#options.memory,
      onFrozen: () => this.#giveBackWaiting(),
    })
  }

  async start(): Promise<void> {
    this.#stopping = false
    if (this.#options.listen) await this.#listen()
    if (this.#options.renewLeases) this.#keeper.start()
    this.#heartbeat.start()
    this.#loop.start()
  }

  /** Claims stop, waiting items go back, calls in progress get their time, outcomes are written, connections close. */
  async stop(): Promise<void> {
    this.#stopping = true
    await this.#loop.stop()
    await this.#listener?.close()
    this.#listener = undefined
    await this.#giveBackWaiting()
    const calls = this.#landed()
    if (!(await settleWithin(calls, this.#options.shutdownMs))) {
      for (const flight of this.#inFlight.keys()) flight.abort(new Error('the worker is shutting down'))
      await settleWithin(calls, ABORTED_CALLS_MS)
    }
    const giveUp = new AbortController()
    const drained = this.#completions.drain(giveUp.signal)
    if (!(await settleWithin(drained, DRAIN_MS))) giveUp.abort()
    await drained
    await this.#keeper.stop()
    await this.#heartbeat.stop()
  }

  /** One round: claim what there is room for, carry it, record it. */
  async runOnce(): Promise<RelayerCounts> {
    this.#tally = new RelayerTally()
    if (this.#options.renewLeases) this.#keeper.start()
    await this.#turn()
    this.#pump()
    await this.#landed()
    const drained = this.#completions.drain(new AbortController().signal)
    const isRecorded = await settleWithin(drained, ROUND_DRAIN_MS)
    if (this.#listener === undefined) await this.#keeper.stop()
    // They stay in the queue and are tried on, but whoever runs rounds must hear that the database does not take them.
    if (!isRecorded) throw new CompletionsWaitingError(this.#completions.size)
    return this.#tally.counts
  }

  /** Stops claiming for a rail in this process alone; what waits for it goes back. `pause_outbox` does it for all. */
  async pauseRail(railType: string): Promise<void> {
    const lane = this.#lanes.find((one) => one.railType === railType)
    if (lane === undefined) return
    lane.pause()
    await this.#giveBack(this.#clear(lane))
  }

  resumeRail(railType: string): void {
    this.#lanes.find((one) => one.railType === railType)?.resume()
    this.#wakeup.notify()
  }

  /** What is in hand, for a gauge. */
  get gauge(): { readonly running: number; readonly waiting: number; readonly completing: number } {
    return {
      running: this.#inFlight.size,
      waiting: this.#lanes.reduce((sum, lane) => sum + lane.waiting, this.#suspects.length),
      completing: this.#completions.size,
    }
  }

  async #turn(): Promise<Turn> {
    if (this.#clock.monotonicMs() < this.#claimsPausedUntilMs) return { again: false }
    if (!(await this.#guard.mayClaim())) return { again: false }
    let claimed = 0
    let asked = 0
    // Whoever is not asked may have missed the word of work that led here.
    for (const lane of this.#lanes) lane.mayHaveMore = true
    for (const { lanes, room } of this.#hungryLanesByRoom()) {
      const wanted = Math.min(room, this.#options.batchSize, this.#globalRoom())
      if (wanted < 1 || this.#stopping) continue
      const items = await this.#claim(lanes, wanted)
      // The server has changed, or somebody else has frozen dispatch: what it is, the next turn finds out first.
      if (items === 'refused') return { again: true }
      asked += 1
      claimed += items
    }
    if (this.#isWorthAsking()) {
      // They depart when the next claim is on its way: the server leases one batch while this process carries the other.
      void turnOfEventLoop().then(() => this.#pump())
      return { again: true }
    }
    this.#pump()
    if (claimed > 0) return { again: false }
    return { again: false, idleMs: asked === 0 ? this.#restingMs : await this.#idleMs() }
  }

  /** Lanes with the same room are claimed for together, so that an idle relayer asks once, however many rails it has. */
  #hungryLanesByRoom(): { readonly lanes: RailLane[]; readonly room: number }[] {
    const byRoom = new Map<number, RailLane[]>()
    for (const lane of this.#lanes) {
      const { room, isHungry } = lane
      if (isHungry) byRoom.set(room, [...(byRoom.get(room) ?? []), lane])
    }
    return [...byRoom].map(([room, lanes]) => ({ lanes, room }))
  }

  #isWorthAsking(): boolean {
    return this.#lanes.some(isHungryForMore) && this.#globalRoom() > 0
  }

  #globalRoom(): number {
    // A suspect is carried alone: what was leased beside it could only wait, and would be a suspect too if this process died.
    if (this.#suspects.length > 0 || this.#suspectInFlight) return 0
    const { running, waiting } = this.gauge
    return this.#callsMax + this.#options.batchSize - running - waiting
  }

  /** Calls at once, all rails together. */
  get #callsMax(): number {
    const own = this.#lanes.filter(({ sharesSlots }) => !sharesSlots)
    return own.reduce((sum, lane) => sum + lane.concurrency, this.#sharedSlots.size)
  }

  async #claim(lanes: readonly RailLane[], wanted: number): Promise<number | 'refused'> {
    const { leaseSeconds } = this.#options
    const held: HeldTakeover[] = []
    const sentAtMs = this.#clock.monotonicMs()
    let items: ClaimedItem[]
    this.#isClaiming = true
    try {
      items = await claimOutboxBatch(this.#role, wanted, this.workerId, leaseSeconds, {
        rails: lanes.map(({ railType }) => railType),
        onHeld: (takeover) => held.push(takeover),
        ...this.#guard.shown,
        ...this.#announcedRails(),
      })
    } catch (error) {
      if (!(error instanceof DispatchFrozenError)) throw error
      this.#guard.refused()
      return 'refused'
    } finally {
      this.#isClaiming = false
    }
    const claimMs = this.#clock.monotonicMs() - sentAtMs
    const fresh = items.filter(({ takenOver }) => !takenOver)
    const takeovers = held.length + items.length - fresh.length
    const lagsMs = fresh.map(({ claimedAt, dueAt }) => claimedAt.getTime() - dueAt.getTime())
    this.#onEvent({ type: 'claimed', items: items.length, takeovers, claimMs, lagsMs })
    for (const takeover of held) this.#onEvent({ type: 'held', ...takeover })
    for (const lane of lanes) lane.mayHaveMore = items.length === wanted
    for (const item of items) {
      const lane = lanes.find(({ railType }) => railType === item.railType)
      if (lane === undefined) continue
      // Nothing was leased beside it, whatever there is.
      if (item.expiryStreak > 0) lane.mayHaveMore = true
      const flight = new Flight(item, sentAtMs, trustMs(leaseSeconds), this.#clock)
      this.#keeper.keep(flight)
      if (item.expiryStreak > 1) this.#suspects.push({ flight, lane })
      else if (item.expiryStreak > 0) lane.addSuspect(flight)
      else lane.add(flight)
    }
    const [first] = items
    if (first !== undefined) this.#compareClocks(first.claimedAt, sentAtMs)
    await this.#giveBack(this.#clearBesideSuspects())
    return items.length
  }

  #announcedRails(): { readonly announcedRails?: string[] } {
    const announcedRails = [...this.#rails.values()]
      .filter(({ onUnknown }) => onUnknown === 'hold')
      .map(({ type }) => type)
    return announcedRails.length === 0 ? {} : { announcedRails }
  }

  /** Starts whatever may start, one rail after the other, so that none waits behind another's backlog. */
  #pump(): void {
    if (this.#stopping) return
    if (this.#suspects.length > 0 || this.#suspectInFlight) {
      this.#departSuspect()
      return
    }
    let idleLanes = 0
    while (idleLanes < this.#lanes.length) {
      const lane = this.#lanes[this.#nextLane]
      this.#nextLane = (this.#nextLane + 1) % this.#lanes.length
      const mayDepart = lane !== undefined && (!lane.sharesSlots || this.#sharedSlots.free > 0)
      const flight = mayDepart ? lane.next() : undefined
      if (lane === undefined || flight === undefined) idleLanes += 1
      else {
        idleLanes = 0
        this.#depart(flight, lane)
      }
    }
  }

  #departSuspect(): void {
    if (this.#suspectInFlight || this.#inFlight.size > 0) return
    const suspect = this.#suspects.shift()
    if (suspect === undefined) return
    this.#suspectInFlight = true
    suspect.lane.departing()
    this.#depart(suspect.flight, suspect.lane)
  }

  #depart(flight: Flight, lane: RailLane): void {
    const { railType } = lane
    const rail = this.#rails.get(railType)
    if (rail === undefined) return
    if (lane.sharesSlots) this.#sharedSlots.take()
    this.#onEvent({ type: 'departed', railType, outboxId: flight.item.outboxId })
    this.#inFlight.set(flight, this.#fly(flight, rail, lane))
  }

  async #fly(flight: Flight, rail: LoadedRail, lane: RailLane): Promise<void> {
    try {
      let landing: Landing
      try {
        landing = await this.#spans.carry(flight, () => carryItem(flight, rail, this.#toolsOf(lane)))
      } catch (error) {
        landing = this.#abandoned(flight, lane, error)
      }
      flight.land()
      this.#keeper.forget(flight)
      const handing = this.#hand(flight, landing)
      if (handing !== undefined) await handing
    } finally {
      this.#inFlight.delete(flight)
      // A suspect is alone: whoever lands while one is in flight is that one.
      this.#suspectInFlight = false
      if (lane.sharesSlots) this.#sharedSlots.give()
      lane.landed()
      this.#onEvent({ type: 'landed', railType: lane.railType, outboxId: flight.item.outboxId })
      this.#pump()
      // A claim on its way is followed by a look at what there is room for then.
      if (!this.#isClaiming && !this.#stopping && this.#isWorthAsking()) this.#wakeup.insist()
    }
  }

  /** Only the database calls before a dispatch can end here: nothing was sent, and the lease goes back. */
  #abandoned(flight: Flight, lane: RailLane, error: unknown): Landing {
    lane.breaker.abandoned()
    if (error instanceof DispatchFrozenError) this.#guard.refused()
    else this.#onEvent({ type: 'fault', during: 'preparing a dispatch', error, outboxId: flight.item.outboxId })
    return { kind: 'release' }
  }

  #toolsOf(lane: RailLane): CarryTools {
    const known = this.#tools.get(lane)
    if (known !== undefined) return known
    const tools: CarryTools = {
      begin: async ({ item }) => beginOutboxDispatch(this.#role, item, this.workerId),
      onCalled: ({ item }, verdict) => this.#heard(lane, item.outboxId, verdict),
      onLateAnswer: (_, outcome) => void this.#completions.keepAsEvidence(outcome),
      leaseNeededMs: (rail) => this.#leaseNeededMs(rail),
      sinceClaimMs: ({ claimedAtMs }) => this.#clock.monotonicMs() - claimedAtMs,
    }
    this.#tools.set(lane, tools)
    return tools
  }

  /** A lease that is renewed needs only enough left for the next renewal to come in time. */
  #leaseNeededMs({ timeoutMs }: LoadedRail): number {
    if (!this.#options.renewLeases) return timeoutMs + LEASE_MARGIN_MS / 2
    return Math.min(LEASE_MARGIN_MS / 2, this.#options.leaseSeconds * 500)
  }

  #heard(lane: RailLane, outboxId: string, verdict: RailVerdict): void {
    const { railType } = lane
    const { kind: answer, latencyMs } = verdict
    const error = answer === 'success' ? {} : { error: OWN_CODES.has(verdict.code) ? verdict.code : answer }
    this.#onEvent({ type: 'called', railType, outboxId, answer, latencyMs, ...error })
    if (verdict.unknownCode === true)
      this.#onEvent({ type: 'unknownCode', railType, outboxId, code: verdict.railCode ?? verdict.code })
    // A refusal is an answer: only silence says that a rail is down.
    if (answer === 'unknown' || answer === 'notSent') lane.breaker.failed()
    else lane.breaker.succeeded()
    if (lane.breaker.state === 'open') this.#giveBackAside(this.#clear(lane))
  }

  /** Returns what the slot has to wait for, if anything. */
  #hand(flight: Flight, landing: Landing): Promise<void> | undefined {
    const { item } = flight
    switch (landing.kind) {
      case 'complete':
        // Not waited for: the slot is free, and the queue holds no more than was claimed.
        this.#completions.submit({
          outcome: landing.outcome,
          railType: item.railType,
          acceptedAtMs: this.#acceptedAtMs(flight),
          leaseKnownLost: flight.isLost,
          // There may be a new due time, or a successor unblocked, that a sleeper does not know of.
          onSettled: landing.outcome.state === 'RETRYABLE' || item.ordered ? this.#mayBeDue : undefined,
        })
        return undefined
      case 'hold':
        return this.#hold(flight, landing.reason)
      case 'release':
        return this.#giveBack([flight])
      case 'lost':
        this.#lost(flight)
        return undefined
    }
  }

  readonly #mayBeDue = () => this.#wakeup.notify()

  /** By the database's clock up to the claim, by ours from then on. */
  #acceptedAtMs({ claimedAtMs, item: { claimedAt, createdAt } }: Flight): number {
    return claimedAtMs - (claimedAt.getTime() - createdAt.getTime())
  }

  /** Unless the renewal has said so already: one lease is lost once. */
  #lost(flight: Flight): void {
    const { outboxId } = flight.item
    if (flight.lost()) this.#onEvent({ type: 'leaseLost', outboxId, during: 'dispatch' })
  }

  async #hold(flight: Flight, reason: string): Promise<void> {
    const { item } = flight
    try {
      await holdLeasedOutboxItem(this.#role, item, this.workerId, reason)
      this.#onEvent({ type: 'held', railType: item.railType, outboxId: item.outboxId, reason })
    } catch (error) {
      if (isLeaseLostError(error)) this.#lost(flight)
      else this.#onEvent({ type: 'fault', during: 'holding', error, outboxId: item.outboxId })
    }
  }

  /** Best effort: a lease that cannot be given back ends by itself. */
  async #giveBack(flights: readonly Flight[]): Promise<void> {
    for (const flight of flights) this.#keeper.forget(flight)
    for (let start = 0; start < flights.length; start += GIVE_BACK_MAX) {
      const leases = flights.slice(start, start + GIVE_BACK_MAX).map(({ item }) => item)
      try {
        const released = await releaseOutboxLeases(this.#role, leases, this.workerId)
        this.#onEvent({ type: 'released', items: released.filter((one) => one.released).length })
      } catch (error) {
        this.#onEvent({ type: 'fault', during: 'giving leases back', error })
      }
    }
  }

  /** Nobody waits for it but who ends: a round, or a stop. */
  #giveBackAside(flights: readonly Flight[]): void {
    const given = this.#giveBack(flights).finally(() => this.#givingBack.delete(given))
    this.#givingBack.add(given)
  }

  async #giveBackWaiting(): Promise<void> {
    await this.#giveBack(this.#lanes.flatMap((lane) => this.#clear(lane)))
  }

  /**
   * Takes out what was leased together with a suspect and could only wait for it: if the suspect is what kills its worker, its
   * company would be counted as deadly too, expiry by expiry, until a person has to look at payments that nothing is wrong with.
   */
  #clearBesideSuspects(): Flight[] {
    const beside = this.#lanes.flatMap((lane) => lane.clearBesideSuspect())
    if (this.#suspects.length === 0 && !this.#suspectInFlight) return beside
    const others = this.#suspects.splice(this.#suspectInFlight ? 0 : 1)
    return [...beside, ...others.map(({ flight }) => flight), ...this.#lanes.flatMap((lane) => lane.clear())]
  }

  /** Takes out everything that waits for this rail: it is to be given back. */
  #clear(lane: RailLane): Flight[] {
    const suspects = this.#suspects.filter((suspect) => suspect.lane === lane)
    for (const suspect of suspects) this.#suspects.splice(this.#suspects.indexOf(suspect), 1)
    return [...suspects.map(({ flight }) => flight), ...lane.clear()]
  }

  /** Resolves when nothing is waiting or running any more. */
  async #landed(): Promise<void> {
    while (this.#inFlight.size > 0) await Promise.all(this.#inFlight.values())
    await Promise.all(this.#givingBack)
  }

  /** How long there is surely nothing to do, by the database's own clock; undefined when that is not known. */
  async #idleMs(): Promise<number | undefined> {
    const rails = this.#lanes.filter(({ room }) => room > 0).map(({ railType }) => railType)
    if (rails.length === 0) return this.#restingMs
    const next = await nextOutboxEvent(this.#role, rails)
    const dueInMs = next === null ? undefined : this.#databaseClock.msUntil(next)
    return dueInMs === undefined ? this.#restingMs : Math.min(this.#restingMs, Math.max(1, dueInMs))
  }

  /** How long the rails that rest (by their rate, by their breaker) go on resting. */
  get #restingMs(): number {
    return Math.min(...this.#lanes.map(({ fullForMs }) => (fullForMs > 0 ? fullForMs : NEVER_MS)))
  }

  async #listen(): Promise<void> {
    if (this.#listener !== undefined) return
    this.#listener = await this.#database.listenAsRole(
      EXECUTOR,
      CHANNEL,
      () => {
        this.#onEvent({ type: 'notified' })
        this.#wakeup.notify()
      },
      {
        onStateChange: ({ state }) => {
          this.#onEvent({ type: 'listening', connected: state === 'listening' })
          // Whatever was said while nobody listened is found by looking.
          if (state === 'listening') this.#wakeup.notify()
        },
      },
    )
    // Later changes are told; the first success is the call that returned.
    this.#onEvent({ type: 'listening', connected: true })
  }

  async #beat(): Promise<Turn> {
    const sentAtMs = this.#clock.monotonicMs()
    const { running, waiting, completing } = this.gauge
    const rails = this.#lanes.map(({ railType, breaker, running: calls }) => ({
      railType,
      breaker: breaker.state,
      calls,
    }))
    const databaseNow = await heartbeatOutboxWorker(this.#role, this.workerId, { running, waiting, completing, rails })
    this.#compareClocks(databaseNow, sentAtMs)
    await this.#guard.check()
    return { again: false }
  }

  /** After a jump it claims nothing until the leases in hand have surely ended. */
  #compareClocks(databaseNow: Date, sentAtMs: number): void {
    const byMs = this.#databaseClock.observe(databaseNow, sentAtMs)
    if (byMs === undefined) return
    this.#claimsPausedUntilMs = this.#clock.monotonicMs() + this.#options.leaseSeconds * 1_000
    this.#onEvent({ type: 'clockJumped', byMs })
  }

  #createLane(rail: LoadedRail): RailLane {
    const { concurrency, batchSize, breakerFailures, breakerOpenMs } = this.#options
    return new RailLane({
      railType: rail.type,
      concurrency: Math.min(rail.concurrency ?? concurrency, concurrency),
      sharesSlots: rail.concurrency === undefined,
      // An announced call that has not begun costs nothing, but it must not wait long enough to be mistaken for one.
      prefetchMax: rail.onUnknown === 'hold' ? 0 : batchSize,
      perSecond: rail.ratePerSecond,
      breaker: { failuresMax: breakerFailures, openMs: breakerOpenMs },
      clock: this.#clock,
      onBreaker: (state) => {
        this.#onEvent({ type: 'breaker', railType: rail.type, state })
        if (state !== 'open') this.#wakeup.notify()
      },
    })
  }
}

/** A round whose outcomes are not in the ledger yet. None is lost: they go on being tried. */
export class CompletionsWaitingError extends AppError {
  constructor(count: number) {
    super('COMPLETIONS_WAITING', `${count} outcomes wait for the database, which has not taken them in time`)
  }
}

function isHungryForMore(lane: RailLane): boolean {
  return lane.mayHaveMore && lane.isHungry
}

/** What a rail calls its errors is its own; a label of a metric must come from a short list. */
const OWN_CODES: ReadonlySet<string> = new Set(Object.values(VERDICT_CODES))
/** Longer than any process runs. */
const NEVER_MS = 2_147_483_647
const GIVE_BACK_MAX = 500
const ABORTED_CALLS_MS = 2_000
const DRAIN_MS = 5_000
const ROUND_DRAIN_MS = 10_000
