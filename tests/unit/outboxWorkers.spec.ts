import { afterEach, expect, test } from 'vitest'
import {
  deregisterOutboxWorker,
  heartbeatOutboxWorker,
  OutboxRelayer,
  readOutboxStatus,
  readWorkerReports,
} from '../../libs/outbox/index.js'
import { WorkerHistory } from '../../libs/outbox/WorkerHistory.js'
import { useTestDatabase } from '../support/database.js'
import { claimOnly, enqueue } from '../support/outboxItems.js'
import { closeTransactions, openTransaction } from '../support/outboxStream.js'
import { symphony } from '../support/commandLine.js'
import { POLL_OPTIONS } from '../support/pollOptions.js'
import { recordingRail } from '../support/relayRail.js'

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

test('a heartbeat registers the worker with its detail, at the time of the database', async () => {
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
  // Each transaction has locked its own row, and sees the row of the other as three days old.
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

test('a heartbeat reports 20 breaker changes, and outcomes per 5 minutes of the last hour', () => {
  const history = new WorkerHistory()
  const minute = 60_000
  const record = (state: 'DISPATCHED' | 'FAILED' | 'RETRYABLE', atMinute: number) =>
    history.add(
      {
        type: 'outbox.alreadyRecorded',
        railType: 'r',
        outboxId: 'o',
        state,
        sinceAcceptedMs: 0,
      },
      atMinute * minute,
    )
  record('FAILED', 1)
  for (let at = 5; at < 65; at += 5) record('DISPATCHED', at + 4)
  for (const state of ['RETRYABLE', 'FAILED', 'DISPATCHED'] as const) record(state, 66)
  for (let n = 1; n <= 21; n += 1)
    history.add({ type: 'outbox.breaker', railType: `r${n}`, state: 'open' }, 66 * minute + n * 1_000)
  const { throughput, breakerChanges } = history.report(67 * minute)
  expect(throughput).toEqual([
    ...Array.from({ length: 11 }, (_, n) => ({
      secondsAgo: (57 - n * 5) * 60,
      dispatched: 1,
      failed: 0,
      retried: 0,
    })),
    { secondsAgo: 120, dispatched: 1, failed: 1, retried: 1 },
  ])
  expect(breakerChanges).toHaveLength(20)
  expect(breakerChanges).toMatchObject({
    0: { railType: 'r2' },
    19: { secondsAgo: 39, railType: 'r21', state: 'open' },
  })
  // An idle worker reports nothing older than an hour.
  expect(history.report(66 * minute + 3_600_000)).toMatchObject({ throughput: [] })
})

test('a stopped relayer leaves the list; a killed one is dead since its last heartbeat', async () => {
  const { rails } = recordingRail({ type: 'worker-list' })
  const relayer = new OutboxRelayer(db.database, rails, { workerId: 'clean', heartbeatMs: 100 })
  await relayer.start()
  await expect.poll(listed, POLL_OPTIONS).toContain('clean')
  await enqueue(db, { railType: 'worker-list' })
  const reported = async () => (await worker('clean'))?.detail
  await expect.poll(reported, POLL_OPTIONS).toMatchObject({ throughput: [{ dispatched: 1 }], breakerChanges: [] })
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
