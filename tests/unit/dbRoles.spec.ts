import { Client } from 'pg'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { call, RoleError, type Database } from '../../libs/db/index.js'
import { DbStage } from '../support/dbStage.js'
import { PATIENTLY } from '../support/patiently.js'
import { Pooler } from '../support/pooler.js'

let stage: DbStage

beforeAll(async () => {
  stage = await DbStage.set()
  await stage.admin.query(`
    CREATE TABLE symphony.of_worker (n int);
    GRANT SELECT, INSERT ON symphony.of_worker TO ${stage.worker}`)
})
afterAll(() => stage.remove())

const WHO = 'SELECT current_user AS role, session_user AS login'

test.for(['none', 'transaction'] as const)('pooler %s: a statement runs in the role it names', async (pooler) => {
  const database = stage.open({ pooler })
  for (const role of [stage.worker, stage.reader]) {
    const { rows } = await database.queryAsRole(role, WHO)
    expect(rows).toEqual([{ role, login: stage.login }])
  }
})

test.for(['none', 'transaction'] as const)('pooler %s: the role has its rights and no others', async (pooler) => {
  const database = stage.open({ pooler })
  await database.queryAsRole(stage.worker, 'INSERT INTO symphony.of_worker VALUES ($1)', [1])
  await expect(database.queryAsRole(stage.reader, 'SELECT n FROM symphony.of_worker')).rejects.toMatchObject({
    code: 'INSUFFICIENT_PRIVILEGE',
    disposition: 'fatal',
  })
})

test.for(['none', 'transaction'] as const)('pooler %s: a missing grant is named', async (pooler) => {
  const database = stage.open({ pooler })
  const error = await database.queryAsRole(stage.stranger, WHO).catch((thrown: unknown) => thrown)
  expect(error).toBeInstanceOf(RoleError)
  expect(error).toMatchObject({
    role: stage.stranger,
    disposition: 'fatal',
    remedy: `symphony deploy --create-login NAME=${stage.stranger} creates a login for this role.`,
  })
  await expect(database.transactionAsRole(stage.stranger, async () => {})).rejects.toBeInstanceOf(RoleError)
  await expect(database.queryAsRole('db_no_such_role', WHO)).rejects.toMatchObject({
    code: 'ROLE_UNAVAILABLE',
    message: 'the role db_no_such_role does not exist',
  })
})

test('there is no default role: blank names and "none" are refused before any I/O', async () => {
  const database = stage.open()
  for (const role of ['', '  ', 'none', 'x'.repeat(64)]) {
    expect(() => database.as(role)).toThrow(/^role: /)
    await expect(database.queryAsRole(role, WHO)).rejects.toThrow(/^role: /)
    await expect(database.transactionAsRole(role, async () => {})).rejects.toThrow(/^role: /)
  }
})

test('a role that a statement changes is restored before anyone else gets the connection', async () => {
  const database = stage.open({ connectionsMax: 1 })
  const pid = async () =>
    (await database.queryAsRole<{ pid: number }>(stage.worker, 'SELECT pg_backend_pid() AS pid')).rows
  const before = await pid()
  for (const change of [
    `SET ROLE ${stage.reader}`,
    'RESET ROLE',
    `SELECT pg_catalog.set_config('role', '${stage.reader}', false)`,
    'DISCARD ALL',
  ]) {
    await database.queryAsRole(stage.worker, change)
    expect((await database.queryAsRole(stage.worker, WHO)).rows).toEqual([{ role: stage.worker, login: stage.login }])
  }
  expect(await pid()).toEqual(before)
})

test('the text of a call does not count as a call, so its connection is told its role again', async () => {
  await stage.admin.query(`
    CREATE FUNCTION symphony.leave(name text) RETURNS text LANGUAGE sql AS
      $$SELECT pg_catalog.set_config('role', name, false)$$; GRANT USAGE ON SCHEMA symphony TO ${stage.worker}`)
  const database = stage.open({ connectionsMax: 1 })
  const role = database.as(stage.worker)
  const who = async () => (await role.query<{ role: string }>(WHO)).rows[0]?.role
  await role.query('SELECT * FROM "symphony"."leave"($1)', [stage.reader])
  expect(await who()).toBe(stage.worker)
  // Even a copy of the handle sends texts, because only the handle itself receives calls.
  await call({ ...role }, 'leave', [stage.reader])
  expect(await who()).toBe(stage.worker)
  await stage.admin.query('DROP FUNCTION symphony.leave')
})

test('a call names a function and never holds SQL, whatever its name', async () => {
  const name = 'f"(); RESET ROLE; --'
  const failure = call(stage.open().as(stage.worker), name, [])
  await expect(failure).rejects.toMatchObject({ sqlstate: '42883' })
})

test('a call of a function keeps the connection and its role, also after an error, and a role that was revoked is noticed', async () => {
  const revocable = `${stage.name}_calls`
  await stage.admin.query(`
    CREATE ROLE ${revocable}; GRANT ${revocable} TO ${stage.login}; GRANT USAGE ON SCHEMA symphony TO ${revocable};
    CREATE FUNCTION symphony.who(p integer) RETURNS TABLE (role text, pid integer, quotient integer) LANGUAGE sql AS
      'SELECT current_user::text, pg_backend_pid(), 1 / p'`)
  const database = stage.open({ connectionsMax: 1 })
  const who = (p: number) => call<{ role: string; pid: number }>(database.as(revocable), 'who', [p])
  const [first] = await who(1)
  await expect(who(0)).rejects.toMatchObject({ sqlstate: '22012' })
  expect(await who(1)).toEqual([{ role: revocable, pid: first?.pid, quotient: 1 }])
  await stage.admin.query(`REVOKE ${revocable} FROM ${stage.login}`)
  await expect.poll(() => who(1).catch((error: unknown) => error), PATIENTLY).toBeInstanceOf(RoleError)
  await stage.admin.query(`DROP FUNCTION symphony.who; DROP OWNED BY ${revocable}; DROP ROLE ${revocable}`)
})

