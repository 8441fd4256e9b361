import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  blockHash,
  ENTRY,
  isAfter,
  numberOfKind,
  readHead,
  rootOf,
  type Block,
  type Position,
} from '../../libs/ledger/blocks.js'
import { FORMATS } from '../../libs/ledger/formats.js'
import { databaseSource, exportLedger, openExport, verifyLedger } from '../../libs/ledger/index.js'
import { LedgerRow } from '../../libs/ledger/LedgerRow.js'
import type { LedgerSource } from '../../libs/ledger/LedgerSource.js'
import { createTestDatabase, type TestDatabase } from '../support/database.js'

/**
 * An exported ledger of format 1. Sealed blocks outlive releases, so these files never change. Code that encodes or
 * hashes the same rows differently needs a new format.
 */
const GOLDEN = new URL('../golden/ledger-format-1', import.meta.url).pathname
const ROWS = new URL('../golden/ledger-format-1.sql', import.meta.url).pathname
const FORMAT = FORMATS.get(1)!

/** A second copy of the block hashes, so that a regenerated export fails the test. */
const HASHES = [
  '40b71bc19e59f7ba5de81ce9b942ab862d126b4b6639ff069917f0b45200c6c4',
  '7146738cfff2f11891ecc0e37f8a4e48ff1ef51f1e7fa63fa81ee24c6d00c597',
]

const rows: LedgerRow[] = []
const blocks: Block[] = []
beforeAll(async () => {
  const { source } = await openExport(GOLDEN)
  for await (const block of source.blocks(0n)) {
    for await (const page of source.rowsBetween(blocks.at(-1)?.last ?? null, block.last, FORMAT)) rows.push(...page)
    blocks.push(block)
  }
})

/** Returns all fields of a golden row as text. */
function fields(id: string): Record<string, string | null> {
  const row = rows.find((one) => one.id === id)!
  return Object.fromEntries(FORMAT[row.kind].map((column) => [column, row.field(column)]))
}

describe('the golden ledger of format 1', () => {
  test('verifies without a break when it is read from its export', async () => {
    const { source } = await openExport(GOLDEN)
    expect(await verifyLedger(source)).toMatchObject({
      identities: 3,
      attempts: 3,
      events: 20,
      blocks: 2,
      openRows: 0,
      breaks: [],
      head: { no: 2n, hash: HASHES[1], sealedAt: '1770100000000002' },
    })
  })

  test('has the block entries, roots and hashes that the current code computes from its rows', () => {
    expect(blocks.map(({ hash }) => hash)).toEqual(HASHES)
    expect(blocks.map(blockHash)).toEqual(HASHES)
    expect(blocks.map(({ prevHash }) => prevHash)).toEqual([null, HASHES[0]])
    expect(blocks.map(({ format }) => format)).toEqual([1, 1])
    expect(blocks.map(({ rowCount }) => rowCount)).toEqual([23, 3])
    for (const [index, block] of blocks.entries()) {
      const own = rows.filter((row) => !isAfter(row, block.last) && (index === 0 || isAfter(row, blocks[0]!.last)))
      const entries = Buffer.alloc(own.length * ENTRY.bytes)
      own.forEach((row, place) => row.writeEntry(entries, place * ENTRY.bytes))
      expect(entries.toString('hex')).toBe(block.entries.toString('hex'))
      expect(rootOf(entries)).toBe(block.root)
    }
  })

  test('has rows that decode to the original values', () => {
    expect(fields('ffffffff-ffff-7fff-bfff-ffffffffffff')).toEqual({
      outbox_id: 'ffffffff-ffff-7fff-bfff-ffffffffffff',
      instruction_id: 'Überweisung 💶',
      idempotency_key: 'kéy "2" \\ \u2028',
      participant_id: 'नम',
      sequence_id: '-9223372036854775808',
      rail_type: 'sepa',
      ordered: 'true',
      redrive_of: '00000000-0000-7000-8000-000000000001',
      content_hash: 'ed7002b439e9ac845f22357d822bac1444730fbdb6016d3ec9432297b9ec9f73',
      created_at: '-1',
      is_message: 'true',
      key_scope: 'key_1',
      stream_position: '9223372036854775807',
      outcome_topic: 'thème 💶',
      replaces: '00000000-0000-7000-8000-000000000001',
    })
    expect(fields('00000000-0000-7000-8000-000000000003')).toMatchObject({ instruction_id: '', redrive_of: null })
    expect(fields('00000000-0000-7000-8000-000000000011')).toMatchObject({
      payload:
        '{"a": {"": null, "t": true, "escape \\" \\\\ \\n \\u001f": "€ 😀 \u2028"}, "z": [1, 1.10, -0.0000001, 12345678901234567890.12]}',
      state: 'RETRYABLE',
      claimed_at: '1770091507000000',
      rail_reference: null,
      error_message: 'zu wenig Guthaben – später',
      latency_ms: '0',
      // SHA-256 of the token.
      lease_token: '19c51b176b4178937723d25347bb8295b254d6aa7bb4a5c4fa475274668bd42d',
      outcome_unknown: 'true',
    })
    expect(fields('00000000-0000-7000-8000-000000000012')).toMatchObject({
      attempt_no: '2147483647',
      lease_token: null,
    })
    expect(fields('00000000-0000-7000-8000-000000000022')).toEqual({
      event_id: '00000000-0000-7000-8000-000000000022',
      outbox_id: null,
      scope: 'rail:sepa 🏦',
      event_no: '9223372036854775807',
      event_type: 'PAUSED',
      attempt_id: '00000000-0000-7000-8000-000000000011',
      actor: 'Ольга',
      detail: '{}',
      created_at: '2147483648000000',
    })
  })
})

