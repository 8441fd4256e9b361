import { randomUUID } from 'node:crypto'
import type { Client } from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { quoteIdentifier } from '../../libs/db/index.js'
import { createTestDatabase, withTestDatabase, type TestDatabase } from '../support/database.js'
import { rowHashes, tableNames } from '../support/fingerprint.js'
import { enqueue, enqueueAndClaim } from '../support/outboxItems.js'
import { failureOf } from '../support/race.js'
import { refusalIn } from '../support/refusal.js'
import { callStatement, PUBLIC_FUNCTIONS, type Arguments } from '../support/sqlFunctions.js'

/**
 * Tests an attack that once forged a DISPATCHED row in a ledger. A SECURITY DEFINER function whose search path does not
 * name `pg_temp` searches it first, and the caller controls its contents. Every database here grants TEMP and gives the
 * attacker a schema, so that only the functions themselves can prevent the attack. Each attack also runs against
 * functions that were made unsafe, where it must succeed, to show that it is a real attack.
 */

/** An item that does not exist, leased to the attacker. */
const forged = { outboxId: randomUUID(), leaseToken: randomUUID(), worker: 'mallory' }

let db: TestDatabase
beforeAll(async () => {
  db = await createDatabaseUnderAttack()
})
afterAll(() => db.drop())

describe('a temporary table named like the queue', () => {
  test('does not replace the real queue in a completion (P7002)', async () => {
    const before = await rowHashes(db)
    const mallory = await createAttacker(db)
    await forgeQueue(db, mallory)
    expect(await failureOf(completeForged(db, mallory))).toMatchObject({ code: 'P7002' })
    expect(await rowHashes(db)).toEqual(before)
  })

  test('allows a forged attempt if search_path does not end in pg_temp (positive control)', async () => {
    await withTestDatabaseUnderAttack(async (unsafe) => {
      await setPaths(unsafe, `SET search_path = ${quoteIdentifier(unsafe.schema)}`)
      const mallory = await createAttacker(unsafe)
      await forgeQueue(unsafe, mallory)
      await completeForged(unsafe, mallory)
      const { rows } = await unsafe.queryNoRole('SELECT state FROM payment_outbox_attempts WHERE outbox_id = $1', [
        forged.outboxId,
      ])
      expect(rows).toEqual([{ state: 'DISPATCHED' }])
    })
  })
})

describe.each(['tables', 'views'] as const)('temporary %s with the names of all our tables', (kind) => {
  test('are neither read nor written by any function that an executor may call', async () => {
    const before = await rowHashes(db)
    const mallory = await createAttacker(db)
    await shadowEverything(db, mallory, kind)
    const decoys = await decoyRows(db, mallory)
    const outcomes = await callEverything(db, mallory)

    // Calls about the forged item find no item. Other calls find nothing to do.
    expect(outcomes).toEqual(HARMLESS)
    expect(await decoyRows(db, mallory)).toEqual(decoys)
    expect({ ...(await rowHashes(db)), ...WRITTEN }).toEqual({ ...before, ...WRITTEN })
  })

  test('are used if search_path does not end in pg_temp (positive control)', async () => {
    await withTestDatabaseUnderAttack(async (unsafe) => {
      await setPaths(unsafe, `SET search_path = ${quoteIdentifier(unsafe.schema)}`)
      const mallory = await createAttacker(unsafe)
      await shadowEverything(unsafe, mallory, kind)
      expect(await callEverything(unsafe, mallory)).not.toEqual(HARMLESS)
    })
  })
})

describe('functions and operators that an attacker puts first in its search path', () => {
  test('are never called by functions of Symphony', async () => {
    const before = await rowHashes(db)
    const mallory = await createAttacker(db)
    const decoys = await shadowFunctionsAndOperators(db, mallory)
    expect(decoys.functions).toBeGreaterThan(100)
    expect(decoys.operators).toBeGreaterThan(100)
    await mallory.query('SET search_path = evil, pg_temp, pg_catalog')
    expect(await callEverything(db, mallory)).toEqual(HARMLESS)
    expect({ ...(await rowHashes(db)), ...WRITTEN }).toEqual({ ...before, ...WRITTEN })
  })

  test('are called by a function without a fixed search path (positive control)', async () => {
    await withTestDatabaseUnderAttack(async (unsafe) => {
      await setPaths(unsafe, 'RESET search_path')
      const mallory = await createAttacker(unsafe)
      await shadowFunctionsAndOperators(unsafe, mallory)
      await mallory.query(`SET search_path = evil, ${quoteIdentifier(unsafe.schema)}, pg_temp, pg_catalog`)
      expect(Object.values(await callEverything(unsafe, mallory))).toContain('evil was called')
    })
  })
})

