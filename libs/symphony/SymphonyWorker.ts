import {
  createWorkerId,
  InvalidArgumentError,
  kindOf,
  requiredObject,
  SymphonyError,
  type Clock,
} from '../core/index.js'
import type { Database } from '../db/index.js'
import { InboxWorker, type InboxHandler, type InboxWorkerOptions } from '../inbox/index.js'
import { LedgerProjector, LedgerSealer, LedgerVerifier } from '../ledger/index.js'
import { requireMasterKeys, type MasterKeys } from '../protection/index.js'
import { EpochFile, OutboxRelayer, type RelayerCounts, type RelayerOptions } from '../outbox/index.js'
import { CleanupWorker, toFleetWorker, type FleetWorker, type RetentionOptions } from '../platform/index.js'
import type { LoadedRail } from '../rails/index.js'
import { LeaseRepairWorker } from '../repair/index.js'
import { SchedulerWorker, type SchedulerOptions } from '../scheduler/index.js'
import { settleWithin, type Worker as Part } from '../worker/index.js'
import type { SymphonyEvent } from './Events.js'

/** Maintenance that every database needs. Any number of processes may run it at once. */
export interface MaintenanceOptions {
  /** Whether to return expired leases to the queue. @default true */
  readonly repair?: boolean
  /** Whether to seal and verify the ledger, and to project it for search and charts. @default true */
  readonly sealing?: boolean
  /** Interval of lease repair. @default 60000 */
  readonly repairIntervalMs?: number
  /** Maximum number of leases per call of lease repair. @default 100 */
  readonly repairBatchSize?: number
  /** Interval of sealing and projection. @default 1000 */
  readonly sealIntervalMs?: number
  /** Rows per second that all workers together verify in the background; 0 turns verification off. @default 2000 */
  readonly verifyRowsPerSecond?: number
  /** Interval of retention, 1000 to 86400000 ms. @default 3600000 */
  readonly cleanupIntervalMs?: number
  /**
   * Days after which finished rows are removed, 1 to 3650; false removes none. @default 30 for each kind, 400 for the
   * search table
   */
  readonly retention?: RetentionOptions | false
}

export interface InboxWork extends Omit<InboxWorkerOptions, 'handlerRole'> {
  readonly handlers: Readonly<Record<string, InboxHandler>>
  /** Role in which handlers run. @default the worker's handlerRole */
  readonly handlerRole?: string
}

/** Parts of a worker. An absent part does not run. */
export interface WorkerPlan {
  readonly database: Database
  /** Login of the database. Handlers run with its rights, unless a `handlerRole` is given. */
  readonly login: string
  /** Rails with an adapter, and topics. Without any, no payment is dispatched. */
  readonly rails: ReadonlyMap<string, LoadedRail>
  /** Rails of this worker only, which it closes when it stops. */
  readonly ownRails: readonly LoadedRail[]
  readonly vault: MasterKeys | undefined
  readonly relayer: RelayerOptions
  readonly inbox: InboxWork | undefined
  readonly scheduler: SchedulerOptions | undefined
  readonly maintenance: MaintenanceOptions | undefined
  readonly clock: Clock | undefined
  readonly emit: (event: SymphonyEvent) => void
}

/** Counts of one round, payments and messages together. */
export interface WorkerCounts extends RelayerCounts {
  /** Inbox messages that were claimed, including those of topics without a handler. */
  readonly inboxClaimed: number
  /** Inbox messages whose handler committed. */
  readonly handled: number
  /** Messages created from due timers and jobs. */
  readonly scheduled: number
  /** Ledger rows that were sealed. */
  readonly sealed: number
}

/** Returns one fleet worker per part of this worker, each with its own interval. */
export let roundsOf: (worker: SymphonyWorker) => readonly FleetWorker[]

/**
 * Relayer, inbox worker, scheduler, lease repair, sealing, projection, verification and retention of one database,
 * started and stopped together. `stop` waits within the limits of each part.
 */
export class SymphonyWorker implements Part<WorkerCounts>, AsyncDisposable {
  static {
    roundsOf = (worker) => worker.#rounds
  }

  /** Name of this worker in leases and in the ledger. */
  readonly workerId: string
  readonly #plan: WorkerPlan
  readonly #relayer: OutboxRelayer | undefined
  readonly #inbox: InboxWorker | undefined
  readonly #scheduler: SchedulerWorker | undefined
  readonly #repair: LeaseRepairWorker | undefined
  readonly #sealer: LedgerSealer | undefined
  readonly #projector: LedgerProjector | undefined
  readonly #verifier: LedgerVerifier | undefined
  readonly #cleanup: CleanupWorker | undefined
  readonly #onStop: () => void
  #isChecked = false
  #started: Promise<void> | undefined
  #stopped: Promise<void> | undefined

