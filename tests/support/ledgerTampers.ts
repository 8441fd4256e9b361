import { randomUUID } from 'node:crypto'
import type { Queryable } from '../../libs/db/index.js'
import { between, type Random } from '../../libs/cli/commands/demo/seededRandom.js'
import { ENTRY, rootOf, type Position } from '../../libs/ledger/blocks.js'
import { NEWEST_FORMAT } from '../../libs/ledger/formats.js'
import { databaseSource, type LedgerBreak, type LedgerRow } from '../../libs/ledger/index.js'

/**
 * A random change of the ledger by a superuser with disabled guards. It happens in the transaction of the given
 * connection, which is rolled back after verification.
 */
export interface Tamper {
  readonly kind: TamperKind
  readonly description: string
  /** Whether this break names the row or block that was changed. */
  readonly names: (found: LedgerBreak) => boolean
}

export const TAMPER_KINDS = [
  'flip',
  'delete',
  'swap',
  'insert',
  'truncate tail',
  'drop a block',
  'rewrite a payment',
  'rewrite a payment and its block',
  'rewrite a payment and all blocks',
  'restore',
  'fork',
] as const
export type TamperKind = (typeof TAMPER_KINDS)[number]

const ROW_TABLES = {
  payment_outbox_identities: 'outbox_id',
  payment_outbox_attempts: 'attempt_id',
  payment_outbox_events: 'event_id',
} as const
type RowTable = keyof typeof ROW_TABLES
const ROW_TABLE_NAMES = [
  'payment_outbox_identities',
  'payment_outbox_attempts',
  'payment_outbox_events',
] as const satisfies readonly RowTable[]
/** Tables of reconciliation, which sealed events cover. */
const RECONCILIATION_TABLES = {
  reconciliation_runs: 'run_id',
  reconciliation_entries: 'entry_key',
  reconciliation_findings: 'finding_id',
  reconciliation_closings: 'finding_id',
} as const
const CHANGED_TABLES = [
  ...ROW_TABLE_NAMES,
  'reconciliation_runs',
  'reconciliation_entries',
  'reconciliation_findings',
  'reconciliation_closings',
] as const satisfies readonly (RowTable | keyof typeof RECONCILIATION_TABLES)[]
const TABLES = [...CHANGED_TABLES, 'payment_outbox_blocks'] as const
type Table = (typeof TABLES)[number]
const KEYS: Readonly<Record<Table, string>> = {
  ...ROW_TABLES,
  ...RECONCILIATION_TABLES,
  payment_outbox_blocks: 'block_no',
}

/** Disables the triggers of the ledger tables. The caller must roll back, because a commit would keep them disabled. */
export async function disableGuards(client: Queryable): Promise<void> {
  for (const table of TABLES) await client.query(`ALTER TABLE ${table} DISABLE TRIGGER ALL`)
}

/** Makes one change that takes effect. If a constraint refuses the change, it tries another random one. */
export async function tamper(client: Queryable, kind: TamperKind, random: Random): Promise<Tamper> {
  for (;;) {
    await client.query('SAVEPOINT before_tamper')
    try {
      const done = await TAMPER_FUNCTIONS[kind](client, random)
      if (done !== undefined) return { kind, ...done }
    } catch (error) {
      // A constraint refused the change. A superuser could drop the constraint; this loop tries another change instead.
      if (!isConstraint(error)) throw error
    }
    await client.query('ROLLBACK TO SAVEPOINT before_tamper')
  }
}

type TamperFunction = (client: Queryable, random: Random) => Promise<Omit<Tamper, 'kind'> | undefined>