/** Returns the golden ledger with other rows or blocks. */
function sourceOf(changed: { readonly rows?: readonly LedgerRow[]; readonly blocks?: readonly Block[] }): LedgerSource {
  const own = { rows, blocks, ...changed }
  return {
    count: () => Promise.resolve(own.rows.length),
    nextXid: () => Promise.resolve(1n << 62n),
    async *blocks() {
      yield* own.blocks
    },
    async *rowsBetween(after, last) {
      yield own.rows.filter((row) => (after === null || isAfter(row, after)) && !isAfter(row, last))
    },
    async *openRows(after) {
      yield own.rows.filter((row) => after !== null && isAfter(row, after))
    },
  }
}

async function isFound(changed: Parameters<typeof sourceOf>[0]): Promise<boolean> {
  return (await verifyLedger(sourceOf(changed))).breakCount > 0
}

function flipped(bytes: Buffer, at: number): Buffer {
  const copy = Buffer.from(bytes)
  copy[at]! ^= 1
  return copy
}

describe('verification of the golden ledger', () => {
  test('finds no break in the unchanged ledger', async () => {
    expect(await isFound({})).toBe(false)
  })

  test('finds a change of any byte of a row', async () => {
    const unfound: string[] = []
    for (const [index, row] of rows.entries()) {
      // Skips the generated LEASE_RENEWED rows, which differ only in their ids.
      if (row.field('event_type') === 'LEASE_RENEWED') continue
      for (let at = 0; at < row.record.length; at += 1) {
        const forged = LedgerRow.of(row.kind, row.xid, flipped(row.record, at), FORMAT)
        if (!(await isFound({ rows: rows.with(index, forged) }))) unfound.push(`byte ${at} of ${row.id}`)
      }
    }
    expect(unfound).toEqual([])
  })

  test('finds a row that is missing, duplicated or moved to another transaction', async () => {
    for (const [index, row] of rows.entries()) {
      expect(await isFound({ rows: rows.toSpliced(index, 1) })).toBe(true)
      expect(await isFound({ rows: rows.toSpliced(index, 0, row) })).toBe(true)
      expect(await isFound({ rows: rows.with(index, LedgerRow.of(row.kind, row.xid - 1n, row.record, FORMAT)) })).toBe(
        true,
      )
    }
  })

  test('finds a row that was changed together with its block entry', async () => {
    const [block] = blocks
    for (const [index, row] of rows.slice(0, block!.rowCount).entries()) {
      const forged = LedgerRow.of(row.kind, row.xid, flipped(row.record, row.record.length - 1), FORMAT)
      const entries = Buffer.from(block!.entries)
      forged.writeEntry(entries, index * ENTRY.bytes)
      expect(await isFound({ rows: rows.with(index, forged), blocks: blocks.with(0, { ...block!, entries }) })).toBe(
        true,
      )
    }
  })

  test('finds a changed byte in the head, the entries or the hash of a block', async () => {
    const unfound: string[] = []
    for (const [index, block] of blocks.entries()) {
      const forgeries: [string, Block][] = []
      for (let at = 0; at < block.head.length; at += 1) {
        forgeries.push([`head ${at}`, { ...block, ...readHead(flipped(block.head, at)) }])
      }
      // A step of 9 reaches every part of an entry, because it has no common divisor with the entry length.
      for (let at = 0; at < block.entries.length; at += 9) {
        forgeries.push([`entries ${at}`, { ...block, entries: flipped(block.entries, at) }])
      }
      forgeries.push(['hash', { ...block, hash: `0${block.hash.slice(1)}` }])
      for (const [what, forged] of forgeries) {
        if (!(await isFound({ blocks: blocks.with(index, forged) }))) unfound.push(`${what} of block ${block.no}`)
      }
    }
    expect(unfound).toEqual([])
  })

  test('finds a missing first block', async () => {
    expect(await isFound({ blocks: blocks.slice(1) })).toBe(true)
  })
})

