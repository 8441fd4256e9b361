import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { quoteIdentifier, withSchema, type Queryable } from '../../libs/db/index.js'
import type { RowKind } from '../../libs/ledger/chain.js'
import { readRowPage } from '../../libs/ledger/db.js'
import { canonicalHash, databaseSource, verifyLedger } from '../../libs/ledger/index.js'
import { textRow } from '../../libs/ledger/textRow.js'
import { completeOutboxAttempts, enqueuePaymentOutboxBatch } from '../../libs/outbox/index.js'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import { anInstruction, claim, WORKER } from '../support/outboxItems.js'

/**
 * The verifier writes what it hashes from the bytes that the server sends. Here that is held against the text that PostgreSQL
 * itself writes, for values at every edge: those that a ledger has, and those that only a forger would put there.
 */

let db: TestDatabase
beforeAll(async () => {
  db = await createTestDatabase({ countBranches: false })
})
afterAll(() => db.drop())

const ODD = 'tables without constraints'
const KINDS: readonly RowKind[] = ['identity', 'attempt', 'event']
const TABLES = {
  identity: 'payment_outbox_identities',
  attempt: 'payment_outbox_attempts',
  event: 'payment_outbox_events',
} as const

/** The fields of each kind as text, by the description in docs/internals/ledger-chain.md. */
const micros = (column: string) => `(extract(epoch FROM ${column}) * 1000000)::bigint::text`
const FIELDS: Readonly<Record<RowKind, readonly string[]>> = {
  identity: [
    'outbox_id::text',
    'instruction_id',
    'idempotency_key',
    'participant_id',
    'sequence_id::text',
    'rail_type',
    'ordered::text',
    'redrive_of::text',
    `encode(content_hash, 'hex')`,
    micros('created_at'),
  ],
  attempt: [
    'attempt_id::text',
    'outbox_id::text',
    'instruction_id',
    'participant_id',
    'sequence_id::text',
    'idempotency_key',
    'rail_type',
    'payload::text',
    'attempt_no::text',
    'state::text',
    micros('claimed_at'),
    micros('completed_at'),
    'rail_reference',
    'rail_code',
    'error_code',
    'error_message',
    'latency_ms::text',
    'worker_id',
    `encode(sha256(uuid_send(lease_token)), 'hex')`,
    micros('created_at'),
  ],
  event: [
    'event_id::text',
    'outbox_id::text',
    'scope',
    'event_no::text',
    'event_type',
    'attempt_id::text',
    'actor',
    'detail::text',
    micros('created_at'),
  ],
}

const LONG = 'é'.repeat(40)
/** By the type of a column: each of these is in one row or another. */
const VALUES: Readonly<Record<string, readonly string[]>> = {
  uuid: [`'00000000-0000-0000-0000-000000000000'`, `'ffffffff-ffff-ffff-ffff-ffffffffffff'`, 'gen_random_uuid()'],
  text: [
    `''`,
    `'x'`,
    `'grüße “x” 💶'`,
    `'${LONG}'`,
    `repeat('y', 48)`,
    `repeat('y', 49)`,
    `repeat('z', 70000)`,
    `E'\\x01,:\\n'`,
  ],
  bigint: [
    '0',
    '-1',
    '9',
    '10',
    '99999999',
    '4294967296',
    '9007199254740993',
    '9223372036854775807',
    '(-9223372036854775808)',
  ],
  integer: ['0', '7', '-7', '10', '2147483647', '-2147483648'],
  boolean: ['true', 'false'],
  bytea: [`''`, `'\\x00'`, `sha256('x')`, `decode(repeat('ab', 60), 'hex')`],
  jsonb: [`'{}'`, `'{"amount": "12.50", "note": "grüße"}'`, `jsonb_build_object('a', repeat('w', 60000))`],
  outbox_attempt_state: [`'DISPATCHED'`, `'RETRYABLE'`, `'ZOMBIE_REQUEUE'`],
  'timestamp with time zone': [
    `'2026-11-15 14:00:00.123456+00'`,
    `'2000-01-01 00:00:00+00'`,
    `'1999-12-31 23:59:59.999999+00'`,
    `'1970-01-01 00:00:00+00'`,
    `'1969-12-31 23:59:59.999999+00'`,
    `'4713-01-01 00:00:00+00 BC'`,
    `'200000-12-31 23:59:59.999999+00'`,
  ],
}

/** Rows of the same columns and of no constraint: of the values in turn, each column at a pace of its own, and nulls. */
async function fillOddTables(): Promise<Queryable> {
  const client = await db.connect()
  await client.query(`CREATE SCHEMA ${quoteIdentifier(ODD)}`)
  for (const table of Object.values(TABLES)) {
    const odd = `${quoteIdentifier(ODD)}.${table}`
    await client.query(`CREATE TABLE ${odd} AS TABLE ${table} WITH NO DATA`)
    const { rows: columns } = await client.query<{ name: string; type: string }>(
      `SELECT attname::text AS name, format_type(atttypid, NULL) AS type FROM pg_attribute
       WHERE attrelid = $1::regclass AND attnum > 0 ORDER BY attnum`,
      [odd],
    )
    for (let row = 0; row < 60; row += 1) {
      const values = columns.map(({ name, type }, column) => {
        // The order of blocks is by these, which no constraint of ours lets be null.
        if (name === 'recorded_xid') return String((row % 5) * 4_000_000_000 - 4_000_000_000)
        const known = VALUES[/^(?:.*\.)?(.*)$/.exec(type)![1]!.replaceAll('"', '')]
        if (known === undefined) throw new Error(`no values for ${table}.${name}, of type ${type}`)
        const isId = column === 0
        if (isId) return 'gen_random_uuid()'
        const at = (row + column * Math.floor(row / 8)) % (known.length + 1)
        return at === known.length ? 'NULL' : known[at]!
      })
      await client.query(`INSERT INTO ${odd} VALUES (${values.join(', ')})`)
    }
  }
  return withSchema({ query: (text, values) => client.query<never>(text, [...(values ?? [])]) }, ODD)
}

