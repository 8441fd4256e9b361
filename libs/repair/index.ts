/** Lease repair: returns the expired leases of crashed workers to the queue. */
export { LeaseRepairWorker } from './LeaseRepairWorker.js'
export type { LeaseRepairOptions, RepairCounts, RepairEvent } from './LeaseRepairWorker.js'
