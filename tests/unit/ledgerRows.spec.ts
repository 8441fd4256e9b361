import { createHash } from 'node:crypto'
import { beforeAll, describe, expect, test } from 'vitest'
import { quoteIdentifier, withSchema, type Queryable } from '../../libs/db/index.js'
import { readRowPage } from '../../libs/ledger/db.js'
import { KINDS, NEWEST_FORMAT, TABLE_OF } from '../../libs/ledger/formats.js'
import { auditDatabase } from '../../libs/ledger/auditor.js'
import { databaseSource, sealLedgerBlock, verifyLedger } from '../../libs/ledger/index.js'
import { completeOutboxAttempts, enqueuePaymentOutboxBatch } from '../../libs/outbox/index.js'
import { useTestDatabase } from '../support/database.js'
import { buildInstruction, claim, WORKER } from '../support/outboxItems.js'
import { failureOf } from '../support/race.js'

/**
 * Tests that the values decoded from the bytes of a row equal the text that PostgreSQL writes. The verifier hashes
 * and decodes the same bytes. The values include extremes that only a forged ledger has.
 */

const db = await useTestDatabase({ countBranches: false })

const ODD = 'tables without constraints'

/** Returns SQL that prints a column as `field()` of a decoded row returns it. */
function asText(column: string, type: string): string {
  if (column === 'lease_token') return `encode(sha256(uuid_send(lease_token)), 'hex')`
  if (type === 'timestamp with time zone') return `(extract(epoch FROM ${column}) * 1000000)::bigint::text`
  return type === 'bytea' ? `encode(${column}, 'hex')` : `${column}::text`
}

const LONG = 'é'.repeat(40)
/** Values by column type. Each occurs in at least one row. */
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

/**
 * Fills copies of the ledger tables without constraints. Each column cycles through its values and null with its own
 * period.
 */
