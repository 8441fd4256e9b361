import { SymphonyError, systemClock, type Clock, type JsonObject } from '../core/index.js'
import type { Database } from '../db/index.js'
import type { LoadedRail } from '../rails/index.js'
import { Emitter, settleWithin, type Worker } from '../worker/index.js'
import type { OnRelayerEvent, RelayerEvent } from './events.js'
import { EpochFile } from './EpochFile.js'
import { HandlerTransactions } from './HandlerTransaction.js'
import { ItemClaimer } from './ItemClaimer.js'
import { ItemCompleter } from './ItemCompleter.js'
import { ItemDispatcher } from './ItemDispatcher.js'
import { resolveRelayerOptions, type RelayerOptions, type ResolvedRelayerOptions } from './options.js'
import { RelayerTally, type RelayerCounts } from './RelayerTally.js'
import { RestoreGuard } from './RestoreGuard.js'
import { WorkerHeartbeat } from './WorkerHeartbeat.js'

/**
 * Dispatches due items to their rails: claims as many items as it has capacity for, sends each item to its rail at most
 * once per lease, records each outcome once. `ItemClaimer`, `ItemDispatcher` and `ItemCompleter` do the work; each
 * passes items to the next.
 *
 * It guarantees three things. A call runs only under a trusted lease, and is aborted before that lease ends. An outcome
 * survives a short database outage. A stop releases the leases of items that were not sent. It does not guarantee one
 * rail call per item: after an unknown outcome the rail's `onUnknown` decides.
 */
export class OutboxRelayer implements Worker<RelayerCounts> {
  readonly workerId: string
  /** Time between two heartbeats. */
  readonly heartbeatMs: number
  readonly #options: ResolvedRelayerOptions
  readonly #events = new Emitter<RelayerEvent>()
  readonly #claimer: ItemClaimer
  readonly #dispatcher: ItemDispatcher
  readonly #completer: ItemCompleter
  readonly #heartbeat: WorkerHeartbeat

  constructor(
    database: Database,
    loadedRails: ReadonlyMap<string, LoadedRail>,
    options: RelayerOptions = {},
    onEvent?: OnRelayerEvent,
    clock: Clock = systemClock,
  ) {
    const rails = [...loadedRails.values()]
    const relayer = resolveRelayerOptions(options, rails)
    const { workerId, heartbeatMs, epochFile, handlerRole = database.login } = relayer
    this.workerId = workerId
    this.heartbeatMs = heartbeatMs
    this.#options = relayer
    if (onEvent !== undefined) this.#events.on(onEvent)
    const shared = { role: database.as(EXECUTOR), workerId, clock, events: this.#events, rails, relayer }
    this.#completer = new ItemCompleter({ ...shared, onDue: () => this.#claimer.wake() })
    const guard = new RestoreGuard({
      ...shared,
      heartbeatMs,
      epochFile: epochFile === undefined ? undefined : new EpochFile(epochFile),
      onFrozen: () => this.#dispatcher.releaseWaiting(),
    })
    this.#dispatcher = new ItemDispatcher({
      ...shared,
      completer: this.#completer,
      transactions: new HandlerTransactions({ ...shared, handlerRole, connectionsMax: database.connectionsMax }),
      onFrozen: () => guard.invalidate(),
      onSlotFree: () => this.#claimer.onSlotFree(),
      onRailUp: () => this.#claimer.wake(),
    })
    this.#claimer = new ItemClaimer({
      ...shared,
      database,
      guard,
      dispatcher: this.#dispatcher,
      isIdle: () => this.#dispatcher.running + this.#completer.size === 0,
    })
    this.#heartbeat = new WorkerHeartbeat({
      ...shared,
      heartbeatMs,
      readLoad: () => this.#readLoad(),
      onBeat: async (databaseNow, sentAtMs) => {
        this.#claimer.compareClocks(databaseNow, sentAtMs)
        await guard.check()
      },
    })
  }

  async start(): Promise<void> {
    this.#dispatcher.open()
    if (this.#options.listen) {
      await this.#claimer.listen()
      await this.#heartbeat.declareRailsAtStart()
    }
    this.#heartbeat.start()
    this.#claimer.start()
  }

  /** Stops claiming, releases waiting items, waits for running calls, records outcomes, and deregisters. */
  async stop(): Promise<void> {
    this.#dispatcher.close()
    // A claim on a dead connection ends only at its timeout, which may be later than the supervisor waits. It delays
    // neither the release of other leases nor the end of running calls.
    const claims = this.#claimer.stop()
    await settleWithin(claims, CLAIMS_MS)
    await this.#dispatcher.stop()
    const drained = this.#completer.drain()
    if (!(await settleWithin(drained, DRAIN_MS))) this.#completer.giveUp()
    await drained
    await settleWithin(claims, CLAIMS_MS)
    await this.#heartbeat.stop()
  }

  /** Runs one round: claims up to the free capacity, dispatches the items, records their outcomes. */
  async runOnce(): Promise<RelayerCounts> {
    const tally = new RelayerTally()
    const unsubscribe = this.#events.on((event) => tally.add(event))
    try {
      await this.#heartbeat.declareRails()
      await this.#claimer.claim()
      this.#dispatcher.startDispatches()
      await this.#dispatcher.idle()
      const isRecorded = await settleWithin(this.#completer.drain(), ROUND_DRAIN_MS)
      if (!this.#claimer.isRunning) await this.#dispatcher.rest()
      // The outcomes stay queued and are retried, but the caller must know that the database does not record them.
      if (!isRecorded) throw new CompletionsPendingError(this.#completer.size)
      return tally.counts
    } finally {
      unsubscribe()
    }
  }

  /**
   * Sends one heartbeat, for a fleet, which runs rounds instead of `start()`. A `runOnce()` sends none, so that a script
   * of one round does not count as an alive worker. `stop()` deregisters.
   */
  async beat(): Promise<void> {
    await this.#heartbeat.beat()
  }

  /**
   * Stops claiming for a rail in this process only, and releases its waiting items. `pause_outbox` does it for all
   * processes.
   */
  async pauseRail(railType: string): Promise<void> {
    const lane = this.#dispatcher.queue.findLane(railType)
    if (lane === undefined) return
    lane.pause()
    await this.#dispatcher.releaseWaiting([lane])
  }

  resumeRail(railType: string): void {
    this.#dispatcher.queue.findLane(railType)?.resume()
    this.#claimer.wake()
  }

  /** Numbers of items in this process, for gauges. */
  get gauge(): { readonly running: number; readonly waiting: number; readonly completing: number } {
    return {
      running: this.#dispatcher.running,
      waiting: this.#dispatcher.queue.waiting,
      completing: this.#completer.size,
    }
  }

  #readLoad(): JsonObject {
    const rails = this.#dispatcher.queue.lanes.map(({ railType, breaker, running }) => ({
      railType,
      breaker: breaker.state,
      calls: running,
    }))
    return { ...this.gauge, rails }
  }
}

/** Error of a round whose outcomes are not recorded yet. They stay queued and are retried. */
class CompletionsPendingError extends SymphonyError {
  constructor(count: number) {
    super(
      'COMPLETIONS_PENDING',
      `${count} outcomes not recorded within ${ROUND_DRAIN_MS / 1_000} s; they stay queued and are retried`,
      { remedy: 'Check the database connection.' },
    )
  }
}

const EXECUTOR = 'symphony_executor'
/** Longest wait of a stop for the claims under way. */
const CLAIMS_MS = 1_000
const DRAIN_MS = 5_000
const ROUND_DRAIN_MS = 10_000
