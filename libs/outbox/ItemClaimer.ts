import type { Clock } from '../core/index.js'
import { DatabaseError, type Database, type Listener, type Queryable } from '../db/index.js'
import type { LoadedRail } from '../rails/index.js'
import { PollLoop, yieldToEventLoop, Wakeup, type Emitter, type PollResult } from '../worker/index.js'
import { claimOutboxBatch } from './db.js'
import type { DispatchQueue, LaneGroup } from './DispatchQueue.js'
import type { RelayerEvent } from './events.js'
import type { ItemDispatcher } from './ItemDispatcher.js'
import { nextOutboxEvent } from './operate.js'
import type { ResolvedRelayerOptions } from './options.js'
import type { RailLane } from './RailLane.js'
import type { RestoreGuard } from './RestoreGuard.js'
import type { ClaimedItem, UnleasedTakeover } from './types.js'

interface ItemClaimerOptions {
  readonly database: Pick<Database, 'listenAsRole'>
  readonly role: Queryable
  readonly relayer: ResolvedRelayerOptions
  readonly rails: readonly LoadedRail[]
  readonly clock: Clock
  readonly events: Emitter<RelayerEvent>
  readonly guard: RestoreGuard
  readonly dispatcher: ItemDispatcher
  /** Whether every item claimed so far is finished and recorded. */
  readonly isIdle: () => boolean
}

/**
 * Decides when to claim and for which lanes, and passes the leased items to the dispatcher. NOTIFY only wakes the
 * claimer; polling finds every due item. The claimer leases nothing while dispatch is frozen, and nothing for one lease
 * length after a clock jump.
 */
export class ItemClaimer {
  readonly #options: ItemClaimerOptions
  readonly #queue: DispatchQueue
  readonly #wakeup: Wakeup
  readonly #loop: PollLoop
  readonly #databaseClock: DatabaseClock
  /** Rails that need a dispatch mark before each call. */
  readonly #markedRails: readonly string[]
  #listener: Listener | undefined
  #isNotified = false
  #runningClaims = 0
  readonly #polls = new Set<Promise<PollResult>>()
  #pausedUntilMs = 0
  /** Delay before the next claim while due items cannot be claimed. */
  #unclaimedRetryMs = UNCLAIMED_RETRY_MS
  /**
   * Lanes that may have more due items: the last poll made no claim for the lane, its claim was full, or batch-mates
   * were released.
   */
  #mayHaveMore: ReadonlySet<RailLane> = new Set()

