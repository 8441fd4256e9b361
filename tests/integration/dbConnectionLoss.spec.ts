import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { TransactionPoolerError, type Database } from '../../libs/db/index.js'
import { closeAfterAll } from '../support/afterAll.js'
import { DbFixture } from '../support/dbFixture.js'
import { POLL_OPTIONS } from '../support/pollOptions.js'
import { gate } from '../support/gate.js'
import { portOf } from '../support/portOf.js'
import { TcpProxy } from '../support/tcpProxy.js'

const fixture = closeAfterAll(await DbFixture.set())
let proxy: TcpProxy

beforeAll(async () => {
  await fixture.admin.query(`
    CREATE TABLE symphony.entry (n int PRIMARY KEY);
    GRANT ALL ON symphony.entry TO ${fixture.worker}`)
})
beforeEach(async () => {
  await fixture.admin.query('DELETE FROM symphony.entry')
  // Ends leftover sessions, because a backend finishes its statement even after its client is gone.
  await fixture.endSessions()
  proxy = await TcpProxy.before(fixture.url())
})
afterEach(() => proxy.close())

const INSERT = 'INSERT INTO symphony.entry (n) VALUES ($1)'

async function entries(): Promise<number[]> {
  const { rows } = await fixture.admin.query<{ n: number }>('SELECT n FROM symphony.entry ORDER BY n')
  return rows.map(({ n }) => n)
}

async function sleepers(): Promise<number> {
  const sleeping = `SELECT FROM pg_stat_activity WHERE usename = $1 AND wait_event = 'PgSleep'`
  return (await fixture.admin.query(sleeping, [fixture.login])).rows.length
}

const caught = (error: unknown) => error

/** Builds an ErrorResponse of the PostgreSQL protocol: `E`, the length, then fields that each end in a zero byte. */
function fatal(sqlstate: string, message: string): Buffer {
  const fields = Buffer.from(`SFATAL\0VFATAL\0C${sqlstate}\0M${message}\0\0`)
  const length = Buffer.alloc(4)
  length.writeInt32BE(fields.length + 4)
  return Buffer.concat([Buffer.from('E'), length, fields])
}

describe.for(['none', 'transaction'] as const)('pooler %s: a cut connection', (pooler) => {
  let database: Database
  beforeEach(async () => {
    database = fixture.open({ url: fixture.url(proxy.port), pooler, connectionsMax: 1, closeTimeoutMs: 100 })
    await database.queryAsRole(fixture.worker, 'SELECT 1')
  })

  test('is replaced without an error if it was idle', async () => {
    proxy.cut()
    await expect.poll(() => fixture.sessionsOfLogin(), POLL_OPTIONS).toBe(0)
    await database.queryAsRole(fixture.worker, INSERT, [1])
    expect(await entries()).toEqual([1])
  })

  test('leaves the outcome of a single statement unknown (CONNECTION_LOST)', async () => {
    const attempt = database.queryAsRole(fixture.worker, 'SELECT pg_catalog.pg_sleep(5)').catch(caught)
    await expect.poll(sleepers, POLL_OPTIONS).toBe(1)
    proxy.cut()
    expect(await attempt).toMatchObject({ code: 'CONNECTION_LOST', disposition: 'unknown' })
    expect((await database.queryAsRole(fixture.worker, 'SELECT 1 AS one')).rows).toEqual([{ one: 1 }])
  })

  test('leaves the outcome of a statement unknown if it was committed and its answer lost', async () => {
    const attempt = database
      .queryAsRole(fixture.worker, `${INSERT} RETURNING pg_catalog.pg_sleep(0.3)`, [1])
      .catch(caught)
    await expect.poll(sleepers, POLL_OPTIONS).toBe(1)
    proxy.traffic = 'answers vanish'
    await expect.poll(entries, POLL_OPTIONS).toEqual([1])
    proxy.cut()
    expect(await attempt).toMatchObject({ disposition: 'unknown' })
  })

  test('ends an open transaction with disposition retry, and nothing is committed', async () => {
    const attempt = database
      .transactionAsRole(fixture.worker, async (tx) => {
        await tx.query(INSERT, [1])
        proxy.cut()
        await tx.query(INSERT, [2])
      })
      .catch(caught)
    expect(await attempt).toMatchObject({ code: 'CONNECTION_LOST', disposition: 'retry' })
    expect(await entries()).toEqual([])
  })

  test('prevents COMMIT even if the callback of the transaction swallows the error', async () => {
    const attempt = database
      .transactionAsRole(fixture.worker, async (tx) => {
        await tx.query(INSERT, [1])
        proxy.cut()
        await tx.query(INSERT, [2]).catch(() => {})
      })
      .catch(caught)
    expect(await attempt).toMatchObject({ code: 'CONNECTION_LOST', disposition: 'retry' })
    expect(await entries()).toEqual([])
  })

  test('leaves the outcome of a transaction unknown if the answer to COMMIT was lost', async () => {
    const attempt = commitWhile('answers vanish')
    await expect.poll(entries, POLL_OPTIONS).toEqual([1])
    proxy.cut()
    expect(await attempt).toMatchObject({ code: 'CONNECTION_LOST', disposition: 'unknown' })
  })

  test('leaves the outcome of a transaction unknown if COMMIT did not reach the server', async () => {
    const attempt = commitWhile('vanishes')
    setTimeout(() => proxy.cut(), 200)
    expect(await attempt).toMatchObject({ code: 'CONNECTION_LOST', disposition: 'unknown' })
    expect(await entries()).toEqual([])
  })

  function commitWhile(traffic: TcpProxy['traffic']): Promise<unknown> {
    return database
      .transactionAsRole(fixture.worker, async (tx) => {
        await tx.query(INSERT, [1])
        proxy.traffic = traffic
      })
      .catch(caught)
  }
})