test('a role that a transaction changes is restored before anyone else gets the connection', async () => {
  const database = stage.open({ connectionsMax: 1 })
  await database.transactionAsRole(stage.worker, async (tx) => {
    await tx.query(`SET ROLE ${stage.reader}`)
  })
  expect((await database.queryAsRole(stage.worker, WHO)).rows).toEqual([{ role: stage.worker, login: stage.login }])
})

test('a connection whose role cannot be restored is closed', async () => {
  const revocable = `${stage.name}_revocable`
  await stage.admin.query(`CREATE ROLE ${revocable}; GRANT ${revocable} TO ${stage.login}`)
  const database = stage.open({ connectionsMax: 1 })
  const { rows } = await database.queryAsRole<{ pid: number }>(revocable, 'SELECT pg_backend_pid() AS pid')
  await stage.admin.query(`REVOKE ${revocable} FROM ${stage.login}`)
  await database.queryAsRole(revocable, 'SELECT 1')
  await expect(database.queryAsRole(revocable, WHO)).rejects.toBeInstanceOf(RoleError)
  await expect
    .poll(
      async () => (await stage.admin.query('SELECT FROM pg_stat_activity WHERE pid = $1', [rows[0]?.pid])).rowCount,
      PATIENTLY,
    )
    .toBe(0)
  await stage.admin.query(`DROP ROLE ${revocable}`)
})

test('a transaction left open by a statement is not handed to the next caller', async () => {
  const database = stage.open({ connectionsMax: 1 })
  await database.queryAsRole(stage.worker, 'BEGIN; INSERT INTO symphony.of_worker VALUES (77)')
  const { rows } = await database.queryAsRole(stage.worker, 'SELECT n FROM symphony.of_worker WHERE n = $1', [77])
  expect(rows).toEqual([])
})

test('behind a pooler nothing stays in the session: outside transactions it is in the login role', async () => {
  const database = stage.open({ pooler: 'transaction', connectionsMax: 1, applicationName: stage.name })
  await database.queryAsRole(stage.worker, 'SELECT $1::int', [1])
  await database.transactionAsRole(stage.reader, async (tx) => tx.query('SELECT $1::int', [2]))
  // The one session of the pool, seen by a statement that ends the transaction it was given and looks around.
  const { rows } = await database.queryAsRole(
    stage.worker,
    `COMMIT; SELECT current_user AS role, pg_catalog.current_setting('statement_timeout') AS statement_timeout,
       (SELECT pg_catalog.count(*) FROM pg_catalog.pg_prepared_statements) AS prepared`,
  )
  expect(rows).toEqual([{ role: stage.login, statement_timeout: '0', prepared: 0n }])
})

describe('a process that was not told of the pooler', () => {
  let pooler: Pooler
  beforeEach(async () => {
    pooler = await Pooler.before(stage.url())
  })
  afterEach(() => pooler.close())

  test.each<[string, (database: Database) => Promise<unknown>]>([
    ['a statement', (database) => database.queryAsRole(stage.worker, WHO)],
    ['a transaction', (database) => database.transactionAsRole(stage.worker, async (tx) => tx.query(WHO))],
    ['LISTEN', (database) => database.listenAsRole(stage.worker, 'a_channel', () => {})],
  ])('is refused before %s changes the pooled connection', async (_, use) => {
    const database = stage.open({ url: stage.url(pooler.port) })
    await expect(use(database)).rejects.toMatchObject({ code: 'TRANSACTION_POOLER' })
    const next = new Client(stage.url(pooler.port))
    await next.connect()
    const { rows } = await next.query(WHO)
    await next.end()
    expect(rows).toEqual([{ role: stage.login, login: stage.login }])
  })
})

test('probeRoles says what the login can be, and which grant is missing', async () => {
  const roles = [stage.worker, stage.stranger, 'db_no_such_role']
  for (const pooler of ['none', 'transaction'] as const) {
    expect(await stage.open({ pooler }).probeRoles(roles)).toEqual({
      login: stage.login,
      loginIsSuperuser: false,
      roles: [
        { role: stage.worker, usable: true, inherited: false },
        {
          role: stage.stranger,
          usable: false,
          reason: `the login ${stage.login} may not act as ${stage.stranger}`,
          remedy: `symphony deploy --create-login NAME=${stage.stranger} creates a login for this role.`,
        },
        expect.objectContaining({ role: 'db_no_such_role', usable: false }),
      ],
    })
  }
})

test('probeRoles tells a superuser, and a role whose rights are always there', async () => {
  const { rows } = await stage.admin.query<{ admin: string }>('SELECT current_user AS admin')
  const url = new URL(stage.url())
  const admin = stage.admin
  url.username = rows[0]?.admin ?? ''
  url.password = admin.password ?? ''
  expect(await stage.open({ url: url.href }).probeRoles([stage.worker])).toMatchObject({
    loginIsSuperuser: true,
    roles: [{ usable: true, inherited: true }],
  })
})
