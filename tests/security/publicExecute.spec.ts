import type { Client } from 'pg'
import { beforeAll, describe, expect, test } from 'vitest'
import { quoteIdentifier } from '../../libs/db/index.js'
import { deploy } from '../../libs/deployment/index.js'
import { useTestDatabase } from '../support/database.js'
import { enqueue } from '../support/outboxItems.js'
import { failureOf } from '../support/race.js'
import { refusalIn, sqlstateOf } from '../support/refusal.js'

/**
 * PostgreSQL lets PUBLIC execute every new function and use every new type. The deployment revokes both rights on
 * existing objects. For later objects it changes the default privileges of the owner, because default privileges of a
 * schema cannot revoke rights of PUBLIC.
 */

const db = await useTestDatabase({ countBranches: false })
let schema: string
/** Login without roles. It has USAGE on the schema, so that only object privileges can refuse it. */
let unprivileged: Client
let owner: Client

beforeAll(async () => {
  schema = quoteIdentifier(db.schema)
  const login = await db.createLogin('unprivileged')
  await db.queryNoRole(`GRANT USAGE ON SCHEMA ${schema} TO ${quoteIdentifier(login.name)}`)
  await db.queryNoRole(`CREATE SCHEMA scratch AUTHORIZATION ${quoteIdentifier(login.name)}`)
  unprivileged = await login.connect()
  owner = await db.connect('symphony_owner')
})

test('a login without roles can execute no function of the schema', async () => {
  const { rows } = await db.queryNoRole<{ call: string }>(
    `SELECT format('SELECT %s.%I(%s)', $1::text, p.proname, (
       SELECT string_agg('NULL::' || format_type(a, NULL), ', ') FROM unnest(p.proargtypes) a)) AS call
     FROM pg_proc p WHERE p.pronamespace = $1::regnamespace`,
    [schema],
  )
  expect(rows.length).toBeGreaterThan(50)
  for (const { call } of rows) {
    expect([call, refusalIn(await failureOf(unprivileged.query(call))).message]).toEqual([
      call,
      expect.stringMatching(/^permission denied for function /),
    ])
  }
})

