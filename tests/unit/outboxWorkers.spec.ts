import { randomUUID } from 'node:crypto'
import { afterEach, describe, expect, test } from 'vitest'
import { openDatabase } from '../../libs/db/index.js'
import {
  deregisterOutboxWorker,
  heartbeatOutboxWorker,
  OutboxRelayer,
  readOutboxStatus,
  readWorkerHistory,
  readWorkerReports,
} from '../../libs/outbox/index.js'
import { NotSentError } from '../../libs/rails/index.js'
import { useTestDatabase } from '../support/database.js'
import { claimOnly, enqueue } from '../support/outboxItems.js'
import { closeTransactions, openTransaction } from '../support/outboxStream.js'
import { symphony } from '../support/commandLine.js'
import { POLL_OPTIONS } from '../support/pollOptions.js'
import { recordingRail } from '../support/relayRail.js'
import { projectLedger } from '../support/sealLedger.js'

const db = await useTestDatabase()
afterEach(closeTransactions)

interface WorkerRow {
  readonly worker_id: string
  readonly started_at: Date
  readonly last_seen_at: Date
  readonly detail: unknown
  readonly stopped_at: Date | null
}

async function worker(workerId: string): Promise<WorkerRow | undefined> {
  const { rows } = await db.queryNoRole<WorkerRow>('SELECT * FROM outbox_workers WHERE worker_id = $1', [workerId])
  return rows[0]
}

/** Moves the last heartbeat of the worker back by this interval. */
async function silence(workerId: string, interval: string): Promise<void> {
  await db.queryNoRole(
    'UPDATE outbox_workers SET last_seen_at = clock_timestamp() - $2::interval WHERE worker_id = $1',
    [workerId, interval],
  )
}

const beat = (workerId: string, detail = {}) => heartbeatOutboxWorker(db.as('symphony_executor'), workerId, detail)

test('a heartbeat registers the worker with its detail and the time of the database clock', async () => {
  const at = await beat('first', { host: 'a', inFlight: 3 })
  expect(await worker('first')).toEqual({
    worker_id: 'first',
    started_at: at,
    last_seen_at: at,
    detail: { host: 'a', inFlight: 3 },
    stopped_at: null,
  })
})

test('the next heartbeat replaces the detail and keeps started_at', async () => {
  await beat('again', { inFlight: 3 })
  await silence('again', '1 minute')
  const before = await worker('again')
  const at = await beat('again', { inFlight: 0 })
  expect(await worker('again')).toEqual({ ...before, last_seen_at: at, detail: { inFlight: 0 } })
  expect(at.getTime()).toBeGreaterThan(before!.last_seen_at.getTime())
})

test('a heartbeat deletes workers that were silent for 24 hours, not for 23 h 59 min', async () => {
  await beat('gone')
  await beat('quiet')
  await silence('gone', '24 hours 1 minute')
  await silence('quiet', '23 hours 59 minutes')
  await beat('alive')
  expect(await worker('gone')).toBeUndefined()
  expect(await worker('quiet')).toBeDefined()
})

test('a worker that returns after 3 days is registered again', async () => {
  await beat('weekend', { host: 'before' })
  await silence('weekend', '3 days')
  await beat('weekend', { host: 'after' })
  expect(await worker('weekend')).toMatchObject({ detail: { host: 'after' } })
})

test('heartbeats of workers that return after 3 days do not wait for each other', async () => {
  await beat('fleet-1')
  await beat('fleet-2')
  await silence('fleet-1', '3 days')
  await silence('fleet-2', '3 days')
  const first = await openTransaction(db, 'symphony_executor')
  const second = await openTransaction(db, 'symphony_executor')
  for (const connection of [first, second]) await connection.query(`SET LOCAL lock_timeout = '1s'`)
  // The lock imitates an open heartbeat of fleet-2. The first heartbeat sees that row as 3 days old and must skip it.
  const lock = await openTransaction(db)
  await lock.query(`SELECT FROM outbox_workers WHERE worker_id = 'fleet-2' FOR UPDATE`)
  await heartbeatOutboxWorker(first, 'fleet-1')
  await lock.query('COMMIT')
  await heartbeatOutboxWorker(second, 'fleet-2')
  await first.query('COMMIT')
  await second.query('COMMIT')
  await beat('fleet-3')
  expect(await worker('fleet-1')).toBeDefined()
  expect(await worker('fleet-2')).toBeDefined()
})

