import { decodeTraceContext, type Clock } from '../core/index.js'
import { DatabaseError, isLeaseLostError, type Queryable } from '../db/index.js'
import { RAIL_RESULT_CODES, type LoadedRail, type RailResult, type StatusResult } from '../rails/index.js'
import { settleWithin, sleep, type Emitter } from '../worker/index.js'
import { AttemptSpans } from './AttemptSpans.js'
import { beginOutboxDispatch, holdLeasedOutboxItem, releaseOutboxLeases } from './db.js'
import { dispatchItem, type DispatchHooks, type DispatchResult } from './dispatchItem.js'
import { DispatchQueue } from './DispatchQueue.js'
import type { RelayerEvent } from './events.js'
import type { HandlerTransaction, HandlerTransactions } from './HandlerTransaction.js'
import type { ItemCompleter } from './ItemCompleter.js'
import { LeasedItem } from './LeasedItem.js'
import { LeaseRenewer, trustedLeaseMs } from './LeaseRenewer.js'
import { LEASE_MARGIN_MS, type ResolvedRelayerOptions } from './options.js'
import { RailLane } from './RailLane.js'
import { registeredTracer } from './traces.js'
import type { AttemptOutcome, ClaimedItem } from './types.js'

interface ItemDispatcherOptions {
  readonly role: Queryable
  readonly rails: readonly LoadedRail[]
  readonly relayer: ResolvedRelayerOptions
  readonly clock: Clock
  readonly events: Emitter<RelayerEvent>
  readonly completer: ItemCompleter
  readonly transactions: HandlerTransactions
  /** Called when the database refuses to begin a dispatch because dispatch is frozen. */
  readonly onFrozen: () => void
  /** Called when a call has ended and its slot is free. */
  readonly onSlotFree: () => void
  /** Called when a circuit breaker admits calls again. */
  readonly onRailUp: () => void
}

/**
 * Calls the rails for leased items. Manages slots and quarantine, renews leases, and passes each outcome to the
 * completer. Every accepted item is completed, held, released or lost exactly once.
 */
export class ItemDispatcher implements DispatchHooks {
  readonly queue: DispatchQueue
  readonly createTransaction: () => HandlerTransaction
  readonly #options: ItemDispatcherOptions
  readonly #renewer: LeaseRenewer
  readonly #spans: AttemptSpans
  readonly #running = new Set<LeasedItem>()
  readonly #releasing = new Set<Promise<void>>()
  #onIdle: (() => void)[] = []
  #isStopping = false

