import { requiredUuid } from '../core/index.js'
import { callFunction, qualify, type Queryable } from '../db/index.js'
import { kindOfNumber, KINDS, numberOfKind, type Block, type Position } from './blocks.js'
import type { Link, RowKind } from './chain.js'
import { rowsOfPage, type SentRow } from './sentRows.js'

/**
 * What the ledger's verifiers read, as symphony_auditor. Rows come in canonical order, page by page, so that a ledger of any
 * size is verified in the same memory.
 */

/** Columns of each kind of row in the types that `sentRows.ts` reads: hashed ones in canonical order, then unsealed ones. */
const ROWS = {
  identity: {
    table: 'payment_outbox_identities',
    id: 'outbox_id',
    prevHash: 'NULL::bytea',
    order: 't.outbox_id',
    fields: `t.outbox_id, t.instruction_id, t.idempotency_key, t.participant_id, t.sequence_id, t.rail_type, t.ordered,
      t.redrive_of, t.content_hash, t.created_at`,
  },
  attempt: {
    table: 'payment_outbox_attempts',
    id: 'attempt_id',
    prevHash: 't.prev_hash',
    order: 't.attempt_no',
    fields: `t.attempt_id, t.outbox_id, t.instruction_id, t.participant_id, t.sequence_id, t.idempotency_key, t.rail_type,
      t.payload::text, t.attempt_no, t.state, t.claimed_at, t.completed_at, t.rail_reference, t.rail_code, t.error_code,
      t.error_message, t.latency_ms, t.worker_id, sha256(uuid_send(t.lease_token)), t.created_at, t.action,
      t.outcome_unknown`,
  },
  event: {
    table: 'payment_outbox_events',
    id: 'event_id',
    prevHash: 't.prev_hash',
    order: 't.event_no',
    fields: `t.event_id, t.outbox_id, t.scope, t.event_no, t.event_type, t.attempt_id, t.actor, t.detail::text, t.created_at`,
  },
} as const satisfies Record<RowKind, object>

/** A page of rows is one value: a row as a message of the protocol, and each field as a text, would take longer than its hash. */
async function selectRows(
  role: Queryable,
  kind: RowKind,
  condition: string,
  values: readonly unknown[],
): Promise<SentRow[]> {
  const { table, prevHash, fields } = ROWS[kind]
  const { rows } = await role.query<{ page: string | null }>(
    `SELECT encode(string_agg(record_send(ROW(t.recorded_xid, t.row_hash, ${prevHash}, ${fields})), ''), 'base64') AS page
     FROM (SELECT * FROM ${qualify(role, table)} t WHERE ${condition}) t`,
    values,
  )
  const page = rows[0]?.page
  return page === undefined || page === null ? [] : rowsOfPage(kind, Buffer.from(page, 'base64'))
}

/** All rows of one kind about one item, in order. */
export function readItemRows(role: Queryable, kind: RowKind, outboxId: string): Promise<SentRow[]> {
  const condition = `t.outbox_id = $1::uuid ORDER BY ${ROWS[kind].order} LIMIT 5000`
  return selectRows(role, kind, condition, [requiredUuid('outboxId', outboxId)])
}

/** Rows of one kind after a position and up to another, if there is one, in the order of blocks. */
export function readRowPage(
  role: Queryable,
  kind: RowKind,
  after: Position | null,
  last: Position | null,
  limit: number,
): Promise<SentRow[]> {
  const { id } = ROWS[kind]
  const upTo =
    last === null
      ? ''
      : `AND t.recorded_xid <= $5::bigint AND (t.recorded_xid, ${numberOfKind(kind)}, t.${id}) <= ($5::bigint, $6::integer, $7::uuid)`
  return selectRows(
    role,
    kind,
    `t.recorded_xid >= $1::bigint AND (t.recorded_xid, ${numberOfKind(kind)}, t.${id}) > ($1::bigint, $2::integer, $3::uuid)
       ${upTo} ORDER BY t.recorded_xid, t.${id} LIMIT $4`,
    [...positionValues(after), limit, ...(last === null ? [] : positionValues(last))],
  )
}

function positionValues(position: Position | null): readonly unknown[] {
  // From the very lowest: a row that says it was written before all numbers must be in the first block's range, not in none.
  return position === null
    ? ['-9223372036854775808', 0, NIL_ID]
    : [String(position.xid), numberOfKind(position.kind), position.id]
}

const NIL_ID = '00000000-0000-0000-0000-000000000000'

const MICROS = (column: string) => `(extract(epoch FROM ${column}) * 1000000)::bigint::text`

