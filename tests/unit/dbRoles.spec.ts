import { Client } from 'pg'
import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { call, RoleError, type Database } from '../../libs/db/index.js'
import { closeAfterAll } from '../support/afterAll.js'
import { DbFixture } from '../support/dbFixture.js'
import { POLL_OPTIONS } from '../support/pollOptions.js'
import { Pooler } from '../support/pooler.js'

const fixture = closeAfterAll(await DbFixture.set())

beforeAll(async () => {
  await fixture.admin.query(`
    CREATE TABLE symphony.of_worker (n int);
    GRANT SELECT, INSERT ON symphony.of_worker TO ${fixture.worker}`)
})

const WHO = 'SELECT current_user AS role, session_user AS login'

test.for(['none', 'transaction'] as const)(
  'pooler %s: queryAsRole runs a statement in the given role',
  async (pooler) => {
    const database = fixture.open({ pooler })
    for (const role of [fixture.worker, fixture.reader]) {
      const { rows } = await database.queryAsRole(role, WHO)
      expect(rows).toEqual([{ role, login: fixture.login }])
    }
  },
)

test.for(['none', 'transaction'] as const)(
  'pooler %s: a statement has the rights of its role and no others',
  async (pooler) => {
    const database = fixture.open({ pooler })
    await database.queryAsRole(fixture.worker, 'INSERT INTO symphony.of_worker VALUES ($1)', [1])
    await expect(database.queryAsRole(fixture.reader, 'SELECT n FROM symphony.of_worker')).rejects.toMatchObject({
      code: 'INSUFFICIENT_PRIVILEGE',
      disposition: 'fatal',
    })
  },
)

test.for(['none', 'transaction'] as const)(
  'pooler %s: a role that the login was not granted is refused with a remedy (RoleError)',
  async (pooler) => {
    const database = fixture.open({ pooler })
    const error = await database.queryAsRole(fixture.notGranted, WHO).catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(RoleError)
    expect(error).toMatchObject({
      role: fixture.notGranted,
      disposition: 'fatal',
      remedy: `symphony deploy --create-login NAME=${fixture.notGranted} creates a login for this role.`,
    })
    await expect(database.transactionAsRole(fixture.notGranted, async () => {})).rejects.toBeInstanceOf(RoleError)
    await expect(database.queryAsRole('db_no_such_role', WHO)).rejects.toMatchObject({
      code: 'ROLE_UNAVAILABLE',
      message: 'the role db_no_such_role does not exist',
    })
  },
)

test('a role name that is blank, "none" or of 64 characters is refused before any I/O', async () => {
  const database = fixture.open()
  for (const role of ['', '  ', 'none', 'x'.repeat(64)]) {
    expect(() => database.as(role)).toThrow(/^role: /)
    await expect(database.queryAsRole(role, WHO)).rejects.toThrow(/^role: /)
    await expect(database.transactionAsRole(role, async () => {})).rejects.toThrow(/^role: /)
  }
})

test('a connection restores its role before it is reused if a statement changed the role', async () => {
  const database = fixture.open({ connectionsMax: 1 })
  const pid = async () =>
    (await database.queryAsRole<{ pid: number }>(fixture.worker, 'SELECT pg_backend_pid() AS pid')).rows
  const before = await pid()
  for (const change of [
    `SET ROLE ${fixture.reader}`,
    'RESET ROLE',
    `SELECT pg_catalog.set_config('role', '${fixture.reader}', false)`,
    'DISCARD ALL',
  ]) {
    await database.queryAsRole(fixture.worker, change)
    expect((await database.queryAsRole(fixture.worker, WHO)).rows).toEqual([
      { role: fixture.worker, login: fixture.login },
    ])
  }
  expect(await pid()).toEqual(before)
})

test('a connection restores its role after SQL text called a function that changed the role', async () => {
  await fixture.admin.query(`
    CREATE FUNCTION symphony.leave(name text) RETURNS text LANGUAGE sql AS
      $$SELECT pg_catalog.set_config('role', name, false)$$; GRANT USAGE ON SCHEMA symphony TO ${fixture.worker}`)
  const database = fixture.open({ connectionsMax: 1 })
  const role = database.as(fixture.worker)
  const who = async () => (await role.query<{ role: string }>(WHO)).rows[0]?.role
  await role.query('SELECT * FROM "symphony"."leave"($1)', [fixture.reader])
  expect(await who()).toBe(fixture.worker)
  // `call` recognises only the handle itself. For a copy of the handle it sends SQL text.
  await call({ ...role }, 'leave', [fixture.reader])
  expect(await who()).toBe(fixture.worker)
  await fixture.admin.query('DROP FUNCTION symphony.leave')
})

test('call() quotes the function name, so that SQL in the name does not run (42883)', async () => {
  const name = 'f"(); RESET ROLE; --'
  const failure = call(fixture.open().as(fixture.worker), name, [])
  await expect(failure).rejects.toMatchObject({ sqlstate: '42883' })
})

test('call() keeps the connection and its role after an error, and fails if the role is revoked', async () => {
  const revocable = `${fixture.name}_calls`
  await fixture.admin.query(`
    CREATE ROLE ${revocable}; GRANT ${revocable} TO ${fixture.login}; GRANT USAGE ON SCHEMA symphony TO ${revocable};
    CREATE FUNCTION symphony.who(p integer) RETURNS TABLE (role text, pid integer, quotient integer) LANGUAGE sql AS
      'SELECT current_user::text, pg_backend_pid(), 1 / p'`)
  const database = fixture.open({ connectionsMax: 1 })
  const who = (p: number) => call<{ role: string; pid: number }>(database.as(revocable), 'who', [p])
  const [first] = await who(1)
  await expect(who(0)).rejects.toMatchObject({ sqlstate: '22012' })
  expect(await who(1)).toEqual([{ role: revocable, pid: first?.pid, quotient: 1 }])
  await fixture.admin.query(`REVOKE ${revocable} FROM ${fixture.login}`)
  await expect.poll(() => who(1).catch((error: unknown) => error), POLL_OPTIONS).toBeInstanceOf(RoleError)
  await fixture.admin.query(`DROP FUNCTION symphony.who; DROP OWNED BY ${revocable}; DROP ROLE ${revocable}`)
})

