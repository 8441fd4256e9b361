import { beforeAll, describe, expect, test } from 'vitest'
import { quoteIdentifier } from '../../libs/db/index.js'
import { pauseOutbox, placeOutboxHold, resolveOutboxHold } from '../../libs/outbox/index.js'
import { databaseSource, describeBreak, verifyLedger } from '../../libs/ledger/index.js'
import { closeAfterAll } from '../support/afterAll.js'
import type { TestDatabase } from '../support/database.js'
import { fingerprint, type Fingerprint } from '../support/fingerprint.js'
import { LedgerFixture } from '../support/ledgerFixture.js'
import { complete, enqueueAndFail, makeDueAndClaim } from '../support/outboxItems.js'
import { failureOf, openConnection, type Connection } from '../support/race.js'

/**
 * Tries every way to change the ledger. PostgreSQL refuses each runtime role. A superuser can disable the guards, and
 * recomputed hashes then detect the change.
 */

const LEDGERS = ['payment_outbox_attempts', 'payment_outbox_identities', 'payment_outbox_events'] as const
type Ledger = (typeof LEDGERS)[number]
const ROLES = ['control', 'ingest', 'executor', 'readonly', 'auditor', 'auth'] as const

const fixture = closeAfterAll(await LedgerFixture.open())
let db: TestDatabase
/** An item with three attempts and four events. */
let outboxId: string

beforeAll(async () => {
  db = fixture.db
  const item = await enqueueAndFail(db, 2)
  outboxId = item.outboxId
  const control = db.as('symphony_control')
  await placeOutboxHold(control, outboxId, 'under review')
  await resolveOutboxHold(control, outboxId, 'RETRY', 'reviewed')
  await placeOutboxHold(control, outboxId, 'again')
  await resolveOutboxHold(control, outboxId, 'RETRY', 'reviewed again')
  await complete(db, await makeDueAndClaim(db, item), { state: 'DISPATCHED', railReference: 'ref-1', latencyMs: 12 })
  await enqueueAndFail(db, 3)
  await pauseOutbox(control, 'rail', 'rail-1', 'maintenance')
  await fixture.sealAll()
})

