import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openDatabase, type DatabaseOptions } from '../../libs/db/index.js'
import { parseConnectionUrl } from '../../libs/db/connectionTarget.js'
import { resolveDatabaseOptions } from '../../libs/db/options.js'
import { DbFixture } from '../support/dbFixture.js'

const LOCAL = 'postgres://app:secret@localhost/payments'

describe('a connection URL', () => {
  test.for([
    ['postgres://u:p@h:6543/d', { host: 'h', port: 6543, user: 'u', password: 'p', database: 'd' }],
    ['postgresql://u@h', { host: 'h', port: 5432, user: 'u', password: undefined, database: 'u' }],
    ['postgres://u%40x:p%2F%3A@h/d%20d', { user: 'u@x', password: 'p/:', database: 'd d' }],
    ['postgres://u:p@/d?host=/run/pg&port=99', { host: '/run/pg', port: 99, user: 'u', database: 'd' }],
    ['postgres://%2Frun%2Fpg/d?user=u&password=p', { host: '/run/pg', user: 'u', password: 'p' }],
    ['postgres://u@[::1]:5433/d', { host: '::1', port: 5433 }],
  ] as const)('is parsed into host, port, user, password and database: %s', ([text, parts]) => {
    expect(parseConnectionUrl('url', text)).toMatchObject(parts)
  })

  test.for([
    ['mysql://u:hunter2@h/d', /^url: expected postgres:/],
    ['u:hunter2@h/d', /^url: expected postgres:/],
    ['', /^url: expected postgres:/],
    ['postgres://u:hunter2%zz@h/d', /^url: .*percent-encoded/],
    ['postgres://u:hunter2@h:port/d', /^url: .*percent-encoded/],
    ['postgres://u:hunter2@h1,h2/d', /^url: expected one host/],
    ['postgres://h/d', /^url: expected a user/],
    ['postgres://u:hunter2@h/d?port=0', /^url: expected a port/],
    ['postgres://u:hunter2@h/d?statement_timeout=0', /^url: expected the parameters .*, got statement_timeout/],
    ['postgres://u:hunter2@h/d?options=-c%20role%3Dpostgres', /, got options/],
  ] as const)('is refused with an error that does not show the password: %s', ([text, message]) => {
    expect(() => parseConnectionUrl('url', text)).toThrow(message)
    expect(() => parseConnectionUrl('url', text)).not.toThrow(/hunter2/)
  })
})

describe('options of openDatabase', () => {
  test.for([
    [{ connectionsMax: 0 }, /^connectionsMax: expected a whole number from 1 to 100, got 0/],
    [{ connectionsMax: 2.5 }, /^connectionsMax: .*, got 2.5/],
    [{ statementTimeoutMs: 0 }, /^statementTimeoutMs: /],
    [{ statementTimeoutMs: Number.NaN }, /^statementTimeoutMs: .*, got NaN/],
    [{ lockTimeoutMs: 2_000, statementTimeoutMs: 1_000 }, /^lockTimeoutMs: expected .* to 1000, got 2000/],
    [{ idleInTransactionTimeoutMs: 1e9 }, /^idleInTransactionTimeoutMs: /],
    [{ connectTimeoutMs: -1 }, /^connectTimeoutMs: /],
    [{ closeTimeoutMs: Infinity }, /^closeTimeoutMs: /],
    [{ schema: '' }, /^schema: /],
    [{ schema: 'é'.repeat(40) }, /^schema: expected at most 63 bytes/],
    [{ url: 'nonsense' }, /^url: /],
    [{ listenUrl: 'nonsense' }, /^listenUrl: /],
  ] satisfies [Partial<DatabaseOptions>, RegExp][])(
    'are refused if invalid, and the error names the option: %o',
    ([given, message]) => {
      expect(() => openDatabase({ url: LOCAL, ...given })).toThrow(message)
    },
  )

  test('are refused if a name or value is unknown; the error lists the known ones', () => {
    // @ts-expect-error -- a configuration file may hold this
    expect(() => openDatabase({ url: LOCAL, poolSize: 3 })).toThrow(
      /^"poolSize": unknown; expected one of .*connectionsMax/,
    )
    // @ts-expect-error -- a configuration file may hold this
    expect(() => openDatabase({ url: LOCAL, pooler: 'session' })).toThrow(
      /^pooler: expected none or transaction, got session/,
    )
  })

  test('have defaults; the default of lockTimeoutMs never exceeds statementTimeoutMs', () => {
    expect(resolveDatabaseOptions({ url: LOCAL })).toMatchObject({
      pooler: 'none',
      schema: 'symphony',
      connectionsMax: 10,
      connectTimeoutMs: 10_000,
      statementTimeoutMs: 30_000,
      lockTimeoutMs: 10_000,
      idleInTransactionTimeoutMs: 30_000,
      closeTimeoutMs: 10_000,
      applicationName: 'symphony',
    })
    expect(resolveDatabaseOptions({ url: LOCAL, statementTimeoutMs: 500 }).lockTimeoutMs).toBe(500)
  })

  test('take application_name from the code, else from the URL', () => {
    const named = `${LOCAL}?application_name=by_url`
    expect(resolveDatabaseOptions({ url: named }).applicationName).toBe('by_url')
    expect(resolveDatabaseOptions({ url: named, applicationName: 'by_code' }).applicationName).toBe('by_code')
  })
})