  constructor(options: ItemDispatcherOptions) {
    const { relayer, rails, role, clock, events } = options
    const { workerId, leaseSeconds, concurrency, batchSize } = relayer
    this.#options = options
    this.createTransaction = () => options.transactions.create()
    this.#renewer = new LeaseRenewer({ role, workerId, leaseSeconds, clock, events })
    this.#spans = new AttemptSpans(workerId)
    const lanes = rails.map((rail) => this.#createLane(rail))
    this.queue = new DispatchQueue(lanes, { concurrency, prefetch: batchSize })
  }

  get running(): number {
    return this.#running.size
  }

  get isStopping(): boolean {
    return this.#isStopping
  }

  /** Allows calls to start, at the first start and after a stop. */
  open(): void {
    this.#isStopping = false
  }

  close(): void {
    this.#isStopping = true
  }

  /** Releases waiting items, allows running calls `shutdownMs` to end, and then aborts them. */
  async stop(): Promise<void> {
    await this.releaseWaiting()
    const idle = this.idle()
    if (!(await settleWithin(idle, this.#options.relayer.shutdownMs))) {
      for (const leased of this.#running) leased.abort(new Error('the worker is shutting down'))
      await settleWithin(idle, ABORTED_CALLS_MS)
    }
    await this.#renewer.stop()
  }

  /** Waits until no call runs and every release has ended. */
  async idle(): Promise<void> {
    while (this.#running.size > 0) await new Promise<void>((resolve) => void this.#onIdle.push(resolve))
    await Promise.all(this.#releasing)
  }

  /** Stops the lease renewal if no leased item is left. Called at the end of a round. */
  async rest(): Promise<void> {
    if (this.#running.size + this.queue.waiting === 0) await this.#renewer.stop()
  }

  /**
   * Queues claimed items. Releases the batch-mates of a quarantined item before it may start, and returns their number.
   * @param sentAtMs Time just before the claim was sent. The trusted time of the leases counts from then.
   */
  async accept(items: readonly ClaimedItem[], sentAtMs: number): Promise<number> {
    const { clock, relayer } = this.#options
    const trustedMs = trustedLeaseMs(relayer.leaseSeconds)
    const leasedItems = items.map((item) => new LeasedItem(item, sentAtMs, trustedMs, clock))
    if (this.#isStopping) {
      // The claim was answered after the waiting items were released.
      await this.#release(leasedItems)
      return leasedItems.length
    }
    for (const leased of leasedItems) this.#renewer.add(leased)
    if (relayer.renewLeases && items.length > 0) this.#renewer.start()
    const batchMates = this.queue.add(leasedItems)
    if (batchMates.length === 0) return 0
    try {
      await this.#release(batchMates)
    } finally {
      this.queue.batchMatesReleased()
    }
    return batchMates.length
  }

  startDispatches(): void {
    if (this.#isStopping) return
    for (let leased = this.queue.next(); leased !== undefined; leased = this.queue.next()) {
      const { railType, outboxId } = leased.item
      this.#running.add(leased)
      this.#options.events.emit({ type: 'outbox.dispatchStarted', railType, outboxId })
      void this.#dispatch(leased, this.queue.laneOf(leased))
    }
  }

  /** Releases the items that wait for these lanes, by default for all lanes. */
  async releaseWaiting(lanes: readonly RailLane[] = this.queue.lanes): Promise<void> {
    await this.#release(lanes.flatMap((lane) => this.queue.takeWaiting(lane)))
  }

  async begin({ item }: LeasedItem): Promise<void> {
    await beginOutboxDispatch(this.#options.role, item, this.#options.relayer.workerId)
  }

  onCalled(leased: LeasedItem, result: RailResult): void {
    const { events } = this.#options
    const { railType, outboxId } = leased.item
    const { kind: answer, latencyMs } = result
    if (answer === 'success') events.emit({ type: 'outbox.called', railType, outboxId, answer, latencyMs })
    else {
      const error = OWN_CODES.has(result.code) ? result.code : answer
      events.emit({ type: 'outbox.called', railType, outboxId, answer, latencyMs, error })
    }
    if (result.unknownCode === true) {
      events.emit({ type: 'outbox.unknownCode', railType, outboxId, code: result.railCode ?? result.code })
    }
    this.#updateBreaker(this.queue.laneOf(leased), answer)
  }

  onInquired(leased: LeasedItem, { kind }: StatusResult): void {
    this.#updateBreaker(this.queue.laneOf(leased), kind)
  }

  onLateAnswer(outcome: AttemptOutcome): void {
    this.#options.completer.submitLate(outcome)
  }

  /** Returns the trusted time that a lease must have left when a call starts: the whole call, or less with renewal. */
  leaseNeededMs({ timeoutMs }: LoadedRail): number {
    const { renewLeases, leaseSeconds } = this.#options.relayer
    if (!renewLeases) return timeoutMs + LEASE_MARGIN_MS / 2
    return Math.min(LEASE_MARGIN_MS / 2, leaseSeconds * 500)
  }

  /** Dispatches one item and always frees its slot. */
  async #dispatch(leased: LeasedItem, lane: RailLane): Promise<void> {
    try {
      let result: DispatchResult
      try {
        result = await this.#attempt(leased, lane)
      } catch (error) {
        result = this.#notSent(leased, error)
      }
      leased.finish()
      this.#renewer.remove(leased)
      const finishing = this.#finish(leased, result)
      if (finishing !== undefined) await finishing
    } finally {
      this.#running.delete(leased)
      this.queue.finish(leased)
      this.#options.events.emit({
        type: 'outbox.dispatchFinished',
        railType: lane.railType,
        outboxId: leased.item.outboxId,
      })
      this.startDispatches()
      if (!this.#isStopping) this.#options.onSlotFree()
      if (this.#running.size === 0) for (const resolve of this.#onIdle.splice(0)) resolve()
    }
  }

  #attempt(leased: LeasedItem, lane: RailLane): Promise<DispatchResult> {
    const tracer = registeredTracer()
    if (tracer !== undefined) {
      return this.#spans.traceAttempt(tracer, leased, () => dispatchItem(leased, lane.rail, this))
    }
    // Without a tracer, the rail receives the trace context of the request that enqueued the item.
    const { traceContext } = leased.item
    if (traceContext !== null) leased.trace = decodeTraceContext(traceContext)
    return dispatchItem(leased, lane.rail, this)
  }

  /**
   * Handles an error before the rail call. Only a database call can throw there, so nothing was sent and the lease is
   * released.
   */
  #notSent({ item }: LeasedItem, error: unknown): DispatchResult {
    const { onFrozen, events } = this.#options
    if (error instanceof DatabaseError && error.code === 'DISPATCH_FROZEN') onFrozen()
    else events.emit({ type: 'outbox.fault', during: 'preparing a dispatch', error, outboxId: item.outboxId })
    return { kind: 'release' }
  }

  /**
   * Finishes the item. Returns a promise if the slot must stay occupied until it resolves. A completion does not occupy
   * the slot, unless it commits the transaction of a handler.
   */
  #finish(leased: LeasedItem, result: DispatchResult): Promise<void> | undefined {
    switch (result.kind) {
      case 'complete':
        return this.#options.completer.submit(leased, result.outcome, result.transaction)
      case 'hold':
        return this.#hold(leased, result.reason)
      case 'release':
        return this.#release([leased])
      case 'lost':
        this.#markLost(leased)
        return undefined
    }
  }

  /** Reports a lost lease, unless a renewal has reported it already. */
  #markLost(leased: LeasedItem): void {
    const { outboxId } = leased.item
    if (leased.markLost()) this.#options.events.emit({ type: 'outbox.leaseLost', outboxId, during: 'dispatch' })
  }

  async #hold(leased: LeasedItem, reason: string): Promise<void> {
    const { role, relayer, events } = this.#options
    const { railType, outboxId } = leased.item
    try {
      await holdLeasedOutboxItem(role, leased.item, relayer.workerId, reason)
      events.emit({ type: 'outbox.held', railType, outboxId, reason })
    } catch (error) {
      if (isLeaseLostError(error)) this.#markLost(leased)
      else events.emit({ type: 'outbox.fault', during: 'holding', error, outboxId })
    }
  }

  /** Counts a call as failed if no answer came. If the breaker is then open, releases the lane's waiting items. */
  #updateBreaker(lane: RailLane, answer: RailResult['kind'] | StatusResult['kind']): void {
    if (answer === 'unknown' || answer === 'notSent') lane.breaker.failed()
    else lane.breaker.succeeded()
    if (lane.breaker.state !== 'open') return
    const releasing = this.releaseWaiting([lane]).finally(() => this.#releasing.delete(releasing))
    this.#releasing.add(releasing)
  }

  /**
   * Releases leases without a call, on a best-effort basis: a lease that remains expires by itself. Repeats the release
   * of items that another transaction has locked, after the others are released.
   */
  async #release(items: readonly LeasedItem[]): Promise<void> {
    for (const leased of items) this.#renewer.remove(leased)
    let leases: readonly ClaimedItem[] = items.map(({ item }) => item)
    for (let tries = 1; leases.length > 0; tries += 1) {
      leases = await this.#releaseUnlocked(leases)
      if (leases.length === 0) return
      if (tries === RELEASE_TRIES_MAX) break
      await sleep(RELEASE_RETRY_MS)
    }
    for (const { outboxId } of leases) {
      const error = new Error('another transaction has locked the item; its lease expires by itself')
      this.#options.events.emit({ type: 'outbox.fault', during: 'releasing leases', error, outboxId })
    }
  }

  /** Returns the leases of the items that are locked. */
  async #releaseUnlocked(items: readonly ClaimedItem[]): Promise<readonly ClaimedItem[]> {
    const { role, relayer, events } = this.#options
    const locked: ClaimedItem[] = []
    for (let start = 0; start < items.length; start += RELEASES_MAX) {
      const leases = items.slice(start, start + RELEASES_MAX)
      try {
        const released = await releaseOutboxLeases(role, leases, relayer.workerId)
        const answered = released.filter((one) => one.released !== null)
        if (answered.length > 0) {
          events.emit({ type: 'outbox.released', items: answered.filter((one) => one.released).length })
        }
        locked.push(...leases.filter((_, index) => released[index]?.released === null))
      } catch (error) {
        events.emit({ type: 'outbox.fault', during: 'releasing leases', error })
      }
    }
    return locked
  }

  #createLane(rail: LoadedRail): RailLane {
    const { relayer, clock, events, onRailUp } = this.#options
    const { concurrency, batchSize, breakerFailures, breakerOpenMs } = relayer
    return new RailLane({
      rail,
      concurrency: Math.min(rail.concurrency ?? concurrency, concurrency),
      // A `hold` rail prefetches nothing, because a marked item that only waits would look like a call that was made.
      prefetchMax: rail.onUnknown === 'hold' ? 0 : batchSize,
      breaker: { failuresMax: breakerFailures, openMs: breakerOpenMs },
      clock,
      onBreaker: (state) => {
        events.emit({ type: 'outbox.breaker', railType: rail.type, state })
        if (state !== 'open') onRailUp()
      },
    })
  }
}

/** Error codes of this library. A rail's own codes are unbounded, and a metric label needs a short list. */
const OWN_CODES: ReadonlySet<string> = new Set(Object.values(RAIL_RESULT_CODES))
const ABORTED_CALLS_MS = 2_000
const RELEASES_MAX = 500
const RELEASE_RETRY_MS = 500
/** Maximum number of releases of a locked item. Together they wait about as long as a statement waits for a lock. */
const RELEASE_TRIES_MAX = 20