async function fillOddTables(): Promise<Queryable> {
  const client = await db.connect()
  await client.query(`CREATE SCHEMA ${quoteIdentifier(ODD)}`)
  for (const table of Object.values(TABLE_OF)) {
    const odd = `${quoteIdentifier(ODD)}.${table}`
    await client.query(`CREATE TABLE ${odd} AS TABLE ${table} WITH NO DATA`)
    const { rows: columns } = await client.query<{ name: string; type: string }>(
      `SELECT attname::text AS name, format_type(atttypid, NULL) AS type FROM pg_attribute
       WHERE attrelid = $1::regclass AND attnum > 0 ORDER BY attnum`,
      [odd],
    )
    for (let row = 0; row < 60; row += 1) {
      const values = columns.map(({ name, type }, column) => {
        // Blocks are ordered by this column, which is never null.
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

describe('a row in binary form', () => {
  let odd: Queryable
  beforeAll(async () => {
    odd = await fillOddTables()
  })

  test.each(KINDS)(
    'decodes to the text that PostgreSQL prints; the block entry has its SHA-256 hash: %s',
    async (kind) => {
      const sent = await readRowPage(odd, kind, NEWEST_FORMAT, null, null, 1_000)
      const table = `${quoteIdentifier(ODD)}.${TABLE_OF[kind]}`
      const { rows: types } = await odd.query<{ name: string; type: string }>(
        `SELECT attname::text AS name, format_type(atttypid, NULL) AS type FROM pg_attribute
       WHERE attrelid = $1::regclass AND attnum > 0`,
        [table],
      )
      const typeOf = new Map(types.map(({ name, type }) => [name, type]))
      const columns = NEWEST_FORMAT[kind]
      const { rows } = await odd.query<{ xid: string; texts: (string | null)[] }>(
        `SELECT recorded_xid::text AS xid, ARRAY[${columns.map((name) => asText(name, typeOf.get(name)!)).join(', ')}] AS texts
       FROM ${table} ORDER BY recorded_xid, ${columns[0]}`,
      )
      expect(sent).toHaveLength(60)
      for (const [index, row] of sent.entries()) {
        const { xid, texts } = rows[index]!
        expect(String(row.xid)).toBe(xid)
        expect(columns.map((name) => row.field(name))).toEqual(texts)
        expect(row.id).toBe(texts[0])
        const entry = Buffer.alloc(60)
        row.writeEntry(entry, 1)
        const number = Buffer.from([0, KINDS.indexOf(kind) + 1])
        const id = Buffer.from(row.id.replaceAll('-', ''), 'hex')
        const transaction = Buffer.alloc(8)
        transaction.writeBigInt64BE(BigInt(xid))
        const hash = createHash('sha256').update(row.record).digest()
        expect(entry.subarray(1, 59)).toEqual(Buffer.concat([number, id, transaction, hash]))
      }
    },
  )

  test('is refused in a session that is not UTF8 (INVALID_ENCODING)', async () => {
    const client = await db.connect()
    await client.query(`SET client_encoding TO 'LATIN1'`)
    const role = withSchema({ query: (text, values) => client.query<never>(text, [...(values ?? [])]) }, db.schema)
    expect(await failureOf(readRowPage(role, 'identity', NEWEST_FORMAT, null, null, 10))).toMatchObject({
      code: 'INVALID_ENCODING',
      message: expect.stringContaining('LATIN1'),
    })
    await client.end()
  })
})

describe('a ledger of many pages', () => {
  const PAYMENTS = 1_200

  beforeAll(async () => {
    await db.queryNoRole('UPDATE symphony_settings SET full_trail = true')
    for (let from = 0; from < PAYMENTS; from += 400) {
      const { railType } = buildInstruction()
      const instructions = Array.from({ length: 400 }, () => buildInstruction({ railType }))
      await enqueuePaymentOutboxBatch(db.as('symphony_ingest'), instructions)
      const items = await claim(db, railType, { batchSize: 400 })
      const outcomes = items.map(({ outboxId, leaseToken }) => ({ outboxId, leaseToken, state: 'DISPATCHED' as const }))
      await completeOutboxAttempts(db.as('symphony_executor'), WORKER, outcomes)
    }
  })

  test('is verified completely before and after it is sealed', async () => {
    const role = db.as('symphony_auditor')
    const counts = { identities: PAYMENTS, attempts: PAYMENTS, breakCount: 0 }
    expect(await verifyLedger(databaseSource(role))).toMatchObject({ ...counts, blocks: 0 })
    // Open transactions of other tests on this server may keep some rows unsealed.
    while ((await sealLedgerBlock(db.as('symphony_executor'), 700)) !== undefined);
    expect(await verifyLedger(databaseSource(role))).toMatchObject(counts)
  })

  test.each([
    ['a missing attempt number', 'attempt_no = 2', 'I6'],
    ['an attempt without an identity', 'outbox_id = gen_random_uuid()', 'I1'],
    [
      'a second terminal attempt',
      `attempt_no = 2, outbox_id = (SELECT outbox_id FROM payment_outbox_attempts LIMIT 1)`,
      'I2',
    ],
  ])('fails the audit if it has %s', async (_what, change, invariant) => {
    const client = await db.connect()
    await client.query('BEGIN')
    await client.query('ALTER TABLE payment_outbox_attempts DISABLE TRIGGER USER')
    await client.query('DROP INDEX payment_outbox_attempts_one_terminal_per_outbox')
    await client.query(
      `UPDATE payment_outbox_attempts SET ${change}
       WHERE attempt_id = (SELECT attempt_id FROM payment_outbox_attempts ORDER BY attempt_id OFFSET 700 LIMIT 1)`,
    )
    const role = withSchema({ query: (text, values) => client.query<never>(text, [...(values ?? [])]) }, db.schema)
    const { invariants } = await auditDatabase(role)
    expect(invariants.filter(({ ok }) => !ok).map(({ id }) => id)).toContain(invariant)
    await client.query('ROLLBACK')
    await client.end()
  })
})