test('a connection restores its role before it is reused if a transaction changed the role', async () => {
  const database = fixture.open({ connectionsMax: 1 })
  await database.transactionAsRole(fixture.worker, async (tx) => {
    await tx.query(`SET ROLE ${fixture.reader}`)
  })
  expect((await database.queryAsRole(fixture.worker, WHO)).rows).toEqual([
    { role: fixture.worker, login: fixture.login },
  ])
})

test('a connection whose role cannot be restored is closed', async () => {
  const revocable = `${fixture.name}_revocable`
  await fixture.admin.query(`CREATE ROLE ${revocable}; GRANT ${revocable} TO ${fixture.login}`)
  const database = fixture.open({ connectionsMax: 1 })
  const { rows } = await database.queryAsRole<{ pid: number }>(revocable, 'SELECT pg_backend_pid() AS pid')
  await fixture.admin.query(`REVOKE ${revocable} FROM ${fixture.login}`)
  // The connection restores its role after each answer, so the first time may be before or after the REVOKE.
  const next = () => database.queryAsRole(revocable, WHO).catch((error: unknown) => error)
  await expect.poll(next, POLL_OPTIONS).toBeInstanceOf(RoleError)
  await expect
    .poll(
      async () => (await fixture.admin.query('SELECT FROM pg_stat_activity WHERE pid = $1', [rows[0]?.pid])).rowCount,
      POLL_OPTIONS,
    )
    .toBe(0)
  await fixture.admin.query(`DROP ROLE ${revocable}`)
})

test('a transaction that a statement leaves open does not reach the next caller', async () => {
  const database = fixture.open({ connectionsMax: 1 })
  await database.queryAsRole(fixture.worker, 'BEGIN; INSERT INTO symphony.of_worker VALUES (77)')
  const { rows } = await database.queryAsRole(fixture.worker, 'SELECT n FROM symphony.of_worker WHERE n = $1', [77])
  expect(rows).toEqual([])
})

test('a session behind a transaction pooler keeps no role, setting or prepared statement', async () => {
  const database = fixture.open({ pooler: 'transaction', connectionsMax: 1, applicationName: fixture.name })
  await database.queryAsRole(fixture.worker, 'SELECT $1::int', [1])
  await database.transactionAsRole(fixture.reader, async (tx) => tx.query('SELECT $1::int', [2]))
  // COMMIT ends the transaction, so that the SELECT reads the state of the session itself.
  const { rows } = await database.queryAsRole(
    fixture.worker,
    `COMMIT; SELECT current_user AS role, pg_catalog.current_setting('statement_timeout') AS statement_timeout,
       (SELECT pg_catalog.count(*) FROM pg_catalog.pg_prepared_statements) AS prepared`,
  )
  expect(rows).toEqual([{ role: fixture.login, statement_timeout: '0', prepared: 0n }])
})

describe('a connection through an undeclared pooler', () => {
  let pooler: Pooler
  beforeEach(async () => {
    pooler = await Pooler.before(fixture.url())
  })
  afterEach(() => pooler.close())

  test.each<[string, (database: Database) => Promise<unknown>]>([
    ['a statement', (database) => database.queryAsRole(fixture.worker, WHO)],
    ['a transaction', (database) => database.transactionAsRole(fixture.worker, async (tx) => tx.query(WHO))],
    ['LISTEN', (database) => database.listenAsRole(fixture.worker, 'a_channel', () => {})],
  ])('is refused before %s changes the pooled connection (TRANSACTION_POOLER)', async (_, use) => {
    const database = fixture.open({ url: fixture.url(pooler.port) })
    await expect(use(database)).rejects.toMatchObject({ code: 'TRANSACTION_POOLER' })
    const next = new Client(fixture.url(pooler.port))
    await next.connect()
    const { rows } = await next.query(WHO)
    await next.end()
    expect(rows).toEqual([{ role: fixture.login, login: fixture.login }])
  })
})

test('probeRoles lists the roles that the login can use, and the missing grants', async () => {
  const roles = [fixture.worker, fixture.notGranted, 'db_no_such_role']
  for (const pooler of ['none', 'transaction'] as const) {
    expect(await fixture.open({ pooler }).probeRoles(roles)).toEqual({
      login: fixture.login,
      loginIsSuperuser: false,
      roles: [
        { role: fixture.worker, usable: true, inherited: false },
        {
          role: fixture.notGranted,
          usable: false,
          reason: `the login ${fixture.login} may not act as ${fixture.notGranted}`,
          remedy: `symphony deploy --create-login NAME=${fixture.notGranted} creates a login for this role.`,
        },
        expect.objectContaining({ role: 'db_no_such_role', usable: false }),
      ],
    })
  }
})

test('probeRoles reports a superuser and inherited rights', async () => {
  const { rows } = await fixture.admin.query<{ admin: string }>('SELECT current_user AS admin')
  const url = new URL(fixture.url())
  const admin = fixture.admin
  url.username = rows[0]?.admin ?? ''
  url.password = admin.password ?? ''
  expect(await fixture.open({ url: url.href }).probeRoles([fixture.worker])).toMatchObject({
    loginIsSuperuser: true,
    roles: [{ usable: true, inherited: true }],
  })
})
