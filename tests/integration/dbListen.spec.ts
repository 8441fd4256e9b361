import { queryObjects } from 'node:v8'
import { Client } from 'pg'
import { afterEach, expect, onTestFinished, test, vi } from 'vitest'
import { TransactionPoolerError, type ListenOptions, type Listener, type ListenState } from '../../libs/db/index.js'
import { closeAfterAll } from '../support/afterAll.js'
import { DbFixture } from '../support/dbFixture.js'
import { POLL_OPTIONS } from '../support/pollOptions.js'
import { TcpProxy } from '../support/tcpProxy.js'

const fixture = closeAfterAll(await DbFixture.set())
let opened: OpenListener | undefined

afterEach(async () => {
  await opened?.listener.close()
  opened = undefined
})

const CHANNEL = 'Some "Channel"'

/** Listener with the payloads and the state changes that it reported. */
interface OpenListener {
  readonly listener: Listener
  readonly received: string[]
  readonly states: ListenState[]
}

async function listen(port?: number, options: ListenOptions = {}): Promise<OpenListener> {
  const received: string[] = []
  const states: ListenState[] = []
  const database = fixture.open({ url: fixture.url(port), connectTimeoutMs: 2_000 })
  const listener = await database.listenAsRole(fixture.worker, CHANNEL, (payload) => received.push(payload), {
    ...options,
    onStateChange: (state) => states.push(state),
  })
  opened = { listener, received, states }
  return opened
}

const notify = (payload: string, channel = CHANNEL) =>
  fixture.admin.query('SELECT pg_notify($1, $2)', [channel, payload])

