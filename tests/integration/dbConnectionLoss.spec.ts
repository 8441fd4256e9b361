import { once } from 'node:events'
import { createServer } from 'node:net'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { TransactionPoolerError, type Database } from '../../libs/db/index.js'
import { DbStage } from '../support/dbStage.js'
import { PATIENTLY } from '../support/patiently.js'
import { gate } from '../support/gate.js'
import { portOf } from '../support/portOf.js'
import { TcpProxy } from '../support/tcpProxy.js'

let stage: DbStage
let proxy: TcpProxy

beforeAll(async () => {
  stage = await DbStage.set()
  await stage.admin.query(`
    CREATE TABLE symphony.entry (n int PRIMARY KEY);
    GRANT ALL ON symphony.entry TO ${stage.worker}`)
})
beforeEach(async () => {
  await stage.admin.query('DELETE FROM symphony.entry')
  // A backend whose client is gone finishes its statement first; the next test counts from none.
  await stage.endSessions()
  proxy = await TcpProxy.before(stage.url())
})
afterEach(() => proxy.close())
afterAll(() => stage.remove())

const INSERT = 'INSERT INTO symphony.entry (n) VALUES ($1)'

async function entries(): Promise<number[]> {
  const { rows } = await stage.admin.query<{ n: number }>('SELECT n FROM symphony.entry ORDER BY n')
  return rows.map(({ n }) => n)
}

async function sleepers(): Promise<number> {
  const sleeping = `SELECT FROM pg_stat_activity WHERE usename = $1 AND wait_event = 'PgSleep'`
  return (await stage.admin.query(sleeping, [stage.login])).rows.length
}

const caught = (error: unknown) => error

/** ErrorResponse: `E`, the length, then fields that each end in a zero byte. */
function fatal(sqlstate: string, message: string): Buffer {
  const fields = Buffer.from(`SFATAL\0VFATAL\0C${sqlstate}\0M${message}\0\0`)
  const length = Buffer.alloc(4)
  length.writeInt32BE(fields.length + 4)
  return Buffer.concat([Buffer.from('E'), length, fields])
}

describe.for(['none', 'transaction'] as const)('pooler %s: a connection that is cut', (pooler) => {
  let database: Database
  beforeEach(async () => {
    database = stage.open({ url: stage.url(proxy.port), pooler, connectionsMax: 1, closeTimeoutMs: 100 })
    await database.queryAsRole(stage.worker, 'SELECT 1')
  })

  test('while idle is replaced, and nobody notices', async () => {
    proxy.cut()
    await expect.poll(() => stage.sessionsOfLogin(), PATIENTLY).toBe(0)
    await database.queryAsRole(stage.worker, INSERT, [1])
    expect(await entries()).toEqual([1])
  })

  test('under a statement that commits by itself leaves it unknown', async () => {
    const attempt = database.queryAsRole(stage.worker, 'SELECT pg_catalog.pg_sleep(5)').catch(caught)
    await expect.poll(sleepers, PATIENTLY).toBe(1)
    proxy.cut()
    expect(await attempt).toMatchObject({ code: 'CONNECTION_LOST', disposition: 'unknown' })
    expect((await database.queryAsRole(stage.worker, 'SELECT 1 AS one')).rows).toEqual([{ one: 1 }])
  })

  test('after a statement arrived and before its answer did: unknown, and it did happen', async () => {
    const attempt = database
      .queryAsRole(stage.worker, `${INSERT} RETURNING pg_catalog.pg_sleep(0.3)`, [1])
      .catch(caught)
    await expect.poll(sleepers, PATIENTLY).toBe(1)
    proxy.traffic = 'answers vanish'
    await expect.poll(entries, PATIENTLY).toEqual([1])
    proxy.cut()
    expect(await attempt).toMatchObject({ disposition: 'unknown' })
  })

  test('inside a transaction is surely harmless', async () => {
    const attempt = database
      .transactionAsRole(stage.worker, async (tx) => {
        await tx.query(INSERT, [1])
        proxy.cut()
        await tx.query(INSERT, [2])
      })
      .catch(caught)
    expect(await attempt).toMatchObject({ code: 'CONNECTION_LOST', disposition: 'retry' })
    expect(await entries()).toEqual([])
  })

  test('inside a transaction, unnoticed by the callback, keeps COMMIT from being sent', async () => {
    const attempt = database
      .transactionAsRole(stage.worker, async (tx) => {
        await tx.query(INSERT, [1])
        proxy.cut()
        await tx.query(INSERT, [2]).catch(() => {})
      })
      .catch(caught)
    expect(await attempt).toMatchObject({ code: 'CONNECTION_LOST', disposition: 'retry' })
    expect(await entries()).toEqual([])
  })

  test('before the answer to COMMIT: unknown, and it did happen', async () => {
    const attempt = commitWhile('answers vanish')
    await expect.poll(entries, PATIENTLY).toEqual([1])
    proxy.cut()
    expect(await attempt).toMatchObject({ code: 'CONNECTION_LOST', disposition: 'unknown' })
  })

  test('before COMMIT arrived: unknown, and it did not happen', async () => {
    const attempt = commitWhile('vanishes')
    setTimeout(() => proxy.cut(), 200)
    expect(await attempt).toMatchObject({ code: 'CONNECTION_LOST', disposition: 'unknown' })
    expect(await entries()).toEqual([])
  })

  function commitWhile(traffic: TcpProxy['traffic']): Promise<unknown> {
    return database
      .transactionAsRole(stage.worker, async (tx) => {
        await tx.query(INSERT, [1])
        proxy.traffic = traffic
      })
      .catch(caught)
  }
})