describe('golden rows in a database', () => {
  let db: TestDatabase
  let folder: string
  beforeAll(async () => {
    db = await createTestDatabase({ countBranches: false })
    folder = await mkdtemp(join(tmpdir(), 'symphony-golden-'))
    await db.queryNoRole(await readFile(ROWS, 'utf8'))
    await addBlock(undefined, { xid: 4_294_967_295n, kind: 'event', id: 'ffffffff-ffff-ffff-ffff-ffffffffffff' })
    await addBlock(blocks[0]!.last, { xid: 1n << 62n, kind: 'event', id: 'ffffffff-ffff-ffff-ffff-ffffffffffff' })
  })
  afterAll(async () => {
    await db.drop()
    await rm(folder, { recursive: true, force: true })
  })

  /** Seals like seal_ledger_block, with a fixed time. */
  async function addBlock(after: Position | undefined, bound: Position): Promise<void> {
    const no = after === undefined ? 1 : 2
    await db.queryNoRole(
      `WITH sealed AS (
         SELECT string_agg(e.entry, '' ORDER BY e.ordinality) AS entries, count(*) AS row_count, max(e.recorded_xid) AS last_xid
         FROM outbox_block_entries($2, $3, $4, $5, $6, $7, 1000) WITH ORDINALITY e
       ), headed AS (
         SELECT jsonb_populate_record(NULL::payment_outbox_blocks, jsonb_build_object(
           'block_no', $1::bigint, 'format', 1, 'row_count', s.row_count, 'last_xid', s.last_xid,
           'last_kind', get_byte(s.entries, octet_length(s.entries) - 57),
           'last_id', encode(substring(s.entries FROM octet_length(s.entries) - 55 FOR 16), 'hex'),
           'entries', s.entries, 'root', outbox_block_root(s.entries),
           'prev_hash', (SELECT b.block_hash FROM payment_outbox_blocks b WHERE b.block_no = $1 - 1),
           'sealed_at', '2026-02-03 06:26:40+00'::timestamptz + $1 * interval '1 microsecond')) AS block
         FROM sealed s
       )
       INSERT INTO payment_outbox_blocks
       SELECT (jsonb_populate_record(h.block, jsonb_build_object('block_hash', outbox_block_hash(h.block)))).* FROM headed h`,
      [
        no,
        String(after?.xid ?? 0n),
        numberOfKind(after?.kind),
        after?.id ?? '00000000-0000-0000-0000-000000000000',
        String(bound.xid),
        numberOfKind(bound.kind),
        bound.id,
      ],
    )
  }

  test('are sealed and exported as the same bytes as the golden ledger', async () => {
    const exported = join(folder, 'export')
    await exportLedger(databaseSource(db.as('symphony_auditor')), exported)
    for (const name of ['rows.ndjson', 'blocks.ndjson', 'open.ndjson']) {
      expect([name, await readFile(join(exported, name), 'utf8')]).toEqual([
        name,
        await readFile(join(GOLDEN, name), 'utf8'),
      ])
    }
  })
})