describe('a row as the server sends it', () => {
  let odd: Queryable
  beforeAll(async () => {
    odd = await fillOddTables()
  })

  test.each(KINDS)(
    'of an %s has the fields that PostgreSQL writes as text, and the hash of that text',
    async (kind) => {
      const sent = await readRowPage(odd, kind, null, null, 1_000)
      const { rows } = await odd.query<{
        id: string
        xid: string
        fields: string[]
        prev: string | null
        hash: string | null
        action: string | null
        outcomeUnknown: string | null
      }>(
        `SELECT ${FIELDS[kind][0]} AS id, recorded_xid::text AS xid, ARRAY[${FIELDS[kind].join(', ')}] AS fields,
         ${kind === 'identity' ? 'NULL' : `encode(prev_hash, 'hex')`} AS prev, encode(row_hash, 'hex') AS hash,
         ${kind === 'attempt' ? 'action, outcome_unknown::text' : 'NULL AS action, NULL'} AS "outcomeUnknown"
       FROM ${quoteIdentifier(ODD)}.${TABLES[kind]} ORDER BY recorded_xid, 1`,
      )
      expect(sent).toHaveLength(60)
      for (const [index, row] of sent.entries()) {
        const { id, xid, fields, prev: prevHash, hash: rowHash, action, outcomeUnknown } = rows[index]!
        const text = textRow({ kind, id, xid, fields, prevHash, rowHash })
        expect(row).toMatchObject({ kind, id, xid, fields, prevHash, rowHash })
        expect(row.unsealed).toEqual(kind === 'attempt' ? { action, outcomeUnknown } : undefined)
        expect([row.subject, row.number, row.ends]).toEqual([text.subject, text.number, text.ends])
        expect(row.contentHash()).toBe(canonicalHash(kind === 'identity' ? fields : [prevHash, ...fields]))
        expect(entryOf(row)).toEqual(entryOf(text))
      }
    },
  )
})

describe('a ledger of many pages', () => {
  const PAYMENTS = 1_200

  beforeAll(async () => {
    await db.queryNoRole('UPDATE symphony_settings SET full_trail = true')
    for (let from = 0; from < PAYMENTS; from += 400) {
      const { railType } = anInstruction()
      const instructions = Array.from({ length: 400 }, () => anInstruction({ railType }))
      await enqueuePaymentOutboxBatch(db.as('symphony_ingest'), instructions)
      const items = await claim(db, railType, { batchSize: 400 })
      const outcomes = items.map(({ outboxId, leaseToken }) => ({ outboxId, leaseToken, state: 'DISPATCHED' as const }))
      await completeOutboxAttempts(db.as('symphony_executor'), WORKER, outcomes)
    }
  })

  test.each([undefined, 1, 50])('is read to its end, in order, following %s chains at once', async (chainsAtOnce) => {
    const source = databaseSource(db.as('symphony_auditor'))
    expect(await verifyLedger(source, chainsAtOnce === undefined ? {} : { chainsAtOnce })).toMatchObject({
      identities: PAYMENTS,
      attempts: PAYMENTS,
      breakCount: 0,
    })
  })

  test.each([
    ['a link that leads elsewhere', `prev_hash = sha256('elsewhere')`, 'does not follow its predecessor'],
    ['a number left out', 'attempt_no = 2', 'number missing: what comes before it is gone'],
    ['an attempt of nobody', `outbox_id = gen_random_uuid()`, 'no identity'],
  ])('has %s found among them all, however few are followed', async (_what, change, why) => {
    const client = await db.connect()
    await client.query('BEGIN')
    await client.query('ALTER TABLE payment_outbox_attempts DISABLE TRIGGER USER')
    await client.query(
      `UPDATE payment_outbox_attempts SET ${change}
       WHERE attempt_id = (SELECT attempt_id FROM payment_outbox_attempts ORDER BY attempt_id OFFSET 700 LIMIT 1)`,
    )
    const role = withSchema({ query: (text, values) => client.query<never>(text, [...(values ?? [])]) }, db.schema)
    for (const chainsAtOnce of [100_000, 1]) {
      const { breaks } = await verifyLedger(databaseSource(role), { chainsAtOnce })
      expect(breaks.map((found) => found.why).toSorted()).toEqual(['content differs from its hash', why].toSorted())
    }
    await client.query('ROLLBACK')
    await client.end()
  })
})

function entryOf(row: { writeEntry(target: Buffer, at: number): void }): Buffer {
  const entry = Buffer.alloc(60)
  row.writeEntry(entry, 1)
  return entry
}