test('a temporary function shadows nothing, because its bare name cannot be called', async () => {
  const mallory = await createAttacker(db)
  await mallory.query(`CREATE FUNCTION pg_temp.sha256(bytea) RETURNS bytea LANGUAGE sql AS 'SELECT NULL::bytea'`)
  await mallory.query('SET search_path = pg_temp, pg_catalog')
  const { rows } = await mallory.query(`SELECT sha256('') IS NULL AS shadowed`)
  expect(rows).toEqual([{ shadowed: false }])
})

/** Tables that the calls may write: heartbeats, their breakers, epochs, and the position of ledger verification. */
const WRITTEN = { outbox_workers: '', outbox_breaker_changes: '', dispatch_epochs: '', ledger_verification_passes: '' }

/** A completion of the forged item. */
const FORGED_COMPLETION: Arguments = {
  p_outbox_id: `'${forged.outboxId}'::uuid`,
  p_lease_token: `'${forged.leaseToken}'::uuid`,
  p_worker_id: `'${forged.worker}'`,
  p_state: `'DISPATCHED'`,
  p_rail_reference: `'forged'`,
}

/** Arguments of all calls about the forged item. */
const FORGED: Arguments = {
  ...FORGED_COMPLETION,
  p_outbox_ids: `ARRAY['${forged.outboxId}'::uuid]`,
  p_lease_tokens: `ARRAY['${forged.leaseToken}'::uuid]`,
  p_states: `ARRAY['DISPATCHED']`,
  p_rail_references: `ARRAY['forged']`,
  p_batch_size: '10',
  p_lease_seconds: '60',
  p_reason: `'because'`,
  p_attempt_no: '1',
  p_rows_per_second: '1000',
  p_pass_seconds: '3600',
  p_amount: '1',
  p_currency: `'EUR'`,
  p_code: `'AC04'`,
  p_reference: `'forged'`,
}

/** Expected result of each call about the forged item. */
const HARMLESS = Object.fromEntries(
  Object.entries(PUBLIC_FUNCTIONS).flatMap(([name, { forged: result }]) =>
    result === undefined ? [] : [[name, result]],
  ),
)

/** Calls every function of executors that needs no other argument than those in FORGED. */
async function callEverything(database: TestDatabase, mallory: Client): Promise<Record<string, string>> {
  const { rows } = await database.queryNoRole<{ name: string; arguments: string[]; required: number }>(
    `SELECT p.proname AS name, COALESCE(p.proargnames[:p.pronargs], '{}') AS arguments,
       p.pronargs - p.pronargdefaults AS required
     FROM pg_proc p
     WHERE p.pronamespace = $1::regnamespace AND has_function_privilege('symphony_executor', p.oid, 'EXECUTE')
       -- Skips the overload for the enum type, which only forwards its arguments.
       AND 'outbox_attempt_state'::regtype <> ALL (p.proargtypes)`,
    [quoteIdentifier(database.schema)],
  )
  const outcomes: Record<string, string> = {}
  for (const { name, arguments: declared, required } of rows) {
    if (declared.slice(0, required).some((argument) => !(argument in FORGED))) continue
    const given = declared.filter((argument) => argument in FORGED).map((argument) => [argument, FORGED[argument]!])
    outcomes[name] = await outcomeOf(database, mallory, name, Object.fromEntries(given))
  }
  return outcomes
}

async function outcomeOf(database: TestDatabase, mallory: Client, name: string, given: Arguments): Promise<string> {
  try {
    const { rows } = await mallory.query<Record<string, unknown>>(callStatement(database, name, given))
    const [row] = rows
    const verdict = ['renewed', 'released', 'verdict'].find((column) => row !== undefined && column in row)
    return verdict === undefined ? `${rows.length} rows` : `${verdict}: ${String(row![verdict])}`
  } catch (error) {
    const { code, message } = refusalIn(error)
    return message === 'evil was called' ? message : code
  }
}

