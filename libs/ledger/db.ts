import { SymphonyError, requiredUuid } from '../core/index.js'
import { call, onlyRow, qualify, type Queryable } from '../db/index.js'
import { HEAD_COLUMNS, numberOfKind, readHead, type Block, type Position } from './blocks.js'
import { DIGESTED, EXPRESSIONS, KINDS, NEWEST_FORMAT, TABLE_OF, type Format, type RowKind } from './formats.js'
import { LedgerRow } from './LedgerRow.js'

/**
 * Reads the ledger for its verifiers as symphony_auditor, in the order of blocks and in pages, so that memory use does
 * not depend on the size of the ledger.
 */

/** Columns per kind of row: the id, and the number within the item. */
const KEYS = {
  identity: { id: 'outbox_id', number: '0::integer' },
  attempt: { id: 'attempt_id', number: 't.attempt_no' },
  event: { id: 'event_id', number: 't.event_no' },
} as const satisfies Record<RowKind, object>

/**
 * Reads a page of rows as one value: per row the transaction, the length of the record, and the record. One protocol
 * message per row and one text per field would take longer than hashing.
 */
async function selectRows(
  role: Queryable,
  kind: RowKind,
  format: Format,
  condition: string,
  values: readonly unknown[],
): Promise<LedgerRow[]> {
  const columns = format[kind].map((column) => EXPRESSIONS[column] ?? `t.${column}`)
  const { rows } = await role.query<{ encoding: string; page: string | null }>(
    `SELECT pg_client_encoding() AS encoding,
       encode(string_agg(int8send(r.recorded_xid) || int4send(octet_length(r.record)) || r.record, ''), 'base64') AS page
     FROM (
       SELECT t.recorded_xid, record_send(ROW(${columns.join(', ')})) AS record
       FROM (SELECT * FROM ${qualify(role, TABLE_OF[kind])} t WHERE ${condition}) t
       OFFSET 0
     ) r`,
    values,
  )
  const [row] = rows
  if (row !== undefined && row.encoding !== 'UTF8') throw wrongEncoding(row.encoding)
  return row === undefined || row.page === null ? [] : rowsOfPage(kind, Buffer.from(row.page, 'base64'), format)
}

function rowsOfPage(kind: RowKind, page: Buffer, format: Format): LedgerRow[] {
  const rows: LedgerRow[] = []
  for (let at = 0; at < page.length;) {
    const row = new LedgerRow(kind, page, at, format)
    rows.push(row)
    at = row.end
  }
  return rows
}

/** Error for a client encoding other than UTF8, in which a row has other bytes and another hash. */
function wrongEncoding(encoding: string): SymphonyError {
  return new SymphonyError(
    'INVALID_ENCODING',
    `The ledger can only be verified in UTF8; client_encoding is ${encoding}.`,
    {
      remedy: 'Unset PGCLIENTENCODING, or set client_encoding to UTF8 for this login.',
    },
  )
}

export function readItemRows(
  role: Queryable,
  kind: RowKind,
  outboxId: string,
  from = 0n,
  limit = 5_000,
): Promise<LedgerRow[]> {
  const { number } = KEYS[kind]
  const condition = `t.outbox_id = $1::uuid AND ${number} >= $2::bigint ORDER BY ${number} LIMIT $3`
  return selectRows(role, kind, NEWEST_FORMAT, condition, [requiredUuid('outboxId', outboxId), String(from), limit])
}

/** Reads rows of one kind between two positions, in the order of blocks. */
export function readRowPage(
  role: Queryable,
  kind: RowKind,
  format: Format,
  after: Position | null,
  last: Position | null,
  limit: number,
): Promise<LedgerRow[]> {
  const { id } = KEYS[kind]
  const upTo =
    last === null
      ? ''
      : `AND t.recorded_xid <= $5::bigint AND (t.recorded_xid, ${numberOfKind(kind)}, t.${id}) <= ($5::bigint, $6::integer, $7::uuid)`
  return selectRows(
    role,
    kind,
    format,
    `t.recorded_xid >= $1::bigint AND (t.recorded_xid, ${numberOfKind(kind)}, t.${id}) > ($1::bigint, $2::integer, $3::uuid)
       ${upTo} ORDER BY t.recorded_xid, t.${id} LIMIT $4`,
    [...positionValues(after), limit, ...(last === null ? [] : positionValues(last))],
  )
}

