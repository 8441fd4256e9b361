import { beforeAll, describe, expect, test } from 'vitest'
import { HEAD_COLUMNS } from '../../libs/ledger/blocks.js'
import { DIGESTED, EXPRESSIONS, FORMATS, KINDS, NEWEST_FORMAT, TABLE_OF, UNCOVERED } from '../../libs/ledger/formats.js'
import { openExport } from '../../libs/ledger/index.js'
import { useTestDatabase } from '../support/database.js'

/** Columns of the ledger tables and bodies of the hashing functions, from the catalog. */
interface Catalog {
  /** Columns with their types, in order, by table. */
  readonly columns: ReadonlyMap<string, ReadonlyMap<string, string>>
  readonly entries: string
  readonly hash: string
  readonly seal: string
  readonly verify: string
}

const db = await useTestDatabase({ countBranches: false })
let catalog: Catalog
beforeAll(async () => {
  catalog = await readCatalog()
})

async function readCatalog(): Promise<Catalog> {
  const { rows } = await db.queryNoRole<{ table: string; name: string; type: string }>(
    `SELECT c.relname AS table, a.attname AS name, a.atttypid::regtype::text AS type
     FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
     WHERE c.oid = ANY ($1::regclass[]) ORDER BY c.relname, a.attnum`,
    [[...Object.values(TABLE_OF), 'payment_outbox_blocks']],
  )
  const columns = new Map<string, Map<string, string>>()
  for (const { table, name, type } of rows) {
    if (!columns.has(table)) columns.set(table, new Map())
    columns.get(table)!.set(name, type)
  }
  return {
    columns,
    entries: await textOf('outbox_block_entries'),
    hash: await textOf('outbox_block_hash'),
    seal: await textOf('seal_ledger_block'),
    verify: await textOf('verify_ledger_block'),
  }
}

async function textOf(name: string): Promise<string> {
  const { rows } = await db.queryNoRole<{ text: string }>(
    'SELECT COALESCE(pg_get_function_sqlbody(p.oid), p.prosrc) AS text FROM pg_proc p WHERE p.proname = $1',
    [name],
  )
  return rows[0]!.text
}