describe.for(['none', 'transaction'] as const)('options of openDatabase with pooler %s', (pooler) => {
  let fixture: DbFixture
  beforeAll(async () => {
    fixture = await DbFixture.set()
    // Settings of the database and of the roles, all of which Symphony overrides.
    await fixture.admin.query(`
      ALTER DATABASE ${fixture.name} SET statement_timeout = 0;
      ALTER ROLE ${fixture.login} SET lock_timeout = 0;
      ALTER ROLE ${fixture.worker} SET idle_in_transaction_session_timeout = 0;
      ALTER ROLE ${fixture.login} SET synchronous_commit = off;
      ALTER ROLE ${fixture.login} SET search_path = public`)
  })
  afterAll(() => fixture.close())

  test('override settings of database and role, inside and outside transactions', async () => {
    const database = fixture.open({
      pooler,
      statementTimeoutMs: 4_321,
      lockTimeoutMs: 1_234,
      idleInTransactionTimeoutMs: 2_345,
      applicationName: 'settings test',
    })
    const names = [
      'statement_timeout',
      'lock_timeout',
      'idle_in_transaction_session_timeout',
      'synchronous_commit',
      'search_path',
      'application_name',
    ]
    const read = 'SELECT pg_catalog.current_setting(name) AS value FROM pg_catalog.unnest($1::text[]) AS name'
    const expected = ['4321ms', '1234ms', '2345ms', 'on', 'pg_catalog,pg_temp', 'settings test']
    const outside = await database.queryAsRole<{ value: string }>(fixture.worker, read, [names])
    expect(outside.rows.map(({ value }) => value)).toEqual(expected)
    const inside = await database.transactionAsRole(fixture.worker, (tx) => tx.query<{ value: string }>(read, [names]))
    expect(inside.rows.map(({ value }) => value)).toEqual(expected)
  })

  test('cancel a statement after statementTimeoutMs (57014)', async () => {
    const database = fixture.open({ pooler, statementTimeoutMs: 300 })
    const slow = database.queryAsRole(fixture.worker, 'SELECT pg_catalog.pg_sleep($1)', [10])
    await expect(slow).rejects.toMatchObject({ sqlstate: '57014', disposition: 'retry' })
    expect((await database.queryAsRole(fixture.worker, 'SELECT 1 AS one')).rows).toEqual([{ one: 1 }])
  })

  test('can be raised by reopen(), which leaves the first database unchanged', async () => {
    const database = fixture.open({ pooler, statementTimeoutMs: 4_321, lockTimeoutMs: 1_234 })
    const patient = database.reopen({ statementTimeoutMs: 600_000 })
    const names = ['statement_timeout', 'lock_timeout']
    const read = 'SELECT pg_catalog.current_setting(name) AS value FROM pg_catalog.unnest($1::text[]) AS name'
    const valuesIn = async (opened: typeof database) =>
      (await opened.queryAsRole<{ value: string }>(fixture.worker, read, [names])).rows.map(({ value }) => value)
    expect(await valuesIn(patient)).toEqual(['10min', '10min'])
    await patient.close()
    expect(await valuesIn(database)).toEqual(['4321ms', '1234ms'])
  })

  test('end a transaction that is idle for idleInTransactionTimeoutMs', async () => {
    const database = fixture.open({ pooler, idleInTransactionTimeoutMs: 300 })
    const asleep = database.transactionAsRole(fixture.worker, async (tx) => {
      await tx.query('SELECT 1')
      await new Promise((resolve) => setTimeout(resolve, 1_000))
    })
    await expect(asleep).rejects.toMatchObject({ disposition: 'retry' })
    expect((await database.queryAsRole(fixture.worker, 'SELECT 1 AS one')).rows).toEqual([{ one: 1 }])
  })
})
