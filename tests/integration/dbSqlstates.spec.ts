import { Client } from 'pg'
import { beforeAll, expect, test } from 'vitest'
import {
  call,
  DatabaseError,
  SQLSTATE_DISPOSITIONS,
  type Database,
  type Disposition,
  type Transaction,
} from '../../libs/db/index.js'
import { closeAfterAll } from '../support/afterAll.js'
import { DbFixture } from '../support/dbFixture.js'
import { POLL_OPTIONS } from '../support/pollOptions.js'
import { gate } from '../support/gate.js'

/** Provokes each SQLSTATE by its real cause on a real server, and checks its disposition. */

const fixture = closeAfterAll(await DbFixture.set())
let database: Database

beforeAll(async () => {
  await fixture.admin.query(`
    CREATE TABLE symphony.thing (
      n int PRIMARY KEY,
      parent int REFERENCES symphony.thing,
      word varchar(2),
      amount int NOT NULL DEFAULT 1 CONSTRAINT thing_amount_is_positive CHECK (amount > 0),
      span int4range, EXCLUDE USING gist (span WITH &&),
      always int GENERATED ALWAYS AS (n + 1) STORED
    );
    CREATE SEQUENCE symphony.counter;
    CREATE FUNCTION symphony.deeper(n int) RETURNS int LANGUAGE plpgsql AS 'BEGIN RETURN symphony.deeper(n + 1); END';
    INSERT INTO symphony.thing (n, span) VALUES (1, '[1,5)'), (2, '[5,9)');
    CREATE TABLE symphony.hidden (n int);
    GRANT ALL ON symphony.thing, symphony.counter TO ${fixture.worker};
    GRANT ALL ON SCHEMA symphony TO ${fixture.worker};
    ALTER ROLE ${fixture.login} SET temp_file_limit = '64kB';
    ALTER ROLE ${fixture.login} SET work_mem = '64kB'`)
  database = fixture.open({ lockTimeoutMs: 100 })
})

/** Statements that fail alone, in a role without special rights. */
const STATEMENTS = [
  ['0A000', 'fatal', 'SELECT pg_catalog.count(*) FROM symphony.thing FOR UPDATE'],
  ['21000', 'fatal', 'SELECT (SELECT 1 UNION SELECT 2)'],
  ['22001', 'fatal', `INSERT INTO symphony.thing (n, word) VALUES (9, 'long')`],
  ['22003', 'fatal', 'SELECT 99999999999::int'],
  ['22007', 'fatal', `SELECT 'soon'::date`],
  ['22008', 'fatal', `SELECT '2026-02-31'::date`],
  ['22012', 'fatal', 'SELECT 1 / 0'],
  ['22021', 'fatal', String.raw`SELECT pg_catalog.convert_from('\xff', 'UTF8')`],
  ['22023', 'fatal', `SELECT pg_catalog.set_config('work_mem', 'much', false)`],
  ['22P02', 'fatal', `SELECT 'one'::int`],
  ['22P05', 'fatal', `SELECT pg_catalog.convert_to('漢', 'LATIN1')`],
  ['23502', 'fatal', 'INSERT INTO symphony.thing (n, amount) VALUES (9, NULL)'],
  ['23503', 'fatal', 'INSERT INTO symphony.thing (n, parent) VALUES (9, 99)'],
  ['23505', 'fatal', 'INSERT INTO symphony.thing (n) VALUES (1)'],
  ['23514', 'fatal', 'INSERT INTO symphony.thing (n, amount) VALUES (9, 0)'],
  ['23P01', 'fatal', `INSERT INTO symphony.thing (n, span) VALUES (9, '[2,3)')`],
  ['26000', 'retry', 'EXECUTE never_prepared'],
  ['34000', 'fatal', 'FETCH never_declared'],
  ['3F000', 'fatal', 'CREATE TABLE nowhere.thing (n int)'],
  ['42501', 'fatal', 'SELECT n FROM symphony.hidden'],
  ['42601', 'fatal', 'SELEKT 1'],
  ['428C9', 'fatal', 'INSERT INTO symphony.thing (n, always) VALUES (9, 9)'],
  ['42702', 'fatal', 'SELECT n FROM symphony.thing AS a, symphony.thing AS b'],
  ['42703', 'fatal', 'SELECT nothing FROM symphony.thing'],
  ['42704', 'fatal', `SELECT 'x'::unheard_of`],
  ['42803', 'fatal', 'SELECT n, pg_catalog.count(*) FROM symphony.thing GROUP BY amount'],
  ['42804', 'fatal', 'SELECT CASE WHEN 1 THEN 2 END'],
  ['42883', 'fatal', 'SELECT symphony.no_such_function()'],
  ['42P01', 'fatal', 'SELECT FROM symphony.no_such_table'],
  ['42P05', 'fatal', 'PREPARE twice AS SELECT 1; PREPARE twice AS SELECT 1'],
  ['42P07', 'fatal', 'CREATE TABLE symphony.thing (n int)'],
  ['53400', 'retry', 'SELECT n FROM pg_catalog.generate_series(1, 100000) AS n ORDER BY pg_catalog.random()'],
  ['54000', 'fatal', `SELECT pg_catalog.repeat('x', 2000000000)`],
  ['54001', 'fatal', 'SELECT symphony.deeper(1)'],
  ['55000', 'fatal', `SELECT pg_catalog.currval('symphony.counter')`],
  ['58P01', 'fatal', `LOAD '$libdir/plugins/no_such_plugin'`],
] as const satisfies [string, Disposition, string][]