describe('an object that the owner creates after a deployment', () => {
  test('is closed to all other roles if it is a function (42501)', async () => {
    await owner.query(`CREATE FUNCTION ${schema}.later() RETURNS int LANGUAGE sql AS 'SELECT 1'`)
    expect(await failureOf(unprivileged.query(`SELECT ${schema}.later()`))).toMatchObject({ code: '42501' })
    for (const role of ['control', 'ingest', 'executor', 'readonly', 'auditor', 'auth']) {
      const client = await db.connect(`symphony_${role}`)
      expect([role, await sqlstateOf(client.query(`SELECT ${schema}.later()`))]).toEqual([role, '42501'])
    }
    await owner.query(`DROP FUNCTION ${schema}.later()`)
  })

  test('is closed to other roles if it is a function in another schema (42501)', async () => {
    await db.queryNoRole(
      'CREATE SCHEMA elsewhere AUTHORIZATION symphony_owner; GRANT USAGE ON SCHEMA elsewhere TO PUBLIC',
    )
    await owner.query(`CREATE FUNCTION elsewhere.later() RETURNS int LANGUAGE sql AS 'SELECT 1'`)
    expect(await failureOf(unprivileged.query('SELECT elsewhere.later()'))).toMatchObject({ code: '42501' })
    await db.queryNoRole('DROP SCHEMA elsewhere CASCADE')
  })

  test('is closed to other roles if it is a procedure or an aggregate (42501)', async () => {
    await owner.query(`CREATE PROCEDURE ${schema}.later_procedure() LANGUAGE sql AS 'SELECT 1'`)
    await owner.query(`CREATE AGGREGATE ${schema}.later_sum (int) (SFUNC = int4pl, STYPE = int, INITCOND = '0')`)
    expect(await failureOf(unprivileged.query(`CALL ${schema}.later_procedure()`))).toMatchObject({ code: '42501' })
    expect(await failureOf(unprivileged.query(`SELECT ${schema}.later_sum(1)`))).toMatchObject({ code: '42501' })
    await owner.query(`DROP PROCEDURE ${schema}.later_procedure; DROP AGGREGATE ${schema}.later_sum (int)`)
  })

  test('is closed to other roles if it is a table, a view or a sequence (42501)', async () => {
    await owner.query(`CREATE TABLE ${schema}.later_table (a serial); CREATE VIEW ${schema}.later_view AS SELECT 1`)
    for (const sql of [
      `SELECT * FROM ${schema}.later_table`,
      `SELECT * FROM ${schema}.later_view`,
      `SELECT nextval('${schema}.later_table_a_seq')`,
    ]) {
      expect([sql, await sqlstateOf(unprivileged.query(sql))]).toEqual([sql, '42501'])
    }
    await owner.query(`DROP TABLE ${schema}.later_table; DROP VIEW ${schema}.later_view`)
  })

  test('is closed to other roles if it is a type (42501)', async () => {
    await owner.query(`CREATE TYPE ${schema}.later_type AS ENUM ('a')`)
    const built = unprivileged.query(`CREATE TABLE scratch.t (a ${schema}.later_type)`)
    expect(await failureOf(built)).toMatchObject({ code: '42501' })
    await owner.query(`DROP TYPE ${schema}.later_type`)
  })

  test('is executable by PUBLIC if EXECUTE is revoked only in the defaults of the schema', async () => {
    await owner.query('BEGIN')
    await owner.query(`ALTER DEFAULT PRIVILEGES GRANT EXECUTE ON FUNCTIONS TO PUBLIC`)
    await owner.query(`ALTER DEFAULT PRIVILEGES IN SCHEMA ${schema} REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC`)
    await owner.query(`CREATE FUNCTION ${schema}.later() RETURNS int LANGUAGE sql AS 'SELECT 1'`)
    const { rows } = await owner.query(
      `SELECT has_function_privilege('symphony_auth', '${schema}.later()', 'EXECUTE') AS may`,
    )
    expect(rows).toEqual([{ may: true }])
    await owner.query('ROLLBACK')
  })
})

test('a recreated function is closed to all roles until the next deployment grants it', async () => {
  const { rows } = await db.queryNoRole<{ definition: string }>(
    `SELECT pg_get_functiondef('outbox_backoff(integer, uuid, integer)'::regprocedure) AS definition`,
  )
  await owner.query('DROP FUNCTION outbox_backoff(integer, uuid, integer)')
  await owner.query(rows[0]!.definition)
  const { outboxId } = await enqueue(db)
  const call = `SELECT ${schema}.outbox_backoff(1, '${outboxId}')`
  const executor = await db.connect('symphony_executor')
  expect(await failureOf(unprivileged.query(call))).toMatchObject({ code: '42501' })
  expect(await failureOf(executor.query(call))).toMatchObject({ code: '42501' })

  await deploy({ url: db.url, schema: db.schema })
  expect((await executor.query(call)).rowCount).toBe(1)
  expect(await failureOf(unprivileged.query(call))).toMatchObject({ code: '42501' })
})

test('only the owner has default privileges, and they grant nothing to other roles', async () => {
  const { rows } = await db.queryNoRole(
    `SELECT d.defaclrole::regrole::text AS role, d.defaclnamespace AS schema, d.defaclobjtype AS kind,
       ARRAY(SELECT a.grantee::regrole::text FROM aclexplode(d.defaclacl) a) AS grantees
     FROM pg_default_acl d ORDER BY d.defaclobjtype`,
  )
  expect(rows).toEqual(
    ['T', 'f'].map((kind) => ({ role: 'symphony_owner', schema: 0, kind, grantees: ['symphony_owner'] })),
  )
})
