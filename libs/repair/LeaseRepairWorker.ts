import { BATCH_SIZE, boundedInteger, createWorkerId, requiredId } from '../core/index.js'
import type { Queryable } from '../db/index.js'
import { repairExpiredLeases, type UnrepairedLease } from '../outbox/index.js'
import { guardListener, IntervalWorker } from '../worker/index.js'

export interface LeaseRepairOptions {
  /** Name of this worker in the ledger. @default host, pid and a UUID made at start */
  readonly workerId?: string
  /**
   * Interval between runs. Without an active relayer, an item waits at most this long after its lease expires. @default
   * 60000
   */
  readonly intervalMs?: number
  /** Maximum number of leases per call. A run repeats the call until a call returns fewer leases. @default 100 */
  readonly batchSize?: number
}

export interface RepairCounts {
  readonly expiredLeasesDetected: number
  readonly leasesRepaired: number
  /** First hundred repaired items, to bound a log line. */
  readonly outboxIds: readonly string[]
  /** Number of held items by hold reason: the retry ceiling, or a dispatch mark. */
  readonly holdsPlaced: Readonly<Record<string, number>>
  readonly leasesUnrepaired: number
  /** First hundred items that could not be repaired, each with the attempt that could not be recorded. */
  readonly unrepaired: readonly UnrepairedLease[]
}

export type RepairEvent =
  /** Expired leases were returned to the queue, or held. */
  | ({ readonly type: 'repair.repaired' } & Omit<RepairCounts, 'leasesUnrepaired' | 'unrepaired'>)
  /** Expired leases could not be returned to the queue. They stay leased, and every run finds them again. */
  | ({ readonly type: 'repair.unrepaired' } & Pick<RepairCounts, 'leasesUnrepaired' | 'unrepaired'>)
  /** A run failed. The next run repairs the same leases. */
  | { readonly type: 'repair.fault'; readonly during: string; readonly error: unknown }

/**
 * Returns expired leases to the queue and records each in the ledger. The database decides whether to requeue or to
 * hold an item. Another instance, or the next claim, may repair a lease first; each lease is repaired once.
 */
export class LeaseRepairWorker extends IntervalWorker<RepairCounts> {
  readonly #role: Queryable
  readonly #options: Required<LeaseRepairOptions>
  readonly #onEvent: (event: RepairEvent) => void

  constructor(role: Queryable, options: LeaseRepairOptions = {}, onEvent: (event: RepairEvent) => void = () => {}) {
    const guarded = guardListener(onEvent)
    const resolved = resolveLeaseRepairOptions(options)
    super({
      intervalMs: resolved.intervalMs,
      hasMore: () => false,
      onError: (error) => guarded({ type: 'repair.fault', during: 'repairing leases', error }),
    })
    this.#role = role
    this.#options = resolved
    this.#onEvent = guarded
  }

  async runOnce(): Promise<RepairCounts> {
    const { batchSize, workerId } = this.#options
    const outboxIds: string[] = []
    const holdsPlaced: Record<string, number> = {}
    // One entry per item, because every batch of a run reports the same items again.
    const failed = new Map<string, UnrepairedLease>()
    const onUnrepaired = (lease: UnrepairedLease) => failed.set(lease.outboxId, lease)
    let leasesRepaired = 0
    for (;;) {
      const batch = await repairExpiredLeases(this.#role, batchSize, workerId, { onUnrepaired })
      leasesRepaired += batch.length
      outboxIds.push(...batch.slice(0, IDS_SHOWN_MAX - outboxIds.length).map(({ outboxId }) => outboxId))
      for (const { placedHold } of batch) {
        if (placedHold !== undefined) holdsPlaced[placedHold] = (holdsPlaced[placedHold] ?? 0) + 1
      }
      if (batch.length < batchSize) break
    }
    const leasesUnrepaired = failed.size
    const unrepaired = [...failed.values()].slice(0, IDS_SHOWN_MAX)
    const expiredLeasesDetected = leasesRepaired + leasesUnrepaired
    const repaired = { expiredLeasesDetected, leasesRepaired, outboxIds, holdsPlaced }
    if (leasesRepaired > 0) this.#onEvent({ type: 'repair.repaired', ...repaired })
    if (leasesUnrepaired > 0) this.#onEvent({ type: 'repair.unrepaired', leasesUnrepaired, unrepaired })
    return { ...repaired, leasesUnrepaired, unrepaired }
  }
}

const IDS_SHOWN_MAX = 100

function resolveLeaseRepairOptions(given: LeaseRepairOptions): Required<LeaseRepairOptions> {
  return {
    workerId: requiredId('workerId', given.workerId ?? createWorkerId()),
    intervalMs: boundedInteger('intervalMs', given.intervalMs ?? 60_000, { min: 100, max: 3_600_000 }),
    batchSize: boundedInteger('batchSize', given.batchSize ?? 100, BATCH_SIZE),
  }
}
