/** Lease repair: what a crashed worker leaves behind is a lease that expires, and this is who notices. */
export { LeaseRepairWorker } from './LeaseRepairWorker.js'
export type { RepairCounts, RepairEvent } from './LeaseRepairWorker.js'
export type { LeaseRepairOptions } from './options.js'
