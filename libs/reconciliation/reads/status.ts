import { qualify, type Queryable } from '../../db/index.js'
import { FINDING_KINDS, type FindingKind } from '../types.js'

/** Open findings, and the age of the last run per rail, for metrics and alerts. */
export interface ReconciliationStatus {
  /** One entry per kind of finding, even without an open finding. */
  readonly findings: readonly OpenFindings[]
  /** Rails that were reconciled at least once, at most 1000. */
  readonly rails: readonly ReconciledRail[]
}

export interface OpenFindings {
  readonly kind: FindingKind
  /** Number of open findings, at most 10,000. */
  readonly open: bigint
  /** Age of the oldest critical finding of this kind; 0 without one. */
  readonly criticalAgeSeconds: number
}

export interface ReconciledRail {
  readonly rail: string
  /** Time since the last run. */
  readonly ageSeconds: number
}

/**
 * Reads the status as symphony_readonly, symphony_auditor or symphony_control. Counts at most 10,000 findings per kind.
 */
export async function readReconciliationStatus(role: Queryable): Promise<ReconciliationStatus> {
  const open = qualify(role, 'reconciliation_open_findings')
  // Pipelines both queries on one connection.
  const [findings, rails] = await Promise.all([
    role.query<OpenFindings>(
      `SELECT k.kind, n.open, COALESCE(extract(epoch FROM statement_timestamp() - c.first), 0)::double precision
         AS "criticalAgeSeconds"
       FROM unnest($1::text[]) WITH ORDINALITY AS k(kind, ordinal)
       CROSS JOIN LATERAL (
         SELECT count(*) AS open FROM (SELECT 1 FROM ${open} f WHERE f.kind = k.kind LIMIT 10000) f
       ) n
       LEFT JOIN LATERAL (
         SELECT f.created_at AS first FROM ${open} f WHERE f.kind = k.kind AND f.severity = 'critical'
         ORDER BY f.created_at LIMIT 1
       ) c ON true
       ORDER BY k.ordinal`,
      [FINDING_KINDS],
    ),
    role.query<ReconciledRail>(
      `SELECT r.rail_type AS rail,
         extract(epoch FROM statement_timestamp() - max(r.created_at))::double precision AS "ageSeconds"
       FROM ${qualify(role, 'reconciliation_runs')} r GROUP BY r.rail_type ORDER BY r.rail_type LIMIT 1000`,
      [],
    ),
  ])
  return { findings: findings.rows, rails: rails.rows }
}
