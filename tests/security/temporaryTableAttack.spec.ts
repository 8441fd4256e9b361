import { randomUUID } from 'node:crypto'
import type { Client } from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { quoteIdentifier } from '../../libs/db/index.js'
import { createTestDatabase, withTestDatabase, type TestDatabase } from '../support/database.js'
import { rowHashes, tableNames } from '../support/fingerprint.js'
import { enqueue, enqueueAndClaim } from '../support/outboxItems.js'
import { failureOf } from '../support/race.js'
import { refusalIn } from '../support/refusal.js'

/**
 * The attack that once forged a DISPATCHED row in a real ledger: a definer function whose search path does not name
 * `pg_temp` searches it first, and the caller decides what is there. Every database here grants TEMP on purpose and gives
 * the attacker a schema of its own: the functions are safe by themselves, not because the door was locked.
 *
 * Each attack is also run against functions that were made unsafe, where it succeeds: otherwise it would prove nothing.
 */

/** An item that exists in the attacker's imagination only, leased to the attacker. */
const forged = { outboxId: randomUUID(), leaseToken: randomUUID(), worker: 'mallory' }

let db: TestDatabase
beforeAll(async () => {
  db = await createDatabaseUnderAttack()
})
afterAll(() => db.drop())

describe('a temporary table named like the queue', () => {
  test('does not come between a completion and the real queue', async () => {
    const before = await rowHashes(db)
    const mallory = await createAttacker(db)
    await forgeQueue(db, mallory)
    expect(await failureOf(completeForged(db, mallory))).toMatchObject({ code: 'P7002' })
    expect(await rowHashes(db)).toEqual(before)
  })

  test('forges an ending in the real ledger where the path does not end in pg_temp', async () => {
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

describe.each(['tables', 'views'] as const)('temporary %s named like all of ours', (kind) => {
  test('are neither read nor written by any function an executor may call', async () => {
    const before = await rowHashes(db)
    const mallory = await createAttacker(db)
    await shadowEverything(db, mallory, kind)
    const decoys = await decoyRows(db, mallory)
    const outcomes = await callEverything(db, mallory)

    // Whatever speaks of the forged item finds that it does not exist; what speaks of no item finds nothing to do.
    expect(outcomes).toEqual(HARMLESS)
    expect(await decoyRows(db, mallory)).toEqual(decoys)
    expect({ ...(await rowHashes(db)), ...WRITTEN }).toEqual({ ...before, ...WRITTEN })
  })

  test('are used where the path does not end in pg_temp', async () => {
    await withTestDatabaseUnderAttack(async (unsafe) => {
      await setPaths(unsafe, `SET search_path = ${quoteIdentifier(unsafe.schema)}`)
      const mallory = await createAttacker(unsafe)
      await shadowEverything(unsafe, mallory, kind)
      expect(await callEverything(unsafe, mallory)).not.toEqual(HARMLESS)
    })
  })
})

describe('functions, operators and types of the attacker’s own, first in its search path', () => {
  test('are called by none of our functions', async () => {
    const before = await rowHashes(db)
    const mallory = await createAttacker(db)
    const decoys = await shadowFunctionsAndOperators(db, mallory)
    expect(decoys.functions).toBeGreaterThan(100)
    expect(decoys.operators).toBeGreaterThan(100)
    await mallory.query('SET search_path = evil, pg_temp, pg_catalog')
    expect(await callEverything(db, mallory)).toEqual(HARMLESS)
    expect({ ...(await rowHashes(db)), ...WRITTEN }).toEqual({ ...before, ...WRITTEN })
  })

  test('are called where a function takes the path of its caller', async () => {
    await withTestDatabaseUnderAttack(async (unsafe) => {
      await setPaths(unsafe, 'RESET search_path')
      const mallory = await createAttacker(unsafe)
      await shadowFunctionsAndOperators(unsafe, mallory)
      await mallory.query(`SET search_path = evil, ${quoteIdentifier(unsafe.schema)}, pg_temp, pg_catalog`)
      expect(Object.values(await callEverything(unsafe, mallory))).toContain('evil was called')
    })
  })
})

test('a temporary function cannot be called by its bare name at all, so it shadows nothing', async () => {
  const mallory = await createAttacker(db)
  await mallory.query(`CREATE FUNCTION pg_temp.sha256(bytea) RETURNS bytea LANGUAGE sql AS 'SELECT NULL::bytea'`)
  await mallory.query('SET search_path = pg_temp, pg_catalog')
  const { rows } = await mallory.query(`SELECT sha256('') IS NULL AS shadowed`)
  expect(rows).toEqual([{ shadowed: false }])
})

/** Tables that the calls may write: heartbeats, and the place of the ledger's verification. */
const WRITTEN = { outbox_workers: '', ledger_verification_passes: '' }

/** What becomes of each call about the forged item: an error, or how many rows came back. */
const HARMLESS: Readonly<Record<string, string>> = {
  claim_outbox_batch: '0 rows',
  claim_outbox_packed: '1 rows',
  renew_outbox_lease: 'P7002',
  renew_outbox_leases: 'renewed: false',
  release_outbox_lease: 'P7002',
  release_outbox_leases: 'released: false',
  begin_outbox_dispatch: 'P7002',
  hold_leased_outbox_item: 'P7002',
  complete_outbox_attempt: 'P7002',
  complete_outbox_attempts: 'verdict: LEASE_LOST',
  complete_outbox_packed: '1 rows',
  record_late_outcome: 'P7002',
  repair_expired_leases: '0 rows',
  next_outbox_event: '1 rows',
  heartbeat_outbox_worker: '1 rows',
  outbox_backoff: '1 rows',
  verify_ledger_block: '0 rows',
}

async function callEverything(database: TestDatabase, mallory: Client): Promise<Record<string, string>> {
  const { outboxId, leaseToken, worker } = forged
  const lease = [outboxId, leaseToken, worker]
  const leases = [[outboxId], [leaseToken], worker]
  const calls: Readonly<Record<string, readonly unknown[]>> = {
    claim_outbox_batch: [10, worker, 60],
    claim_outbox_packed: [10, worker, 60],
    renew_outbox_lease: [...lease, 60],
    renew_outbox_leases: [...leases, 60],
    release_outbox_lease: lease,
    release_outbox_leases: leases,
    begin_outbox_dispatch: lease,
    hold_leased_outbox_item: [...lease, 'because'],
    complete_outbox_attempt: [...lease, 'DISPATCHED', 'forged'],
    complete_outbox_attempts: [...leases, ['DISPATCHED'], ['forged']],
    complete_outbox_packed: [...leases, ['DISPATCHED'], ['forged']],
    record_late_outcome: [...lease, 'DISPATCHED', 'forged'],
    repair_expired_leases: [10, worker],
    next_outbox_event: [],
    heartbeat_outbox_worker: [worker],
    outbox_backoff: [1, outboxId],
    verify_ledger_block: [1_000, 3_600],
  }
  const outcomes: Record<string, string> = {}
  for (const [name, values] of Object.entries(calls)) {
    outcomes[name] = await outcomeOf(database, mallory, name, values)
  }
  return outcomes
}

async function outcomeOf(
  database: TestDatabase,
  mallory: Client,
  name: string,
  values: readonly unknown[],
): Promise<string> {
  try {
    const { rows } = await call(database, mallory, name, values)
    const [row] = rows
    const verdict = ['renewed', 'released', 'verdict'].find((column) => row !== undefined && column in row)
    return verdict === undefined ? `${rows.length} rows` : `${verdict}: ${String(row![verdict])}`
  } catch (error) {
    const { code, message } = refusalIn(error)
    return message === 'evil was called' ? message : code
  }
}

function call(
  { schema }: TestDatabase,
  mallory: Client,
  name: string,
  values: readonly unknown[],
): Promise<{ rows: Record<string, unknown>[] }> {
  const placeholders = values.map((_, index) => `$${index + 1}`).join(', ')
  return mallory.query(`SELECT * FROM ${quoteIdentifier(schema)}.${name}(${placeholders})`, [...values])
}

function completeForged(database: TestDatabase, mallory: Client): Promise<unknown> {
  const { outboxId, leaseToken, worker } = forged
  return call(database, mallory, 'complete_outbox_attempt', [outboxId, leaseToken, worker, 'DISPATCHED', 'forged'])
}

/** TEMP for everybody, items in flight and in every other state, and nothing that is due. */
async function createDatabaseUnderAttack(): Promise<TestDatabase> {
  const database = await createTestDatabase()
  await setTheStage(database)
  return database
}

async function withTestDatabaseUnderAttack(body: (database: TestDatabase) => Promise<void>): Promise<void> {
  // Functions made unsafe are other functions: their branches do not count.
  await withTestDatabase(
    async (database) => {
      await setTheStage(database)
      await body(database)
    },
    { countBranches: false },
  )
}

async function setTheStage(database: TestDatabase): Promise<void> {
  await database.queryNoRole(`GRANT TEMP ON DATABASE ${database.name} TO PUBLIC`)
  await enqueueAndClaim(database)
  await enqueue(database, { notBefore: new Date(Date.now() + 3_600_000) })
}

/** A worker's login, gone bad: it inherits what executors may do, and owns a schema. */
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

/** The attacker reads the columns in the catalog, which is open to all, and opens its table to our owner. */
async function forgeQueue(database: TestDatabase, mallory: Client): Promise<void> {
  await mallory.query(
    `CREATE TEMP TABLE payment_outbox_pending (${await columnsOf(database, 'payment_outbox_pending')})`,
  )
  await mallory.query('GRANT ALL ON pg_temp.payment_outbox_pending TO PUBLIC')
  await mallory.query(
    `INSERT INTO pg_temp.payment_outbox_pending
       (outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type, payload, attempt_count,
         next_attempt_at, created_at, claimed_by, lease_token, lease_expires_at, claimed_at, outcome_unknown,
         expiry_streak, ordered, blocked, block_unverified)
     VALUES ($1, 'i', 'p', 1, 'k', 'r', '{"amountMinor": "1"}', 0, now(), now(), $3, $2, now() + interval '1 hour', now(),
       false, 0, false, false, false)`,
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

/** Our own enum is closed to others, so it becomes text; what the attack needs of it is its name. */
async function columnsOf(database: TestDatabase, table: string): Promise<string> {
  const { rows } = await database.queryNoRole<{ list: string }>(
    `SELECT string_agg(format('%I %s', a.attname, replace(format_type(a.atttypid, a.atttypmod), 'outbox_attempt_state', 'text')),
       ', ' ORDER BY a.attnum) AS list
     FROM pg_attribute a WHERE a.attrelid = $1::regclass AND a.attnum > 0 AND NOT a.attisdropped`,
    [table],
  )
  return rows[0]!.list
}

/** A decoy for every function and operator that our bodies could mean, each of which tells when it is called. */
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
  // Our own types are closed to others.
  const decoys = functions
    .filter(
      (one) =>
        !/payment_outbox|outbox_attempt_state|\b(?:inbox_messages|dispatch_epochs|scheduler_tasks)\b/.test(
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
