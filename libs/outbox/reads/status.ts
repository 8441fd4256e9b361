import { minUuidV7At, isoMicros, onlyRow, qualify, type Queryable } from '../../db/index.js'
import type { FieldClasses } from '../../rails/index.js'
import type { DispatchEpoch, ItemStatus, OutboxStatus } from '../statusTypes.js'
import type { FreezeCause } from '../types.js'
import type { LatestAttempts, PauseView, RailQueue, ThroughputView, WorkerReport } from '../views.js'

/**
 * Empty list of values. A query with a list, even an empty one, is prepared. These queries run every second, and
 * planning costs as much as execution.
 */
const PREPARED: readonly unknown[] = []

export async function readOutboxStatus(role: Queryable): Promise<OutboxStatus> {
  const { rows } = await role.query<OutboxStatus>(
    `
    SELECT pending_count AS "pendingCount", due_unleased_count AS "dueUnleasedCount", leased_count AS "leasedCount",
      expired_lease_count AS "expiredLeaseCount", scheduled_count AS "scheduledCount", blocked_count AS "blockedCount",
      held_count AS "heldCount", oldest_pending_age_seconds AS "oldestPendingAgeSeconds",
      oldest_due_age_seconds AS "oldestDueAgeSeconds", dispatched_total AS "dispatchedTotal",
      retryable_total AS "retryableTotal", failed_total AS "failedTotal", zombie_requeue_total AS "zombieRequeueTotal",
      dispatched_last_hour AS "dispatchedLastHour", retryable_last_hour AS "retryableLastHour",
      failed_last_hour AS "failedLastHour", dlq_depth AS "dlqDepth", outcome_unknown_count AS "outcomeUnknownCount",
      held_outcome_unknown_count AS "heldOutcomeUnknownCount", held_failed_unknown_count AS "heldFailedUnknownCount",
      held_retry_ceiling_count AS "heldRetryCeilingCount", held_lease_expiry_count AS "heldLeaseExpiryCount",
      held_earlier_paid_count AS "heldEarlierPaidCount", held_other_count AS "heldOtherCount",
      workers_alive_count AS "workersAliveCount", held_field_key_missing_count AS "heldFieldKeyMissingCount",
      held_field_key_destroyed_count AS "heldFieldKeyDestroyedCount",
      held_field_unreadable_count AS "heldFieldUnreadableCount",
      held_reference_invalid_count AS "heldReferenceInvalidCount",
      held_amount_approval_count AS "heldAmountApprovalCount", held_limit_exceeded_count AS "heldLimitExceededCount",
      held_limit_unreadable_count AS "heldLimitUnreadableCount", contradictions_total AS "contradictionsTotal",
      unreviewed_contradiction_count AS "unreviewedContradictionCount",
      oldest_unreviewed_contradiction_age_seconds AS "oldestUnreviewedContradictionAgeSeconds",
      oldest_hold_age_seconds AS "oldestHoldAgeSeconds", oldest_expired_lease_age_seconds AS "oldestExpiredLeaseAgeSeconds",
      due_without_worker_seconds AS "dueWithoutWorkerSeconds", dispatched_recently AS "dispatchedRecently",
      retryable_recently AS "retryableRecently", failed_recently AS "failedRecently",
      retryable_recently_age_seconds AS "retryableRecentlyAgeSeconds", failed_recently_age_seconds AS "failedRecentlyAgeSeconds",
      last_unknown_code_age_seconds AS "lastUnknownCodeAgeSeconds", last_clock_jump_age_seconds AS "lastClockJumpAgeSeconds",
      ledger_break_count AS "ledgerBreakCount", ledger_verified_at AS "ledgerVerifiedAt",
      ledger_broken_age_seconds AS "ledgerBrokenAgeSeconds", oldest_unfinished_age_seconds AS "oldestUnfinishedAgeSeconds",
      all_paused_age_seconds AS "allPausedAgeSeconds", returned_total AS "returnedTotal",
      cancelled_total AS "cancelledTotal", cancelled_last_hour AS "cancelledLastHour",
      held_outcome_not_delivered_count AS "heldOutcomeNotDeliveredCount", kinds, counts_age_seconds AS "countsAgeSeconds"
    FROM ${qualify(role, 'supervisor_outbox_status')}`,
    PREPARED,
  )
  return onlyRow(rows)
}

