import { beforeAll, beforeEach, describe, expect, test } from 'vitest'
import {
  call,
  DatabaseError,
  NestedTransactionError,
  qualify,
  TransactionAbortedError,
  TransactionClosedError,
  withSchema,
  type Database,
  type Queryable,
  type Transaction,
} from '../../libs/db/index.js'
import { closeAfterAll } from '../support/afterAll.js'
import { DbFixture } from '../support/dbFixture.js'
import { POLL_OPTIONS } from '../support/pollOptions.js'
import { gate } from '../support/gate.js'

const fixture = closeAfterAll(await DbFixture.set())

beforeAll(async () => {
  await fixture.admin.query(`
    CREATE TABLE symphony.entry (n int PRIMARY KEY, parent int REFERENCES symphony.entry DEFERRABLE INITIALLY DEFERRED);
    GRANT SELECT, INSERT, DELETE ON symphony.entry TO ${fixture.worker}`)
})
beforeEach(() => fixture.admin.query('DELETE FROM symphony.entry'))

const INSERT = 'INSERT INTO symphony.entry (n) VALUES ($1)'
const PID = 'SELECT pg_catalog.pg_backend_pid() AS pid'

async function entries(): Promise<number[]> {
  const { rows } = await fixture.admin.query<{ n: number }>('SELECT n FROM symphony.entry ORDER BY n')
  return rows.map(({ n }) => n)
}