/** Reads the events of reconciliation after a position, in the order of blocks. */
export function readReconciliationEvents(role: Queryable, after: Position | null, limit: number): Promise<LedgerRow[]> {
  return selectRows(
    role,
    'event',
    NEWEST_FORMAT,
    `t.event_type IN ('RECONCILED', 'FINDING_CLOSED') AND t.recorded_xid >= $1::bigint
       AND (t.recorded_xid, ${numberOfKind('event')}, t.event_id) > ($1::bigint, $2::integer, $3::uuid)
       ORDER BY t.recorded_xid, t.event_id LIMIT $4`,
    [...positionValues(after), limit],
  )
}

/** Reads findings after an id, in order. Each has the binary form of a record, which the digest of its run covers. */
export async function readFindingRecords(role: Queryable, after: string | null, limit: number): Promise<Buffer[]> {
  const { rows } = await role.query<{ record: string }>(
    `SELECT encode(${recordOf('reconciliation_findings')}, 'base64') AS record
     FROM ${qualify(role, 'reconciliation_findings')} t
     WHERE t.finding_id > $1::uuid ORDER BY t.finding_id LIMIT $2`,
    [after ?? NIL_ID, limit],
  )
  return rows.map(({ record }) => Buffer.from(record, 'base64'))
}

function recordOf(table: keyof typeof DIGESTED): string {
  return `record_send(ROW(${DIGESTED[table].map((column) => `t.${column}`).join(', ')}))`
}

function positionValues(position: Position | null): readonly unknown[] {
  // The lowest number puts a row with a forged negative transaction number into the range of the first block.
  return position === null
    ? ['-9223372036854775808', 0, NIL_ID]
    : [String(position.xid), numberOfKind(position.kind), position.id]
}

const NIL_ID = '00000000-0000-0000-0000-000000000000'

const HEAD = `record_send(ROW(${HEAD_COLUMNS.map((column) => `b.${column}`).join(', ')}))`

interface BlockColumns {
  readonly head: string
  readonly hash: string
  readonly entries: string
}

function toBlock({ head, hash, entries }: BlockColumns): Block {
  return { ...readHead(Buffer.from(head, 'base64')), hash, entries: Buffer.from(entries, 'base64') }
}

export async function readBlockPage(role: Queryable, afterNo: bigint, limit: number): Promise<Block[]> {
  const { rows } = await role.query<BlockColumns>(
    `SELECT encode(${HEAD}, 'base64') AS head, encode(b.block_hash, 'hex') AS hash, encode(b.entries, 'base64') AS entries
     FROM ${qualify(role, 'payment_outbox_blocks')} b
     WHERE b.block_no > $1::bigint ORDER BY b.block_no LIMIT $2`,
    [String(afterNo), limit],
  )
  return rows.map(toBlock)
}

/** Returns the number of the block that covers each row, in the order of the rows; undefined without a block. */
export async function readBlockNumbersOf(role: Queryable, rows: readonly LedgerRow[]): Promise<(bigint | undefined)[]> {
  const { rows: found } = await role.query<{ no: string | null }>(
    `SELECT c.block_no::text AS no
     FROM unnest($1::bigint[], $2::integer[], $3::uuid[]) WITH ORDINALITY AS r(xid, kind, id, ordinal)
     LEFT JOIN LATERAL (
       SELECT b.block_no FROM ${qualify(role, 'payment_outbox_blocks')} b
       WHERE b.last_xid >= r.xid AND (b.last_xid, b.last_kind::integer, b.last_id) >= (r.xid, r.kind, r.id)
       ORDER BY b.last_xid, b.block_no LIMIT 1
     ) c ON true
     ORDER BY r.ordinal`,
    [rows.map(({ xid }) => String(xid)), rows.map(({ kind }) => numberOfKind(kind)), rows.map(({ id }) => id)],
  )
  return found.map(({ no }) => (no === null ? undefined : BigInt(no)))
}

export async function countRows(role: Queryable): Promise<number> {
  const counts = KINDS.map((kind) => `(SELECT count(*) FROM ${qualify(role, TABLE_OF[kind])})`)
  const { rows } = await role.query<{ count: string | bigint }>(`SELECT ${counts.join(' + ')} AS count`)
  return Number(rows[0]?.count ?? 0)
}

export async function readNextXid(role: Queryable): Promise<bigint> {
  const { rows } = await role.query<{ next: string }>('SELECT pg_snapshot_xmax(pg_current_snapshot())::text AS next')
  return BigInt(rows[0]?.next ?? 0)
}

