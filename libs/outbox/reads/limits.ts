import { requiredUuid } from '../../core/index.js'
import { isoMicros, qualify, type Queryable } from '../../db/index.js'
import type { LimitProposalView, LimitsView, LimitView } from '../views.js'

/** Returns the limits in force by name, with the usage of their windows, and the open proposals, newest first. */
export async function readLimits(role: Queryable): Promise<LimitsView> {
  const limits = await role.query<LimitView>(
    `SELECT l.limit_name AS name, l.kind, l.rail_type AS "railType", l.participant_id AS "participantId", l.currency,
       l.limit_value::text AS "limit", l.window_seconds AS "windowSeconds", l.approvals, l.set_by AS "setBy",
       ${isoMicros('l.set_at')} AS "setAt",
       CASE WHEN l.window_seconds IS NOT NULL THEN COALESCE(u.used, 0)::text END AS used,
       CASE WHEN u.exceeded_at >= l.set_at THEN ${isoMicros('u.exceeded_at')} END AS "exceededAt"
     FROM ${qualify(role, 'outbox_limits')} l
     CROSS JOIN LATERAL (
       SELECT sum(s.used) AS used, max(s.exceeded_at) AS exceeded_at FROM ${qualify(role, 'outbox_limit_usage')} s
       WHERE s.limit_name = l.limit_name AND s.expires_at > statement_timestamp()
     ) u
     ORDER BY l.limit_name COLLATE "C" LIMIT 10000`,
  )
  const proposals = await role.query<LimitProposalView>(
    `SELECT q.proposal_id AS "proposalId", q.limit_name AS name,
       CASE WHEN q.rule IS NOT NULL THEN json_build_object('kind', q.rule ->> 'kind', 'railType', q.rule ->> 'rail_type',
         'participantId', q.rule ->> 'participant_id', 'currency', q.rule ->> 'currency',
         'limit', q.rule ->> 'limit_value', 'windowSeconds', (q.rule ->> 'window_seconds')::integer,
         'approvals', (q.rule ->> 'approvals')::integer) END AS rule,
       q.reason, q.proposed_by AS "proposedBy", ${isoMicros('q.proposed_at')} AS "proposedAt"
     FROM ${qualify(role, 'outbox_limit_proposals')} q
     WHERE q.status = 'OPEN' ORDER BY q.proposal_id DESC LIMIT 10000`,
  )
  return { limits: limits.rows, proposals: proposals.rows }
}

/** Returns whether this is the id of a proposal of a limit, open or decided. */
export async function isLimitProposal(role: Queryable, proposalId: string): Promise<boolean> {
  const { rows } = await role.query(`SELECT FROM ${qualify(role, 'outbox_limit_proposals')} WHERE proposal_id = $1`, [
    requiredUuid('proposalId', proposalId),
  ])
  return rows.length > 0
}
