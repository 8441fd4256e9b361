import { randomUUID } from 'node:crypto'
import type { TestDatabase } from './database.js'

export interface LeaseRow {
  readonly resource: string
  readonly owner: string
  readonly lease_id: string | null
  readonly fencing_token: bigint
  readonly acquired_at: Date
  readonly renewed_at: Date
  readonly expires_at: Date
  readonly released_at: Date | null
  readonly context: unknown
}

/** Options of a lease that never expires during a test. */
export const LONG = { durationMs: 600_000 }

/** Options of a lease that never expires during a test and is renewed often. */
export const LIVELY = { ...LONG, renewEveryMs: 100 }

export function buildResource(): string {
  return `resource-${randomUUID()}`
}

export async function leaseRow(db: TestDatabase, resource: string): Promise<LeaseRow> {
  const { rows } = await db.queryNoRole<LeaseRow>('SELECT * FROM symphony_leases WHERE resource = $1', [resource])
  if (rows[0] === undefined) throw new Error(`${resource} has no row`)
  return rows[0]
}

/** Moves the expiry of a lease to `ago` before now. */
export async function expireResource(db: TestDatabase, resource: string, ago = '1 second'): Promise<void> {
  const { rows } = await db.queryNoRole(
    `UPDATE symphony_leases SET expires_at = clock_timestamp() - $2::interval WHERE resource = $1 RETURNING resource`,
    [resource, ago],
  )
  if (rows.length === 0) throw new Error(`${resource} has no lease to expire`)
}