  constructor(plan: WorkerPlan, onStop: () => void) {
    const { database, rails, inbox, scheduler, maintenance, clock, emit } = plan
    const executor = database.as('symphony_executor')
    this.workerId = plan.relayer.workerId ?? createWorkerId()
    this.#plan = plan
    this.#onStop = onStop
    const relayer = { ...plan.relayer, workerId: this.workerId }
    this.#relayer = rails.size === 0 ? undefined : new OutboxRelayer(database, rails, relayer, emit, clock)
    this.#inbox = inbox && createInbox(plan, inbox)
    this.#scheduler = scheduler && new SchedulerWorker(database, scheduler, emit, clock)
    if (maintenance !== undefined) {
      const { repair = true, sealing = true, retention = {} } = maintenance
      const { repairIntervalMs, repairBatchSize, sealIntervalMs } = maintenance
      const { verifyRowsPerSecond = 2_000, cleanupIntervalMs: intervalMs = 3_600_000 } = maintenance
      if (repair) {
        const options = {
          ...(repairIntervalMs === undefined ? {} : { intervalMs: repairIntervalMs }),
          ...(repairBatchSize === undefined ? {} : { batchSize: repairBatchSize }),
          workerId: this.workerId,
        }
        this.#repair = new LeaseRepairWorker(executor, options, emit)
      }
      if (sealing) {
        const options = sealIntervalMs === undefined ? {} : { intervalMs: sealIntervalMs }
        this.#sealer = new LedgerSealer(executor, options, emit)
        this.#projector = new LedgerProjector(executor, options, emit)
        if (verifyRowsPerSecond > 0)
          this.#verifier = new LedgerVerifier(executor, { rowsPerSecond: verifyRowsPerSecond }, emit)
      }
      if (retention !== false) this.#cleanup = new CleanupWorker(executor, { intervalMs, retention }, emit)
    }
    if (this.#parts.length === 0) throw new NothingToDoError()
  }

  /** Types of the rails and topics that this worker dispatches. */
  get railTypes(): readonly string[] {
    return [...this.#plan.rails.keys()]
  }

  /** Starts the parts. A stopped worker cannot start again. */
  start(): Promise<void> {
    if (this.#stopped !== undefined) return Promise.reject(new WorkerStoppedError('symphony.worker()'))
    this.#started ??= this.#start()
    return this.#started
  }

  /**
   * Releases leases without a started call, and waits for a running start, running calls and handlers. Safe to call
   * before `start`, and twice.
   */
  stop(): Promise<void> {
    this.#stopped ??= this.#stop()
    return this.#stopped
  }

  /**
   * Runs one round of each part but verification and retention: due timers and jobs, expired leases, payments and
   * messages, sealing and projection.
   */
  async runOnce(): Promise<WorkerCounts> {
    if (this.#stopped !== undefined) throw new WorkerStoppedError('symphony.worker()')
    await this.#check()
    const scheduled = await this.#scheduler?.runOnce()
    await this.#repair?.runOnce()
    const [counts, inbox] = await Promise.all([this.#relayer?.runOnce(), this.#inbox?.runOnce()])
    const sealed = await this.#sealer?.runOnce()
    await this.#projector?.runOnce()
    return {
      ...(counts ?? NO_ITEMS),
      inboxClaimed: inbox?.claimed ?? 0,
      handled: inbox?.done ?? 0,
      scheduled: (scheduled?.runsEnqueued ?? 0) + (scheduled?.timersEnqueued ?? 0),
      sealed: sealed?.rows ?? 0,
    }
  }

  /** Starts, waits until the signal aborts, and stops. */
  run(options: { readonly signal: AbortSignal }): Promise<void> {
    return runUntilAborted(this, options)
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop()
  }

  get #parts(): readonly Part<unknown>[] {
    const parts = [
      this.#relayer,
      this.#inbox,
      this.#scheduler,
      this.#repair,
      this.#sealer,
      this.#projector,
      this.#verifier,
      this.#cleanup,
    ]
    return parts.filter((part) => part !== undefined)
  }

  get #rounds(): readonly FleetWorker[] {
    const {
      repairIntervalMs = 60_000,
      sealIntervalMs = 1_000,
      cleanupIntervalMs = 3_600_000,
    } = this.#plan.maintenance ?? {}
    const round = <Counts>(
      name: string,
      part: Pick<Part<Counts>, 'runOnce'> | undefined,
      isBusy: (counts: Counts) => boolean,
      everyMs?: number,
    ): FleetWorker[] => {
      if (part === undefined) return []
      const runOnce = async () => {
        await this.#check()
        return part.runOnce()
      }
      return [toFleetWorker(name, { runOnce, stop: () => this.stop() }, isBusy, everyMs)]
    }
    const relayer = this.#relayer
    // Has its own interval, because a round of the relayer lasts as long as its longest call.
    const heartbeat = relayer && {
      runOnce: async () => {
        // A heartbeat after the stop would register the worker again.
        if (this.#stopped === undefined) await relayer.beat()
      },
    }
    return [
      ...round('heartbeat', heartbeat, () => false, relayer?.heartbeatMs),
      ...round('relayer', this.#relayer, ({ claimed }) => claimed > 0),
      ...round('inbox', this.#inbox, ({ claimed }) => claimed > 0),
      ...round('scheduler', this.#scheduler, ({ more }) => more),
      ...round('repair', this.#repair, () => false, repairIntervalMs),
      ...round('sealer', this.#sealer, ({ more }) => more, sealIntervalMs),
      ...round('projector', this.#projector, ({ more }) => more, sealIntervalMs),
      // Polls again at once after a verified part, because the database itself limits the rate of verification.
      ...round('verifier', this.#verifier, (verified) => verified !== undefined, VERIFY_INTERVAL_MS),
      ...round('cleanup', this.#cleanup, ({ more }) => more, cleanupIntervalMs),
    ]
  }

  /** Fails before the first claim if a master key is missing or the epoch file is unreadable. */
  async #check(): Promise<void> {
    if (this.#isChecked) return
    const { database, rails, vault, relayer } = this.#plan
    await requireMasterKeys(database.as('symphony_executor'), rails, vault)
    if (relayer.epochFile !== undefined) await new EpochFile(relayer.epochFile).load()
    this.#isChecked = true
  }

  async #start(): Promise<void> {
    try {
      await this.#check()
      for (const part of this.#parts) {
        // stop() waits for this start, and then stops the parts that run.
        if (this.#stopped !== undefined) return
        await part.start()
      }
    } catch (error) {
      // Lets the next call of `start` try again.
      this.#started = undefined
      throw error
    }
  }

  async #stop(): Promise<void> {
    await this.#started?.catch(() => {})
    await Promise.all(this.#parts.map((part) => part.stop()))
    await closeRails(this.#plan.ownRails)
    this.#onStop()
  }
}

/** Closes rails. Does not fail or wait for ever if a rail fails to close or hangs, so that the process can stop. */
export async function closeRails(rails: readonly LoadedRail[]): Promise<void> {
  await settleWithin(Promise.allSettled(rails.map((rail) => rail.close())), RAILS_CLOSE_MS)
}

function createInbox({ database, login, relayer, clock, emit }: WorkerPlan, inbox: InboxWork): InboxWorker {
  const { handlers, handlerRole = relayer.handlerRole ?? login, ...options } = inbox
  return new InboxWorker(database, handlers, { ...options, handlerRole }, emit, clock)
}

/**
 * Starts a worker, waits until the signal aborts, and stops it. The signal is required, because nothing else ends the
 * run.
 */
export async function runUntilAborted(
  worker: { start(): Promise<void>; stop(): Promise<void> },
  options: { readonly signal: AbortSignal },
): Promise<void> {
  const { signal } = requiredObject('options', options, '{ signal } with an AbortSignal that ends the run')
  if (!(signal instanceof AbortSignal)) {
    throw new InvalidArgumentError('signal', `expected an AbortSignal that ends the run, got ${kindOf(signal)}`)
  }
  try {
    if (signal.aborted) return
    const aborted = new Promise<void>((resolve) => {
      signal.addEventListener('abort', () => resolve(), { once: true })
    })
    // A start may never end, for example because of discovery. `stop` limits its wait for the start.
    await Promise.race([worker.start(), aborted])
    await aborted
  } finally {
    await worker.stop()
  }
}

/** A worker was started, or asked for a round, after it was stopped. */
export class WorkerStoppedError extends SymphonyError {
  constructor(createWorker: string) {
    super('WORKER_STOPPED', 'this worker was stopped, and cannot run again', {
      remedy: `Create another worker with ${createWorker}.`,
    })
  }
}

class NothingToDoError extends SymphonyError {
  constructor() {
    super('NOTHING_TO_DO', 'worker: no rail has an adapter, and no topic, inbox, scheduler or maintenance is given', {
      remedy: 'Give the Symphony a rail with dispatch, or the worker topics, inbox, scheduler or maintenance.',
    })
  }
}

const RAILS_CLOSE_MS = 1_000
const VERIFY_INTERVAL_MS = 10_000
const NO_ITEMS: RelayerCounts = Object.freeze({
  claimed: 0,
  dispatched: 0,
  failed: 0,
  retryable: 0,
  held: 0,
  released: 0,
  leasesLost: 0,
})