/** Reads the settings of the deployment, and the server settings that affect durability. */
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

/** Reads the current limits, and all events of limits. Times are microseconds since 1970. */
export async function readLimitEvidence(role: Queryable): Promise<{
  readonly limits: readonly object[]
  readonly events: readonly object[]
}> {
  const limits = await role.query<{ limit: object }>(
    `SELECT to_jsonb(l) || jsonb_build_object('set_at', ${micros('l.set_at')}, 'limit_value', l.limit_value::text) AS "limit"
     FROM ${qualify(role, 'outbox_limits')} l ORDER BY l.limit_name COLLATE "C"`,
  )
  const events = await role.query<{ event: object }>(
    `SELECT jsonb_build_object('scope', e.scope, 'event_no', e.event_no, 'event_id', e.event_id,
       'event_type', e.event_type, 'actor', e.actor, 'detail', e.detail, 'created_at', ${micros('e.created_at')}) AS event
     FROM ${qualify(role, 'payment_outbox_events')} e WHERE starts_with(e.scope, 'limit:')
     ORDER BY e.scope COLLATE "C", e.event_no`,
  )
  return { limits: limits.rows.map(({ limit }) => limit), events: events.rows.map(({ event }) => event) }
}

function micros(time: string): string {
  return `(extract(epoch FROM ${time}) * 1000000)::bigint`
}

/**
 * Seals the next rows whose transactions have ended. Returns undefined if there are none, if another session is
 * sealing, or if the last block is partial and younger than the interval.
 */
export async function sealLedgerBlock(
  role: Queryable,
  rowsMax: number,
  intervalMs = 0,
): Promise<{ readonly blockNo: bigint; readonly rowCount: number } | undefined> {
  const [row] = await call<{ block_no: string | bigint; row_count: number }>(role, 'seal_ledger_block', [
    rowsMax,
    intervalMs,
  ])
  return row === undefined ? undefined : { blockNo: BigInt(row.block_no), rowCount: row.row_count }
}

/** Projects the next sealed block. Returns undefined if there is none or another session is projecting. */
export async function projectLedgerBlock(
  role: Queryable,
): Promise<{ readonly blockNo: bigint; readonly rowCount: number } | undefined> {
  const [row] = await call<{ block_no: string | bigint; row_count: number }>(role, 'project_ledger_block', [])
  return row === undefined ? undefined : { blockNo: BigInt(row.block_no), rowCount: row.row_count }
}

/** Empties the search table and the counts, as symphony_control. Returns the last block that had been projected. */
export async function rebuildLedgerProjection(role: Queryable): Promise<bigint> {
  const rows = await call<{ rebuild_ledger_projection: string | bigint }>(role, 'rebuild_ledger_projection', [])
  return BigInt(onlyRow(rows).rebuild_ledger_projection)
}

export interface VerifiedBlock {
  readonly blockNo: bigint
  readonly rowCount: number
  /** First hundred breaks. */
  readonly breaks: readonly string[]
}

/** Compares the next block with its rows. Returns undefined if no block is due or another session is verifying. */
export async function verifyLedgerBlock(
  role: Queryable,
  rowsPerSecond: number,
  passSeconds: number,
): Promise<VerifiedBlock | undefined> {
  const [row] = await call<{ block_no: string | bigint; row_count: number; breaks: string[] }>(
    role,
    'verify_ledger_block',
    [rowsPerSecond, passSeconds],
  )
  return row && { blockNo: BigInt(row.block_no), rowCount: row.row_count, breaks: row.breaks }
}

