import { requiredUuid } from '../core/index.js'
import { qualify, type Queryable } from '../db/index.js'
import type { AttemptLink, EventLink, IdentityLink } from './chain.js'

/**
 * What the ledger's verifiers read, as symphony_auditor. Rows come as text in canonical order, page by page, so that a ledger of
 * any size is verified in the same memory.
 */

const MICROS = (column: string) => `(extract(epoch FROM ${column}) * 1000000)::bigint::text`

/** The canonical content of an identity, in the order in which it is hashed. */
const IDENTITY_FIELDS = `ARRAY[
  i.outbox_id::text, i.instruction_id, i.idempotency_key, i.participant_id, i.sequence_id::text, i.rail_type,
  i.ordered::text, i.redrive_of::text, encode(i.content_hash, 'hex'), ${MICROS('i.created_at')}]`

/** The same of an event, after its predecessor's hash. */
const EVENT_FIELDS = `ARRAY[
  e.event_id::text, e.outbox_id::text, e.scope, e.event_no::text, e.event_type, e.attempt_id::text, e.actor,
  e.detail::text, ${MICROS('e.created_at')}]`

export async function readIdentityPage(
  role: Queryable,
  afterId: string | null,
  limit: number,
): Promise<IdentityLink[]> {
  const { rows } = await role.query<{ id: string; fields: (string | null)[]; hash: string | null }>(
    `SELECT i.outbox_id AS id, encode(i.row_hash, 'hex') AS hash, ${IDENTITY_FIELDS} AS fields
     FROM ${qualify(role, 'payment_outbox_identities')} i
     WHERE $1::uuid IS NULL OR i.outbox_id > $1::uuid
     ORDER BY i.outbox_id LIMIT $2`,
    [afterId, limit],
  )
  return rows.map(({ id, fields, hash }) => ({ outboxId: id, fields, rowHash: hash }))
}

/** One identity; undefined: there is no such item. */
export async function readIdentity(role: Queryable, outboxId: string): Promise<IdentityLink | undefined> {
  const { rows } = await role.query<{ id: string; fields: (string | null)[]; hash: string | null }>(
    `SELECT i.outbox_id AS id, encode(i.row_hash, 'hex') AS hash, ${IDENTITY_FIELDS} AS fields
     FROM ${qualify(role, 'payment_outbox_identities')} i WHERE i.outbox_id = $1`,
    [requiredUuid('outboxId', outboxId)],
  )
  return rows.map(({ id, fields, hash }) => ({ outboxId: id, fields, rowHash: hash }))[0]
}

/** All events of one item, in order. */
export async function readEventsOf(role: Queryable, outboxId: string): Promise<EventLink[]> {
  const { rows } = await role.query<{
    event_no: string
    fields: (string | null)[]
    prev: string | null
    hash: string | null
  }>(
    `SELECT e.event_no::text AS event_no, encode(e.prev_hash, 'hex') AS prev, encode(e.row_hash, 'hex') AS hash,
       ${EVENT_FIELDS} AS fields
     FROM ${qualify(role, 'payment_outbox_events')} e WHERE e.outbox_id = $1 ORDER BY e.event_no LIMIT 5000`,
    [requiredUuid('outboxId', outboxId)],
  )
  return rows.map(({ event_no: eventNo, fields, prev: prevHash, hash: rowHash }) => {
    return { subject: outboxId, eventNo, fields, prevHash, rowHash }
  })
}

/** All attempts of some items, in order. */
export async function readAttempts(role: Queryable, outboxIds: readonly string[]): Promise<AttemptLink[]> {
  const { rows } = await role.query<{
    id: string
    attempt_no: number
    fields: (string | null)[]
    prev: string | null
    hash: string | null
  }>(
    `SELECT a.outbox_id AS id, a.attempt_no, encode(a.prev_hash, 'hex') AS prev, encode(a.row_hash, 'hex') AS hash, ARRAY[
       a.attempt_id::text, a.outbox_id::text, a.instruction_id, a.participant_id, a.sequence_id::text, a.idempotency_key,
       a.rail_type, a.payload::text, a.attempt_no::text, a.state::text, ${MICROS('a.claimed_at')},
       ${MICROS('a.completed_at')}, a.rail_reference, a.rail_code, a.error_code, a.error_message, a.latency_ms::text,
       a.worker_id, encode(sha256(uuid_send(a.lease_token)), 'hex'), ${MICROS('a.created_at')}] AS fields
     FROM ${qualify(role, 'payment_outbox_attempts')} a
     WHERE a.outbox_id = ANY ($1::uuid[])
     ORDER BY a.outbox_id, a.attempt_no`,
    [outboxIds],
  )
  return rows.map((row) => ({
    outboxId: row.id,
    attemptNo: row.attempt_no,
    fields: row.fields,
    prevHash: row.prev,
    rowHash: row.hash,
  }))
}

/** Events by subject and number, a page after the given position. */
export async function readEventPage(
  role: Queryable,
  after: { readonly subject: string; readonly eventNo: string } | null,
  limit: number,
): Promise<EventLink[]> {
  const { rows } = await role.query<{
    subject: string
    event_no: string
    fields: (string | null)[]
    prev: string | null
    hash: string | null
  }>(
    `SELECT e.subject, e.event_no::text AS event_no, encode(e.prev_hash, 'hex') AS prev, encode(e.row_hash, 'hex') AS hash,
       ${EVENT_FIELDS} AS fields
     FROM (SELECT v.*, COALESCE(v.outbox_id::text, v.scope) COLLATE "C" AS subject
       FROM ${qualify(role, 'payment_outbox_events')} v) e
     WHERE $1::text IS NULL OR (e.subject, e.event_no) > ($1::text COLLATE "C", $2::bigint)
     ORDER BY e.subject, e.event_no LIMIT $3`,
    [after?.subject ?? null, after?.eventNo ?? null, limit],
  )
  return rows.map((row) => ({
    subject: row.subject,
    eventNo: row.event_no,
    fields: row.fields,
    prevHash: row.prev,
    rowHash: row.hash,
  }))
}

