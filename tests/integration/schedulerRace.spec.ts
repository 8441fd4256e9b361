import { randomUUID } from 'node:crypto'
import { beforeEach, describe, expect, test } from 'vitest'
import {
  abandonJobRuns,
  cancelTimer,
  claimJobRuns,
  claimTimers,
  createJobRunsFromDueJobs,
  createOrUpdateJob,
  deleteJob,
  enqueueDueJobRuns,
  enqueueDueTimers,
  readJobRuns,
  readTimer,
  scheduleTimer,
  triggerJob,
} from '../../libs/scheduler/index.js'
import { useTestDatabase } from '../support/database.js'
import { WORKER } from '../support/outboxItems.js'
import { failureOf, openConnection, race, untilWaiting } from '../support/race.js'
import {
  createClaimedJobRun,
  buildJobDefinition,
  createTimer,
  buildTimerDefinition,
  quietCron,
} from '../support/scheduled.js'

const TEN = 10

const db = await useTestDatabase()
// Removes tasks that an earlier test left due.
beforeEach(async () => {
  for (const table of ['timers', 'jobs', 'job_runs']) await db.queryNoRole(`DELETE FROM scheduler_${table}`)
})

const control = () => db.as('symphony_control')

describe('ten concurrent schedulers', () => {
  test('PRIM-POSTGRES-SCHED-009 create exactly one run per occurrence of the same due jobs', async () => {
    const cron = quietCron()
    const jobs = Array.from({ length: 6 }, (_, index) =>
      buildJobDefinition({ name: `job-${index}`, cron, missedRuns: 'all' }),
    )
    for (const job of jobs) await createOrUpdateJob(control(), job)
    await db.queryNoRole(`UPDATE scheduler_jobs SET next_due_at = next_due_at - interval '25 minutes'`)
    // The lock lets every scheduler read the due jobs before one of them writes.
    const holder = await openConnection(db)
    await holder.query('BEGIN')
    await holder.query('LOCK TABLE scheduler_jobs IN EXCLUSIVE MODE')
    const { values, errors } = await race(
      db,
      'symphony_executor',
      TEN,
      (role) => createJobRunsFromDueJobs(role, { batchSize: 1000 }),
      { releaseWhenAllWait: () => holder.query('COMMIT') },
    )
    await holder.close()
    expect(errors).toEqual([])
    expect(values.map(({ jobsDue }) => jobsDue)).toEqual(Array.from({ length: TEN }, () => 6))
    const made = values.flatMap(({ runs }) => runs)
    expect(made).toHaveLength(6 * 5)
    const { rows } = await db.queryNoRole(
      `SELECT job_name, count(*)::int AS runs, count(DISTINCT scheduled_for)::int AS occurrences
       FROM scheduler_job_runs GROUP BY job_name`,
    )
    expect(rows).toHaveLength(6)
    expect(rows.filter(({ runs, occurrences }) => runs !== 5 || occurrences !== 5)).toEqual([])
    const { rows: due } = await db.queryNoRole('SELECT 1 FROM scheduler_jobs WHERE next_due_at <= clock_timestamp()')
    expect(due).toEqual([])
  })

  test('enqueue one message for each due run and timer', async () => {
    const { topic } = buildTimerDefinition()
    for (let count = 0; count < 60; count += 1) await createTimer(db, { topic })
    const job = buildJobDefinition()
    await createOrUpdateJob(control(), job)
    for (let count = 0; count < 20; count += 1) await triggerJob(control(), job.name)
    const { values, errors } = await race(db, 'symphony_executor', TEN, async (role) => [
      ...(await enqueueDueTimers(role, 7)),
      ...(await enqueueDueJobRuns(role, 3)),
    ])
    expect(errors).toEqual([])
    const taken = values.flat().map(({ id }) => id)
    expect(new Set(taken).size).toBe(taken.length)
    await enqueueDueTimers(db.as('symphony_executor'), 1000)
    await enqueueDueJobRuns(db.as('symphony_executor'), 1000)
    const { rows } = await db.queryNoRole(
      `SELECT count(*)::int AS items, count(DISTINCT instruction_id)::int AS messages
       FROM payment_outbox_pending WHERE rail_type IN ($1, $2)`,
      [topic, job.topic],
    )
    expect(rows).toEqual([{ items: 80, messages: 80 }])
  })
})

test('PRIM-POSTGRES-SCHED-002 concurrent timer claims of ten workers are disjoint and complete', async () => {
  const { topic } = buildTimerDefinition()
  for (let count = 0; count < 50; count += 1) await createTimer(db, { topic })
  const { values, errors } = await race(db, 'symphony_executor', TEN, (role, index) =>
    claimTimers(role, 5, `worker-${index}`, 60, { topics: [topic] }),
  )
  expect(errors).toEqual([])
  const rest = await claimTimers(db.as('symphony_executor'), 1000, WORKER, 60, { topics: [topic] })
  const ids = [...values.flat(), ...rest].map(({ timerId }) => timerId)
  expect(values.every((claims) => claims.length <= 5)).toBe(true)
  expect(ids).toHaveLength(50)
  expect(new Set(ids).size).toBe(50)
})