describe.for(['none', 'transaction'] as const)('a transaction with pooler %s', (pooler) => {
  let database: Database
  beforeAll(() => {
    database = fixture.open({ pooler, connectionsMax: 2 })
  })

  test('commits when the callback returns, and returns its result', async () => {
    const result = await database.transactionAsRole(fixture.worker, async (tx) => {
      await tx.query(INSERT, [1])
      await tx.query(INSERT, [2])
      return 'done'
    })
    expect(result).toBe('done')
    expect(await entries()).toEqual([1, 2])
  })

  test.for([new Error('the caller changed its mind'), new TypeError('x is not a function')])(
    'rolls back when the callback throws, and rethrows the same error: %s',
    async (thrown) => {
      const attempt = database.transactionAsRole(fixture.worker, async (tx) => {
        await tx.query(INSERT, [1])
        throw thrown
      })
      await expect(attempt).rejects.toBe(thrown)
      expect(await entries()).toEqual([])
    },
  )

  test('keeps its connection open after a rollback', async () => {
    const single = fixture.open({ pooler, connectionsMax: 1 })
    const pid = async () => (await single.queryAsRole(fixture.worker, PID)).rows
    const before = await pid()
    const failing = single.transactionAsRole(fixture.worker, async (tx) => {
      await tx.query('SELECT 1 / 0')
    })
    await expect(failing).rejects.toMatchObject({ sqlstate: '22012' })
    await expect(single.queryAsRole(fixture.worker, 'SELECT 1 / 0')).rejects.toMatchObject({ sqlstate: '22012' })
    expect(await pid()).toEqual(before)
  })

  test('runs in READ COMMITTED, whatever the default of the database', async () => {
    await fixture.admin.query(`ALTER DATABASE ${fixture.name} SET default_transaction_isolation = 'serializable'`)
    const other = fixture.open({ pooler })
    const isolation = `SELECT pg_catalog.current_setting('transaction_isolation') AS level`
    expect((await other.queryAsRole(fixture.worker, isolation)).rows).toEqual([{ level: 'read committed' }])
    const inside = await other.transactionAsRole(fixture.worker, (tx) => tx.query(isolation))
    expect(inside.rows).toEqual([{ level: 'read committed' }])
    await fixture.admin.query(`ALTER DATABASE ${fixture.name} RESET default_transaction_isolation`)
  })

  test('throws if the server answers COMMIT with ROLLBACK, with the swallowed error as cause', async () => {
    const attempt = database.transactionAsRole(fixture.worker, async (tx) => {
      await tx.query(INSERT, [1])
      await tx.query(INSERT, [1]).catch(() => {})
    })
    const error = await attempt.catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(TransactionAbortedError)
    expect(error).toMatchObject({ disposition: 'fatal', cause: { sqlstate: '23505' } })
    expect(await entries()).toEqual([])
  })

  test('commits after an error that a savepoint rolled back', async () => {
    await database.transactionAsRole(fixture.worker, async (tx) => {
      await tx.query(INSERT, [1])
      await tx.query('SAVEPOINT before_second')
      await tx.query(INSERT, [1]).catch(() => {})
      await tx.query('ROLLBACK TO SAVEPOINT before_second')
    })
    expect(await entries()).toEqual([1])
  })

  test('throws a typed error if COMMIT itself fails (23503)', async () => {
    const attempt = database.transactionAsRole(fixture.worker, (tx) =>
      tx.query('INSERT INTO symphony.entry (n, parent) VALUES ($1, $2)', [1, 99]),
    )
    await expect(attempt).rejects.toMatchObject({ sqlstate: '23503', disposition: 'fatal' })
    expect(await entries()).toEqual([])
  })

  test('throws if it has a single statement and its commit fails (23503)', async () => {
    const insert = 'INSERT INTO symphony.entry (n, parent) VALUES ($1, $2)'
    await expect(database.queryAsRole(fixture.worker, insert, [1, 99])).rejects.toMatchObject({ sqlstate: '23503' })
    await database.queryAsRole(fixture.worker, insert, [1, 1])
    expect(await entries()).toEqual([1])
  })

  test('throws TRANSACTION_ENDED_INSIDE if the callback ends the transaction', async () => {
    const attempt = database.transactionAsRole(fixture.worker, async (tx) => {
      await tx.query(INSERT, [1])
      await tx.query('COMMIT')
    })
    await expect(attempt).rejects.toMatchObject({ code: 'TRANSACTION_ENDED_INSIDE', disposition: 'unknown' })
  })

  test('closes its handle after the callback, whether it returned or threw', async () => {
    const kept: Transaction[] = []
    await database.transactionAsRole(fixture.worker, async (tx) => {
      kept.push(tx)
    })
    const failing = database.transactionAsRole(fixture.worker, async (tx) => {
      kept.push(tx)
      throw new Error('no')
    })
    await expect(failing).rejects.toThrow('no')
    expect(kept).toHaveLength(2)
    for (const tx of kept) await expect(tx.query(INSERT, [5])).rejects.toBeInstanceOf(TransactionClosedError)
    expect(await entries()).toEqual([])
  })

  test('includes a statement that the callback did not await, and fails if that statement fails', async () => {
    let ignored: Promise<unknown> | undefined
    await database.transactionAsRole(fixture.worker, async (tx) => {
      ignored = tx.query(INSERT, [1])
    })
    await ignored
    expect(await entries()).toEqual([1])
    const attempt = database.transactionAsRole(fixture.worker, async (tx) => {
      ignored = tx.query(INSERT, [1]).catch(() => {})
    })
    await expect(attempt).rejects.toBeInstanceOf(TransactionAbortedError)
  })

  test('sends concurrent statements in the order of the calls', async () => {
    const numbers = Array.from({ length: 50 }, (_, n) => n)
    await database.transactionAsRole(fixture.worker, (tx) => Promise.all(numbers.map((n) => tx.query(INSERT, [n]))))
    const { rows } = await fixture.admin.query('SELECT n FROM symphony.entry ORDER BY ctid')
    expect(rows.map(({ n }) => n)).toEqual(numbers)
  })

  test('refuses a nested transaction and can still commit', async () => {
    await database.transactionAsRole(fixture.worker, async (tx) => {
      const nested = database.as(fixture.reader).transaction(async () => {})
      await expect(nested).rejects.toBeInstanceOf(NestedTransactionError)
      await tx.query(INSERT, [1])
    })
    expect(await entries()).toEqual([1])
  })

  test('is not refused as nested if it runs beside another, or after the one that scheduled it', async () => {
    const insert = (n: number) => database.transactionAsRole(fixture.worker, (tx) => tx.query(INSERT, [n]))
    await Promise.all([insert(1), insert(2)])
    let later: Promise<unknown> | undefined
    const { opened, open } = gate()
    await database.transactionAsRole(fixture.worker, async () => {
      later = opened.then(() => insert(3))
    })
    open()
    await later
    expect(await entries()).toEqual([1, 2, 3])
  })

  test('may run inside the callback of a transaction of another Database', async () => {
    const other = fixture.open({ pooler })
    await database.transactionAsRole(fixture.worker, async (tx) => {
      await other.transactionAsRole(fixture.worker, (inner) => inner.query(INSERT, [1]))
      await tx.query(INSERT, [2])
    })
    expect(await entries()).toEqual([1, 2])
  })
})