export async function readBlockPage(role: Queryable, afterNo: bigint, limit: number): Promise<Block[]> {
  const { rows } = await role.query<{
    no: string
    row_count: number
    last_xid: string
    last_kind: number
    last_id: string
    entries: Buffer
    root: string
    prev: string | null
    hash: string
    sealed_at: string
  }>(
    `SELECT b.block_no::text AS no, b.row_count, b.last_xid::text AS last_xid, b.last_kind, b.last_id::text AS last_id,
       b.entries, encode(b.root, 'hex') AS root, encode(b.prev_hash, 'hex') AS prev, encode(b.block_hash, 'hex') AS hash,
       ${MICROS('b.sealed_at')} AS sealed_at
     FROM ${qualify(role, 'payment_outbox_blocks')} b
     WHERE b.block_no > $1::bigint ORDER BY b.block_no LIMIT $2`,
    [String(afterNo), limit],
  )
  return rows.map((row) => ({
    no: BigInt(row.no),
    rowCount: row.row_count,
    last: { xid: BigInt(row.last_xid), kind: kindOfNumber(row.last_kind)!, id: row.last_id },
    entries: row.entries,
    root: row.root,
    prevHash: row.prev,
    hash: row.hash,
    sealedAt: row.sealed_at,
  }))
}

export async function countRows(role: Queryable): Promise<number> {
  const counts = KINDS.map((kind) => `(SELECT count(*) FROM ${qualify(role, ROWS[kind].table)})`)
  const { rows } = await role.query<{ count: string | bigint }>(`SELECT ${counts.join(' + ')} AS count`)
  return Number(rows[0]?.count ?? 0)
}

interface LinkText {
  readonly subject: string
  readonly number: string
  readonly prev: string | null
  readonly hash: string | null
  readonly ends: boolean
}

function toLink(kind: RowKind, { subject, number, prev, hash, ends }: LinkText): Link {
  return { kind, subject, number: BigInt(number), prevHash: prev, rowHash: hash, ends }
}

export async function readIdentityLinks(role: Queryable, afterId: string | null, limit: number): Promise<Link[]> {
  const { rows } = await role.query<LinkText>(
    `SELECT ${IDENTITY_LINK} FROM ${qualify(role, 'payment_outbox_identities')} i
     WHERE $1::uuid IS NULL OR i.outbox_id > $1::uuid ORDER BY i.outbox_id LIMIT $2`,
    [afterId, limit],
  )
  return rows.map((row) => toLink('identity', row))
}

export async function readIdentityLinksOf(role: Queryable, outboxIds: readonly string[]): Promise<Link[]> {
  const { rows } = await role.query<LinkText>(
    `SELECT ${IDENTITY_LINK} FROM ${qualify(role, 'payment_outbox_identities')} i
     WHERE i.outbox_id = ANY ($1::uuid[]) ORDER BY i.outbox_id`,
    [outboxIds],
  )
  return rows.map((row) => toLink('identity', row))
}

const IDENTITY_LINK = `i.outbox_id::text AS subject, '0' AS number, NULL AS prev, encode(i.row_hash, 'hex') AS hash,
  false AS ends`

const ATTEMPT_LINK = `a.outbox_id::text AS subject, a.attempt_no::text AS number, encode(a.prev_hash, 'hex') AS prev,
  encode(a.row_hash, 'hex') AS hash, a.state IN ('DISPATCHED', 'FAILED') AS ends`

/** All attempts of some items, in order. */
export async function readAttemptLinks(role: Queryable, outboxIds: readonly string[]): Promise<Link[]> {
  const { rows } = await role.query<LinkText>(
    `SELECT ${ATTEMPT_LINK} FROM ${qualify(role, 'payment_outbox_attempts')} a
     WHERE a.outbox_id = ANY ($1::uuid[]) ORDER BY a.outbox_id, a.attempt_no`,
    [outboxIds],
  )
  return rows.map((row) => toLink('attempt', row))
}

/** Attempts of items that have no identity: there must be none. */
export async function readOrphanLinks(role: Queryable, limit: number): Promise<Link[]> {
  const { rows } = await role.query<LinkText>(
    `SELECT ${ATTEMPT_LINK} FROM ${qualify(role, 'payment_outbox_attempts')} a
     WHERE NOT EXISTS (SELECT 1 FROM ${qualify(role, 'payment_outbox_identities')} i WHERE i.outbox_id = a.outbox_id)
     ORDER BY a.outbox_id, a.attempt_no LIMIT $1`,
    [limit],
  )
  return rows.map((row) => toLink('attempt', row))
}