test('a worker without a heartbeat may claim', async () => {
  const { railType, outboxId } = await enqueue(db)
  expect(await claimOnly(db, railType, { workerId: 'unregistered' })).toMatchObject({ outboxId })
  expect(await worker('unregistered')).toBeUndefined()
})

test.for([
  ['no worker', null, '{}'],
  ['an empty worker', '', '{}'],
  ['a worker with a space', 'a b', '{}'],
  ['a worker beyond ASCII', 'wörker', '{}'],
  ['a worker of 129 characters', 'w'.repeat(129), '{}'],
  ['no detail', 'w', null],
  ['a detail that is not an object', 'w', '[1]'],
  ['a detail of a hundred kilobytes', 'w', JSON.stringify({ text: 'x'.repeat(100_000) })],
  ['a detail with a number of 131,072 digits', 'w', '{"n": 1e131071}'],
] as const)('heartbeat_outbox_worker refuses %s (22023)', async ([, workerId, detail]) => {
  await expect(db.queryNoRole('SELECT heartbeat_outbox_worker($1, $2)', [workerId, detail])).rejects.toMatchObject({
    code: '22023',
  })
  expect(await worker('w')).toBeUndefined()
})

test('a worker id of 128 characters is stored in full', async () => {
  await beat('w'.repeat(128))
  expect(await worker('w'.repeat(128))).toBeDefined()
})

const listed = async () => (await readWorkerReports(db.as('symphony_readonly'))).map(({ workerId }) => workerId)
const aliveCount = async () => Number((await readOutboxStatus(db.as('symphony_readonly'))).workersAliveCount)

test.each([
  ['59 seconds', true],
  ['61 seconds', false],
] as const)('a worker silent for %s has alive = %s in the list and in workers_alive_count', async (ago, alive) => {
  const before = await aliveCount()
  await beat('measured')
  await silence('measured', ago)
  const reports = await readWorkerReports(db.as('symphony_readonly'))
  expect(reports.find(({ workerId }) => workerId === 'measured')).toMatchObject({ alive })
  expect(await aliveCount()).toBe(before + Number(alive))
  await deregisterOutboxWorker(db.as('symphony_executor'), 'measured')
})

test('a deregistered worker leaves the list, but its last detail is stored', async () => {
  await beat('leaving')
  const before = await aliveCount()
  expect(await deregisterOutboxWorker(db.as('symphony_executor'), 'leaving', { last: 'words' })).toBe(true)
  expect(await listed()).not.toContain('leaving')
  expect(await aliveCount()).toBe(before - 1)
  expect(await worker('leaving')).toMatchObject({ detail: { last: 'words' }, stopped_at: expect.any(Date) })
  expect(await deregisterOutboxWorker(db.as('symphony_executor'), 'never-seen')).toBe(false)
  // The same worker starts again.
  const at = await beat('leaving')
  expect(await worker('leaving')).toMatchObject({ started_at: at, stopped_at: null })
  expect(await listed()).toContain('leaving')
})

const history = (of: { railType?: string; workerId?: string }) =>
  readWorkerHistory(db.as('symphony_readonly'), { railType: null, workerId: null, ...of })
const breakers = (states: Record<string, string>) => ({
  rails: Object.entries(states).map(([railType, breaker]) => ({ railType, breaker })),
})

const shown = async (of: object) =>
  (await history(of)).breakerChanges.map(({ at, ...change }) => Object.assign(change, { at: new Date(at) }))
/** Returns [dispatched, failed, retried] of the last 12 intervals, latest first, summed over this many series. */
const expected = (times: number) => Array.from({ length: 12 }, (_, n) => [n * times, (n + 1) * times, (n + 2) * times])