test.for(['none', 'transaction'] as const)(
  'pooler %s: an error that was the last word of a dying server leaves the outcome unknown',
  async (pooler) => {
    let dying = false
    const toDying = await TcpProxy.before(stage.url(), {
      alterAnswer: (chunk) => {
        if (!dying) return chunk
        setImmediate(() => toDying.cut())
        // As a PANIC while the commit record is written: the code alone says that nothing happened.
        return fatal('53100', 'could not write to the log')
      },
    })
    const database = stage.open({ url: stage.url(toDying.port), pooler })
    const attempt = database.queryAsRole(stage.worker, 'SELECT pg_catalog.pg_sleep(0.3)').catch(caught)
    await expect.poll(sleepers, PATIENTLY).toBe(1)
    dying = true
    expect(await attempt).toMatchObject({ sqlstate: '53100', disposition: 'unknown' })
    await database.close()
    await toDying.close()
  },
)

test('a connection to a read-only server is not used again: the primary may be elsewhere by now', async () => {
  const database = stage.open({ connectionsMax: 1 })
  const pid = async () => (await database.queryAsRole(stage.worker, 'SELECT pg_catalog.pg_backend_pid()')).rows
  const before = await pid()
  const write = database.transactionAsRole(stage.worker, async (tx) => {
    await tx.query('SET TRANSACTION READ ONLY')
    await tx.query(INSERT, [1])
  })
  await expect(write).rejects.toMatchObject({ sqlstate: '25006', disposition: 'retry' })
  expect(await pid()).not.toEqual(before)
})

test.for(['none', 'transaction'] as const)(
  'pooler %s: a server that never answers is given up, and its connection closed',
  async (pooler) => {
    const url = stage.url(proxy.port)
    const database = stage.open({ url, pooler, connectionsMax: 2, statementTimeoutMs: 1_500, closeTimeoutMs: 100 })
    const { opened, open } = gate()
    const began = gate()
    const inside = database
      .transactionAsRole(stage.worker, async (tx) => {
        await tx.query('SELECT 1')
        began.open()
        await opened
        await tx.query('SELECT 1')
      })
      .catch(caught)
    // Both must be connected before the answers vanish: it is not the connecting that is asked about here.
    await began.opened
    const alone = database.queryAsRole(stage.worker, 'SELECT pg_catalog.pg_sleep(1)').catch(caught)
    await expect.poll(sleepers, PATIENTLY).toBe(1)
    proxy.traffic = 'answers vanish'
    open()
    expect(await inside).toMatchObject({ code: 'NO_ANSWER', disposition: 'retry' })
    expect(await alone).toMatchObject({ code: 'NO_ANSWER', disposition: 'unknown' })
    proxy.traffic = 'flows'
    expect((await database.queryAsRole(stage.worker, 'SELECT 1 AS one')).rows).toEqual([{ one: 1 }])
  },
)

