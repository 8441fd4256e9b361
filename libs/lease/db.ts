import {
  BATCH_SIZE,
  boundedInteger,
  encodePayload,
  LEASE_DURATION_MS,
  requiredId,
  requiredUuid,
  type Bounds,
} from '../core/index.js'
import { call, isoMicros, qualify, type Queryable } from '../db/index.js'
import type { LeaseGrant, LeaseRef, LeaseRenewal, LeaseRequest, LeaseState, LeaseStats, LeaseStatus } from './types.js'

/**
 * Wrappers of the SQL functions of leases, with the same names. The first argument is
 * `database.as('symphony_executor')`. Do not pass a transaction: its lease takes effect only at COMMIT, and other
 * callers wait until then.
 */

/**
 * Acquires a lease. Returns null if another owner holds it. The same owner gets a new lease and loses its former one.
 */
export async function acquireLease(role: Queryable, request: LeaseRequest): Promise<LeaseGrant | null> {
  const { resource, owner, durationMs, context = {} } = request
  const [row] = await call<GrantRow>(role, 'acquire_lease', [
    requiredId('resource', resource),
    requiredId('owner', owner),
    boundedInteger('durationMs', durationMs, LEASE_DURATION_MS),
    encodePayload(context, 'context'),
  ])
  if (row === undefined) return null
  return { leaseId: row.lease_id, ...toRenewal(row), acquiredAt: new Date(row.acquired_at) }
}

/** Renews a lease. Returns null if it is lost. */
export async function renewLease(role: Queryable, claim: LeaseRef, durationMs: number): Promise<LeaseRenewal | null> {
  const [row] = await call<RenewalRow>(role, 'renew_lease', [
    ...claimValues(claim),
    boundedInteger('durationMs', durationMs, LEASE_DURATION_MS),
  ])
  return row === undefined ? null : toRenewal(row)
}

/** Releases a lease. Returns false and changes nothing if the lease was already lost. */
export async function releaseLease(role: Queryable, claim: LeaseRef): Promise<boolean> {
  const rows = await call<{ release_lease: boolean }>(role, 'release_lease', claimValues(claim))
  return rows[0]?.release_lease === true
}

/**
 * Deletes up to `batchSize` leases that ended at least `idleSeconds` ago. Returns their number. Later leases of these
 * resources still get greater fencing tokens.
 */
export async function purgeIdleLeases(role: Queryable, idleSeconds: number, batchSize: number): Promise<number> {
  const rows = await call<{ purge_idle_leases: number }>(role, 'purge_idle_leases', [
    boundedInteger('idleSeconds', idleSeconds, IDLE_SECONDS),
    boundedInteger('batchSize', batchSize, BATCH_SIZE),
  ])
  return rows[0]?.purge_idle_leases ?? 0
}

export interface LeaseFilter {
  /** Whether to include released leases. @default false */
  readonly released?: boolean
  /** Maximum number of leases. @default 1000 */
  readonly limit?: number
}

/** Returns leases sorted by resource name, as symphony_readonly, symphony_auditor or symphony_control. */
export async function readLeases(role: Queryable, filter: LeaseFilter = {}): Promise<LeaseStatus[]> {
  const { released = false, limit = BATCH_SIZE.max } = filter
  const { rows } = await role.query<LeaseStatus>(
    `SELECT resource, owner,
       CASE WHEN released_at IS NOT NULL THEN 'RELEASED' WHEN expires_at <= clock_timestamp() THEN 'EXPIRED' ELSE 'HELD' END
         AS state,
       fencing_token AS "fencingToken", acquired_at AS "acquiredAt", renewed_at AS "renewedAt", expires_at AS "expiresAt"
     FROM ${qualify(role, 'symphony_leases')} WHERE released_at IS NULL OR $1 ORDER BY resource COLLATE "C" LIMIT $2`,
    [released, boundedInteger('limit', limit, BATCH_SIZE)],
  )
  return rows
}

export async function readLeaseStats(role: Queryable): Promise<LeaseStats> {
  const { rows } = await role.query<LeaseStats>(
    `SELECT held_count AS "heldCount", expired_count AS "expiredCount" FROM ${qualify(role, 'supervisor_lease_status')}`,
  )
  return rows[0] ?? { heldCount: 0n, expiredCount: 0n }
}

/** Row of a renewal. The caller's own client may return an int8 or a time as text. */
interface RenewalRow {
  readonly fencing_token: bigint | number | string
  readonly expires_at: Date | string
}

interface GrantRow extends RenewalRow {
  readonly lease_id: string
  readonly acquired_at: Date | string
}

function toRenewal(row: RenewalRow): LeaseRenewal {
  return { fencingToken: BigInt(row.fencing_token), expiresAt: new Date(row.expires_at) }
}

function claimValues({ resource, owner, leaseId }: LeaseRef): readonly string[] {
  return [requiredId('resource', resource), requiredId('owner', owner), requiredUuid('leaseId', leaseId)]
}

/** Seconds, from one hour to ten years. */
const IDLE_SECONDS: Bounds = Object.freeze({ min: 3_600, max: 315_360_000 })

/** Row of a page, without the lease id. Times are text with microseconds. */
export interface LeaseRow {
  readonly resource: string
  readonly owner: string
  readonly state: LeaseState
  readonly fencingToken: string
  readonly acquiredAt: string
  readonly renewedAt: string
  readonly expiresAt: string
}

/** Returns a page of leases by resource, as symphony_readonly, symphony_auditor or symphony_control. */
export async function readLeasePage(
  role: Queryable,
  { released, after, limit }: { released: boolean; after?: string | undefined; limit: number },
): Promise<LeaseRow[]> {
  const { rows } = await role.query<LeaseRow>(
    `SELECT resource, owner,
       CASE WHEN released_at IS NOT NULL THEN 'RELEASED' WHEN expires_at <= statement_timestamp() THEN 'EXPIRED'
         ELSE 'HELD' END AS state,
       fencing_token::text AS "fencingToken", ${isoMicros('acquired_at')} AS "acquiredAt",
       ${isoMicros('renewed_at')} AS "renewedAt", ${isoMicros('expires_at')} AS "expiresAt"
     FROM ${qualify(role, 'symphony_leases')}
     WHERE (released_at IS NULL OR $1) AND resource COLLATE "C" > $2 COLLATE "C"
     ORDER BY resource COLLATE "C" LIMIT $3`,
    [released, after ?? '', boundedInteger('limit', limit, PAGE)],
  )
  return rows
}

const PAGE = Object.freeze({ min: 1, max: 501 })