test.for(['none', 'transaction'] as const)(
  'pooler %s: a FATAL error before the connection is cut leaves the outcome unknown',
  async (pooler) => {
    let dying = false
    const toDying = await TcpProxy.before(fixture.url(), {
      alterAnswer: (chunk) => {
        if (!dying) return chunk
        setImmediate(() => toDying.cut())
        // Imitates a PANIC while PostgreSQL writes the commit record. SQLSTATE 53100 by itself would mean that nothing
        // was committed.
        return fatal('53100', 'could not write to the log')
      },
    })
    const database = fixture.open({ url: fixture.url(toDying.port), pooler })
    const attempt = database.queryAsRole(fixture.worker, 'SELECT pg_catalog.pg_sleep(0.3)').catch(caught)
    await expect.poll(sleepers, POLL_OPTIONS).toBe(1)
    dying = true
    expect(await attempt).toMatchObject({ sqlstate: '53100', disposition: 'unknown' })
    await database.close()
    await toDying.close()
  },
)

test('a connection is not reused after 25006, because its server may no longer be the primary', async () => {
  const database = fixture.open({ connectionsMax: 1 })
  const pid = async () => (await database.queryAsRole(fixture.worker, 'SELECT pg_catalog.pg_backend_pid()')).rows
  const before = await pid()
  const write = database.transactionAsRole(fixture.worker, async (tx) => {
    await tx.query('SET TRANSACTION READ ONLY')
    await tx.query(INSERT, [1])
  })
  await expect(write).rejects.toMatchObject({ sqlstate: '25006', disposition: 'retry' })
  expect(await pid()).not.toEqual(before)
})

test.for(['none', 'transaction'] as const)(
  'pooler %s: a call to a server that never answers fails with NO_ANSWER',
  async (pooler) => {
    const url = fixture.url(proxy.port)
    const database = fixture.open({ url, pooler, connectionsMax: 2, statementTimeoutMs: 1_500, closeTimeoutMs: 100 })
    const { opened, open } = gate()
    const began = gate()
    const inside = database
      .transactionAsRole(fixture.worker, async (tx) => {
        await tx.query('SELECT 1')
        began.open()
        await opened
        await tx.query('SELECT 1')
      })
      .catch(caught)
    // Both calls connect before the answers vanish, so that connecting cannot time out.
    await began.opened
    const alone = database.queryAsRole(fixture.worker, 'SELECT pg_catalog.pg_sleep(1)').catch(caught)
    await expect.poll(sleepers, POLL_OPTIONS).toBe(1)
    proxy.traffic = 'answers vanish'
    open()
    expect(await inside).toMatchObject({ code: 'NO_ANSWER', disposition: 'retry' })
    expect(await alone).toMatchObject({ code: 'NO_ANSWER', disposition: 'unknown' })
    proxy.traffic = 'flows'
    expect((await database.queryAsRole(fixture.worker, 'SELECT 1 AS one')).rows).toEqual([{ one: 1 }])
  },
)