/** Events by subject and number, of the given subjects or of all, a page after the given position. */
export async function readEventLinks(
  role: Queryable,
  subjects: readonly string[] | null,
  after: Link | undefined,
  limit: number,
): Promise<Link[]> {
  const { rows } = await role.query<LinkText>(
    `SELECT e.subject, e.event_no::text AS number, encode(e.prev_hash, 'hex') AS prev, encode(e.row_hash, 'hex') AS hash,
       false AS ends
     FROM (SELECT v.*, COALESCE(v.outbox_id::text, v.scope) COLLATE "C" AS subject
       FROM ${qualify(role, 'payment_outbox_events')} v) e
     WHERE ($1::text IS NULL OR (e.subject, e.event_no) > ($1::text COLLATE "C", $2::bigint))
       AND ($3::text[] IS NULL OR e.subject = ANY ($3::text[]))
     ORDER BY e.subject, e.event_no LIMIT $4`,
    [after?.subject ?? null, after === undefined ? null : String(after.number), subjects, limit],
  )
  return rows.map((row) => toLink('event', row))
}

/** Under what the ledger is written: the deployment's own switches, and what of the server decides whether a commit lasts. */
export async function readSettings(role: Queryable): Promise<{
  readonly deployment: Readonly<Record<string, unknown>>
  readonly server: Readonly<Record<string, string>>
}> {
  const own = await role.query<{ settings: Record<string, unknown> }>(
    `SELECT to_jsonb(s) - 'singleton' AS settings FROM ${qualify(role, 'symphony_settings')} s`,
  )
  const server = await role.query<{ name: string; setting: string }>(
    `SELECT s.name, s.setting FROM pg_catalog.pg_settings s WHERE s.name = ANY ($1)`,
    [SERVER_SETTINGS],
  )
  return {
    deployment: own.rows[0]?.settings ?? {},
    server: Object.fromEntries(server.rows.map(({ name, setting }) => [name, setting])),
  }
}

const SERVER_SETTINGS = [
  'data_checksums',
  'fsync',
  'full_page_writes',
  'max_prepared_transactions',
  'server_encoding',
  'server_version',
  'wal_level',
]

/** Everything that follows in this transaction sees one moment, and changes nothing. Must be its first statement. */
export async function beginSnapshot(tx: Queryable): Promise<void> {
  await tx.query('SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY')
}

/** Of the next rows whose transactions are decided; undefined if there are none, or another is at it. */
export async function sealLedgerBlock(
  role: Queryable,
  rowsMax: number,
): Promise<{ readonly blockNo: bigint; readonly rowCount: number } | undefined> {
  const [row] = await callFunction<{ block_no: string | bigint; row_count: number }>(role, 'seal_ledger_block', [
    rowsMax,
  ])
  return row === undefined ? undefined : { blockNo: BigInt(row.block_no), rowCount: row.row_count }
}

export interface LedgerCounts {
  readonly accepted: bigint
  /** Undefined where there is no queue to count. */
  readonly pending: bigint | undefined
  readonly held: bigint | undefined
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

async function ids(role: Queryable, text: string, values: readonly unknown[] = []): Promise<string[]> {
  const { rows } = await role.query<{ id: string }>(text, values)
  return rows.map(({ id }) => id)
}

/** Enough to start looking; the count is in the verdict. */
const EXAMPLES_MAX = 10

/** Records what a verification found, as symphony_auditor. Every process derives its alert from the last record. */
export async function recordLedgerVerification(
  role: Queryable,
  { rowsChecked, breakCount }: { readonly rowsChecked: number; readonly breakCount: number },
): Promise<void> {
  await callFunction(role, 'record_ledger_verification', [rowsChecked, breakCount])
}

/** How far sealing is behind, and which transaction holds it back. */
export interface SealingStatus {
  /** Of the oldest row that is in no block; 0 without one. */
  readonly unsealedAgeSeconds: number
  /** Undefined: no transaction is in the way. */
  readonly blocker: SealingBlocker | undefined
}

/** Null: PostgreSQL does not show it. */
export interface SealingBlocker {
  /** Null for a prepared transaction. */
  readonly pid: number | null
  readonly user: string | null
  readonly application: string | null
  readonly database: string | null
  readonly ageSeconds: number | null
  /** Name of the prepared transaction. */
  readonly prepared: string | null
}

/** As symphony_readonly, symphony_auditor or symphony_control. */
export async function readSealingStatus(role: Queryable): Promise<SealingStatus> {
  const [row] = await callFunction<{
    unsealed_age_seconds: number
    blocker_pid: number | null
    blocker_user: string | null
    blocker_application: string | null
    blocker_database: string | null
    blocker_age_seconds: number | null
    blocker_prepared: string | null
  }>(role, 'ledger_sealing_status', [])
  if (row === undefined) return { unsealedAgeSeconds: 0, blocker: undefined }
  const { blocker_pid: pid, blocker_prepared: prepared } = row
  return {
    unsealedAgeSeconds: row.unsealed_age_seconds,
    blocker:
      pid === null && prepared === null
        ? undefined
        : {
            pid,
            user: row.blocker_user,
            application: row.blocker_application,
            database: row.blocker_database,
            ageSeconds: row.blocker_age_seconds,
            prepared,
          },
  }
}
