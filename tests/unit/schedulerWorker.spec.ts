import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { ArgumentRangeError, InvalidArgumentError } from '../../libs/core/index.js'
import {
  ackTimers,
  cancelTimer,
  claimJobRuns,
  claimTimers,
  createOrUpdateJob,
  deleteJob,
  enqueueDueTimers,
  getNextEventTime,
  pauseJob,
  scheduleTimer,
  SchedulerStore,
  SchedulerWorker,
  triggerJob,
  type SchedulerCounts,
  type SchedulerEvent,
  type SchedulerOptions,
} from '../../libs/scheduler/index.js'
import { enqueuePaymentOutbox } from '../../libs/outbox/index.js'
import { nextSchedulerEvent } from '../../libs/scheduler/db.js'
import { useTestDatabase } from '../support/database.js'
import { buildInstruction, enqueue, WORKER } from '../support/outboxItems.js'
import { closeTransactions, openTransaction } from '../support/outboxStream.js'
import { failureOf } from '../support/race.js'
import {
  createJob,
  buildJobDefinition,
  createTimer,
  buildTimerDefinition,
  onlyOne,
  quietCron,
} from '../support/scheduled.js'

/**
 * Tests one worker and when it wakes up. Each test starts with empty tables, because the next event depends on all
 * rows.
 */

const db = await useTestDatabase()
const running: SchedulerWorker[] = []
beforeEach(async () => {
  for (const table of ['timers', 'jobs', 'job_runs']) await db.queryNoRole(`DELETE FROM scheduler_${table}`)
})
afterEach(async () => {
  await Promise.all(running.splice(0).map((worker) => worker.stop()))
})

const ingest = () => db.as('symphony_ingest')
const control = () => db.as('symphony_control')
const executor = () => db.as('symphony_executor')

const at = (day: number) => new Date(`2100-01-0${day}T00:00:00Z`)
const next = () => getNextEventTime(executor())

/** A poll interval longer than any test, so that no poll causes a wake-up. */
const NO_POLL: SchedulerOptions = { pollMs: 60_000, listen: false }

function workerWith(options: SchedulerOptions): {
  readonly worker: SchedulerWorker
  readonly events: SchedulerEvent[]
} {
  const events: SchedulerEvent[] = []
  const worker = new SchedulerWorker(db.database, options, (event) => void events.push(event))
  running.push(worker)
  return { worker, events }
}

async function enqueuedTimers(): Promise<number> {
  const { rows } = await db.queryNoRole(`SELECT 1 FROM scheduler_timers WHERE state = 'ENQUEUED'`)
  return rows.length
}