const TAMPER_FUNCTIONS: Readonly<Record<TamperKind, TamperFunction>> = {
  flip: async (client, random) => {
    const table = pick(random, TABLES)
    const { name, type } = pick(random, await columnsOf(client, table))
    const row = await pickRow(client, table, random)
    const expression = FLIPS[type]?.(quote(name), between(random, 0, 100_000))
    if (expression === undefined) throw new Error(`FLIPS has no expression for ${type}; add one`)
    const { rows } = await client.query<{ now: string | null }>(
      `UPDATE ${table} t SET ${quote(name)} = ${expression} WHERE t.ctid = $1::tid RETURNING t.${quote(name)}::text AS now`,
      [row.place],
    )
    const now = rows[0]?.now ?? null
    if (now === (row.text[name] ?? null)) return undefined
    return { description: `${table}.${name} of ${row.key}`, names: about([...row.names, now ?? ''], row.blocks) }
  },

  delete: async (client, random) => {
    const table = pick(random, CHANGED_TABLES)
    const row = await pickRow(client, table, random)
    await client.query(`DELETE FROM ${table} WHERE ctid = $1::tid`, [row.place])
    return { description: `${table} ${row.key}`, names: about(row.names, []) }
  },

  swap: async (client, random) => {
    const table = pick(random, CHANGED_TABLES)
    const { name } = pick(random, await columnsOf(client, table))
    const [one, other] = [await pickRow(client, table, random), await pickRow(client, table, random)]
    if (one.text[name] === other.text[name]) return undefined
    await client.query(
      `UPDATE ${table} t SET ${quote(name)} = s.${quote(name)} FROM ${table} s
       WHERE (t.ctid = $1::tid AND s.ctid = $2::tid) OR (t.ctid = $2::tid AND s.ctid = $1::tid)`,
      [one.place, other.place],
    )
    return {
      description: `${table}.${name} of ${one.key} and ${other.key}`,
      names: about([...one.names, ...other.names], []),
    }
  },

  insert: async (client, random) => {
    const table = pick(random, CHANGED_TABLES)
    const row = await pickRow(client, table, random)
    const id = randomUUID()
    const number = String(between(random, 100, 1_000_000))
    const fresh = {
      payment_outbox_identities: { outbox_id: id, idempotency_key: number, sequence_id: number },
      payment_outbox_attempts: { attempt_id: id, attempt_no: number, state: 'ZOMBIE_REQUEUE' },
      payment_outbox_events: { event_id: id, event_no: number },
      reconciliation_runs: { run_id: id, settlement_days: between(random, 0, 60) },
      reconciliation_entries: { occurrence: number },
      reconciliation_findings: { finding_id: id, finding_key: `\\x${number}` },
      reconciliation_closings: { finding_id: id },
    }[table]
    // Inserts into a block, among unsealed rows, or before all rows.
    const place = random()
    const open = place < 0.3 ? { recorded_xid: '9000000000000000' } : place < 0.5 ? { recorded_xid: '-7' } : {}
    await client.query(
      `INSERT INTO ${table} SELECT r.* FROM ${table} t CROSS JOIN LATERAL jsonb_populate_record(t, $2::jsonb) r WHERE t.ctid = $1::tid`,
      [row.place, JSON.stringify({ ...fresh, ...open })],
    )
    return { description: `${table} ${id} like ${row.key}`, names: about([...row.names, id], []) }
  },

  'truncate tail': async (client, random) => {
    const [block, last] = await pickBlock(client, random)
    await deleteRowsAfter(client, block)
    return {
      description: `every row after block ${block} of ${last}`,
      names: ({ block: at, why }) => at !== null && BigInt(at) > BigInt(block) && why.includes('missing'),
    }
  },

  'drop a block': async (client, random) => {
    const { rows } = await client.query<{ no: string }>(
      'SELECT block_no::text AS no FROM payment_outbox_blocks ORDER BY block_no',
    )
    const { no } = pick(random, rows)
    await client.query('DELETE FROM payment_outbox_blocks WHERE block_no = $1', [no])
    return { description: `block ${no}`, names: about([], [no, String(BigInt(no) + 1n)]) }
  },

  'rewrite a payment': async (client, random) => {
    const outboxId = await rewritePayment(client, random)
    return { description: `every row of ${outboxId}`, names: about([outboxId], []) }
  },

  'rewrite a payment and its block': async (client, random) => {
    const outboxId = await rewritePayment(client, random)
    const blocks = await rehashBlocksOf(client, outboxId)
    const next = blocks.map((no) => String(BigInt(no) + 1n))
    return {
      description: `${outboxId} and the blocks ${blocks.join()}, each by itself`,
      names: about([], [...blocks, ...next]),
    }
  },

  'rewrite a payment and all blocks': async (client, random) => {
    const outboxId = await rewritePayment(client, random)
    await client.query('DELETE FROM payment_outbox_blocks')
    await reseal(client, BLOCK_ROWS)
    return { description: `${outboxId} and every block, consistently`, names: isCheckpoint }
  },

  restore: async (client, random) => {
    const [block, last] = await pickBlock(client, random)
    await deleteRowsAfter(client, block)
    await client.query('DELETE FROM payment_outbox_blocks WHERE block_no > $1', [block])
    return { description: `the state as of block ${block} of ${last}`, names: isCheckpoint }
  },

  fork: async (client, random) => {
    const [block] = await pickBlock(client, random)
    await client.query('DELETE FROM payment_outbox_blocks WHERE block_no > $1', [block])
    await reseal(client, between(random, 1, BLOCK_ROWS - 1))
    return { description: `other blocks after block ${block}`, names: isCheckpoint }
  },
}