test('connectionsMax bounds a pool; a caller that waits too long gets POOL_EXHAUSTED', async () => {
  const database = fixture.open({ connectionsMax: 2, connectTimeoutMs: 1_500 })
  const { opened, open } = gate()
  const holders = [1, 2].map((n) =>
    database.transactionAsRole(fixture.worker, async (tx) => {
      await tx.query(INSERT, [n])
      await opened
    }),
  )
  await expect(database.queryAsRole(fixture.worker, 'SELECT 1')).rejects.toMatchObject({
    code: 'POOL_EXHAUSTED',
    disposition: 'retry',
  })
  open()
  await Promise.all(holders)
  const many = Array.from({ length: 40 }, () => database.queryAsRole<{ pid: number }>(fixture.worker, PID))
  const pids = new Set((await Promise.all(many)).map(({ rows }) => rows[0]?.pid))
  expect(pids.size).toBeLessThanOrEqual(2)
})

test.for(['none', 'transaction'] as const)(
  'closeIdle (pooler %s) closes unused connections, and later calls open new ones',
  async (pooler) => {
    const applicationName = `at rest, pooler ${pooler}`
    const database = fixture.open({ pooler, applicationName })
    const sessions = async () =>
      (await fixture.admin.query('SELECT FROM pg_stat_activity WHERE application_name = $1', [applicationName])).rows
        .length
    database.closeIdle()
    const { opened, open } = gate()
    const working = database.transactionAsRole(fixture.worker, async (tx) => {
      await tx.query(INSERT, [1])
      await opened
      await tx.query(INSERT, [2])
    })
    await database.queryAsRole(fixture.worker, 'SELECT 1')
    await expect.poll(sessions, POLL_OPTIONS).toBe(2)
    database.closeIdle()
    await expect.poll(sessions, POLL_OPTIONS).toBe(1)
    await database.queryAsRole(fixture.worker, 'SELECT 1')
    open()
    await working
    expect(await entries()).toEqual([1, 2])
    await expect.poll(sessions, POLL_OPTIONS).toBe(1)
    await database.close()
    expect(await sessions()).toBe(0)
    database.closeIdle()
  },
)

test('closeIdle does not disturb callers that wait for a connection', async () => {
  const database = fixture.open({ connectionsMax: 1 })
  const { opened, open } = gate()
  const working = database.transactionAsRole(fixture.worker, async (tx) => {
    await tx.query(INSERT, [1])
    await opened
  })
  await expect.poll(busySessions, POLL_OPTIONS).toBe(1)
  const waiting = database.queryAsRole(fixture.worker, INSERT, [2])
  await new Promise((resolve) => setImmediate(resolve))
  database.closeIdle()
  open()
  await Promise.all([working, waiting])
  expect(await entries()).toEqual([1, 2])
})