describe('getNextEventTime', () => {
  test('PRIM-POSTGRES-SCHED-010 returns null if nothing is scheduled', async () => {
    expect(await next()).toBeNull()
  })

  test('PRIM-POSTGRES-SCHED-010 returns the nearest due time of timers, runs and active jobs', async () => {
    const timer = await createTimer(db, { dueAt: at(5) })
    expect(await next()).toEqual(at(5))
    const nearer = await createTimer(db, { dueAt: at(4) })
    expect(await next()).toEqual(at(4))
    const name = await createJob(db)
    await db.queryNoRole('UPDATE scheduler_jobs SET next_due_at = $1', [at(3)])
    expect(await next()).toEqual(at(3))
    // The next event of a postponed job is the end of its delay.
    await db.queryNoRole('UPDATE scheduler_jobs SET next_due_at = $1, postponed_until = $2', [at(1), at(3)])
    expect(await next()).toEqual(at(3))
    const { runId } = await triggerJob(control(), name)
    await db.queryNoRole('UPDATE scheduler_job_runs SET due_at = $1', [at(2)])
    expect(await next()).toEqual(at(2))
    // Each step removes the nearest event, and the result becomes the event after it.
    await db.queryNoRole(
      `UPDATE scheduler_job_runs SET state = 'DONE', finished_at = clock_timestamp() WHERE run_id = $1`,
      [runId],
    )
    expect(await next()).toEqual(at(3))
    await pauseJob(control(), name)
    expect(await next()).toEqual(at(4))
    await cancelTimer(ingest(), nearer.timerId)
    expect(await next()).toEqual(at(5))
    await cancelTimer(ingest(), timer.timerId)
    expect(await next()).toBeNull()
  })

  test('PRIM-POSTGRES-SCHED-010 excludes finished timers and includes the expiry of a claim', async () => {
    const { topic } = await createTimer(db)
    await scheduleTimer(ingest(), buildTimerDefinition({ topic }))
    expect(await next()).toEqual(new Date('2026-01-01T00:00:00Z'))
    const claims = await claimTimers(executor(), 2, WORKER, 600)
    expect(await next()).toEqual(claims[0]!.leaseExpiresAt)
    await ackTimers(executor(), claims, WORKER)
    expect(await next()).toBeNull()
    await createTimer(db)
    await enqueueDueTimers(executor(), 10)
    expect(await next()).toBeNull()
    const name = await createJob(db)
    await triggerJob(control(), name)
    const run = onlyOne(await claimJobRuns(executor(), 1, WORKER, 60))
    expect(await next()).toEqual(run.leaseExpiresAt)
    await deleteJob(control(), name)
    expect(await next()).toEqual(run.leaseExpiresAt)
  })

  test('PRIM-POSTGRES-SCHED-010 excludes, for a SchedulerWorker, tasks with delivery: claim', async () => {
    await createTimer(db, { delivery: 'claim' })
    await triggerJob(control(), await createJob(db, { delivery: 'claim' }))
    await db.queryNoRole('UPDATE scheduler_jobs SET next_due_at = $1', [at(9)])
    expect((await next())!.getTime()).toBeLessThan(at(1).getTime())
    expect(await nextSchedulerEvent(executor(), true)).toEqual({ at: at(9), observedAt: expect.any(Date) })
    await createTimer(db, { dueAt: at(8) })
    expect(await nextSchedulerEvent(executor(), true)).toMatchObject({ at: at(8) })
  })
})

/** Returns the counts of a round without refusals. */
function round(runs: number, timersEnqueued: number, more: boolean): SchedulerCounts {
  return { runsCreated: runs, runsEnqueued: runs, timersEnqueued, refused: 0, more }
}

