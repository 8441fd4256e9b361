import { BATCH_SIZE, boundedInteger, requiredId, requiredUuid } from '../../core/index.js'
import { isoMicros, qualify, type Queryable } from '../../db/index.js'
import type { ItemEvent, ItemState, ItemStatus, LedgerAttempt } from '../statusTypes.js'
import type { AttemptView, EventView, ItemView } from '../views.js'

/**
 * Reads payments, their attempts and their events, as symphony_readonly, symphony_auditor or symphony_control. The
 * results never contain a token, and of a payload only the fields of `ShownMoney`. Views have times as text with
 * microseconds.
 */

/** Items to read, by id, by instruction or by state, newest first. */
export type ItemFilter =
  | { readonly outboxId: string }
  | { readonly instructionId: string }
  | { readonly state: ItemState; readonly limit?: number }

export async function readItems(role: Queryable, filter: ItemFilter): Promise<ItemStatus[]> {
  const [condition, value] =
    'outboxId' in filter
      ? ['outbox_id = $1', requiredUuid('outboxId', filter.outboxId)]
      : 'instructionId' in filter
        ? ['instruction_id = $1', requiredId('instructionId', filter.instructionId)]
        : ['state = $1', filter.state]
  const limit = 'state' in filter ? (filter.limit ?? 100) : BATCH_SIZE.max
  const { rows } = await role.query<ItemStatus>(
    `SELECT ${ITEM_STATUS} FROM ${qualify(role, 'outbox_operational_status')} WHERE ${condition} ORDER BY created_at DESC LIMIT $2`,
    [value, boundedInteger('limit', limit, BATCH_SIZE)],
  )
  return rows
}

/** Columns of `outbox_operational_status` that show a part of the payload. */
export const SHOWN_MONEY = 'amount, currency, destination, destination_withheld AS "destinationWithheld"'

/** Columns about a freeze, as an `ItemFreeze`. */
const FREEZE = `CASE WHEN freeze_epoch_no IS NOT NULL THEN json_build_object('epochNo', freeze_epoch_no,
  'cause', freeze_cause, 'reason', freeze_reason, 'frozenAt', ${isoMicros('frozen_at')}) END AS freeze`

/** Columns about returns and replacements. */
const RETURNED = 'returned, returned_amount AS "returnedAmount", replaces'

/** Columns of `outbox_operational_status`, as an `ItemStatus` names them. */
const ITEM_STATUS = `outbox_id AS "outboxId", instruction_id AS "instructionId", idempotency_key AS "idempotencyKey",
  participant_id AS "participantId", sequence_id AS "sequenceId", rail_type AS "railType", created_at AS "createdAt",
  ordered, redrive_of AS "redriveOf", state, next_attempt_at AS "nextAttemptAt", claimed_by AS "claimedBy",
  lease_expires_at AS "leaseExpiresAt", COALESCE(outcome_unknown, false) AS "outcomeUnknown",
  hold_reason AS "holdReason", held_by AS "heldBy", held_at AS "heldAt", last_attempt_no AS "lastAttemptNo",
  last_attempt_state AS "lastAttemptState", last_rail_reference AS "lastRailReference",
  last_error_code AS "lastErrorCode", is_message AS "isMessage", last_attempt_action AS "lastAttemptAction",
  ${RETURNED}, ${SHOWN_MONEY}, ${FREEZE}`

/** Returns the items in the order of the given ids. Skips unknown ids. */
export async function readItemViews(role: Queryable, ids: readonly string[]): Promise<ItemView[]> {
  if (ids.length === 0) return []
  const { rows } = await role.query<ItemView>(
    `SELECT outbox_id AS "outboxId", instruction_id AS "instructionId", idempotency_key AS "idempotencyKey",
       participant_id AS "participantId", sequence_id::text AS "sequenceId", rail_type AS "railType",
       ${isoMicros('created_at')} AS "createdAt", ordered, redrive_of AS "redriveOf", state,
       ${isoMicros('next_attempt_at')} AS "nextAttemptAt", claimed_by AS "claimedBy",
       ${isoMicros('claimed_at')} AS "claimedAt", ${isoMicros('lease_expires_at')} AS "leaseExpiresAt",
       COALESCE(outcome_unknown, false) AS "outcomeUnknown", COALESCE(expiry_streak, 0) AS "expiryStreak",
       hold_reason AS "holdReason", held_by AS "heldBy", ${isoMicros('held_at')} AS "heldAt",
       last_attempt_no AS "lastAttemptNo", last_attempt_state AS "lastAttemptState",
       ${isoMicros('last_attempt_at')} AS "lastAttemptAt", last_rail_reference AS "lastRailReference",
       last_rail_code AS "lastRailCode", last_error_code AS "lastErrorCode", is_message AS "isMessage",
       last_attempt_action AS "lastAttemptAction", ${RETURNED}, ${SHOWN_MONEY}, ${FREEZE}
     FROM ${qualify(role, 'outbox_operational_status')} WHERE outbox_id = ANY ($1::uuid[])`,
    [ids.map((id, index) => requiredUuid(`ids[${index}]`, id))],
  )
  const found = new Map(rows.map((row) => [row.outboxId, row]))
  return ids.flatMap((id) => found.get(id.toLowerCase()) ?? [])
}