test('PRIM-POSTGRES-SCHED-005 ten concurrent definitions of one job create it once', async () => {
  const job = buildJobDefinition()
  const { values, errors } = await race(db, 'symphony_control', TEN, (role) => createOrUpdateJob(role, job))
  expect(errors).toEqual([])
  expect(values.filter(({ created }) => created)).toHaveLength(1)
  expect(new Set(values.map(({ nextDueAt }) => nextDueAt.getTime())).size).toBe(1)
  const { rows } = await db.queryNoRole('SELECT revision FROM scheduler_jobs WHERE job_name = $1', [job.name])
  expect(rows).toEqual([{ revision: BigInt(TEN) }])
})

test('PRIM-POSTGRES-SCHED-006 ten concurrent triggers of one job create ten runs', async () => {
  const job = buildJobDefinition()
  await createOrUpdateJob(control(), job)
  const { values, errors } = await race(db, 'symphony_control', TEN, (role) => triggerJob(role, job.name))
  expect(errors).toEqual([])
  expect(new Set(values.map(({ runId }) => runId)).size).toBe(TEN)
  const claimed = await claimJobRuns(db.as('symphony_executor'), 1000, WORKER, 60, { topics: [job.topic] })
  expect(claimed).toHaveLength(TEN)
})

describe('deleteJob', () => {
  test('PRIM-POSTGRES-SCHED-008 cancels a run that a worker abandons during the deletion', async () => {
    const claimed = await createClaimedJobRun(db)
    const deleter = await openConnection(db, 'symphony_control')
    const worker = await openConnection(db, 'symphony_executor')
    await deleter.query('BEGIN')
    await deleteJob(deleter, claimed.jobName)
    const given = abandonJobRuns(worker, [claimed], WORKER)
    await untilWaiting(db, worker)
    await deleter.query('COMMIT')
    expect(await given).toEqual([claimed.runId])
    expect(await readJobRuns(control(), { jobName: claimed.jobName })).toMatchObject([{ state: 'CANCELLED' }])
    await Promise.all([deleter.close(), worker.close()])
  })

  test('PRIM-POSTGRES-SCHED-008 removes a prior trigger’s run; a later trigger gets UNKNOWN_JOB', async () => {
    const job = buildJobDefinition()
    await createOrUpdateJob(control(), job)
    const operator = await openConnection(db, 'symphony_control')
    const deleter = await openConnection(db, 'symphony_control')
    await operator.query('BEGIN')
    await triggerJob(operator, job.name)
    const deleted = deleteJob(deleter, job.name)
    await untilWaiting(db, deleter)
    await operator.query('COMMIT')
    expect(await deleted).toEqual({ deleted: true, runsRemoved: 1 })
    await expect(triggerJob(operator, job.name)).rejects.toMatchObject({ code: 'UNKNOWN_JOB' })
    expect(await readJobRuns(control(), { jobName: job.name })).toEqual([])
    await Promise.all([operator.close(), deleter.close()])
  })
})

test('ten concurrent scheduleTimer calls with one id create one timer; other content gets P7004', async () => {
  const timer = buildTimerDefinition({ timerId: randomUUID() })
  const { values, errors } = await race(db, 'symphony_ingest', TEN, (role) => scheduleTimer(role, timer))
  expect(errors).toEqual([])
  expect(new Set(values)).toEqual(new Set([timer.timerId]))
  const first = await openConnection(db, 'symphony_ingest')
  const second = await openConnection(db, 'symphony_ingest')
  const other = buildTimerDefinition({ timerId: randomUUID() })
  await first.query('BEGIN')
  await scheduleTimer(first, other)
  const waiting = failureOf(scheduleTimer(second, { ...other, topic: 'another' }))
  await untilWaiting(db, second)
  await first.query('COMMIT')
  expect(await waiting).toMatchObject({ sqlstate: 'P7004' })
  await Promise.all([first.close(), second.close()])
})

test('PRIM-POSTGRES-SCHED-004 concurrent calls either cancel or enqueue a timer, never both', async () => {
  const timerId = await scheduleTimer(db.as('symphony_ingest'), buildTimerDefinition())
  const scheduler = await openConnection(db, 'symphony_executor')
  const application = await openConnection(db, 'symphony_ingest')
  await scheduler.query('BEGIN')
  expect(await enqueueDueTimers(scheduler, 10)).toHaveLength(1)
  const cancelled = cancelTimer(application, timerId)
  await untilWaiting(db, application)
  await scheduler.query('COMMIT')
  expect(await cancelled).toBe(false)
  expect(await readTimer(control(), timerId)).toMatchObject({ state: 'ENQUEUED' })
  const other = await scheduleTimer(db.as('symphony_ingest'), buildTimerDefinition())
  await application.query('BEGIN')
  expect(await cancelTimer(application, other)).toBe(true)
  // The cancellation has locked the timer, so the scheduler skips it without waiting.
  expect(await enqueueDueTimers(scheduler, 10)).toEqual([])
  await application.query('COMMIT')
  expect(await enqueueDueTimers(scheduler, 10)).toEqual([])
  await Promise.all([scheduler.close(), application.close()])
})
