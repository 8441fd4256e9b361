/**
 * Leases: at most one holder of a named resource, and a fencing token that grows with each grant and renewal.
 *
 * | state | moved by | a crash there leaves |
 * | --- | --- | --- |
 * | free (never held, released, expired) | `acquire` by any owner | nothing |
 * | held | its holder renews or releases it; the same owner may acquire it again; it expires | a lease that expires |
 *
 * SQL functions alone decide on the holder, by the database clock. A `Lease` renews itself. It aborts its signal before
 * the database grants the resource to another owner. Even if the database does not answer, a deadline in this process,
 * counted from before each request, aborts the signal. Renewal and release need the secret lease id, which never leaves
 * the `Lease`. The fencing token is not secret.
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