describe('the history of circuit breakers', () => {
  test('has each change once, latest first, and is kept when the worker is removed', async () => {
    const [workerId, sepa, swift] = ['changing', 'history-sepa', 'history-swift']
    // A breaker that was never reported counts as closed.
    const opened = await beat(workerId, breakers({ [sepa]: 'open', [swift]: 'closed' }))
    await beat(workerId, breakers({ [sepa]: 'open', [swift]: 'closed' }))
    const halfOpened = await beat(workerId, breakers({ [sepa]: 'half-open', [swift]: 'closed' }))
    await deregisterOutboxWorker(
      db.as('symphony_executor'),
      workerId,
      breakers({ [sepa]: 'closed', [swift]: 'closed' }),
    )
    const { stopped_at: stoppedAt } = (await worker(workerId))!
    // The next process with this id reports a closed breaker. Then another worker reports both breakers open.
    await beat(workerId, breakers({ [sepa]: 'closed' }))
    await silence(workerId, '25 hours')
    await beat('other', breakers({ [sepa]: 'open', [swift]: 'open' }))
    expect(await worker(workerId)).toBeUndefined()
    const own = [
      { railType: sepa, workerId, from: 'half-open', to: 'closed', at: stoppedAt },
      { railType: sepa, workerId, from: 'open', to: 'half-open', at: halfOpened },
      { railType: sepa, workerId, from: 'closed', to: 'open', at: opened },
    ]
    expect(await shown({ workerId })).toEqual(own)
    const others = { workerId: 'other', from: 'closed', to: 'open', at: expect.any(Date) }
    expect(await shown({ railType: sepa })).toEqual([{ railType: sepa, ...others }, ...own])
    expect(await shown({ railType: swift })).toEqual([{ railType: swift, ...others }])
    expect(await shown({ railType: swift, workerId })).toEqual([])
    expect(await shown({})).toHaveLength(5)
  })

  test.for([
    ['no list', { rails: 'open' }],
    ['an object in place of the list', { rails: { railType: 'h', breaker: 'molten' } }],
    ['entries of other types', { rails: [7, null, 'open', ['open'], { railType: 'h', breaker: ['open'] }] }],
    ['a rail that is not a text', { rails: [{ railType: 7, breaker: 'open' }] }],
    ['a rail with a space', { rails: [{ railType: 'a b', breaker: 'open' }] }],
    ['a rail of 129 characters', { rails: [{ railType: 'r'.repeat(129), breaker: 'open' }] }],
    ['an unknown state', { rails: [{ railType: 'h', breaker: 'molten' }, { railType: 'h' }] }],
  ] as const)('leaves out a report with %s, and the heartbeat is stored', async ([, detail]) => {
    const workerId = `unsound-${randomUUID()}`
    await beat(workerId, detail)
    await beat(workerId, detail)
    expect(await worker(workerId)).toBeDefined()
    expect(await history({ workerId })).toEqual({ breakerChanges: [], throughput: [] })
  })

  test('uses only one state of a rail that a report names several times', async () => {
    const rails = ['open', 'half-open', 'open'].map((breaker) => ({ railType: 'twice', breaker }))
    await beat('stutter', { rails })
    await beat('stutter', { rails: rails.toReversed() })
    expect((await history({ workerId: 'stutter' })).breakerChanges).toHaveLength(1)
  })

  test('lists the last 20 changes; a new change of a rail deletes all but its last 1000', async () => {
    const railType = 'flapping'
    await db.queryNoRole(
      `INSERT INTO outbox_breaker_changes
       SELECT r, now() - interval '1 day' - n * interval '1 second', 'gone', 'closed', 'open'
       FROM unnest(ARRAY[$1, 'flapping-too']) r, generate_series(1, 1005) n`,
      [railType],
    )
    // A row that another session has locked is deleted later.
    const lock = await openTransaction(db)
    await lock.query(`SELECT FROM outbox_breaker_changes WHERE rail_type = $1 ORDER BY changed_at LIMIT 1 FOR UPDATE`, [
      railType,
    ])
    const stored = async (rail: string) => {
      const { rows } = await db.queryNoRole<{ n: number; oldest: number }>(
        `SELECT count(*)::int AS n, round(extract(epoch FROM now() - interval '1 day' - min(changed_at)) / 10)::int AS oldest
         FROM outbox_breaker_changes WHERE rail_type = $1`,
        [rail],
      )
      return rows[0]
    }
    await beat('flapper', breakers({ [railType]: 'open' }))
    expect(await stored(railType)).toMatchObject({ n: 1_001 })
    await lock.query('COMMIT')
    await beat('flapper', breakers({ [railType]: 'half-open' }))
    expect(await stored(railType)).toEqual({ n: 1_000, oldest: 100 })
    expect(await stored('flapping-too')).toMatchObject({ n: 1_005 })
    const { breakerChanges } = await history({ railType })
    expect(breakerChanges).toHaveLength(20)
    expect(breakerChanges.slice(0, 3)).toMatchObject([{ to: 'half-open' }, { to: 'open' }, { workerId: 'gone' }])
  })
})