export interface LedgerCounts {
  readonly accepted: bigint
  readonly pending: bigint
  readonly held: bigint
  readonly dispatched: bigint
  readonly failed: bigint
}

export async function countLedger(role: Queryable): Promise<LedgerCounts> {
  const { rows } = await role.query<Record<keyof LedgerCounts, string | bigint>>(
    `SELECT
       (SELECT count(*) FROM ${qualify(role, 'payment_outbox_identities')}) AS accepted,
       (SELECT count(outbox_id) FROM ${qualify(role, 'payment_outbox_pending')}) AS pending,
       (SELECT count(hold_reason) FROM ${qualify(role, 'payment_outbox_pending')}) AS held,
       (SELECT count(*) FROM ${qualify(role, 'payment_outbox_attempts')} WHERE state = 'DISPATCHED') AS dispatched,
       (SELECT count(*) FROM ${qualify(role, 'payment_outbox_attempts')} WHERE state = 'FAILED') AS failed`,
  )
  const row = rows[0]
  const count = (name: keyof LedgerCounts) => BigInt(row?.[name] ?? 0)
  return {
    accepted: count('accepted'),
    pending: count('pending'),
    held: count('held'),
    dispatched: count('dispatched'),
    failed: count('failed'),
  }
}

/** Items that are neither pending nor ended, or both: there must be none. */
export async function findMisplacedItems(role: Queryable): Promise<string[]> {
  return ids(
    role,
    `SELECT i.outbox_id AS id FROM ${qualify(role, 'payment_outbox_identities')} i
     WHERE EXISTS (SELECT 1 FROM ${qualify(role, 'payment_outbox_pending')} p WHERE p.outbox_id = i.outbox_id)
       = EXISTS (SELECT 1 FROM ${qualify(role, 'payment_outbox_attempts')} a
           WHERE a.outbox_id = i.outbox_id AND a.state IN ('DISPATCHED', 'FAILED'))
     LIMIT ${EXAMPLES_MAX}`,
  )
}

export async function findDoubleEndings(role: Queryable): Promise<string[]> {
  return ids(
    role,
    `SELECT a.outbox_id AS id FROM ${qualify(role, 'payment_outbox_attempts')} a
     WHERE a.state IN ('DISPATCHED', 'FAILED') GROUP BY a.outbox_id HAVING count(*) > 1 LIMIT ${EXAMPLES_MAX}`,
  )
}

export async function findAttemptGaps(role: Queryable): Promise<string[]> {
  return ids(
    role,
    `SELECT a.outbox_id AS id FROM ${qualify(role, 'payment_outbox_attempts')} a
     GROUP BY a.outbox_id HAVING count(*) <> max(a.attempt_no) OR min(a.attempt_no) <> 1 LIMIT ${EXAMPLES_MAX}`,
  )
}

export async function findSequenceGaps(role: Queryable): Promise<string[]> {
  return ids(
    role,
    `SELECT i.participant_id AS id FROM ${qualify(role, 'payment_outbox_identities')} i
     GROUP BY i.participant_id HAVING count(*) <> max(i.sequence_id) OR min(i.sequence_id) <> 1 LIMIT ${EXAMPLES_MAX}`,
  )
}

export async function findOverdueLeases(role: Queryable, graceSeconds: number): Promise<string[]> {
  return ids(
    role,
    `SELECT p.outbox_id AS id FROM ${qualify(role, 'payment_outbox_pending')} p
     WHERE p.lease_expires_at < clock_timestamp() - make_interval(secs => $1) LIMIT ${EXAMPLES_MAX}`,
    [graceSeconds],
  )
}

/** An ended item, as the other book must confirm it. */
export interface Ending {
  readonly outboxId: string
  readonly state: 'DISPATCHED' | 'FAILED'
  readonly railReference: string | null
  readonly decidedByPeople: boolean
  readonly redriveOf: string | null
}

export async function readEndings(role: Queryable, outboxIds: readonly string[]): Promise<Ending[]> {
  const { rows } = await role.query<{
    outbox_id: string
    state: Ending['state']
    rail_reference: string | null
    decided: boolean
    redrive_of: string | null
  }>(
    `SELECT a.outbox_id, a.state::text AS state, a.rail_reference, a.error_code IS NOT DISTINCT FROM 'OPERATOR_DECISION' AS decided, i.redrive_of
     FROM ${qualify(role, 'payment_outbox_attempts')} a
     JOIN ${qualify(role, 'payment_outbox_identities')} i ON i.outbox_id = a.outbox_id
     WHERE a.outbox_id = ANY ($1::uuid[]) AND a.state IN ('DISPATCHED', 'FAILED')`,
    [outboxIds],
  )
  return rows.map((row) => ({
    outboxId: row.outbox_id,
    state: row.state,
    railReference: row.rail_reference,
    decidedByPeople: row.decided,
    redriveOf: row.redrive_of,
  }))
}

async function ids(role: Queryable, text: string, values: readonly unknown[] = []): Promise<string[]> {
  const { rows } = await role.query<{ id: string }>(text, values)
  return rows.map(({ id }) => id)
}

/** Enough to start looking; the count is in the verdict. */
const EXAMPLES_MAX = 10
