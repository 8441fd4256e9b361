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
 * The functions of leases, one wrapper each, under the same name. Each takes first who asks: `database.as('symphony_executor')`.
 * Inside a transaction a lease is nobody's until COMMIT, and whoever else asks for the resource waits: give them a role, not
 * a transaction.
 */

/** Null: another owner holds it. The same owner gets it anew, and what it held before is lost. */
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

/** Null: it is lost, or never was this owner's. */
export async function renewLease(role: Queryable, claim: LeaseRef, durationMs: number): Promise<LeaseRenewal | null> {
  const [row] = await call<RenewalRow>(role, 'renew_lease', [
    ...claimValues(claim),
    boundedInteger('durationMs', durationMs, LEASE_DURATION_MS),
  ])
  return row === undefined ? null : toRenewal(row)
}

/** False: it was lost already, and nothing was changed. */
export async function releaseLease(role: Queryable, claim: LeaseRef): Promise<boolean> {
  const rows = await call<{ release_lease: boolean }>(role, 'release_lease', claimValues(claim))
  return rows[0]?.release_lease === true
}

/** Removes leases that ended at least so long ago. Returns their number. Fencing tokens of these resources keep growing. */
export async function purgeIdleLeases(role: Queryable, idleSeconds: number, batchSize: number): Promise<number> {
  const rows = await call<{ purge_idle_leases: number }>(role, 'purge_idle_leases', [
    boundedInteger('idleSeconds', idleSeconds, IDLE_SECONDS),
    boundedInteger('batchSize', batchSize, BATCH_SIZE),
  ])
  return rows[0]?.purge_idle_leases ?? 0
}

export interface LeaseFilter {
  /** Whether to list what was released too. @default false */
  readonly released?: boolean
  /** @default 1000 */
  readonly limit?: number
}

/** As symphony_readonly, symphony_auditor or symphony_control. In the order of their names. */
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

/** The client may be the caller's own, so an int8 or a time may arrive as text. */
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

/** An hour to ten years. */
const IDLE_SECONDS: Bounds = Object.freeze({ min: 3_600, max: 315_360_000 })

/** One lease of a page: no lease id, times as text to the microsecond. */
export interface LeaseRow {
  readonly resource: string
  readonly owner: string
  readonly state: LeaseState
  readonly fencingToken: string
  readonly acquiredAt: string
  readonly renewedAt: string
  readonly expiresAt: string
}

/** As symphony_readonly, symphony_auditor or symphony_control. By resource. */
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