  constructor(options: ItemClaimerOptions) {
    const { relayer, rails, clock, events, dispatcher, isIdle } = options
    this.#options = options
    this.#markedRails = rails.filter(({ onUnknown }) => onUnknown === 'hold').map(({ type }) => type)
    this.#queue = dispatcher.queue
    this.#databaseClock = new DatabaseClock(clock)
    this.#wakeup = new Wakeup(relayer.debounceMs, clock, isIdle)
    this.#loop = new PollLoop({
      poll: () => this.claim(),
      pollMs: relayer.poll ? relayer.pollMs : NEVER_MS,
      wakeup: this.#wakeup,
      onError: (error) => events.emit({ type: 'outbox.fault', during: 'claiming', error }),
    })
  }

  get isRunning(): boolean {
    return this.#loop.isRunning
  }

  start(): void {
    this.#loop.start()
  }

  /** Stops polling, and waits for the claims under way, also those of single rounds. */
  async stop(): Promise<void> {
    await this.#loop.stop()
    await Promise.allSettled(this.#polls)
    await this.#listener?.close()
    this.#listener = undefined
  }

  /** Schedules a claim, because an item may be due. */
  wake(): void {
    this.#wakeup.notify()
  }

  /**
   * Claims at once if a lane needs items and may have due ones. A claim under way makes the same check when it ends.
   */
  onSlotFree(): void {
    if (this.#runningClaims === 0 && this.#shouldClaimMore) this.#wakeup.wakeNow()
  }

  async listen(): Promise<void> {
    if (this.#listener !== undefined) return
    const { database, events } = this.#options
    this.#listener = await database.listenAsRole(
      EXECUTOR,
      CHANNEL,
      () => {
        this.#isNotified = true
        this.#wakeup.notify()
      },
      {
        onStateChange: ({ state }) => {
          events.emit({ type: 'outbox.listening', connected: state === 'listening' })
          // Notifications may have been missed while the connection was down.
          if (state === 'listening') this.#wakeup.notify()
        },
      },
    )
    // `onStateChange` does not report the first connection.
    events.emit({ type: 'outbox.listening', connected: true })
  }

  /** Claims for every lane that needs items, then starts the items that may start. */
  claim(): Promise<PollResult> {
    const poll = this.#claim().finally(() => this.#polls.delete(poll))
    this.#polls.add(poll)
    return poll
  }

  async #claim(): Promise<PollResult> {
    const { events, clock, guard, dispatcher, relayer } = this.#options
    if (this.#isNotified) {
      events.emit({ type: 'outbox.notified' })
      this.#unclaimedRetryMs = UNCLAIMED_RETRY_MS
    }
    this.#isNotified = false
    if (clock.monotonicMs() < this.#pausedUntilMs) return { pollAgain: false }
    if (!(await guard.canClaim())) return { pollAgain: false }
    let claims = 0
    let claimed = 0
    // A lane without free capacity makes no claim now, so it may have due items that no claim has found.
    this.#mayHaveMore = new Set(this.#queue.lanes)
    for (const group of this.#queue.lanesToClaim()) {
      const wanted = Math.min(group.freeCapacity, relayer.batchSize, this.#queue.freeCapacity)
      if (wanted < 1 || dispatcher.isStopping) continue
      const items = await this.#claimFor(group, wanted)
      // The database refused the claim: the server epoch has changed, or dispatch was frozen. The next poll checks
      // both.
      if (items === 'refused') return { pollAgain: true }
      claims += 1
      claimed += items
      if (items > 0) this.#unclaimedRetryMs = UNCLAIMED_RETRY_MS
    }
    if (this.#shouldClaimMore) {
      // Starts the items only after the next claim is sent, so that the server leases the next batch while this process
      // dispatches the claimed one.
      void yieldToEventLoop().then(() => dispatcher.startDispatches())
      return { pollAgain: true }
    }
    dispatcher.startDispatches()
    if (claimed > 0) return { pollAgain: false }
    return { pollAgain: false, idleMs: claims === 0 ? this.#busyForMs : await this.#idleMs() }
  }

  /**
   * Compares the database's clock with the process's. After a jump, stops claiming until the current leases have
   * expired.
   */
  compareClocks(databaseNow: Date, sentAtMs: number): void {
    const { clock, relayer, events } = this.#options
    // A claim before the first answer could not compute when the next item is due.
    if (!this.#databaseClock.isKnown) this.wake()
    const byMs = this.#databaseClock.observe(databaseNow, sentAtMs)
    if (byMs === undefined) return
    this.#pausedUntilMs = clock.monotonicMs() + relayer.leaseSeconds * 1_000
    events.emit({ type: 'outbox.clockJumped', byMs })
  }

  /** Returns the number of leased items, or `refused` if the epoch is over or dispatch is frozen. */
  async #claimFor({ lanes }: LaneGroup, wanted: number): Promise<number | 'refused'> {
    const { clock, guard, dispatcher } = this.#options
    const unleased: UnleasedTakeover[] = []
    const sentAtMs = clock.monotonicMs()
    let items: ClaimedItem[]
    this.#runningClaims += 1
    try {
      items = await this.#lease(lanes, wanted, (takeover) => unleased.push(takeover))
    } catch (error) {
      if (!(error instanceof DatabaseError) || error.code !== 'DISPATCH_FROZEN') throw error
      guard.invalidate()
      return 'refused'
    } finally {
      this.#runningClaims -= 1
    }
    this.#report(items, unleased, clock.monotonicMs() - sentAtMs)
    const [first] = items
    if (first !== undefined) this.compareClocks(first.claimedAt, sentAtMs)
    const released = await dispatcher.accept(items, sentAtMs)
    // A claim that was not full found all due items, unless batch-mates were released: those are due again.
    if (items.length < wanted && released === 0) this.#mayHaveMore = without(this.#mayHaveMore, lanes)
    return items.length
  }

  #lease(
    lanes: readonly RailLane[],
    wanted: number,
    onUnleased: (takeover: UnleasedTakeover) => void,
  ): Promise<ClaimedItem[]> {
    const { role, relayer, guard } = this.#options
    return claimOutboxBatch(role, wanted, relayer.workerId, relayer.leaseSeconds, {
      rails: lanes.map(({ railType }) => railType),
      // Payment rails claim payments only. The lanes of a group are all payment rails or all topics.
      ...(lanes[0]!.rail.money ? { isMessage: false } : {}),
      onUnleased,
      ...guard.claimEpoch,
      ...(this.#markedRails.length === 0 ? {} : { markedRails: this.#markedRails }),
    })
  }

  #report(items: readonly ClaimedItem[], unleased: readonly UnleasedTakeover[], claimMs: number): void {
    const { events } = this.#options
    const lagsMs: number[] = []
    let takeovers = unleased.length
    for (const { expiryStreak, takenOver, claimedAt, dueAt } of items) {
      if (takenOver) takeovers += 1
      // Skips items with an expired lease: their wait includes that lease, so it does not measure the lag of the
      // workers.
      if (expiryStreak === 0) lagsMs.push(claimedAt.getTime() - dueAt.getTime())
    }
    events.emit({ type: 'outbox.claimed', items: items.length, takeovers, claimMs, lagsMs })
    for (const { holdReason, ...item } of unleased)
      if (holdReason !== null) events.emit({ type: 'outbox.held', ...item, reason: holdReason })
  }

  get #shouldClaimMore(): boolean {
    if (this.#queue.freeCapacity <= 0) return false
    for (const lane of this.#mayHaveMore) if (this.#queue.needsItems(lane)) return true
    return false
  }

  /**
   * Returns the time until the next due time or lease expiry by the database's clock, at most `#busyForMs`. While a due
   * item stays locked, the delay doubles up to the poll interval.
   */
  async #idleMs(): Promise<number> {
    const { role, relayer } = this.#options
    const retryMs = this.#unclaimedRetryMs
    let isOverdue = false
    const open = this.#queue.lanes.filter((lane) => this.#queue.canLease(lane))
    let idleMs = this.#busyForMs
    for (const money of [true, false]) {
      const rails = open.filter(({ rail }) => rail.money === money).map(({ railType }) => railType)
      if (rails.length === 0) continue
      const next = await nextOutboxEvent(role, rails, money ? { isMessage: false } : {})
      const dueInMs = next === null ? undefined : this.#databaseClock.msUntil(next)
      if (dueInMs === undefined) continue
      if (dueInMs <= 0) isOverdue = true
      idleMs = Math.min(idleMs, dueInMs > 0 ? Math.max(1, dueInMs) : retryMs)
    }
    this.#unclaimedRetryMs = isOverdue ? Math.min(retryMs * 2, relayer.pollMs) : UNCLAIMED_RETRY_MS
    return idleMs
  }

  /** Time until the first of the lanes that a breaker or a rate limit blocks may make a call again. */
  get #busyForMs(): number {
    return Math.min(...this.#queue.lanes.map(({ busyForMs }) => (busyForMs > 0 ? busyForMs : NEVER_MS)))
  }
}

function without(lanes: ReadonlySet<RailLane>, removed: readonly RailLane[]): ReadonlySet<RailLane> {
  return new Set([...lanes].filter((lane) => !removed.includes(lane)))
}

/**
 * Tracks the difference between the database's clock and this process's. Both clocks run at the same speed, so the
 * difference is constant except for the response time. A jump means that one of the clocks was set or stood still, so
 * leases may be shorter than this process assumes.
 */
class DatabaseClock {
  readonly #clock: Clock
  /** Bounds of the last known difference: database clock minus process clock. */
  #ahead: { readonly leastMs: number; readonly mostMs: number } | undefined

  constructor(clock: Clock) {
    this.#clock = clock
  }

  get isKnown(): boolean {
    return this.#ahead !== undefined
  }

  /**
   * Compares the clocks, using an answer that contains the database's time. Returns the size of the jump, or undefined
   * if there is none. The database read its clock at any time between the request and the answer: a request that waits
   * for a lock is no jump.
   */
  observe(databaseNow: Date, sentAtMs: number): number | undefined {
    const mostMs = databaseNow.getTime() - sentAtMs
    const leastMs = databaseNow.getTime() - this.#clock.monotonicMs()
    const before = this.#ahead
    this.#ahead = { leastMs, mostMs }
    if (before === undefined) return undefined
    if (leastMs - before.mostMs > JUMP_MAX_MS) return leastMs - before.mostMs
    if (before.leastMs - mostMs > JUMP_MAX_MS) return mostMs - before.leastMs
    return undefined
  }

  /** Returns the time until `moment` by the database's clock, or undefined before the first answer. */
  msUntil(moment: Date): number | undefined {
    if (this.#ahead === undefined) return undefined
    return moment.getTime() - (this.#clock.monotonicMs() + this.#ahead.mostMs)
  }
}

const EXECUTOR = 'symphony_executor'
const CHANNEL = 'outbox_pending'
const NEVER_MS = 2_147_483_647
/**
 * Delay before the next claim of an item that is due and could not be claimed, because a transaction has locked it. It
 * doubles with each further claim that leases nothing.
 */
const UNCLAIMED_RETRY_MS = 20
/**
 * Maximum change of the difference that does not count as a jump: longer than a database answer takes, shorter than a
 * useful lease.
 */
const JUMP_MAX_MS = 5_000