/** Returns the fields of each `record_send(ROW(…))` in a text, without the prefix of a table alias or parameter. */
function hashedLists(text: string): string[][] {
  return [...text.matchAll(/record_send\(ROW\(/gi)].map(({ index, 0: start }) => {
    const parts = ['']
    let depth = 0
    for (const sign of text.slice(index + start.length)) {
      if (sign === ')' && depth === 0) break
      if (sign === '(') depth += 1
      if (sign === ')') depth -= 1
      if (sign === ',' && depth === 0) parts.push('')
      else parts[parts.length - 1] += sign
    }
    return parts.map((part) =>
      part
        .trim()
        .replaceAll(/\s+/g, ' ')
        .replaceAll(/\b[iae]\.|\(p_block\)\./g, ''),
    )
  })
}

/** Returns one line per difference between the catalog and libs/ledger/formats.ts. */
function differences({ columns, entries, hash, seal, verify }: Catalog): string[] {
  const found: string[] = []
  const lists = hashedLists(entries)
  const tables = [...entries.matchAll(/SELECT \* FROM (payment_outbox_\w+)/g)].map(([, table]) => table)
  for (const [index, kind] of KINDS.entries()) {
    const table = TABLE_OF[kind]
    const covered = NEWEST_FORMAT[kind]
    const there = [...(columns.get(table)?.keys() ?? [])]
    for (const column of there) {
      const isCovered = covered.includes(column)
      if (isCovered === column in UNCOVERED) found.push(`${table}.${column}: ${isCovered ? 'both' : 'neither'}`)
    }
    for (const column of covered) if (!there.includes(column)) found.push(`${table}.${column}: no such column`)
    if (tables[index] !== table) found.push(`${kind}: list ${index + 1} is read from ${tables[index]}`)
    const expected = covered.map((column) => (EXPRESSIONS[column] ?? column).replaceAll('t.', ''))
    found.push(...listDifference(kind, expected, lists[index] ?? []))
  }
  const all = new Set(
    [...columns].filter(([table]) => table !== 'payment_outbox_blocks').flatMap(([, own]) => Array.from(own.keys())),
  )
  for (const [column, reason] of Object.entries(UNCOVERED)) {
    if (!all.has(column)) found.push(`${column}: uncovered, and no such column`)
    if (reason.trim() === '') found.push(`${column}: uncovered without a reason`)
  }
  found.push(...listDifference('head', HEAD_COLUMNS, hashedLists(hash)[0] ?? []))
  const inHead = new Set([...HEAD_COLUMNS, 'entries', 'block_hash'])
  for (const column of columns.get('payment_outbox_blocks')!.keys()) {
    if (!inHead.has(column)) found.push(`payment_outbox_blocks.${column}: not in the head`)
  }
  const newest = [...FORMATS.keys()].at(-1)
  for (const [name, text] of [
    ['seal_ledger_block', /v_block\.format := (\d+)/.exec(seal)?.[1]],
    ['verify_ledger_block', /v_block\.format <> (\d+)/.exec(verify)?.[1]],
  ]) {
    if (text !== String(newest)) found.push(`${name}: format ${text}, expected ${newest}`)
  }
  return found
}

function listDifference(name: string, expected: readonly string[], hashed: readonly string[]): string[] {
  const at = [...expected, ''].findIndex((column, index) => column !== (hashed[index] ?? ''))
  if (at === -1 && hashed.length === expected.length) return []
  const place = at === -1 ? expected.length : at
  return [`${name}: place ${place + 1} is ${hashed[place] ?? 'missing'}, expected ${expected[place] ?? 'none'}`]
}

describe('the newest block format', () => {
  test('lists the hashed columns in hash order, and gives a reason for each column left out', () => {
    expect(differences(catalog)).toEqual([])
  })

  test('lists the primary key of each ledger table first', async () => {
    for (const kind of KINDS) {
      const { rows } = await db.queryNoRole<{ columns: string[] }>(
        `SELECT ARRAY(SELECT a.attname::text FROM pg_attribute a WHERE a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)) AS columns
         FROM pg_index i WHERE i.indrelid = $1::regclass AND i.indisprimary`,
        [TABLE_OF[kind]],
      )
      expect(rows).toEqual([{ columns: [NEWEST_FORMAT[kind][0]] }])
    }
  })

  test('lists all columns of reconciliation entries and findings in the column order of each table', async () => {
    for (const [table, columns] of Object.entries(DIGESTED)) {
      const { rows } = await db.queryNoRole<{ name: string }>(
        `SELECT a.attname AS name FROM pg_attribute a WHERE a.attrelid = $1::regclass AND a.attnum > 0
           AND NOT a.attisdropped ORDER BY a.attnum`,
        [table],
      )
      expect([table, columns]).toEqual([table, rows.map(({ name }) => name)])
    }
  })

  test('has the same column types as the golden ledger', async () => {
    const { source } = await openExport(new URL('../golden/ledger-format-1', import.meta.url).pathname)
    const golden = new Map<string, number[]>()
    for await (const rows of source.openRows(null))
      for (const { kind, record } of rows) golden.set(kind, typesOf(record))
    expect([...golden.keys()].toSorted()).toEqual([...KINDS].toSorted())
    for (const kind of KINDS) {
      const { rows } = await db.queryNoRole<{ record: Buffer }>(
        `SELECT record_send(ROW(${NEWEST_FORMAT[kind].map((column) => EXPRESSIONS[column] ?? `t.${column}`).join(', ')})) AS record
         FROM (SELECT (jsonb_populate_record(NULL::${TABLE_OF[kind]}, '{}')).*) t`,
      )
      expect([kind, typesOf(rows[0]!.record)]).toEqual([kind, golden.get(kind)])
    }
  })
})

function typesOf(record: Buffer): number[] {
  const types: number[] = []
  for (let at = 4; at < record.length; at += 8 + Math.max(0, record.readInt32BE(at + 4)))
    types.push(record.readInt32BE(at))
  return types
}

const withColumn = (table: string, name: string): Catalog => ({
  ...catalog,
  columns: new Map(catalog.columns).set(table, new Map(catalog.columns.get(table)).set(name, 'text')),
})
const withText = (part: 'entries' | 'hash' | 'seal' | 'verify', find: RegExp | string, replace: string): Catalog => {
  const text = catalog[part].replace(find, replace)
  expect(text).not.toBe(catalog[part])
  return { ...catalog, [part]: text }
}

describe('the comparison of the block format with the database', () => {
  const changes: Record<string, [change: () => Catalog, found: string[]]> = {
    'a new column of a ledger table': [
      () => withColumn('payment_outbox_attempts', 'fee'),
      ['payment_outbox_attempts.fee: neither'],
    ],
    'a column missing from the hashed row': [
      () => withText('entries', ' a.error_message,', ''),
      ['attempt: place 16 is latency_ms, expected error_message'],
    ],
    'the last column missing from the hashed row': [
      () => withText('entries', /,\s*i\.replaces\)/, ')'),
      ['identity: place 15 is missing, expected replaces'],
    ],
    'two columns hashed in another order': [
      () => withText('entries', 'e.event_id, e.outbox_id,', 'e.outbox_id, e.event_id,'),
      ['event: place 1 is outbox_id, expected event_id'],
    ],
    'an extra column in the hashed row': [
      () => withText('entries', 'e.created_at)', 'e.created_at, e.recorded_xid)'),
      ['event: place 10 is recorded_xid, expected none'],
    ],
    'a lease token that enters the hash in plain text': [
      () => withText('entries', 'sha256(uuid_send(a.lease_token))', 'a.lease_token'),
      ['attempt: place 19 is lease_token, expected sha256(uuid_send(lease_token))'],
    ],
    'a state hashed as an enum, whose type OID differs per database': [
      () => withText('entries', 'a.state::text', 'a.state'),
      ['attempt: place 10 is state, expected state::text'],
    ],
    'rows read from another table': [
      () => withText('entries', 'SELECT * FROM payment_outbox_events', 'SELECT * FROM payment_outbox_attempts'),
      ['event: list 3 is read from payment_outbox_attempts'],
    ],
    'a column of blocks missing from the block head': [
      () => withText('hash', /\(p_block\)\.root,\s*/, ''),
      ['head: place 8 is sealed_at, expected root'],
    ],
    'a new column of blocks': [
      () => withColumn('payment_outbox_blocks', 'sealed_by'),
      ['payment_outbox_blocks.sealed_by: not in the head'],
    ],
    'a sealer that writes another format': [
      () => withText('seal', 'v_block.format := 1', 'v_block.format := 2'),
      ['seal_ledger_block: format 2, expected 1'],
    ],
    'a verifier of another format': [
      () => withText('verify', 'v_block.format <> 1', 'v_block.format <> 2'),
      ['verify_ledger_block: format 2, expected 1'],
    ],
  }
  test.for(Object.entries(changes))('reports a difference: %s', ([, [change, found]]) => {
    expect(differences(change())).toEqual(found)
  })
})