const endListeners = () =>
  fixture.admin.query(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = $1`, [fixture.login])

const kindsOf = (states: ListenState[]) => states.map(({ state }) => state)

test('a listener receives the notifications of its channel in order, and none of other channels', async () => {
  const { received } = await listen()
  await notify('other', 'other channel')
  await notify('1')
  await notify('2')
  await expect.poll(() => received, POLL_OPTIONS).toEqual(['1', '2'])
  const { rows } = await fixture.admin.query('SELECT FROM pg_stat_activity WHERE usename = $1', [fixture.login])
  expect(rows).toHaveLength(1)
})

test('a closed listener receives nothing and leaves no session; it can be closed twice', async () => {
  const { listener, received } = await listen()
  await Promise.all([listener.close(), listener.close()])
  await notify('late')
  await expect.poll(() => fixture.sessionsOfLogin(), POLL_OPTIONS).toBe(0)
  expect(received).toEqual([])
})

test('Database.close closes its listeners', async () => {
  const database = fixture.open()
  await database.listenAsRole(fixture.worker, CHANNEL, () => {})
  await database.close()
  await expect.poll(() => fixture.sessionsOfLogin(), POLL_OPTIONS).toBe(0)
})

test('a listener reports a session that the server ended (57P01), and replaces it', async () => {
  const { received, states } = await listen()
  await endListeners()
  await expect.poll(() => kindsOf(states), POLL_OPTIONS).toEqual(['lost', 'listening'])
  expect(states[0]).toMatchObject({ error: { sqlstate: '57P01', disposition: 'retry' } })
  await notify('after')
  await expect.poll(() => received, POLL_OPTIONS).toEqual(['after'])
})

test('a listener detects a dead connection by its heartbeat (NO_ANSWER), and replaces it', async () => {
  const proxy = await TcpProxy.before(fixture.url())
  const { received, states } = await listen(proxy.port, { heartbeatIntervalMs: 50, heartbeatTimeoutMs: 1_000 })
  await notify('before')
  await expect.poll(() => received, POLL_OPTIONS).toEqual(['before'])
  proxy.traffic = 'vanishes'
  await notify('swallowed')
  await expect.poll(() => kindsOf(states), POLL_OPTIONS).toContain('lost')
  expect(states[0]).toMatchObject({ error: { code: 'NO_ANSWER' } })
  proxy.traffic = 'flows'
  await expect.poll(() => kindsOf(states).at(-1), POLL_OPTIONS).toBe('listening')
  await notify('after')
  await expect.poll(() => received, POLL_OPTIONS).toEqual(['before', 'after'])
  await opened?.listener.close()
  await proxy.close()
})

test('a listener reports each failed reconnect (CONNECT_FAILED) and stops when it is closed', async () => {
  const proxy = await TcpProxy.before(fixture.url())
  const { states, listener } = await listen(proxy.port, { reconnectDelayMaxMs: 50 })
  await proxy.close()
  await expect.poll(() => states.length, POLL_OPTIONS).toBeGreaterThanOrEqual(4)
  expect(new Set(kindsOf(states))).toEqual(new Set(['lost']))
  expect(states[2]).toMatchObject({ error: { code: 'CONNECT_FAILED', disposition: 'retry' } })
  await listener.close()
  const tries = states.length
  await new Promise((resolve) => setTimeout(resolve, 150))
  expect(states).toHaveLength(tries)
})

test('closing a listener does not wait for a silent server, and reports nothing more', async () => {
  const proxy = await TcpProxy.before(fixture.url())
  const { states, listener } = await listen(proxy.port, { heartbeatIntervalMs: 50, heartbeatTimeoutMs: 500 })
  proxy.traffic = 'vanishes'
  await expect.poll(() => kindsOf(states), POLL_OPTIONS).toEqual(['lost'])
  // By now the first attempt to reconnect has begun. It would take two seconds to fail.
  await new Promise((resolve) => setTimeout(resolve, 300))
  const before = performance.now()
  await listener.close()
  expect(performance.now() - before).toBeLessThan(1_000)
  expect(kindsOf(states)).toEqual(['lost'])
  await proxy.close()
})

test('a listener detects that its session lost LISTEN (LISTEN_LOST), and replaces it', async () => {
  const proxy = await TcpProxy.before(fixture.url())
  const { received, states } = await listen(proxy.port, { heartbeatIntervalMs: 50 })
  // Has the same effect as a pooler that assigns another backend to the client.
  proxy.inject('UNLISTEN *')
  await expect.poll(() => kindsOf(states), POLL_OPTIONS).toEqual(['lost', 'listening'])
  expect(states[0]).toMatchObject({ error: { code: 'LISTEN_LOST' } })
  await notify('after')
  await expect.poll(() => received, POLL_OPTIONS).toEqual(['after'])
  await opened?.listener.close()
  await proxy.close()
})

test('a listener keeps no memory for its past heartbeats', async () => {
  const query = vi.spyOn(Client.prototype, 'query')
  onTestFinished(() => query.mockRestore())
  await listen(undefined, { heartbeatIntervalMs: 10 })
  const promisesAfter = async (heartbeats: number): Promise<number> => {
    await expect.poll(() => query.mock.calls.length, POLL_OPTIONS).toBeGreaterThanOrEqual(heartbeats)
    // The spy holds the promise of each call.
    query.mockClear()
    return queryObjects(Promise, { format: 'count' })
  }
  const few = await promisesAfter(20)
  const many = await promisesAfter(100)
  // A promise per heartbeat would be 100 more.
  expect(many - few).toBeLessThan(50)
})

test('an error in a listener callback becomes an uncaughtException; the listener continues', async () => {
  const surfaced: unknown[] = []
  const collect = (error: unknown) => surfaced.push(error)
  const before = process.listeners('uncaughtException')
  process.removeAllListeners('uncaughtException')
  process.on('uncaughtException', collect)
  const received: string[] = []
  const listener = await fixture.open().listenAsRole(fixture.worker, CHANNEL, (payload) => {
    received.push(payload)
    if (payload === 'bad') throw new Error('a bug of the author')
  })
  await notify('bad')
  await notify('good')
  await expect.poll(() => received, POLL_OPTIONS).toEqual(['bad', 'good'])
  expect(surfaced).toMatchObject([{ message: 'a bug of the author' }])
  process.off('uncaughtException', collect)
  for (const theirs of before) process.on('uncaughtException', theirs)
  await listener.close()
})

test('listenAsRole rejects if its first attempt fails or an argument is invalid', async () => {
  const database = fixture.open()
  await expect(database.listenAsRole(fixture.notGranted, CHANNEL, () => {})).rejects.toMatchObject({
    code: 'ROLE_UNAVAILABLE',
  })
  await expect(database.listenAsRole('none', CHANNEL, () => {})).rejects.toThrow(/^role: /)
  await expect(database.listenAsRole(fixture.worker, '', () => {})).rejects.toThrow(/^channel: /)
  await expect(database.listenAsRole(fixture.worker, CHANNEL, () => {}, { heartbeatIntervalMs: 0 })).rejects.toThrow(
    /^heartbeatIntervalMs: /,
  )
  await expect.poll(() => fixture.sessionsOfLogin(), POLL_OPTIONS).toBe(0)
})

test('listenAsRole fails through a transaction pooler unless listenUrl is set', async () => {
  const behind = fixture.open({ pooler: 'transaction' })
  await expect(behind.listenAsRole(fixture.worker, CHANNEL, () => {})).rejects.toBeInstanceOf(TransactionPoolerError)
  const received: string[] = []
  const beside = fixture.open({ pooler: 'transaction', listenUrl: fixture.url() })
  const listener = await beside.listenAsRole(fixture.worker, CHANNEL, (payload) => received.push(payload))
  await notify('x')
  await expect.poll(() => received, POLL_OPTIONS).toEqual(['x'])
  await listener.close()
})