function completeForged(database: TestDatabase, mallory: Client): Promise<unknown> {
  return mallory.query(callStatement(database, 'complete_outbox_attempt', FORGED_COMPLETION))
}

/** Creates a database that grants TEMP to PUBLIC, with a leased item, and an item that is due in an hour. */
async function createDatabaseUnderAttack(): Promise<TestDatabase> {
  const database = await createTestDatabase()
  await prepareDatabase(database)
  return database
}

async function withTestDatabaseUnderAttack(body: (database: TestDatabase) => Promise<void>): Promise<void> {
  // Branches are not counted, because making functions unsafe changes their bodies.
  await withTestDatabase(
    async (database) => {
      await prepareDatabase(database)
      await body(database)
    },
    { countBranches: false },
  )
}

async function prepareDatabase(database: TestDatabase): Promise<void> {
  await database.queryNoRole(`GRANT TEMP ON DATABASE ${database.name} TO PUBLIC`)
  await enqueueAndClaim(database)
  await enqueue(database, { notBefore: new Date(Date.now() + 3_600_000) })
}

/** Creates a worker's login that inherits the rights of executors and owns a schema. */
async function createAttacker(database: TestDatabase): Promise<Client> {
  const login = await database.createLogin(`mallory_${randomUUID().slice(0, 8)}`, {
    roles: ['symphony_executor'],
    inherit: true,
  })
  await database.queryNoRole(`DROP SCHEMA IF EXISTS evil CASCADE`)
  await database.queryNoRole(`CREATE SCHEMA evil AUTHORIZATION ${quoteIdentifier(login.name)}`)
  return login.connect()
}

async function setPaths(database: TestDatabase, clause: string): Promise<void> {
  const { rows } = await database.queryNoRole<{ signature: string }>(
    `SELECT p.oid::regprocedure::text AS signature FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
     WHERE n.nspname = $1 AND p.proconfig IS NOT NULL`,
    [database.schema],
  )
  for (const { signature } of rows) await database.queryNoRole(`ALTER FUNCTION ${signature} ${clause}`)
}

/** Creates a fake queue with the columns from the catalog, which is public. PUBLIC, and so our owner, may use it. */
async function forgeQueue(database: TestDatabase, mallory: Client): Promise<void> {
  await mallory.query(
    `CREATE TEMP TABLE payment_outbox_pending (${await columnsOf(database, 'payment_outbox_pending')})`,
  )
  await mallory.query('GRANT ALL ON pg_temp.payment_outbox_pending TO PUBLIC')
  await mallory.query(
    `INSERT INTO pg_temp.payment_outbox_pending
       (outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type, payload, attempt_count,
         next_attempt_at, created_at, claimed_by, lease_token, lease_expires_at, claimed_at, outcome_unknown,
         expiry_streak, ordered, blocked, block_unverified, is_message)
     VALUES ($1, 'i', 'p', 1, 'k', 'r', '{"amountMinor": "1"}', 0, now(), now(), $3, $2, now() + interval '1 hour', now(),
       false, 0, false, false, false, false)`,
    [forged.outboxId, forged.leaseToken, forged.worker],
  )
}

async function shadowEverything(database: TestDatabase, mallory: Client, kind: 'tables' | 'views'): Promise<void> {
  await forgeQueue(database, mallory)
  for (const table of await tableNames(database)) {
    if (table === 'payment_outbox_pending') continue
    await mallory.query(`CREATE TEMP TABLE ${table} (${await columnsOf(database, table)})`)
    await mallory.query(`GRANT ALL ON pg_temp.${table} TO PUBLIC`)
  }
  if (kind === 'tables') return
  for (const table of await tableNames(database)) {
    await mallory.query(`ALTER TABLE pg_temp.${table} RENAME TO behind_${table}`)
    await mallory.query(`CREATE TEMP VIEW ${table} AS SELECT * FROM pg_temp.behind_${table}`)
    await mallory.query(`GRANT ALL ON pg_temp.${table} TO PUBLIC`)
  }
}

