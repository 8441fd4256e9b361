import { isoMicros, qualify, type Queryable } from '../../db/index.js'
import type { BreakerState } from '../../worker/index.js'

export interface BreakerChange {
  readonly at: string
  readonly railType: string
  readonly workerId: string
  readonly from: BreakerState
  readonly to: BreakerState
}

/** Attempts that workers recorded in five minutes. */
export interface WorkerThroughput {
  readonly from: string
  readonly dispatched: number
  readonly failed: number
  /** Attempts that a retry follows, expired leases included. */
  readonly retried: number
}

export interface WorkerHistory {
  readonly breakerChanges: BreakerChange[]
  readonly throughput: WorkerThroughput[]
}

/**
 * Returns the last 20 changes of circuit breakers, and the attempts of the last hour per 5 minutes, each latest first.
 * Null selects all rails or all workers, stopped workers included.
 */
export async function readWorkerHistory(
  role: Queryable,
  { railType, workerId }: { readonly railType: string | null; readonly workerId: string | null },
): Promise<WorkerHistory> {
  const of = '($1::text IS NULL OR h.rail_type = $1) AND ($2::text IS NULL OR h.worker_id = $2)'
  const { rows: breakerChanges } = await role.query<BreakerChange>(
    `SELECT ${isoMicros('h.changed_at')} AS at, h.rail_type AS "railType", h.worker_id AS "workerId",
       h.from_state AS "from", h.to_state AS "to"
     FROM ${qualify(role, 'outbox_breaker_changes')} h WHERE ${of}
     ORDER BY h.changed_at DESC, h.rail_type, h.worker_id LIMIT 20`,
    [railType, workerId],
  )
  const { rows: throughput } = await role.query<WorkerThroughput>(
    `SELECT ${isoMicros('h.starts_at')} AS "from", sum(h.dispatched)::double precision AS dispatched,
       sum(h.failed)::double precision AS failed, sum(h.retried)::double precision AS retried
     FROM ${qualify(role, 'outbox_worker_series')} h
     WHERE h.starts_at > statement_timestamp() - interval '1 hour' AND ${of}
     GROUP BY h.starts_at ORDER BY h.starts_at DESC`,
    [railType, workerId],
  )
  return { breakerChanges, throughput }
}