/** Returns the current epoch, or undefined before the first claim or check. */
export async function readDispatchEpoch(role: Queryable): Promise<DispatchEpoch | undefined> {
  const { rows } = await role.query<DispatchEpoch>(
    `
    SELECT epoch_no AS "epochNo", began_at AS "beganAt", system_identifier AS "systemIdentifier", timeline,
      beat_no AS "beatNo", beat_at AS "beatAt", synchronous, frozen, frozen_at AS "frozenAt",
      freeze_cause AS "freezeCause", freeze_reason AS "freezeReason", frozen_by AS "frozenBy",
      marked_at AS "markedAt", items_marked AS "itemsMarked", lifted_at AS "liftedAt", lifted_by AS "liftedBy",
      lift_reason AS "liftReason"
    FROM ${qualify(role, 'dispatch_epochs')} ORDER BY epoch_no DESC LIMIT 1`,
    PREPARED,
  )
  return rows[0]
}

export async function readPauses(role: Queryable): Promise<PauseView[]> {
  const { rows } = await role.query<PauseView>(
    `SELECT ${PAUSE} FROM ${qualify(role, 'outbox_pauses')} ORDER BY paused_at DESC, kind, name LIMIT 1000`,
    PREPARED,
  )
  return rows
}

/** Returns the pauses that stop claims of an item. */
export async function readPausesOf(
  role: Queryable,
  { railType, participantId, ordered }: Pick<ItemStatus, 'railType' | 'participantId' | 'ordered'>,
): Promise<PauseView[]> {
  const { rows } = await role.query<PauseView>(
    `SELECT ${PAUSE} FROM ${qualify(role, 'outbox_pauses')}
     WHERE kind = 'all' OR (kind = 'rail' AND name = $1) OR (kind = 'participant' AND name = $2)
       OR (kind = 'stream' AND name = $2 AND $3)
     ORDER BY paused_at DESC, kind`,
    [railType, participantId, ordered],
  )
  return rows
}

/** Columns of a `PauseView`. */
const PAUSE = `kind, name, reason, paused_by AS "pausedBy", ${isoMicros('paused_at')} AS "pausedAt"`

/** Returns the declared field classes of a rail by JSON pointer; empty for an undeclared rail. */
export async function readRailFields(role: Queryable, railType: string): Promise<FieldClasses> {
  const { rows } = await role.query<{ fields: FieldClasses }>(
    `SELECT fields FROM ${qualify(role, 'outbox_rails')} WHERE rail_type = $1`,
    [railType],
  )
  return rows[0]?.fields ?? {}
}

/** Returns those of the rails that workers have declared as topics, without money. */
export async function readTopicsAmong(role: Queryable, rails: readonly string[]): Promise<readonly string[]> {
  const { rows } = await role.query<{ name: string }>(
    `SELECT rail_type AS name FROM ${qualify(role, 'outbox_rails')} WHERE NOT money AND rail_type = ANY ($1)`,
    [rails],
  )
  return rows.map(({ name }) => name)
}

/**
 * Returns workers that reported within a day and have not stopped, latest first, with their numbers of leased items.
 */
export async function readWorkerReports(role: Queryable): Promise<WorkerReport[]> {
  const { rows } = await role.query<WorkerReport>(
    `SELECT w.worker_id AS "workerId", w.last_seen_at > statement_timestamp() - interval '1 minute' AS alive,
       ${isoMicros('w.started_at')} AS "startedAt", ${isoMicros('w.last_seen_at')} AS "lastSeenAt", w.detail,
       COALESCE(l.leases, 0)::integer AS leases
     FROM ${qualify(role, 'outbox_workers')} w
     LEFT JOIN (
       SELECT p.claimed_by, count(*) AS leases FROM ${qualify(role, 'payment_outbox_pending')} p
       WHERE p.lease_expires_at IS NOT NULL GROUP BY p.claimed_by
     ) l ON l.claimed_by = w.worker_id
     WHERE w.last_seen_at > statement_timestamp() - interval '1 day' AND w.stopped_at IS NULL
     ORDER BY w.last_seen_at DESC, w.worker_id LIMIT 1000`,
    PREPARED,
  )
  return rows
}