test('the throughput of workers is that of the last hour, per 5 minutes and latest first', async () => {
  await db.queryNoRole(
    `INSERT INTO outbox_worker_series
     SELECT date_bin('5 minutes', now(), '2000-01-01') - n * interval '5 minutes', r, w, n, n + 1, n + 2
     FROM generate_series(0, 13) n, unnest(ARRAY['sum-1', 'sum-2']) r, unnest(ARRAY['adder-1', 'adder-2']) w`,
  )
  const counted = async (of: object) =>
    (await history(of)).throughput.map(({ dispatched, failed, retried }) => [dispatched, failed, retried])
  expect(await counted({ railType: 'sum-1', workerId: 'adder-1' })).toEqual(expected(1))
  expect(await counted({ railType: 'sum-1' })).toEqual(expected(2))
  expect(await counted({ workerId: 'adder-2' })).toEqual(expected(2))
  expect(await counted({ workerId: 'adder-3' })).toEqual([])
  const [latest, before] = (await history({ workerId: 'adder-1' })).throughput
  expect(Date.parse(latest!.from) - Date.parse(before!.from)).toBe(300_000)
})

test('a relayer reports a change of its breaker at once, not at its next heartbeat', async () => {
  const railType = 'failing-rail'
  const { rails } = recordingRail({ type: railType }, () => {
    throw new NotSentError('refused')
  })
  const relayer = new OutboxRelayer(db.database, rails, {
    workerId: 'opening',
    heartbeatMs: 600_000,
    breakerFailures: 1,
    breakerOpenMs: 600_000,
  })
  await relayer.start()
  await expect.poll(listed, POLL_OPTIONS).toContain('opening')
  await enqueue(db, { railType })
  const changes = async () => (await history({ railType })).breakerChanges
  await expect.poll(changes, POLL_OPTIONS).toMatchObject([{ workerId: 'opening', from: 'closed', to: 'open' }])
  await relayer.stop()
  expect(await changes()).toHaveLength(1)
})

test('runOnce() does not list a relayer as alive; beat() does, until stop()', async () => {
  const { rails } = recordingRail({ type: 'round-rail' })
  const relayer = new OutboxRelayer(db.database, rails, { workerId: 'rounds' })
  await relayer.runOnce()
  expect(await listed()).not.toContain('rounds')
  await relayer.beat()
  expect(await listed()).toContain('rounds')
  await relayer.stop()
  expect(await listed()).not.toContain('rounds')
})

test('beat() throws if the database does not answer, and only reports another failure', async () => {
  const { rails } = recordingRail({ type: 'round-rail' })
  const database = openDatabase({ url: 'postgres://symphony@127.0.0.1:1/none' })
  const faults: unknown[] = []
  const relayer = new OutboxRelayer(database, rails, {}, (event) => {
    if (event.type === 'outbox.fault') faults.push(event.error)
  })
  await expect(relayer.beat()).rejects.toMatchObject({ code: 'CONNECT_FAILED' })
  expect(faults).toEqual([])
  await database.close()
  await relayer.beat()
  expect(faults).toMatchObject([{ code: 'DATABASE_CLOSED' }])
})

test('a stopped relayer leaves the list; a killed one is listed as dead since its last heartbeat', async () => {
  const { rails } = recordingRail({ type: 'worker-list' })
  const relayer = new OutboxRelayer(db.database, rails, { workerId: 'clean', heartbeatMs: 100 })
  await relayer.start()
  await expect.poll(listed, POLL_OPTIONS).toContain('clean')
  await enqueue(db, { railType: 'worker-list' })
  const counted = async () => {
    await projectLedger(db)
    return history({ workerId: 'clean' })
  }
  await expect.poll(counted, POLL_OPTIONS).toMatchObject({ throughput: [{ dispatched: 1 }], breakerChanges: [] })
  await relayer.stop()
  expect(await listed()).not.toContain('clean')
  await beat('killed')
  await silence('killed', '10 minutes')
  const { url } = await db.createLogin('watcher', { roles: ['symphony_readonly'] })
  const words = ['workers', '--database-url', url, '--schema', db.schema]
  const { workers } = JSON.parse((await symphony([...words, '--json'])).stdout)
  const { last_seen_at: lastSeen } = (await worker('killed'))!
  const killed = workers.find(({ workerId }: { workerId: string }) => workerId === 'killed')
  expect(Date.parse(killed.deadSince)).toBe(lastSeen.getTime())
  expect((await symphony(words)).stdout).toMatch(/^killed dead since \d{4}-.*0 leases/m)
})
