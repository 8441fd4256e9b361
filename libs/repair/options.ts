import { BATCH_SIZE, boundedInteger, createWorkerId, requiredId } from '../core/index.js'

export interface LeaseRepairOptions {
  /** @default host, pid and a UUID made at start */
  readonly workerId?: string
  /** How often to look for expired leases. With no relayer awake, an item waits at most this long after its lease. @default 60000 */
  readonly intervalMs?: number
  /** Leases per call. A run repeats until a call finds fewer. @default 100 */
  readonly batchSize?: number
}

export function resolveLeaseRepairOptions(given: LeaseRepairOptions): Required<LeaseRepairOptions> {
  return {
    workerId: requiredId('workerId', given.workerId ?? createWorkerId()),
    intervalMs: boundedInteger('intervalMs', given.intervalMs ?? 60_000, { min: 100, max: 3_600_000 }),
    batchSize: boundedInteger('batchSize', given.batchSize ?? 100, BATCH_SIZE),
  }
}
