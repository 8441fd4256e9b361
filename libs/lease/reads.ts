import { boundedInteger } from '../core/index.js'
import { isoMicros, qualify, type Queryable } from '../db/index.js'
import type { LeaseState } from './types.js'

/** What people ask of leases: a page of them. Never a lease id. Times as text, to the microsecond. */

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
