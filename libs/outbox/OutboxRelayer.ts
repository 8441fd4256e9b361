import { AppError, systemClock, type Clock, type JsonObject } from '../core/index.js'
import { DispatchFrozenError, isLeaseLostError, type Database, type Listener, type RoleHandle } from '../db/index.js'
import { VERDICT_CODES, type LoadedRail, type RailVerdict, type StatusVerdict } from '../rails/index.js'
import {
  guardListener,
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
import { beginOutboxDispatch, holdLeasedOutboxItem } from './db.js'
import { Departures, type Departure } from './Departures.js'
import { DispatchGuard } from './DispatchGuard.js'
import type { OnRelayerEvent } from './events.js'
import type { Flight } from './Flight.js'
import { LaneClaims } from './LaneClaims.js'
import { LeaseKeeper } from './LeaseKeeper.js'
import { LeaseReturns } from './LeaseReturns.js'
import { declareOutboxRails, deregisterOutboxWorker, heartbeatOutboxWorker, nextOutboxEvent } from './operate.js'
import { LEASE_MARGIN_MS, resolveRelayerOptions, type RelayerOptions, type ResolvedRelayerOptions } from './options.js'
import { RailLane } from './RailLane.js'
import { RelayerTally, type RelayerCounts } from './RelayerTally.js'

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
  readonly #rails: readonly LoadedRail[]
  #railsDeclaredAtMs = -Infinity
  readonly #departures: Departures
  readonly #options: ResolvedRelayerOptions
  readonly #clock: Clock
  readonly #onEvent: OnRelayerEvent
  readonly #wakeup: Wakeup
  readonly #loop: PollLoop
  readonly #heartbeat: PollLoop
  readonly #keeper: LeaseKeeper
  readonly #completions: CompletionQueue
  readonly #spans: AttemptSpans
  readonly #inFlight = new Map<Flight, Promise<void>>()
  readonly #tools = new Map<RailLane, CarryTools>()
  readonly #returns: LeaseReturns
  readonly #claims: LaneClaims
  #listener: Listener | undefined
  #stopping = false
  /** A heartbeat was recorded since the start. */
  #isRegistered = false
  /** A notification has arrived since the last turn. */
  #isNotified = false
  #tally = new RelayerTally()
  readonly #databaseClock: DatabaseClock
  #claimsPausedUntilMs = 0
  /** Reported with each heartbeat, so that every process can alert about it. */
  #lastUnknownCode: { readonly atMs: number; readonly railType: string; readonly code: string } | undefined
  #lastClockJump: { readonly atMs: number; readonly byMs: number } | undefined
  readonly #guard: DispatchGuard

  constructor(
    database: Database,
    rails: ReadonlyMap<string, LoadedRail>,
    options: RelayerOptions = {},
    onEvent: OnRelayerEvent = () => {},
    clock: Clock = systemClock,
  ) {
    this.#rails = [...rails.values()]
    this.#options = resolveRelayerOptions(options, this.#rails)
    this.workerId = this.#options.workerId
    this.#database = database
    this.#role = database.as(EXECUTOR)
    this.#clock = clock
    this.#databaseClock = new DatabaseClock(clock)
    const tell = guardListener(onEvent)
    this.#onEvent = (event) => {
      this.#tally.add(event)
      tell(event)
    }
    this.#departures = new Departures(
      this.#rails.map((rail) => this.#createLane(rail)),
      { concurrency: this.#options.concurrency, prefetch: this.#options.batchSize },
    )
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
    this.#returns = new LeaseReturns({ ...shared, keeper: this.#keeper })
    this.#completions = new CompletionQueue({ ...shared, clock, groupSize: 500, parallel: 2 })
    this.#spans = new AttemptSpans(this.workerId)
    this.#guard = new DispatchGuard({
      ...shared,
      clock,
      heartbeatMs: this.#options.heartbeatMs,
      keeper: this.#options.memory,
      onFrozen: () => this.#giveBackWaiting(),
    })
    this.#claims = new LaneClaims({
      ...shared,
      clock,
      leaseSeconds: this.#options.leaseSeconds,
      announcedRails: this.#rails.filter(({ onUnknown }) => onUnknown === 'hold').map(({ type }) => type),
      guard: this.#guard,
      keeper: this.#keeper,
      returns: this.#returns,
      departures: this.#departures,
      onDatabaseTime: (databaseNow, sentAtMs) => this.#compareClocks(databaseNow, sentAtMs),
    })
  }

  async start(): Promise<void> {
    this.#stopping = false
    if (this.#options.listen) {
      await this.#listen()
      await this.#declareRailsAtStart()
    }
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
    if (this.#isRegistered) await settleWithin(this.#deregister(), DEREGISTER_MS)
    this.#isRegistered = false
  }

  /** Best effort: a worker that cannot deregister is shown as dead since its last heartbeat. */
  async #deregister(): Promise<void> {
    try {
      await deregisterOutboxWorker(this.#role, this.workerId, this.#report())
    } catch (error) {
      this.#onEvent({ type: 'fault', during: 'deregistering this worker', error })
    }
  }

  /** One round: claim what there is room for, carry it, record it. */
  async runOnce(): Promise<RelayerCounts> {
    this.#tally = new RelayerTally()
    if (this.#options.renewLeases) this.#keeper.start()
    await this.#declareRails()
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
    const lane = this.#departures.lanes.find((one) => one.railType === railType)
    if (lane === undefined) return
    lane.pause()
    await this.#returns.give(this.#departures.clear(lane))
  }

  resumeRail(railType: string): void {
    this.#departures.lanes.find((one) => one.railType === railType)?.resume()
    this.#wakeup.notify()
  }

  /** What is in hand, for a gauge. */
  get gauge(): { readonly running: number; readonly waiting: number; readonly completing: number } {
    return {
      running: this.#inFlight.size,
      waiting: this.#departures.waiting,
      completing: this.#completions.size,
    }
  }

  async #turn(): Promise<Turn> {
    if (this.#isNotified) this.#onEvent({ type: 'notified' })
    this.#isNotified = false
    if (this.#clock.monotonicMs() < this.#claimsPausedUntilMs) return { again: false }
    if (!(await this.#guard.mayClaim())) return { again: false }
    let claimed = 0
    let asked = 0
    // Whoever is not asked may have missed the word of work that led here.
    for (const lane of this.#departures.lanes) lane.mayHaveMore = true
    for (const { lanes, room } of this.#departures.hungryLanes()) {
      const wanted = Math.min(room, this.#options.batchSize, this.#departures.room)
      if (wanted < 1 || this.#stopping) continue
      const items = await this.#claims.claim(lanes, wanted)
      // The server has changed, or somebody else has frozen dispatch: what it is, the next turn finds out first.
      if (items === 'refused') return { again: true }
      asked += 1
      claimed += items
    }
    if (this.#departures.isWorthAsking) {
      // They depart when the next claim is on its way: the server leases one batch while this process carries the other.
      void turnOfEventLoop().then(() => this.#pump())
      return { again: true }
    }
    this.#pump()
    if (claimed > 0) return { again: false }
    return { again: false, idleMs: asked === 0 ? this.#restingMs : await this.#idleMs() }
  }

  /** Starts whatever may start. */
  #pump(): void {
    if (this.#stopping || this.#claims.isGivingBack) return
    for (let next = this.#departures.next(); next !== undefined; next = this.#departures.next()) this.#depart(next)
  }

  #depart({ flight, lane }: Departure): void {
    this.#onEvent({ type: 'departed', railType: lane.railType, outboxId: flight.item.outboxId })
    this.#inFlight.set(flight, this.#fly(flight, lane))
  }

  async #fly(flight: Flight, lane: RailLane): Promise<void> {
    try {
      let landing: Landing
      try {
        landing = await this.#spans.carry(flight, () => carryItem(flight, lane.rail, this.#toolsOf(lane)))
      } catch (error) {
        landing = this.#abandoned(flight, error)
      }
      flight.land()
      this.#keeper.forget(flight)
      const handing = this.#hand(flight, landing)
      if (handing !== undefined) await handing
    } finally {
      this.#inFlight.delete(flight)
      this.#departures.landed({ flight, lane })
      this.#onEvent({ type: 'landed', railType: lane.railType, outboxId: flight.item.outboxId })
      this.#pump()
      // A claim on its way is followed by a look at what there is room for then.
      if (!this.#claims.isAsking && !this.#stopping && this.#departures.isWorthAsking) this.#wakeup.insist()
    }
  }

  /** Only the database calls before a dispatch can end here: nothing was sent, and the lease goes back. */
  #abandoned(flight: Flight, error: unknown): Landing {
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
      onInquired: (_, { kind }) => this.#judge(lane, kind),
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
    if (verdict.unknownCode === true) {
      const code = verdict.railCode ?? verdict.code
      this.#lastUnknownCode = { atMs: this.#clock.monotonicMs(), railType, code }
      this.#onEvent({ type: 'unknownCode', railType, outboxId, code })
    }
    this.#judge(lane, answer)
  }

  /** A refusal is an answer, and so is the word that nothing arrived: only silence says that a rail is down. */
  #judge(lane: RailLane, answer: RailVerdict['kind'] | StatusVerdict['kind']): void {
    if (answer === 'unknown' || answer === 'notSent') lane.breaker.failed()
    else lane.breaker.succeeded()
    if (lane.breaker.state === 'open') this.#returns.giveAside(this.#departures.clear(lane))
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
        return this.#returns.give([flight])
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

  async #giveBackWaiting(): Promise<void> {
    await this.#returns.give(this.#departures.clearAll())
  }

  /** Resolves when nothing is waiting or running any more. */
  async #landed(): Promise<void> {
    while (this.#inFlight.size > 0) await Promise.all(this.#inFlight.values())
    await this.#returns.settled()
  }

  /** How long there is surely nothing to do, by the database's own clock; undefined when that is not known. */
  async #idleMs(): Promise<number | undefined> {
    const open = this.#departures.lanes.filter(({ room }) => room > 0)
    let idleMs = this.#restingMs
    for (const money of [true, false]) {
      const rails = open.filter(({ rail }) => rail.money === money).map(({ railType }) => railType)
      if (rails.length === 0) continue
      const next = await nextOutboxEvent(this.#role, rails, money ? { isMessage: false } : {})
      const dueInMs = next === null ? undefined : this.#databaseClock.msUntil(next)
      if (dueInMs !== undefined) idleMs = Math.min(idleMs, Math.max(1, dueInMs))
    }
    return idleMs
  }

  /** How long the rails that rest (by their rate, by their breaker) go on resting. */
  get #restingMs(): number {
    return Math.min(...this.#departures.lanes.map(({ fullForMs }) => (fullForMs > 0 ? fullForMs : NEVER_MS)))
  }

  async #listen(): Promise<void> {
    if (this.#listener !== undefined) return
    this.#listener = await this.#database.listenAsRole(
      EXECUTOR,
      CHANNEL,
      () => {
        this.#isNotified = true
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
    const databaseNow = await heartbeatOutboxWorker(this.#role, this.workerId, this.#report())
    this.#isRegistered = true
    this.#compareClocks(databaseNow, sentAtMs)
    await this.#guard.check()
    await this.#declareRails()
    return { again: false }
  }

  /** Times are ages, because the clock of this process may differ from the database's. */
  #report(): JsonObject {
    const { running, waiting, completing } = this.gauge
    const rails = this.#departures.lanes.map(({ railType, breaker, running: calls }) => ({
      railType,
      breaker: breaker.state,
      calls,
    }))
    const secondsAgo = (atMs: number) => Math.round(this.#clock.monotonicMs() - atMs) / 1_000
    const [code, jump] = [this.#lastUnknownCode, this.#lastClockJump]
    return {
      running,
      waiting,
      completing,
      rails,
      ...(code === undefined
        ? {}
        : { unknownCode: { secondsAgo: secondsAgo(code.atMs), railType: code.railType, code: code.code } }),
      ...(jump === undefined ? {} : { clockJump: { secondsAgo: secondsAgo(jump.atMs), byMs: jump.byMs } }),
    }
  }

  /** Repeats the declaration every hour, so that the database knows which rails are served. */
  async #declareRails(): Promise<void> {
    const nowMs = this.#clock.monotonicMs()
    if (nowMs - this.#railsDeclaredAtMs < RAILS_DECLARED_EVERY_MS) return
    await declareOutboxRails(this.#role, this.#rails, this.workerId, { serving: true })
    this.#railsDeclaredAtMs = nowMs
  }

  /** Declares the rails before `start()` returns: an API that starts next must not warn of them. The heartbeat repeats a failed one. */
  async #declareRailsAtStart(): Promise<void> {
    try {
      await this.#declareRails()
    } catch (error) {
      this.#onEvent({ type: 'fault', during: 'reporting this worker', error })
    }
  }

  /** After a jump it claims nothing until the leases in hand have surely ended. */
  #compareClocks(databaseNow: Date, sentAtMs: number): void {
    const byMs = this.#databaseClock.observe(databaseNow, sentAtMs)
    if (byMs === undefined) return
    const nowMs = this.#clock.monotonicMs()
    this.#claimsPausedUntilMs = nowMs + this.#options.leaseSeconds * 1_000
    this.#lastClockJump = { atMs: nowMs, byMs }
    this.#onEvent({ type: 'clockJumped', byMs })
  }

  #createLane(rail: LoadedRail): RailLane {
    const { concurrency, batchSize, breakerFailures, breakerOpenMs } = this.#options
    return new RailLane({
      rail,
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

/** What a rail calls its errors is its own; a label of a metric must come from a short list. */
const OWN_CODES: ReadonlySet<string> = new Set(Object.values(VERDICT_CODES))
/** Longer than any process runs. */
const NEVER_MS = 2_147_483_647
const ABORTED_CALLS_MS = 2_000
const RAILS_DECLARED_EVERY_MS = 3_600_000
const DRAIN_MS = 5_000
const DEREGISTER_MS = 2_000
const ROUND_DRAIN_MS = 10_000