/** Statements that rewrite history, built from a qualified table name and the name of the schema. */
const STATEMENTS: readonly { readonly title: string; readonly sql: (table: string, schema: string) => string }[] = [
  { title: 'UPDATE', sql: (t) => `UPDATE ${t} SET created_at = now()` },
  { title: 'an UPDATE of no row', sql: (t) => `UPDATE ${t} SET created_at = now() WHERE false` },
  { title: 'DELETE', sql: (t) => `DELETE FROM ${t}` },
  { title: 'TRUNCATE', sql: (t) => `TRUNCATE ${t}` },
  { title: 'TRUNCATE CASCADE', sql: (t) => `TRUNCATE ${t} CASCADE` },
  { title: 'MERGE', sql: (t) => `MERGE INTO ${t} t USING (SELECT 1) s ON true WHEN MATCHED THEN DELETE` },
  { title: 'an INSERT', sql: (t) => `INSERT INTO ${t} DEFAULT VALUES` },
  { title: 'COPY', sql: (t) => `COPY ${t} FROM STDIN` },
  { title: 'replica mode', sql: () => `SET session_replication_role = replica` },
  {
    title: 'replica mode by set_config',
    sql: () => `SELECT set_config('session_replication_role', 'replica', false)`,
  },
  {
    title: 'replica mode for this database',
    sql: () => `ALTER DATABASE ${db.name} SET session_replication_role = replica`,
  },
  { title: 'DISABLE TRIGGER', sql: (t) => `ALTER TABLE ${t} DISABLE TRIGGER ALL` },
  { title: 'DISABLE TRIGGER USER', sql: (t) => `ALTER TABLE ${t} DISABLE TRIGGER USER` },
  { title: 'ENABLE REPLICA TRIGGER', sql: (t) => `ALTER TABLE ${t} ENABLE REPLICA TRIGGER ${bare(t)}_is_append_only` },
  {
    title: 'DROP TRIGGER',
    sql: (t) => `DROP TRIGGER ${bare(t)}_is_append_only ON ${t}`,
  },
  {
    title: 'a trigger before the guard',
    sql: (t) =>
      `CREATE TRIGGER a BEFORE UPDATE ON ${t} EXECUTE FUNCTION pg_catalog.suppress_redundant_updates_trigger()`,
  },
  {
    title: 'another guard function',
    sql: (_, s) =>
      `CREATE OR REPLACE FUNCTION ${s}.refuse_mutation() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'`,
  },
  { title: 'DROP of the guard function', sql: (_, s) => `DROP FUNCTION ${s}.refuse_mutation() CASCADE` },
  { title: 'RENAME of the guard function', sql: (_, s) => `ALTER FUNCTION ${s}.refuse_mutation() RENAME TO x` },
  { title: 'a RULE', sql: (t) => `CREATE RULE r AS ON INSERT TO ${t} DO INSTEAD NOTHING` },
  { title: 'a SELECT rule', sql: (t) => `CREATE OR REPLACE RULE "_RETURN" AS ON SELECT TO ${t} DO INSTEAD SELECT 1` },
  { title: 'ALTER TYPE … USING', sql: (t) => `ALTER TABLE ${t} ALTER COLUMN created_at TYPE timestamptz USING now()` },
  { title: 'a generated column', sql: (t) => `ALTER TABLE ${t} ADD COLUMN g int GENERATED ALWAYS AS (1) STORED` },
  { title: 'DROP COLUMN', sql: (t) => `ALTER TABLE ${t} DROP COLUMN created_at` },
  { title: 'RENAME COLUMN', sql: (t) => `ALTER TABLE ${t} RENAME COLUMN created_at TO x` },
  { title: 'RENAME', sql: (t) => `ALTER TABLE ${t} RENAME TO x` },
  { title: 'SET SCHEMA', sql: (t) => `ALTER TABLE ${t} SET SCHEMA scratch` },
  { title: 'DROP', sql: (t) => `DROP TABLE ${t} CASCADE` },
  { title: 'SET UNLOGGED', sql: (t) => `ALTER TABLE ${t} SET UNLOGGED` },
  { title: 'a child table', sql: (t) => `CREATE TABLE scratch.child () INHERITS (${t})` },
  { title: 'becoming a child', sql: (t) => `ALTER TABLE ${t} INHERIT scratch.parent` },
  { title: 'becoming a partition', sql: (t) => `ALTER TABLE scratch.partitioned ATTACH PARTITION ${t} DEFAULT` },
  { title: 'a partition', sql: (t) => `CREATE TABLE scratch.part PARTITION OF ${t} DEFAULT` },
  { title: 'partition detach', sql: (t) => `ALTER TABLE ${t} DETACH PARTITION scratch.parent` },
  { title: 'row-level security', sql: (t) => `ALTER TABLE ${t} ENABLE ROW LEVEL SECURITY` },
  { title: 'a policy', sql: (t) => `CREATE POLICY p ON ${t} USING (false)` },
  {
    title: 'DROP of a constraint',
    sql: (t) => `ALTER TABLE ${t} DROP CONSTRAINT ${bare(t)}_pkey`,
  },
  {
    title: 'DROP of the index of terminal outcomes',
    sql: (_, s) => `DROP INDEX ${s}.payment_outbox_attempts_one_terminal_per_outbox`,
  },
  { title: 'RENAME of a state', sql: (_, s) => `ALTER TYPE ${s}.outbox_attempt_state RENAME VALUE 'FAILED' TO 'PAID'` },
  { title: 'ADD of a state', sql: (_, s) => `ALTER TYPE ${s}.outbox_attempt_state ADD VALUE 'PAID'` },
  { title: 'DROP of the type', sql: (_, s) => `DROP TYPE ${s}.outbox_attempt_state CASCADE` },
  { title: 'OWNER', sql: (t) => `ALTER TABLE ${t} OWNER TO CURRENT_USER` },
  { title: 'DROP OWNED', sql: () => `DROP OWNED BY symphony_owner` },
  { title: 'REASSIGN OWNED', sql: () => `REASSIGN OWNED BY symphony_owner TO CURRENT_USER` },
  { title: 'DROP SCHEMA', sql: (_, s) => `DROP SCHEMA ${s} CASCADE` },
  { title: 'ALTER SCHEMA', sql: (_, s) => `ALTER SCHEMA ${s} RENAME TO x` },
  { title: 'becoming the owner', sql: () => `SET ROLE symphony_owner` },
  { title: 'becoming the owner for good', sql: () => `GRANT symphony_owner TO CURRENT_USER` },
]

