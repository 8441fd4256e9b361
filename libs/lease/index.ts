/**
 * Leases: at most one holder of a named resource, and a number that grows with each.
 *
 * | state | who moves it on | a crash there leaves |
 * | --- | --- | --- |
 * | free (never held, released, expired) | `acquire` by anybody | nothing |
 * | held | its holder renews or releases it; the same owner may acquire it anew; time ends it | a lease that expires |
 *
 * The database alone decides who holds what, by its own clock; SQL functions are the only way to change it. A `Lease` renews
 * itself and watches a deadline of its own, counted from before each request: it aborts its signal before the database gives
 * the resource to another, also when the database is out of reach. The lease id, which never leaves the `Lease`, is what
 * renews and releases; the fencing token is for showing.
 */
export {
  acquireLease,
  purgeIdleLeases,
  readLeasePage,
  readLeases,
  readLeaseStats,
  releaseLease,
  renewLease,
} from './db.js'
export type { LeaseFilter, LeaseRow } from './db.js'
export type { LeaseEvent, OnLeaseEvent } from './events.js'
export { Lease } from './Lease.js'
export { Leases } from './Leases.js'
export { LostLeaseError } from './LostLeaseError.js'
export type { LossReason } from './LostLeaseError.js'
export type { AcquireOptions, LeaderOptions, LeasesOptions } from './options.js'
export type { LeaderFunction, Leadership } from './runAsLeader.js'
export type { LeaseRef, LeaseStats, LeaseGrant, LeaseRenewal, LeaseRequest, LeaseState, LeaseStatus } from './types.js'