describe('a connection that cannot be made', () => {
  test('because nobody is there', async () => {
    const { port } = proxy
    await proxy.close()
    const database = stage.open({ url: stage.url(port) })
    expect(await database.queryAsRole(stage.worker, 'SELECT 1').catch(caught)).toMatchObject({
      code: 'CONNECT_FAILED',
      disposition: 'retry',
      message: `could not connect to ${new URL(stage.url(port)).host}/${stage.name}: ECONNREFUSED`,
    })
    proxy = await TcpProxy.before(stage.url())
  })

  test('because nobody answers', async () => {
    proxy.traffic = 'vanishes'
    const database = stage.open({ url: stage.url(proxy.port), connectTimeoutMs: 200 })
    expect(await database.queryAsRole(stage.worker, 'SELECT 1').catch(caught)).toMatchObject({
      code: 'CONNECT_FAILED',
      disposition: 'retry',
    })
  })

  test('because the server answers the greeting and then falls silent', async () => {
    const database = stage.open({ url: stage.url(proxy.port), connectTimeoutMs: 300 })
    const silenced = await TcpProxy.before(stage.url(), {
      // The server's parameters arrive, the answer to SET ROLE does not.
      alterAnswer: (chunk) => {
        if (chunk.includes('server_version')) setImmediate(() => (silenced.traffic = 'answers vanish'))
        return chunk
      },
    })
    const toSilenced = stage.open({ url: stage.url(silenced.port), connectTimeoutMs: 300, closeTimeoutMs: 0 })
    expect(await toSilenced.queryAsRole(stage.worker, 'SELECT 1').catch(caught)).toMatchObject({ disposition: 'retry' })
    expect((await database.queryAsRole(stage.worker, 'SELECT 1 AS one')).rows).toEqual([{ one: 1 }])
    await silenced.close()
  })

  test('because the server hangs up on the greeting', async () => {
    const rude = createServer((client) => client.once('data', () => client.end()))
    rude.listen(0, '127.0.0.1')
    await once(rude, 'listening')
    const database = stage.open({ url: stage.url(portOf(rude)) })
    expect(await database.queryAsRole(stage.worker, 'SELECT 1').catch(caught)).toMatchObject({
      code: 'CONNECT_FAILED',
      disposition: 'retry',
    })
    rude.close()
  })

  test('because the name is unknown', async () => {
    const url = new URL(stage.url())
    url.hostname = 'db.invalid'
    const database = stage.open({ url: url.href, tls: { mode: 'plaintext' } })
    expect(await database.queryAsRole(stage.worker, 'SELECT 1').catch(caught)).toMatchObject({
      code: 'CONNECT_FAILED',
      disposition: 'retry',
    })
  })
})

test('a session that says it is in another role is refused', async () => {
  const lying = await TcpProxy.before(stage.url(), {
    alterAnswer: (chunk) => Buffer.from(chunk.toString('latin1').replaceAll('_worker', '_wicked'), 'latin1'),
  })
  const database = stage.open({ url: stage.url(lying.port) })
  await expect(database.queryAsRole(stage.worker, 'SELECT 1')).rejects.toMatchObject({
    code: 'ROLE_UNAVAILABLE',
    message: expect.stringContaining('_wicked instead of'),
  })
  await database.close()
  await lying.close()
})

/** BackendKeyData: `K`, the length 12, the process id, the key. */
function withAnotherPid(chunk: Buffer): Buffer {
  const at = chunk.indexOf(Buffer.from([0x4b, 0, 0, 0, 12]))
  if (at !== -1) chunk.writeInt32BE(chunk.readInt32BE(at + 5) + 1, at + 5)
  return chunk
}

describe('a pooler in the way of sessions of our own', () => {
  test('is seen by the process id it makes up', async () => {
    const pooler = await TcpProxy.before(stage.url(), { alterAnswer: withAnotherPid })
    const database = stage.open({ url: stage.url(pooler.port) })
    await expect(database.queryAsRole(stage.worker, 'SELECT 1')).rejects.toBeInstanceOf(TransactionPoolerError)
    await expect(database.listenAsRole(stage.worker, 'channel', () => {})).rejects.toBeInstanceOf(
      TransactionPoolerError,
    )
    const through = stage.open({ url: stage.url(pooler.port), pooler: 'transaction' })
    expect((await through.queryAsRole(stage.worker, 'SELECT 1 AS one')).rows).toEqual([{ one: 1 }])
    await Promise.all([database.close(), through.close()])
    await pooler.close()
  })

  test('is seen by its refusal of start-up parameters', async () => {
    const pooler = await TcpProxy.before(stage.url(), {
      alterAnswer: () => fatal('08P01', 'unsupported startup parameter: options'),
    })
    const database = stage.open({ url: stage.url(pooler.port) })
    await expect(database.queryAsRole(stage.worker, 'SELECT 1')).rejects.toMatchObject({
      code: 'TRANSACTION_POOLER',
      remedy: expect.stringContaining(`pooler: 'transaction'`),
    })
    await pooler.close()
  })
})