async function decoyRows(database: TestDatabase, mallory: Client): Promise<unknown> {
  const rows: Record<string, unknown> = {}
  for (const table of await tableNames(database)) {
    rows[table] = (await mallory.query(`SELECT * FROM pg_temp.${table}`)).rows
  }
  return rows
}

/** Returns the column definitions, with enums as text, because other roles may not use our enum. */
async function columnsOf(database: TestDatabase, table: string): Promise<string> {
  const { rows } = await database.queryNoRole<{ list: string }>(
    `SELECT string_agg(format('%I %s', a.attname, replace(format_type(a.atttypid, a.atttypmod), 'outbox_attempt_state', 'text')),
       ', ' ORDER BY a.attnum) AS list
     FROM pg_attribute a WHERE a.attrelid = $1::regclass AND a.attnum > 0 AND NOT a.attisdropped`,
    [table],
  )
  return rows[0]!.list
}

/** Creates a decoy for every function and operator that our bodies could call. Each raises when called. */
async function shadowFunctionsAndOperators(
  database: TestDatabase,
  mallory: Client,
): Promise<{ functions: number; operators: number }> {
  const body = `LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''evil was called''; END'`
  const { rows: functions } = await database.queryNoRole<{ name: string; arguments: string; result: string }>(
    `SELECT p.proname AS name, pg_get_function_identity_arguments(p.oid) AS arguments,
       CASE WHEN p.proretset THEN 'SETOF ' ELSE '' END || format_type(p.prorettype, NULL) AS result
     FROM pg_proc p
     WHERE p.prokind = 'f' AND p.provariadic = 0
       AND NOT p.prorettype = ANY (ARRAY['record', 'internal', 'trigger', 'cstring', 'event_trigger']::regtype[])
       AND NOT (p.proargtypes::oid[] && ARRAY['internal', 'cstring', '"any"', 'anyelement', 'anyarray', 'anynonarray',
         'anyenum', 'anyrange', 'anymultirange', 'anycompatible', 'anycompatiblearray', 'anycompatiblerange',
         'anycompatiblenonarray', 'anycompatiblemultirange']::regtype[]::oid[])
       AND (p.pronamespace = $1::regnamespace OR (p.pronamespace = 'pg_catalog'::regnamespace AND EXISTS (
         SELECT 1 FROM pg_proc o
         WHERE o.pronamespace = $1::regnamespace AND strpos(o.prosrc, p.proname || '(') > 0)))`,
    [quoteIdentifier(database.schema)],
  )
  // Leaves out functions with arguments of our own types, which other roles may not use.
  const decoys = functions
    .filter(
      (one) =>
        !/payment_outbox|outbox_attempt_state|\b(?:inbox_messages|dispatch_epochs|scheduler_tasks|outbox_limit\w*|reconciliation_\w+)\b/.test(
          `${one.arguments} ${one.result}`,
        ),
    )
    .map((one) => `CREATE FUNCTION evil.${quoteIdentifier(one.name)}(${one.arguments}) RETURNS ${one.result} ${body}`)
  const { rows: operators } = await database.queryNoRole<Record<'name' | 'left' | 'right' | 'result', string>>(
    `SELECT o.oprname AS name, format_type(o.oprleft, NULL) AS left, format_type(o.oprright, NULL) AS right,
       format_type(o.oprresult, NULL) AS result
     FROM pg_operator o
     WHERE o.oprleft = ANY ($1::text[]::regtype[]::oid[]) AND o.oprright = ANY ($1::text[]::regtype[]::oid[])`,
    [
      [
        'uuid',
        'text',
        'integer',
        'bigint',
        'boolean',
        'jsonb',
        'timestamptz',
        'interval',
        'bytea',
        'tid',
        'xid8',
        'oid',
        'name',
      ],
    ],
  )
  const shadows = operators.flatMap(({ name, left, right, result }, index) => [
    `CREATE FUNCTION evil.operator_${index}(${left}, ${right}) RETURNS ${result} ${body}`,
    `CREATE OPERATOR evil.${name} (LEFTARG = ${left}, RIGHTARG = ${right}, FUNCTION = evil.operator_${index})`,
  ])
  await mallory.query(['GRANT USAGE ON SCHEMA evil TO PUBLIC', ...decoys, ...shadows].join(';\n'))
  return { functions: decoys.length, operators: operators.length }
}