describe.each(ROLES)('the role %s', (role) => {
  let before: Fingerprint
  let client: Connection['client']
  beforeAll(async () => {
    before = await fingerprint(db)
    const login = await db.createLogin(`only_${role}`, { roles: [`symphony_${role}`], inherit: true })
    await db.queryNoRole(
      `DROP SCHEMA IF EXISTS scratch CASCADE; CREATE SCHEMA scratch AUTHORIZATION ${quoteIdentifier(login.name)}`,
    )
    client = await login.connect()
    await client.query('CREATE TABLE scratch.parent (); CREATE TABLE scratch.partitioned (a int) PARTITION BY LIST (a)')
  })

  test.each(STATEMENTS)('is refused (42501): $title', async ({ sql }) => {
    for (const table of LEDGERS) {
      const schema = quoteIdentifier(db.schema)
      expect(await failureOf(client.query(sql(`${schema}.${table}`, schema)))).toMatchObject({ code: '42501' })
    }
  })

  test('changes no row and no object by any of the refused statements', async () => {
    process.stdout.write(
      `history: ${STATEMENTS.length} ways, ${STATEMENTS.length * LEDGERS.length * ROLES.length} refused\n`,
    )
    for (const { sql } of STATEMENTS) {
      for (const table of LEDGERS) {
        const schema = quoteIdentifier(db.schema)
        await failureOf(client.query(sql(`${schema}.${table}`, schema)))
      }
    }
    expect(await fingerprint(db)).toEqual(before)
  })
})

describe('verification after a superuser disabled the guards', () => {
  test('finds no break before the first change', async () => {
    expect(await fixture.verify()).toMatchObject({ breaks: [], openRows: 0 })
  })

  describe.each(LEDGERS)('table %s', (table) => {
    test('detects a change of any column except traceparent', async () => {
      const columns = await columnsOf(table)
      expect(columns.length).toBeGreaterThan(8)
      const unnoticed: string[] = []
      for (const { name, type, key } of columns) {
        const tamper = `UPDATE ${table} SET ${name} = ${changed(name, type)}
          WHERE ${key} = (SELECT ${key} FROM ${table} WHERE outbox_id = '${outboxId}' LIMIT 1)`
        if ((await defectsAfter([unguarded(table), tamper])).length === 0) unnoticed.push(name)
      }
      // A trace context is a header of the caller and no evidence, so blocks do not cover it.
      expect(unnoticed.filter((name) => name !== 'traceparent')).toEqual([])
    })
  })

  test.each<[string, readonly string[]]>([
    ['removes an attempt from the middle', [unguarded('payment_outbox_attempts'), attempt('DELETE FROM', 2)]],
    ['removes the first attempt', [unguarded('payment_outbox_attempts'), attempt('DELETE FROM', 1)]],
    [
      'swaps two attempts',
      [
        unguarded('payment_outbox_attempts'),
        'DROP INDEX ix_attempts_by_outbox',
        `UPDATE payment_outbox_attempts SET attempt_no = 3 - attempt_no WHERE outbox_id = '$ITEM' AND attempt_no < 3`,
      ],
    ],
    [
      'inserts an attempt before the terminal one',
      [
        unguarded('payment_outbox_attempts'),
        attempt('UPDATE', 3).replace('SET', 'SET attempt_no = 4,'),
        `INSERT INTO payment_outbox_attempts SELECT r.* FROM payment_outbox_attempts a
         CROSS JOIN LATERAL jsonb_populate_record(a, jsonb_build_object('attempt_id', gen_random_uuid(), 'attempt_no', 3)) r
         WHERE a.outbox_id = '$ITEM' AND a.attempt_no = 2`,
      ],
    ],
    [
      'appends an invented attempt',
      [
        `INSERT INTO payment_outbox_attempts SELECT r.* FROM payment_outbox_attempts a
         CROSS JOIN LATERAL jsonb_populate_record(a,
           jsonb_build_object('attempt_id', gen_random_uuid(), 'attempt_no', 4, 'state', 'RETRYABLE')) r
         WHERE a.outbox_id = '$ITEM' AND a.attempt_no = 3`,
      ],
    ],
    [
      'removes all attempts of a terminal payment',
      [unguarded('payment_outbox_attempts'), `DELETE FROM payment_outbox_attempts WHERE outbox_id = '$ITEM'`],
    ],
    ['empties the ledger', [unguarded('payment_outbox_attempts'), 'TRUNCATE payment_outbox_attempts']],
    [
      'removes the identity',
      [unguarded('payment_outbox_identities'), `DELETE FROM payment_outbox_identities WHERE outbox_id = '$ITEM'`],
    ],
    [
      'removes an event from the middle',
      [
        unguarded('payment_outbox_events'),
        `DELETE FROM payment_outbox_events WHERE outbox_id = '$ITEM' AND event_no = 2`,
      ],
    ],
    [
      'changes who paused a rail',
      [
        unguarded('payment_outbox_events'),
        `UPDATE payment_outbox_events SET actor = 'unknown' WHERE scope = 'rail:rail-1'`,
      ],
    ],
    [
      'rewrites a column by changing its type',
      [`ALTER TABLE payment_outbox_attempts ALTER COLUMN error_message TYPE text USING 'fine'`],
    ],
    ['gives a state another name', [`ALTER TYPE outbox_attempt_state RENAME VALUE 'RETRYABLE' TO 'FORGOTTEN'`]],
    [
      'replaces the guard function by one that allows changes',
      [
        `CREATE OR REPLACE FUNCTION refuse_mutation() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'`,
        attempt('UPDATE', 1),
      ],
    ],
    [
      'changes a terminal outcome',
      [
        unguarded('payment_outbox_attempts'),
        `UPDATE payment_outbox_attempts a SET rail_reference = 'forged' WHERE a.outbox_id = '$ITEM' AND a.attempt_no = 3`,
      ],
    ],
  ])('detects that the superuser %s', async (_what, steps) => {
    expect(await defectsAfter(steps)).not.toEqual([])
  })

  test('finds no break after the rollback of all changes', async () => {
    expect(await fixture.verify()).toMatchObject({ breaks: [], openRows: 0 })
  })
})