/** Returns the ids of an instruction's items, newest first: of these participants, or of all. */
export async function readInstructionIds(
  role: Queryable,
  instructionId: string,
  participants: readonly string[] | null,
): Promise<readonly string[]> {
  const { rows } = await role.query<{ id: string }>(
    `SELECT i.outbox_id AS id FROM ${qualify(role, 'payment_outbox_identities')} i
     WHERE i.instruction_id = $1 AND ($2::text[] IS NULL OR i.participant_id = ANY ($2))
     ORDER BY i.created_at DESC, i.outbox_id DESC LIMIT 1000`,
    [requiredId('instructionId', instructionId), participants],
  )
  return rows.map(({ id }) => id)
}

export async function readAttemptViews(role: Queryable, ids: readonly string[]): Promise<AttemptView[]> {
  if (ids.length === 0) return []
  const { rows } = await role.query<AttemptView>(
    `SELECT outbox_id AS "outboxId", attempt_id AS "attemptId", attempt_no AS "attemptNo", state,
       ${isoMicros('claimed_at')} AS "claimedAt", ${isoMicros('completed_at')} AS "completedAt",
       rail_reference AS "railReference", rail_code AS "railCode", error_code AS "errorCode",
       error_message AS "errorMessage", latency_ms AS "latencyMs", worker_id AS "workerId",
       action, outcome_unknown AS "outcomeUnknown"
     FROM ${qualify(role, 'payment_outbox_attempts')} WHERE outbox_id = ANY ($1::uuid[]) ORDER BY outbox_id, attempt_no`,
    [ids],
  )
  return rows
}

export async function readAttempts(role: Queryable, outboxId: string): Promise<LedgerAttempt[]> {
  const { rows } = await role.query<LedgerAttempt>(
    `SELECT attempt_no AS "attemptNo", state, claimed_at AS "claimedAt", completed_at AS "completedAt",
       rail_reference AS "railReference", rail_code AS "railCode", error_code AS "errorCode",
       error_message AS "errorMessage", latency_ms AS "latencyMs", worker_id AS "workerId",
       action, outcome_unknown AS "outcomeUnknown"
     FROM ${qualify(role, 'payment_outbox_attempts')} WHERE outbox_id = $1 ORDER BY attempt_no`,
    [requiredUuid('outboxId', outboxId)],
  )
  return rows
}

export async function readItemEvents(role: Queryable, outboxId: string): Promise<ItemEvent[]> {
  const { rows } = await role.query<ItemEvent>(
    `SELECT event_no AS "eventNo", event_type AS "eventType", actor, detail, created_at AS "createdAt"
     FROM ${qualify(role, 'payment_outbox_events')} WHERE outbox_id = $1 ORDER BY event_no`,
    [requiredUuid('outboxId', outboxId)],
  )
  return rows
}

export async function readEventViews(role: Queryable, outboxId: string): Promise<EventView[]> {
  const { rows } = await role.query<EventView>(
    // The status hides amount and currency of a return if the rail does not show them, so its event hides them too.
    `SELECT e.event_no::text AS "eventNo", e.event_type AS "eventType", e.actor,
       CASE WHEN e.event_type = 'RETURN_RECORDED' AND s.returned_amount IS NULL
         THEN e.detail - CASE WHEN s.currency IS NULL THEN '{amount,returned_total,currency}'::text[]
           ELSE '{amount,returned_total}'::text[] END
         ELSE e.detail END AS detail,
       ${isoMicros('e.created_at')} AS "createdAt"
     FROM ${qualify(role, 'payment_outbox_events')} e
     LEFT JOIN ${qualify(role, 'outbox_operational_status')} s ON s.outbox_id = e.outbox_id
     WHERE e.outbox_id = $1 ORDER BY e.event_no LIMIT 5000`,
    [requiredUuid('outboxId', outboxId)],
  )
  return rows
}

/** Returns the participant of an item, or undefined if there is no such item. */
export async function readParticipantOf(role: Queryable, outboxId: string): Promise<string | undefined> {
  const { rows } = await role.query<{ id: string }>(
    `SELECT i.participant_id AS id FROM ${qualify(role, 'payment_outbox_identities')} i WHERE i.outbox_id = $1`,
    [requiredUuid('outboxId', outboxId)],
  )
  return rows[0]?.id
}

/** Returns the redrives of these items, oldest first. */
export async function readRedrives(role: Queryable, ids: readonly string[]): Promise<{ of: string; as: string }[]> {
  const { rows } = await role.query<{ of: string; as: string }>(
    `SELECT i.redrive_of AS of, i.outbox_id AS as FROM ${qualify(role, 'payment_outbox_identities')} i
     WHERE i.redrive_of = ANY ($1::uuid[]) ORDER BY i.outbox_id`,
    [ids],
  )
  return rows
}

/** Returns the id of the item that replaces each of these items, by the id of the replaced item. */
export async function readReplacements(role: Queryable, ids: readonly string[]): Promise<ReadonlyMap<string, string>> {
  const { rows } = await role.query<{ of: string; as: string }>(
    `SELECT i.replaces AS of, i.outbox_id AS as FROM ${qualify(role, 'payment_outbox_identities')} i
     WHERE i.replaces = ANY ($1::uuid[])`,
    [ids],
  )
  return new Map(rows.map((row) => [row.of, row.as]))
}