test('Database.close waits for running work, ends the sessions and refuses later calls', async () => {
  const database = fixture.open()
  const working = database.transactionAsRole(fixture.worker, async (tx) => {
    await tx.query('SELECT pg_catalog.pg_sleep(0.2)')
    await tx.query(INSERT, [1])
  })
  await expect.poll(busySessions, POLL_OPTIONS).toBe(1)
  await Promise.all([database.close(), database.close()])
  await working
  expect(await entries()).toEqual([1])
  for (const refused of [
    database.queryAsRole(fixture.worker, 'SELECT 1'),
    database.transactionAsRole(fixture.worker, async () => {}),
    database.listenAsRole(fixture.worker, 'channel', () => {}),
    database.probeRoles([fixture.worker]),
  ]) {
    await expect(refused).rejects.toMatchObject({ code: 'DATABASE_CLOSED' })
  }
})

test('Database.close ends work that takes longer than closeTimeoutMs (CONNECTION_LOST)', async () => {
  const database = fixture.open({ closeTimeoutMs: 100 })
  const { opened, open } = gate()
  const stuck = database.transactionAsRole(fixture.worker, async (tx) => {
    await tx.query(INSERT, [1])
    await opened
  })
  const outcome = stuck.catch((error: unknown) => error)
  await expect.poll(busySessions, POLL_OPTIONS).toBe(1)
  // close() does not wait for the callback, which ends only after it.
  await database.close()
  await expect.poll(busySessions, POLL_OPTIONS).toBe(0)
  open()
  expect(await outcome).toMatchObject({ code: 'CONNECTION_LOST', disposition: 'retry' })
  expect(await entries()).toEqual([])
})

async function busySessions(): Promise<number> {
  const busy = `SELECT FROM pg_stat_activity WHERE usename = $1 AND state <> 'idle'`
  return (await fixture.admin.query(busy, [fixture.login])).rows.length
}

const add = (queryable: Queryable) => call<{ total: unknown }>(queryable, 'add_up', [1, 2n])

describe('call() of libs/db', () => {
  test('quotes the function name and qualifies it by the schema of the handle', async () => {
    const schema = 'My "odd" Schema'
    await fixture.admin.query(`
      CREATE SCHEMA "My ""odd"" Schema";
      GRANT USAGE ON SCHEMA "My ""odd"" Schema" TO ${fixture.worker};
      CREATE FUNCTION "My ""odd"" Schema".add_up(a int, b bigint) RETURNS TABLE (total bigint)
        LANGUAGE sql RETURN a + b;
      CREATE FUNCTION symphony.add_up(a int, b bigint) RETURNS TABLE (total bigint) LANGUAGE sql RETURN -1`)
    const database = fixture.open({ schema })
    expect(database.schema).toBe(schema)
    const worker = database.as(fixture.worker)
    expect(qualify(worker, 'add_up')).toBe('"My ""odd"" Schema"."add_up"')
    expect(await add(worker)).toEqual([{ total: 3n }])
    expect(await worker.transaction(add)).toEqual([{ total: 3n }])
    // The caller's own client uses its own type parsers. Without withSchema it uses the default schema.
    expect(await add(fixture.admin)).toEqual([{ total: '-1' }])
    expect(await add(withSchema(fixture.admin, schema))).toEqual([{ total: '3' }])
  })

  test('throws a DatabaseError for an unknown function, even on a client of the caller', async () => {
    const refused = call(fixture.admin, 'no_such_function')
    await expect(refused).rejects.toBeInstanceOf(DatabaseError)
    await expect(refused).rejects.toMatchObject({ code: 'UNDEFINED_FUNCTION', sqlstate: '42883' })
  })

  test('is needed, because SQL text that omits the schema does not find the function (42883)', async () => {
    await expect(fixture.open().queryAsRole(fixture.worker, 'SELECT add_up(1, 2)')).rejects.toMatchObject({
      sqlstate: '42883',
    })
  })
})