/** Rows per block in the fixture of these tests. */
export const BLOCK_ROWS = 6

const isCheckpoint = ({ table }: LedgerBreak) => table === 'checkpoints'

function about(subjects: readonly string[], blocks: readonly string[]): Tamper['names'] {
  return ({ table, subject, block }) =>
    subjects.includes(subject) ||
    ((table === 'payment_outbox_blocks' || table === 'checkpoints') && block !== null && blocks.includes(block))
}

interface FoundRow {
  readonly place: string
  readonly key: string
  readonly text: Readonly<Record<string, string | null>>
  /** Values of `subject` with which a break may report the row. */
  readonly names: readonly string[]
  readonly blocks: readonly string[]
}

async function pickRow(client: Queryable, table: Table, random: Random): Promise<FoundRow> {
  const columns = await columnsOf(client, table)
  const texts = columns.map(({ name }) => `'${name}', t.${quote(name)}::text`).join(', ')
  const key = KEYS[table]
  const { rows } = await client.query<{ place: string; text: Record<string, string | null> }>(
    `SELECT t.ctid::text AS place, jsonb_build_object(${texts}) AS text FROM ${table} t ORDER BY t.${key}`,
  )
  const { place, text } = pick(random, rows)
  const name = text[key] ?? ''
  const no = key === 'block_no' ? [name, String(BigInt(name) + 1n), String(BigInt(name) - 1n)] : []
  // An event of reconciliation may be reported by the run or finding in its detail.
  const detail: Record<string, unknown> = table === 'payment_outbox_events' ? JSON.parse(text['detail'] ?? '{}') : {}
  const names = [
    name,
    text['outbox_id'] ?? text['scope'] ?? name,
    text['run_id'] ?? name,
    ...[detail['run_id'], detail['finding_id']].filter((id) => typeof id === 'string'),
  ]
  return { place, key: name, text, names, blocks: no }
}

/** Returns the columns that a hash covers. */
export async function columnsOf(client: Queryable, table: Table): Promise<{ name: string; type: string }[]> {
  const { rows } = await client.query<{ name: string; type: string }>(
    `SELECT a.attname AS name, (SELECT CASE WHEN t.typtype = 'e' THEN t.typname ELSE format_type(t.oid, NULL) END FROM pg_type t WHERE t.oid = a.atttypid) AS type FROM pg_attribute a
     WHERE a.attrelid = $1::regclass AND a.attnum > 0 AND NOT a.attisdropped AND a.attname <> ALL ($2) ORDER BY a.attname`,
    [table, UNHASHED],
  )
  return rows
}

/**
 * Changes a column of one row of a table, and returns the values of `subject` with which a break may report the row.
 */
export async function flipColumn(
  client: Queryable,
  table: Table,
  { name, type }: { readonly name: string; readonly type: string },
): Promise<readonly string[]> {
  const row = await pickRow(client, table, () => 0)
  const { rows } = await client.query<{ now: string | null }>(
    `UPDATE ${table} t SET ${quote(name)} = ${FLIPS[type]!(quote(name), 0)} WHERE t.ctid = $1::tid
     RETURNING t.${quote(name)}::text AS now`,
    [row.place],
  )
  return [...row.names, rows[0]?.now ?? '']
}

/** Columns that no hash covers. */
const UNHASHED = ['traceparent']