/** Statements of one transaction, of which the last one fails. */
const TRANSACTIONS = [
  ['25001', 'fatal', ['VACUUM symphony.thing']],
  ['25006', 'retry', ['SET TRANSACTION READ ONLY', 'INSERT INTO symphony.thing (n) VALUES (9)']],
  ['3B001', 'fatal', ['ROLLBACK TO SAVEPOINT nowhere']],
  [
    '55006',
    'retry',
    ['CREATE TEMP TABLE own (n int)', 'DECLARE c CURSOR FOR SELECT n FROM own', 'FETCH c', 'DROP TABLE own'],
  ],
] as const satisfies [string, Disposition, string[]][]

const provoked = new Set<string>()

async function failureOf(attempt: Promise<unknown>): Promise<unknown> {
  const [outcome] = await Promise.allSettled([attempt])
  if (outcome.status === 'fulfilled') return undefined
  if (outcome.reason instanceof DatabaseError) provoked.add(String(outcome.reason.sqlstate))
  return outcome.reason
}

test.for(STATEMENTS)('SQLSTATE %s has disposition %s: %s', async ([sqlstate, disposition, text]) => {
  expect(await failureOf(database.queryAsRole(fixture.worker, text))).toMatchObject({ sqlstate, disposition })
  const pooled = fixture.open({ pooler: 'transaction' })
  expect(await failureOf(pooled.queryAsRole(fixture.worker, text))).toMatchObject({ sqlstate, disposition })
})

test.for(TRANSACTIONS)(
  'SQLSTATE %s has disposition %s in a transaction: %s',
  async ([sqlstate, disposition, texts]) => {
    const attempt = database.transactionAsRole(fixture.worker, async (tx) => {
      for (const text of texts) await tx.query(text)
    })
    expect(await failureOf(attempt)).toMatchObject({ sqlstate, disposition })
  },
)

test('SQLSTATE 25P01 has disposition fatal: a savepoint outside a transaction', async () => {
  const attempt = database.queryAsRole(fixture.worker, 'SAVEPOINT nowhere')
  expect(await failureOf(attempt)).toMatchObject({ sqlstate: '25P01', disposition: 'fatal' })
})

test('SQLSTATE 42P18 has disposition fatal: a parameter whose type cannot be inferred', async () => {
  const attempt = database.queryAsRole(fixture.worker, 'SELECT $1 IS NULL', [1])
  expect(await failureOf(attempt)).toMatchObject({ sqlstate: '42P18', disposition: 'fatal' })
})

test('SQLSTATE 25P02 has disposition fatal: a statement in a transaction that has failed', async () => {
  const attempt = database.transactionAsRole(fixture.worker, async (tx) => {
    await tx.query('SELECT 1 / 0').catch(() => {})
    await tx.query('SELECT 1')
  })
  expect(await failureOf(attempt)).toMatchObject({ sqlstate: '25P02', disposition: 'fatal' })
})

test('SQLSTATE 25P03 has disposition retry: a transaction that was idle for too long', async () => {
  const shortTimeout = fixture.open({ idleInTransactionTimeoutMs: 50 })
  const attempt = shortTimeout.transactionAsRole(fixture.worker, async (tx) => {
    await new Promise((resolve) => setTimeout(resolve, 300))
    await tx.query('SELECT 1')
  })
  expect(await failureOf(attempt)).toMatchObject({ sqlstate: '25P03', disposition: 'retry' })
})

const touch = (tx: Transaction, n: number) =>
  tx.query('UPDATE symphony.thing SET amount = amount + 1 WHERE n = $1', [n])

test('SQLSTATE 40P01 has disposition retry: a deadlock of two transactions', async () => {
  // Uses the default lock timeout, which is longer than the deadlock_timeout of the server.
  const longTimeout = fixture.open()
  const gates = [gate(), gate()] as const
  const cross = (mine: 0 | 1) =>
    longTimeout.transactionAsRole(fixture.worker, async (tx) => {
      await touch(tx, 1 + mine)
      gates[mine].open()
      await gates[mine === 0 ? 1 : 0].opened
      await touch(tx, 2 - mine)
    })
  const failures = (await Promise.all([failureOf(cross(0)), failureOf(cross(1))])).filter(Boolean)
  expect(failures).toMatchObject([{ sqlstate: '40P01', disposition: 'retry' }])
})

test('SQLSTATE 40001 has disposition retry: a row that changed after a REPEATABLE READ snapshot', async () => {
  const attempt = database.transactionAsRole(fixture.worker, async (tx) => {
    await tx.query('SET TRANSACTION ISOLATION LEVEL REPEATABLE READ')
    await tx.query('SELECT FROM symphony.thing')
    await fixture.admin.query('UPDATE symphony.thing SET amount = amount + 1')
    await touch(tx, 1)
  })
  expect(await failureOf(attempt)).toMatchObject({ sqlstate: '40001', disposition: 'retry' })
})