describe('connecting to the database', () => {
  test('fails with CONNECT_FAILED if no server listens on the port', async () => {
    const { port } = proxy
    await proxy.close()
    const database = fixture.open({ url: fixture.url(port) })
    expect(await database.queryAsRole(fixture.worker, 'SELECT 1').catch(caught)).toMatchObject({
      code: 'CONNECT_FAILED',
      disposition: 'retry',
      message: `could not connect to ${new URL(fixture.url(port)).host}/${fixture.name}: ECONNREFUSED`,
    })
    proxy = await TcpProxy.before(fixture.url())
  })

  test('fails with CONNECT_FAILED if the server never answers', async () => {
    proxy.traffic = 'vanishes'
    const database = fixture.open({ url: fixture.url(proxy.port), connectTimeoutMs: 200 })
    expect(await database.queryAsRole(fixture.worker, 'SELECT 1').catch(caught)).toMatchObject({
      code: 'CONNECT_FAILED',
      disposition: 'retry',
    })
  })

  test('fails with disposition retry if the server answers the start-up but not SET ROLE', async () => {
    const database = fixture.open({ url: fixture.url(proxy.port) })
    const silenced = await TcpProxy.before(fixture.url(), {
      // The server's parameters arrive, the answer to SET ROLE does not.
      alterAnswer: (chunk) => {
        if (chunk.includes('server_version')) setImmediate(() => (silenced.traffic = 'answers vanish'))
        return chunk
      },
    })
    const toSilenced = fixture.open({ url: fixture.url(silenced.port), connectTimeoutMs: 300, closeTimeoutMs: 0 })
    expect(await toSilenced.queryAsRole(fixture.worker, 'SELECT 1').catch(caught)).toMatchObject({
      disposition: 'retry',
    })
    expect((await database.queryAsRole(fixture.worker, 'SELECT 1 AS one')).rows).toEqual([{ one: 1 }])
    await silenced.close()
  })

  test('fails with DATABASE_CLOSED if close() ended before the connection was open', async () => {
    const { opened, open } = gate()
    const slow = createServer((client) => {
      client.pause()
      const { hostname, port } = new URL(fixture.url())
      void opened.then(() => client.pipe(connect(Number(port), hostname)).pipe(client))
    })
    slow.listen(0, '127.0.0.1')
    await once(slow, 'listening')
    const database = fixture.open({ url: fixture.url(portOf(slow)), closeTimeoutMs: 0 })
    const arrived = once(slow, 'connection')
    const outcome = database.queryAsRole(fixture.worker, 'SELECT 1').catch(caught)
    await arrived
    await database.close()
    open()
    expect(await outcome).toMatchObject({ code: 'DATABASE_CLOSED' })
    await new Promise((resolve) => slow.close(resolve))
  })

  test('fails with CONNECT_FAILED if the server closes the connection at start-up', async () => {
    const rude = createServer((client) => client.once('data', () => client.end()))
    rude.listen(0, '127.0.0.1')
    await once(rude, 'listening')
    const database = fixture.open({ url: fixture.url(portOf(rude)) })
    expect(await database.queryAsRole(fixture.worker, 'SELECT 1').catch(caught)).toMatchObject({
      code: 'CONNECT_FAILED',
      disposition: 'retry',
    })
    rude.close()
  })

  test('fails with CONNECT_FAILED if the host name is unknown', async () => {
    const url = new URL(fixture.url())
    url.hostname = 'db.invalid'
    const database = fixture.open({ url: url.href, tls: { mode: 'plaintext' } })
    expect(await database.queryAsRole(fixture.worker, 'SELECT 1').catch(caught)).toMatchObject({
      code: 'CONNECT_FAILED',
      disposition: 'retry',
    })
  })
})

test('a session that reports another role is refused (ROLE_UNAVAILABLE)', async () => {
  const lying = await TcpProxy.before(fixture.url(), {
    alterAnswer: (chunk) => Buffer.from(chunk.toString('latin1').replaceAll('_worker', '_wicked'), 'latin1'),
  })
  const database = fixture.open({ url: fixture.url(lying.port) })
  await expect(database.queryAsRole(fixture.worker, 'SELECT 1')).rejects.toMatchObject({
    code: 'ROLE_UNAVAILABLE',
    message: expect.stringContaining('_wicked instead of'),
  })
  await database.close()
  await lying.close()
})

/** Changes the process id in BackendKeyData: `K`, the length 12, the process id, the key. */
function withAnotherPid(chunk: Buffer): Buffer {
  const at = chunk.indexOf(Buffer.from([0x4b, 0, 0, 0, 12]))
  if (at !== -1) chunk.writeInt32BE(chunk.readInt32BE(at + 5) + 1, at + 5)
  return chunk
}

describe('an undeclared transaction pooler', () => {
  test('is detected by a process id that is not the backend’s (TransactionPoolerError)', async () => {
    const pooler = await TcpProxy.before(fixture.url(), { alterAnswer: withAnotherPid })
    const database = fixture.open({ url: fixture.url(pooler.port) })
    await expect(database.queryAsRole(fixture.worker, 'SELECT 1')).rejects.toBeInstanceOf(TransactionPoolerError)
    await expect(database.listenAsRole(fixture.worker, 'channel', () => {})).rejects.toBeInstanceOf(
      TransactionPoolerError,
    )
    const through = fixture.open({ url: fixture.url(pooler.port), pooler: 'transaction' })
    expect((await through.queryAsRole(fixture.worker, 'SELECT 1 AS one')).rows).toEqual([{ one: 1 }])
    await Promise.all([database.close(), through.close()])
    await pooler.close()
  })

  test('is detected by its refusal of start-up parameters (TRANSACTION_POOLER)', async () => {
    const pooler = await TcpProxy.before(fixture.url(), {
      alterAnswer: () => fatal('08P01', 'unsupported startup parameter: options'),
    })
    const database = fixture.open({ url: fixture.url(pooler.port) })
    await expect(database.queryAsRole(fixture.worker, 'SELECT 1')).rejects.toMatchObject({
      code: 'TRANSACTION_POOLER',
      remedy: expect.stringContaining(`pooler: 'transaction'`),
    })
    await pooler.close()
  })
})