export interface LedgerCounts {
  readonly accepted: bigint
  /** Number of pending items; undefined for an export. */
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

/** Finds items that are neither pending nor terminal, or both, and attempts without an identity. */
export async function findMisplacedItems(role: Queryable): Promise<string[]> {
  return ids(
    role,
    `(SELECT a.outbox_id AS id FROM ${qualify(role, 'payment_outbox_attempts')} a
      WHERE NOT EXISTS (SELECT 1 FROM ${qualify(role, 'payment_outbox_identities')} i WHERE i.outbox_id = a.outbox_id)
      LIMIT ${EXAMPLES_MAX})
     UNION
     (SELECT i.outbox_id FROM ${qualify(role, 'payment_outbox_identities')} i
     WHERE EXISTS (SELECT 1 FROM ${qualify(role, 'payment_outbox_pending')} p WHERE p.outbox_id = i.outbox_id)
       = EXISTS (SELECT 1 FROM ${qualify(role, 'payment_outbox_attempts')} a
           WHERE a.outbox_id = i.outbox_id AND a.state IN ('DISPATCHED', 'FAILED'))
     LIMIT ${EXAMPLES_MAX})`,
  )
}

export async function findDoubleTerminals(role: Queryable): Promise<string[]> {
  return ids(
    role,
    `SELECT a.outbox_id AS id FROM ${qualify(role, 'payment_outbox_attempts')} a
     WHERE a.state IN ('DISPATCHED', 'FAILED') GROUP BY a.outbox_id HAVING count(*) > 1 LIMIT ${EXAMPLES_MAX}`,
  )
}

/** Finds items with a missing attempt or event number, and scopes with a missing event number. */
export async function findNumberGaps(role: Queryable): Promise<string[]> {
  return ids(
    role,
    `(SELECT a.outbox_id::text AS id FROM ${qualify(role, 'payment_outbox_attempts')} a
      GROUP BY a.outbox_id HAVING count(*) <> max(a.attempt_no) OR min(a.attempt_no) <> 1 LIMIT ${EXAMPLES_MAX})
     UNION
     (SELECT COALESCE(e.outbox_id::text, e.scope) FROM ${qualify(role, 'payment_outbox_events')} e
      GROUP BY e.outbox_id, e.scope HAVING count(*) <> max(e.event_no) OR min(e.event_no) <> 1 LIMIT ${EXAMPLES_MAX})`,
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

/**
 * Finds returns of items that are not DISPATCHED, and payments whose returns exceed the amount in the payload. A
 * payload without a readable amount and currency sets no bound.
 */
export async function findOverReturned(role: Queryable): Promise<string[]> {
  return ids(
    role,
    `SELECT r.outbox_id AS id
     FROM (
       SELECT e.outbox_id, min(e.detail ->> 'currency') AS currency, sum(${amountIn('e.detail')}) AS total
       FROM ${qualify(role, 'payment_outbox_events')} e WHERE e.event_type = 'RETURN_RECORDED' GROUP BY e.outbox_id
     ) r
     LEFT JOIN ${qualify(role, 'payment_outbox_attempts')} a ON a.outbox_id = r.outbox_id AND a.state = 'DISPATCHED'
     WHERE a.outbox_id IS NULL
       OR (a.payload ->> 'currency' = r.currency AND ${amountIn('a.payload')} < r.total)
     LIMIT ${EXAMPLES_MAX}`,
  )
}

/** Difference between the tables of reconciliation and the sealed events. */
export interface ReconciliationBreak {
  readonly table: `reconciliation_${'runs' | 'entries' | 'findings' | 'closings'}`
  /** Id of the run, or for a closing the id of the closed finding. */
  readonly subject: string
  readonly why: string
}

/**
 * Finds runs and closings that differ from their events, and runs whose entries or findings differ from the digests in
 * the event. Returns at most a thousand. The statement calls no Symphony function, and no stored value can make it
 * fail.
 */
export async function findReconciliationBreaks(role: Queryable): Promise<ReconciliationBreak[]> {
  const [runs, closings] = [qualify(role, 'reconciliation_runs'), qualify(role, 'reconciliation_closings')]
  const { rows } = await role.query<ReconciliationBreak>(
    `(SELECT 'reconciliation_runs' AS "table", COALESCE(t.run_id::text, e.detail ->> 'run_id', e.event_id::text) AS subject,
        ${whyOf('t.run_id', 'e.event_id')} AS why
      FROM ${eventsOf(role, 'RECONCILED')} e FULL JOIN ${runs} t ON t.event_id = e.event_id
      WHERE (e.actor = t.actor AND e.scope = 'reconciliation:' || t.rail_type AND e.detail = ${RUN_DETAIL}) IS NOT TRUE
      LIMIT ${BREAKS_MAX})
     UNION ALL
     (SELECT 'reconciliation_closings', COALESCE(t.finding_id::text, e.detail ->> 'finding_id', e.event_id::text),
        ${whyOf('t.finding_id', 'e.event_id')}
      FROM ${eventsOf(role, 'FINDING_CLOSED')} e FULL JOIN ${closings} t ON t.event_id = e.event_id
      WHERE (e.actor = t.closed_by AND e.detail ->> 'finding_id' = t.finding_id::text AND e.detail ->> 'reason' = t.reason
        AND e.detail -> 'closed_at' = to_jsonb(${finiteMicros('t.closed_at')})) IS NOT TRUE
      LIMIT ${BREAKS_MAX})
     UNION ALL ${digestBreaks(role, 'reconciliation_entries', 'entries_sha256')}
     UNION ALL ${digestBreaks(role, 'reconciliation_findings', 'findings_sha256')}
     LIMIT ${BREAKS_MAX}`,
  )
  return rows
}

const BREAKS_MAX = 1_000

const RUN_HASHES = ['file_sha256', 'reading_sha256', 'entries_sha256', 'findings_sha256']
const RUN_TIMES = ['period_from', 'period_to', 'checked_from', 'checked_to', 'created_at']
/** SQL for the detail of the event RECONCILED of a run t: all columns except event_id and actor. */
const RUN_DETAIL = `(to_jsonb(t) - '{${['event_id', 'actor', ...RUN_HASHES, ...RUN_TIMES].join()}}'::text[]
  || jsonb_build_object(${[
    ...RUN_HASHES.map((column) => `'${column}', encode(t.${column}, 'hex')`),
    ...RUN_TIMES.map((column) => `'${column}', ${finiteMicros(`t.${column}`)}`),
  ].join(', ')}))`

/** Returns SQL for microseconds since 1970; null for an infinite time, which only a superuser could have written. */
function finiteMicros(time: string): string {
  return `CASE WHEN isfinite(${time}) THEN (extract(epoch FROM ${time}) * 1000000)::bigint END`
}

function eventsOf(role: Queryable, eventType: string): string {
  return `(SELECT e.event_id, e.scope, e.actor, e.detail FROM ${qualify(role, 'payment_outbox_events')} e
    WHERE e.event_type = '${eventType}')`
}

function whyOf(row: string, event: string): string {
  return `CASE WHEN ${row} IS NULL THEN 'sealed, and missing' WHEN ${event} IS NULL THEN 'has no sealed event'
    ELSE 'differs from its sealed event' END`
}

/** Returns SQL for runs whose rows in a table differ from the digest, and for rows without a run. */
function digestBreaks(role: Queryable, table: keyof typeof DIGESTED, digest: string): string {
  const order = table === 'reconciliation_entries' ? 't.entry_key, t.occurrence' : 't.finding_id'
  return `(SELECT '${table}', COALESCE(r.run_id, d.run_id)::text, 'differ from the digest of their run'
    FROM ${qualify(role, 'reconciliation_runs')} r
    FULL JOIN (
      SELECT t.run_id, sha256(string_agg(sha256(${recordOf(table)}), '' ORDER BY ${order})) AS digest
      FROM ${qualify(role, table)} t GROUP BY t.run_id
    ) d ON d.run_id = r.run_id
    WHERE r.${digest} IS DISTINCT FROM COALESCE(d.digest, sha256('')) LIMIT ${BREAKS_MAX})`
}

/** Returns SQL for the amount in a JSON object, by the rules of payload_amount; null for any other value. */
function amountIn(json: string): string {
  const text = `${json} ->> 'amount'`
  return `CASE WHEN jsonb_typeof(${json} -> 'amount') = 'string' AND octet_length(${text}) <= 40
    AND (${text}) COLLATE "C" ~ '^(0|[1-9][0-9]*)([.][0-9]+)?$' THEN NULLIF((${text})::numeric, 0) END`
}

async function ids(role: Queryable, text: string, values: readonly unknown[] = []): Promise<string[]> {
  const { rows } = await role.query<{ id: string }>(text, values)
  return rows.map(({ id }) => id)
}

const EXAMPLES_MAX = 10

/** Records the result of a verification, as symphony_auditor. Every process derives its alert from the last record. */
export async function recordLedgerVerification(
  role: Queryable,
  { rowsChecked, breakCount }: { readonly rowsChecked: number; readonly breakCount: number },
): Promise<void> {
  await call(role, 'record_ledger_verification', [rowsChecked, breakCount])
}

/** Age of unsealed rows, and the transaction that blocks sealing. */
export interface SealingStatus {
  /** Age of the oldest unsealed row; 0 if there is none. */
  readonly unsealedAgeSeconds: number
  /** Transaction that blocks sealing; undefined if there is none. */
  readonly blocker: SealingBlocker | undefined
}

/** Transaction that blocks sealing. Fields are null if PostgreSQL hides them. */
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

/** Reads the status as symphony_readonly, symphony_auditor or symphony_control. */
export async function readSealingStatus(role: Queryable): Promise<SealingStatus> {
  const [row] = await call<{
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