/** Returns the breaks that verification finds after these steps, and rolls them back. */
async function defectsAfter(steps: readonly string[]): Promise<string[]> {
  const connection = await openConnection(db)
  try {
    await connection.client.query('BEGIN')
    for (const step of steps) await connection.client.query(step.replaceAll('$ITEM', outboxId))
    const { breaks } = await verifyLedger(databaseSource(connection))
    return breaks.map(describeBreak)
  } finally {
    await connection.close()
  }
}

/** Returns the last part of a qualified name. */
function bare(table: string): string {
  return table.slice(table.lastIndexOf('.') + 1)
}

function unguarded(table: Ledger): string {
  return `ALTER TABLE ${table} DISABLE TRIGGER ALL`
}

function attempt(verb: 'UPDATE' | 'DELETE FROM', number: number): string {
  const set = verb === 'UPDATE' ? ` SET error_message = 'nothing happened'` : ''
  return `${verb} payment_outbox_attempts${set} WHERE outbox_id = '$ITEM' AND attempt_no = ${number}`
}

interface Column {
  readonly name: string
  readonly type: string
  /** Primary key of the column’s table. */
  readonly key: string
}

async function columnsOf(table: Ledger): Promise<Column[]> {
  const { rows } = await db.queryNoRole<Column>(
    `SELECT a.attname AS name, format_type(a.atttypid, a.atttypmod) AS type, (
       SELECT k.attname FROM pg_index i JOIN pg_attribute k ON k.attrelid = i.indrelid AND k.attnum = i.indkey[0]
       WHERE i.indrelid = a.attrelid AND i.indisprimary) AS key
     FROM pg_attribute a WHERE a.attrelid = $1::regclass AND a.attnum > 0 AND NOT a.attisdropped`,
    [table],
  )
  return rows
}

/** Returns an expression for another valid value, close to the old one. */
function changed(column: string, type: string): string {
  if (column === 'event_type') return `'UNBLOCKED'`
  if (column === 'action') return `CASE action WHEN 'sent' THEN 'inquired' ELSE 'sent' END`
  if (column === 'scope') return `'rail:x', outbox_id = NULL`
  const values: Readonly<Record<string, string>> = {
    uuid: 'gen_random_uuid()',
    text: `concat(${column}, 'x')`,
    bigint: `COALESCE(${column}, 0) + 100`,
    integer: `COALESCE(${column}, 0) + 100`,
    boolean: `NOT ${column}`,
    jsonb: `${column} || '{"x": 1}'`,
    bytea: `COALESCE(set_byte(${column}, 0, 255 - get_byte(${column}, 0)), sha256(''))`,
    'timestamp with time zone': `COALESCE(${column}, now()) + interval '1 microsecond'`,
    outbox_attempt_state: `CASE ${column} WHEN 'RETRYABLE' THEN 'ZOMBIE_REQUEUE' ELSE 'RETRYABLE' END::outbox_attempt_state`,
  }
  return values[type]!
}