/** Returns the counts and ages of each rail's queue, which are some seconds old if the queue is large. */
export async function readRailQueues(role: Queryable): Promise<RailQueue[]> {
  const { rows } = await role.query<RailQueue>(
    `SELECT q.rail_type AS "railType", sum(q.items)::integer AS pending,
       COALESCE(sum(q.items) FILTER (WHERE q.state = 'DUE'), 0)::integer AS due,
       COALESCE(sum(q.items) FILTER (WHERE q.leased), 0)::integer AS "inFlight",
       COALESCE(sum(q.items) FILTER (WHERE q.state = 'HELD'), 0)::integer AS held,
       COALESCE(extract(epoch FROM statement_timestamp() - min(q.next_attempt_at) FILTER (WHERE q.state = 'DUE')), 0)
         ::double precision AS "oldestDueAgeSeconds"
     FROM ${qualify(role, 'outbox_queue_status')} q GROUP BY q.rail_type ORDER BY q.rail_type LIMIT 1000`,
    PREPARED,
  )
  return rows
}

export async function readThroughput(role: Queryable): Promise<ThroughputView[]> {
  const { rows } = await role.query<ThroughputView>(
    `SELECT ${isoMicros('minute')} AS minute, dispatched::integer AS dispatched, retryable::integer AS retryable,
       failed::integer AS failed, zombie_requeue::integer AS "zombieRequeue",
       outcome_unknown::integer AS "outcomeUnknown"
     FROM ${qualify(role, 'outbox_throughput')} ORDER BY 1`,
    PREPARED,
  )
  return rows
}

/**
 * Returns latencies and errors of the latest 5000 attempts within an hour. The limit suffices for percentiles and
 * bounds the cost.
 */
export async function readLatestAttempts(role: Queryable): Promise<LatestAttempts> {
  const { rows } = await role.query<LatestAttempts>(
    `WITH latest AS MATERIALIZED (
       SELECT a.latency_ms, a.rail_type, a.state, a.error_code, a.outcome_unknown FROM ${qualify(role, 'payment_outbox_attempts')} a
       WHERE a.attempt_id >= ${minUuidV7At(`statement_timestamp() - interval '1 hour'`)}
       ORDER BY a.attempt_id DESC LIMIT 5000
     ), latency AS (
       SELECT count(*)::integer AS sampled,
         percentile_disc(0.5) WITHIN GROUP (ORDER BY a.latency_ms) AS "p50Ms",
         percentile_disc(0.9) WITHIN GROUP (ORDER BY a.latency_ms) AS "p90Ms",
         percentile_disc(0.99) WITHIN GROUP (ORDER BY a.latency_ms) AS "p99Ms", max(a.latency_ms) AS "maxMs"
       FROM latest a WHERE a.latency_ms IS NOT NULL
     ), error AS (
       SELECT a.rail_type AS "railType", a.state::text AS state, a.error_code AS "errorCode",
         a.outcome_unknown AS "outcomeUnknown", count(*)::integer AS count
       FROM latest a WHERE a.state <> 'DISPATCHED'
       GROUP BY 1, 2, 3, 4 ORDER BY 5 DESC, 1, 2, 3, 4 LIMIT 50
     )
     SELECT (SELECT to_json(l) FROM latency l) AS latency,
       (SELECT COALESCE(json_agg(e ORDER BY e.count DESC, e."railType", e.state, e."errorCode", e."outcomeUnknown"), '[]') FROM error e) AS errors`,
    PREPARED,
  )
  return onlyRow(rows)
}

/** Reads the database's clock, to the microsecond. */
export async function readDatabaseTime(role: Queryable): Promise<string> {
  const { rows } = await role.query<{ now: string }>(`SELECT ${isoMicros('statement_timestamp()')} AS now`, PREPARED)
  return onlyRow(rows).now
}

export async function readServerVersion(role: Queryable): Promise<string> {
  const { rows } = await role.query<{ version: string }>(`SELECT current_setting('server_version') AS version`)
  return onlyRow(rows).version
}

/** Describes the cause of a freeze to the operator who decides. */
export function describeFreezeCause(cause: FreezeCause): string {
  return FREEZE_CAUSES[cause]
}

const FREEZE_CAUSES: Readonly<Record<FreezeCause, string>> = {
  ANOTHER_SERVER:
    'The data is on another server than before: a restored dump, a copy, or an upgrade that made a new one.',
  ANOTHER_DATABASE: 'The data is in another database than before: a copy, or a dump restored beside it.',
  LOWER_TIMELINE: 'The server is on an earlier timeline than before: an old primary, or an older backup.',
  NEW_TIMELINE:
    'A standby was promoted, or a backup was recovered, and it is not certain that everything had reached it.',
  LOST_COMMITS: "A worker's epoch record is newer than the database: the database is an earlier state of itself.",
  OPERATOR: 'An operator froze dispatch.',
}