/** Smallest change per type: one bit, one character, one microsecond. */
const FLIPS: Readonly<Record<string, (column: string, spot: number) => string>> = {
  text: (column, spot) =>
    `CASE WHEN COALESCE(${column}, '') = '' THEN 'x' ELSE overlay(${column} PLACING
       CASE substr(${column}, 1 + ${spot} % length(${column}), 1) WHEN 'A' THEN 'B' ELSE 'A' END
       FROM 1 + ${spot} % length(${column}) FOR 1) END`,
  uuid: () => 'gen_random_uuid()',
  bigint: (column) => `COALESCE(${column}, 0) + 1`,
  integer: (column) => `COALESCE(${column}, 0) + 1`,
  smallint: (column) => `1 + ${column} % 3`,
  boolean: (column) => `NOT ${column}`,
  'timestamp with time zone': (column) => `COALESCE(${column}, now()) + interval '1 microsecond'`,
  bytea: (column, spot) =>
    `CASE WHEN COALESCE(octet_length(${column}), 0) = 0 THEN sha256('x')
       ELSE set_bit(${column}, ${spot} % (8 * octet_length(${column})), 1 - get_bit(${column}, ${spot} % (8 * octet_length(${column})))) END`,
  jsonb: (column) => `${column} || '{"forged": "1"}'`,
  numeric: (column) => `COALESCE(${column}, 0) + 0.01`,
  date: (column) => `COALESCE(${column}, current_date) + 1`,
  'text[]': (column) => `array_append(${column}, 'forged')`,
  outbox_attempt_state: (column) =>
    `CASE ${column} WHEN 'RETRYABLE' THEN 'ZOMBIE_REQUEUE' ELSE 'RETRYABLE' END::outbox_attempt_state`,
}

async function pickBlock(client: Queryable, random: Random): Promise<[block: string, last: string]> {
  const { rows } = await client.query<{ no: string }>(
    'SELECT block_no::text AS no FROM payment_outbox_blocks ORDER BY block_no',
  )
  return [pick(random, rows.slice(0, -1)).no, rows.at(-1)?.no ?? '']
}

async function deleteRowsAfter(client: Queryable, block: string): Promise<void> {
  for (const [index, table] of ROW_TABLE_NAMES.entries()) {
    await client.query(
      `DELETE FROM ${table} t USING payment_outbox_blocks b
       WHERE b.block_no = $1 AND (t.recorded_xid, ${index + 1}, t.${ROW_TABLES[table]}) > (b.last_xid, b.last_kind::integer, b.last_id)`,
      [block],
    )
  }
}

async function reseal(client: Queryable, rowsMax: number): Promise<void> {
  for (;;) {
    const { rows } = await client.query('SELECT * FROM seal_ledger_block($1)', [rowsMax])
    if (rows.length === 0) return
  }
}

/**
 * Recomputes each block that contains the identity or an attempt of the item. The other blocks keep their hashes.
 * Returns the numbers of the changed blocks.
 */
async function rehashBlocksOf(client: Queryable, outboxId: string): Promise<string[]> {
  const source = databaseSource(client)
  const changed: string[] = []
  let before: Position | null = null
  for await (const block of source.blocks(0n)) {
    const rows: LedgerRow[] = []
    for await (const page of source.rowsBetween(before, block.last, NEWEST_FORMAT)) rows.push(...page)
    before = block.last
    if (!rows.some((row) => row.kind !== 'event' && row.subject === outboxId)) continue
    const entries = Buffer.alloc(ENTRY.bytes * rows.length)
    for (const [index, row] of rows.entries()) row.writeEntry(entries, index * ENTRY.bytes)
    await client.query(`UPDATE payment_outbox_blocks SET entries = $2, root = decode($3, 'hex') WHERE block_no = $1`, [
      String(block.no),
      entries,
      rootOf(entries),
    ])
    await client.query('UPDATE payment_outbox_blocks b SET block_hash = outbox_block_hash(b) WHERE block_no = $1', [
      String(block.no),
    ])
    changed.push(String(block.no))
  }
  return changed
}

/** Changes the identity and every attempt of a random item. Returns its id. */
async function rewritePayment(client: Queryable, random: Random): Promise<string> {
  const identity = await pickRow(client, 'payment_outbox_identities', random)
  const outboxId = identity.key
  await client.query(
    `UPDATE payment_outbox_identities SET instruction_id = instruction_id || 'X' WHERE outbox_id = $1`,
    [outboxId],
  )
  await client.query(
    `UPDATE payment_outbox_attempts SET instruction_id = instruction_id || 'X', payload = payload || '{"amountMinor": "1"}'
     WHERE outbox_id = $1`,
    [outboxId],
  )
  return outboxId
}

function pick<T>(random: Random, from: readonly T[]): T {
  const picked = from[between(random, 0, from.length - 1)]
  if (picked === undefined) throw new Error('nothing to choose from')
  return picked
}

function quote(name: string): string {
  return `"${name}"`
}

/** Returns whether a constraint or a value range refused the change. */
function isConstraint(error: unknown): boolean {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' && /^2[23]/.test(error.code)
}