test('SQLSTATE 55P03 has disposition retry: a lock that another session holds for too long', async () => {
  await fixture.admin.query('BEGIN; LOCK TABLE symphony.thing')
  const attempt = database.queryAsRole(fixture.worker, 'SELECT FROM symphony.thing')
  expect(await failureOf(attempt)).toMatchObject({ sqlstate: '55P03', disposition: 'retry' })
  await fixture.admin.query('ROLLBACK')
})

test('SQLSTATE 57014 has disposition retry: a statement that timed out or was cancelled', async () => {
  const tooLong = fixture.open({ statementTimeoutMs: 300 }).queryAsRole(fixture.worker, SLEEP)
  expect(await failureOf(tooLong)).toMatchObject({ sqlstate: '57014', disposition: 'retry' })
  const cancelled = failureOf(database.queryAsRole(fixture.worker, SLEEP))
  await toSleepers('pg_cancel_backend')
  expect(await cancelled).toMatchObject({ sqlstate: '57014', disposition: 'retry' })
})

test('SQLSTATE 57P01 has disposition unknown for one statement, and retry in a transaction', async () => {
  const longTimeout = fixture.open()
  const alone = failureOf(longTimeout.queryAsRole(fixture.worker, SLEEP))
  await toSleepers('pg_terminate_backend')
  expect(await alone).toMatchObject({ sqlstate: '57P01', disposition: 'unknown' })
  const inside = failureOf(longTimeout.transactionAsRole(fixture.worker, (tx) => tx.query(SLEEP)))
  await toSleepers('pg_terminate_backend')
  expect(await inside).toMatchObject({ sqlstate: '57P01', disposition: 'retry' })
  expect((await longTimeout.queryAsRole(fixture.worker, 'SELECT 1 AS one')).rows).toEqual([{ one: 1 }])
})

test('SQLSTATE 57P01 has disposition unknown for a statement on the caller’s own client', async () => {
  await fixture.admin.query(
    `CREATE FUNCTION symphony.sleep_20() RETURNS void LANGUAGE sql AS 'SELECT pg_catalog.pg_sleep(20)';
     GRANT EXECUTE ON FUNCTION symphony.sleep_20() TO PUBLIC`,
  )
  const client = new Client(fixture.url())
  client.on('error', () => {})
  await client.connect()
  await client.query(`SET ROLE ${fixture.worker}`)
  const own = { query: (text: string) => client.query<never>(text) }
  const sleep = failureOf(call(own, 'sleep_20'))
  await toSleepers('pg_terminate_backend')
  expect(await sleep).toMatchObject({ sqlstate: '57P01', disposition: 'unknown' })
})

const SLEEP = 'SELECT pg_catalog.pg_sleep(20)'

async function toSleepers(signal: 'pg_cancel_backend' | 'pg_terminate_backend'): Promise<void> {
  const send = `SELECT ${signal}(pid) FROM pg_stat_activity WHERE usename = $1 AND wait_event = 'PgSleep'`
  await expect.poll(async () => (await fixture.admin.query(send, [fixture.login])).rowCount, POLL_OPTIONS).toBe(1)
}

test('SQLSTATEs 28P01, 28000 and 3D000 are fatal: wrong password, NOLOGIN, no such database', async () => {
  await fixture.admin.query(`ALTER ROLE ${fixture.worker} PASSWORD 'fixture'`)
  const [wrongPassword, mayNotLogIn, wrongDatabase] = [
    new URL(fixture.url()),
    new URL(fixture.url()),
    new URL(fixture.url()),
  ]
  wrongPassword.password = 'wrong'
  mayNotLogIn.username = fixture.worker
  wrongDatabase.pathname = '/no_such_database'
  for (const [sqlstate, url] of [
    ['28P01', wrongPassword],
    ['28000', mayNotLogIn],
    ['3D000', wrongDatabase],
  ] as const) {
    const attempt = fixture.open({ url: url.href }).queryAsRole(fixture.worker, 'SELECT 1')
    expect(await failureOf(attempt)).toMatchObject({ sqlstate, disposition: 'fatal' })
  }
})

test('SQLSTATE 53300 has disposition retry: a login without a free connection', async () => {
  await fixture.admin.query(`ALTER ROLE ${fixture.login} CONNECTION LIMIT 0`)
  const attempt = fixture.open().queryAsRole(fixture.worker, 'SELECT 1')
  expect(await failureOf(attempt)).toMatchObject({ sqlstate: '53300', disposition: 'retry' })
  await fixture.admin.query(`ALTER ROLE ${fixture.login} CONNECTION LIMIT -1`)
})

test('the tests above cover at least 40 SQLSTATEs of SQLSTATE_DISPOSITIONS', () => {
  const known = [...SQLSTATE_DISPOSITIONS.keys()].filter((state) => provoked.has(state))
  process.stdout.write(`sqlstates: ${known.length} provoked\n`)
  expect(known.length).toBeGreaterThanOrEqual(40)
})