describe('a round of SchedulerWorker', () => {
  test('processes one batch of runs and timers, and returns counts and whether more is due', async () => {
    for (const name of ['a', 'b', 'c'])
      await createOrUpdateJob(control(), buildJobDefinition({ name, cron: quietCron() }))
    await db.queryNoRole(`UPDATE scheduler_jobs SET next_due_at = next_due_at - interval '5 minutes'`)
    for (let count = 0; count < 5; count += 1) await createTimer(db)
    await createTimer(db, { dueAt: new Date('2100-01-01') })
    const { worker, events } = workerWith({ batchSize: 2 })
    expect(await worker.runOnce()).toEqual(round(2, 2, true))
    expect(await worker.runOnce()).toEqual(round(1, 2, true))
    expect(await worker.runOnce()).toEqual(round(0, 1, false))
    expect(await worker.runOnce()).toEqual(round(0, 0, false))
    expect(events.filter(({ type }) => type === 'scheduler.runsCreated')).toEqual([
      { type: 'scheduler.runsCreated', jobs: 2, runs: 2, lagsMs: [expect.any(Number), expect.any(Number)] },
      { type: 'scheduler.runsCreated', jobs: 1, runs: 1, lagsMs: [expect.any(Number)] },
    ])
    const { rows } = await db.queryNoRole(
      `SELECT i.outbox_id FROM payment_outbox_identities i
       WHERE i.outbox_id IN (SELECT outbox_id FROM scheduler_timers UNION ALL SELECT outbox_id FROM scheduler_job_runs)`,
    )
    expect(rows).toHaveLength(8)
  })

  test('leaves further jobs to the next round once it has created 1,000 runs', async () => {
    for (const name of ['a', 'b']) {
      await createOrUpdateJob(control(), buildJobDefinition({ name, cron: '* * * * *', missedRuns: 'all' }))
    }
    await db.queryNoRole(`UPDATE scheduler_jobs SET next_due_at = next_due_at - interval '2 days'`)
    const { worker, events } = workerWith({ batchSize: 10 })
    expect(await worker.runOnce()).toMatchObject({ runsCreated: 1_000, runsEnqueued: 10, more: true })
    expect(events).toContainEqual(expect.objectContaining({ type: 'scheduler.runsCreated', jobs: 1, runs: 1_000 }))
    // Uses one hour, because the finished job may be due again at the next minute.
    const { rows } = await db.queryNoRole(
      `SELECT 1 FROM scheduler_jobs WHERE next_due_at <= clock_timestamp() - interval '1 hour'`,
    )
    expect(rows).toHaveLength(1)
  })

  test('is finished before stop() resolves; the next start continues with the rest', async () => {
    for (let count = 0; count < 5; count += 1) await createTimer(db)
    let stopped: Promise<void> | undefined
    const worker = new SchedulerWorker(db.database, { ...NO_POLL, batchSize: 2 }, ({ type }) => {
      if (type === 'scheduler.enqueued') stopped ??= worker.stop()
    })
    running.push(worker)
    await worker.start()
    await expect.poll(() => stopped !== undefined).toBe(true)
    await stopped
    expect(await enqueuedTimers()).toBe(2)
    await worker.start()
    await expect.poll(enqueuedTimers).toBe(5)
  })

  test('enqueues runs and timers of other participants while one participant is locked', async () => {
    await enqueue(db, { participantId: 'locked' })
    for (const participantId of ['locked', 'free']) {
      await triggerJob(control(), await createJob(db, { participantId }))
      await createTimer(db, { participantId })
    }
    const transaction = await openTransaction(db, 'symphony_ingest')
    await enqueuePaymentOutbox(transaction, buildInstruction({ participantId: 'locked' }))
    const { worker, events } = workerWith({})
    const counts = { runsEnqueued: 1, timersEnqueued: 1, refused: 0, more: false }
    expect(await worker.runOnce()).toMatchObject(counts)
    expect(events.filter(({ type }) => type !== 'scheduler.enqueued')).toEqual([])
    await transaction.query('COMMIT')
    await closeTransactions()
    expect(await worker.runOnce()).toMatchObject(counts)
  })

  test('emits scheduler.refused for a timer that the outbox refuses', async () => {
    const { timerId } = await createTimer(db)
    await enqueue(db, { instructionId: timerId, idempotencyKey: timerId })
    const { worker, events } = workerWith({})
    expect(await worker.runOnce()).toMatchObject({ timersEnqueued: 0, refused: 1 })
    expect(events).toEqual([
      {
        type: 'scheduler.refused',
        kind: 'timer',
        id: timerId,
        error: expect.stringMatching(/^refused by the outbox: /),
      },
    ])
  })
})

describe('SchedulerWorker', () => {
  test('wakes when the next event is due, even if no poll or notification comes', async () => {
    await createTimer(db, { dueAt: new Date(Date.now() + 400) })
    const { worker } = workerWith(NO_POLL)
    await worker.start()
    await expect.poll(enqueuedTimers).toBe(1)
  })

  test('wakes on the notification of a timer or a triggered job', async () => {
    const { worker, events } = workerWith({ ...NO_POLL, listen: true })
    await worker.start()
    await createTimer(db, { dueAt: new Date() })
    await expect.poll(enqueuedTimers).toBe(1)
    await triggerJob(control(), await createJob(db))
    await expect.poll(() => events).toContainEqual({ type: 'scheduler.enqueued', kind: 'run', items: 1 })
    expect(events).toContainEqual({ type: 'scheduler.notified' })
  })

  test('polls if notifications are off', async () => {
    const { worker } = workerWith({ pollMs: 20, listen: false })
    await worker.start()
    await createTimer(db)
    await expect.poll(enqueuedTimers).toBe(1)
  })

  test('emits scheduler.fault for a failed round and continues', async () => {
    await db.queryNoRole('REVOKE EXECUTE ON FUNCTION due_jobs(integer) FROM symphony_executor')
    await createTimer(db)
    const { worker, events } = workerWith({ pollMs: 20, listen: false })
    await worker.start()
    await expect.poll(() => events.map(({ type }) => type)).toContain('scheduler.fault')
    await db.queryNoRole('GRANT EXECUTE ON FUNCTION due_jobs(integer) TO symphony_executor')
    await expect.poll(enqueuedTimers).toBe(1)
  })

  test('accepts stop() before start(), a second stop(), and a start() after them', async () => {
    const { worker } = workerWith({ pollMs: 20, listen: false })
    await worker.stop()
    await worker.start()
    await worker.stop()
    await worker.stop()
    await createTimer(db)
    expect(await enqueuedTimers()).toBe(0)
    await worker.start()
    await expect.poll(enqueuedTimers).toBe(1)
  })
})

test.each([
  [{ pollMs: 9 }, 'pollMs'],
  [{ pollMs: 60_001 }, 'pollMs'],
  [{ batchSize: 0 }, 'batchSize'],
  [{ batchSize: 1001 }, 'batchSize'],
  [{ missedAfterMs: 999 }, 'missedAfterMs'],
  [{ missedAfterMs: 600_001 }, 'missedAfterMs'],
])('SchedulerWorker refuses the option %j with a RangeError that names %s', (options, argument) => {
  const make = () => new SchedulerWorker(db.database, options)
  expect(make).toThrow(ArgumentRangeError)
  expect(make).toThrow(argument)
})

test('SchedulerStore calls each function in a role that may call it', async () => {
  const store = new SchedulerStore(db.database)
  const claims = { batchSize: 10, workerId: WORKER }
  const timer = await store.scheduleTimer(buildTimerDefinition())
  const [claimed] = await store.claimTimers(claims)
  expect(await store.abandonTimers([claimed!], WORKER)).toEqual([timer])
  const [second] = await store.claimTimers({ ...claims, leaseSeconds: 5 })
  expect(await store.failTimers([second!], WORKER, 'no')).toEqual([timer])
  expect(await store.readTimer(timer)).toMatchObject({ state: 'FAILED', error: 'no' })
  expect(await store.cancelTimer(timer)).toBe(false)
  expect(await store.ackTimers([claimed!], WORKER)).toEqual([])
  const job = buildJobDefinition()
  expect(await store.createOrUpdateJob(job)).toMatchObject({ created: true })
  expect([await store.pauseJob(job.name), await store.resumeJob(job.name)]).toEqual([true, true])
  expect(await store.createJobRunsFromDueJobs()).toEqual([])
  for (const end of ['ackJobRuns', 'failJobRuns', 'abandonJobRuns'] as const) {
    const { runId } = await store.triggerJob(job.name)
    const run = onlyOne(await store.claimJobRuns(claims))
    expect(await store[end]([run], WORKER)).toEqual([runId])
  }
  expect(await store.readJob(job.name)).toMatchObject({ name: job.name })
  expect(await store.readJobs()).toHaveLength(1)
  expect(await store.readJobRuns({ state: 'DONE' })).toHaveLength(1)
  expect(await store.getNextEventTime()).toBeInstanceOf(Date)
  expect(await store.deleteJob(job.name)).toEqual({ deleted: true, runsRemoved: 1 })
  expect([await store.purgeFinishedTimers(60, 10), await store.purgeFinishedJobRuns(60, 10)]).toEqual([0, 0])
  expect(
    await failureOf(Promise.resolve().then(() => store.scheduleTimer({ ...buildTimerDefinition(), topic: '' }))),
  ).toBeInstanceOf(InvalidArgumentError)
})
