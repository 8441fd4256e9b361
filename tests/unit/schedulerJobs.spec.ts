import { randomUUID } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { ArgumentRangeError, InvalidArgumentError } from '../../libs/core/index.js'
import { call } from '../../libs/db/index.js'
import {
  claimJobRuns,
  createJobRunsFromDueJobs,
  createOrUpdateJob,
  deleteJob,
  pauseJob,
  readJob,
  readJobRuns,
  readJobs,
  resumeJob,
  triggerJob,
  type ClaimedJobRun,
  type MissedRuns,
  type SchedulerEvent,
} from '../../libs/scheduler/index.js'
import { useTestDatabase } from '../support/database.js'
import { WORKER } from '../support/outboxItems.js'
import { failureOf } from '../support/race.js'
import { createJob, buildJobDefinition, onlyOne, quietCron } from '../support/scheduled.js'

const db = await useTestDatabase()

const control = () => db.as('symphony_control')
const executor = () => db.as('symphony_executor')

/** Returns the runs of one job, oldest first. */
async function runsOf(jobName: string) {
  return (await readJobRuns(db.as('symphony_auditor'), { jobName, limit: 1000 })).toReversed()
}

async function jobOf(name: string) {
  const job = await readJob(db.as('symphony_readonly'), name)
  if (job === undefined) throw new Error(`there is no job ${name}`)
  return job
}

/** Moves the next due time back by this interval, as if no scheduler had run for that long. */
async function moveBack(name: string, interval: string): Promise<void> {
  await db.queryNoRole('UPDATE scheduler_jobs SET next_due_at = next_due_at - $2::interval WHERE job_name = $1', [
    name,
    interval,
  ])
}

async function payloadOf(runId: string): Promise<unknown> {
  const { rows } = await db.queryNoRole('SELECT payload FROM scheduler_job_runs WHERE run_id = $1', [runId])
  return onlyOne(rows)['payload']
}

describe('PRIM-POSTGRES-SCHED-005 createOrUpdateJob', () => {
  test('inserts a new name and updates an existing name', async () => {
    const job = buildJobDefinition({ cron: '0 12 * * *', timeZone: 'Africa/Cairo', participantId: 'ACME' })
    const first = await createOrUpdateJob(control(), job)
    expect(first).toEqual({ created: true, state: 'ACTIVE', nextDueAt: expect.any(Date) })
    expect(await jobOf(job.name)).toEqual({
      name: job.name,
      cron: '0 12 * * *',
      timeZone: 'Africa/Cairo',
      topic: job.topic,
      participantId: 'ACME',
      delivery: 'outbox',
      missedRuns: 'once',
      state: 'ACTIVE',
      nextDueAt: first.nextDueAt,
      postponedUntil: null,
      revision: 1n,
      scheduleError: null,
    })
    const changed = {
      ...job,
      cron: '@hourly',
      timeZone: 'UTC',
      topic: 'other',
      missedRuns: 'all',
      delivery: 'claim',
    } as const
    const second = await createOrUpdateJob(control(), changed)
    expect(second.created).toBe(false)
    expect(await jobOf(job.name)).toMatchObject({
      cron: '@hourly',
      timeZone: 'UTC',
      topic: 'other',
      missedRuns: 'all',
      delivery: 'claim',
      revision: 2n,
    })
    const others = (await readJobs(db.as('symphony_control'))).filter(({ name }) => name === job.name)
    expect(others).toHaveLength(1)
  })

  test('keeps the next due time if cron expression and time zone are unchanged', async () => {
    const job = buildJobDefinition({ cron: '0 0 1 1 *' })
    await createOrUpdateJob(control(), job)
    await moveBack(job.name, '10 days')
    const { nextDueAt } = await jobOf(job.name)
    const same = await createOrUpdateJob(control(), { ...job, cron: ' 0 0  1 1 *', payload: { changed: true } })
    expect(same.nextDueAt).toEqual(nextDueAt)
    const otherZone = await createOrUpdateJob(control(), { ...job, timeZone: 'Asia/Tokyo' })
    expect(otherZone.nextDueAt.getTime() - nextDueAt.getTime()).toBe((10 * 24 - 9) * 3_600_000)
    const otherCron = await createOrUpdateJob(control(), { ...job, timeZone: 'Asia/Tokyo', cron: '0 9 1 1 *' })
    expect(otherCron.nextDueAt.getTime() - otherZone.nextDueAt.getTime()).toBe(9 * 3_600_000)
  })

  test.each<[string, object, new (...words: never[]) => Error, string]>([
    ['a blank name', { name: ' ' }, InvalidArgumentError, 'name'],
    ['no name', { name: undefined }, InvalidArgumentError, 'name'],
    ['a name of 129 characters', { name: 'x'.repeat(129) }, ArgumentRangeError, 'name'],
    ['no expression', { cron: undefined }, InvalidArgumentError, 'cron'],
    ['a minute of 61', { cron: '61 * * * *' }, ArgumentRangeError, 'cron'],
    ['30 February', { cron: '0 0 30 2 *' }, ArgumentRangeError, 'cron'],
    ['an unknown zone', { timeZone: 'Mars/Base' }, InvalidArgumentError, 'timeZone'],
    ['a blank topic', { topic: '' }, InvalidArgumentError, 'topic'],
    ['a payload that is not an object', { payload: 5 }, InvalidArgumentError, 'payload'],
    ['an unknown policy', { missedRuns: 'maybe' }, InvalidArgumentError, 'missedRuns'],
    ['an unknown delivery', { delivery: 'pigeon' }, InvalidArgumentError, 'delivery'],
  ])('refuses %s before any query and names the argument', async (_what, wrong, kind, argument) => {
    const closed = { query: () => Promise.reject(new Error('asked')) }
    const error = await failureOf(createOrUpdateJob(closed, { ...buildJobDefinition(), ...wrong }))
    expect(error).toBeInstanceOf(kind)
    expect(error).toMatchObject({ argument })
  })
})

describe('a scheduler job', () => {
  test('PRIM-POSTGRES-SCHED-006 gets a run by triggerJob, claimable at once, even while paused', async () => {
    const name = await createJob(db)
    const { nextDueAt } = await jobOf(name)
    const run = await triggerJob(control(), name)
    await pauseJob(control(), name)
    const again = await triggerJob(control(), name)
    expect(await runsOf(name)).toMatchObject([
      { runId: run.runId, state: 'READY', triggeredBy: 'symphony_test_login', scheduledFor: run.scheduledFor },
      { runId: again.runId, state: 'READY' },
    ])
    const claimed = await claimAll(name)
    expect(claimed.map(({ runId }) => runId)).toEqual([run.runId, again.runId])
    expect(claimed[0]).toMatchObject({ jobName: name, payload: { report: 'daily' }, attemptCount: 1 })
    // The schedule does not change.
    expect((await jobOf(name)).nextDueAt).toEqual(nextDueAt)
  })

  test('PRIM-POSTGRES-SCHED-006 cannot be triggered, paused or resumed if it is unknown (P7012)', async () => {
    const name = `job-${randomUUID()}`
    for (const act of [triggerJob, pauseJob, resumeJob]) {
      const error = await failureOf(act(control(), name))
      expect(error).toMatchObject({ code: 'UNKNOWN_JOB' })
      expect(error).toMatchObject({ code: 'UNKNOWN_JOB', sqlstate: 'P7012', disposition: 'fatal' })
    }
    expect(await runsOf(name)).toEqual([])
    expect(await failureOf(triggerJob(control(), ' '))).toBeInstanceOf(InvalidArgumentError)
  })

  test('PRIM-POSTGRES-SCHED-007 passes a changed topic and payload to later runs only', async () => {
    const job = buildJobDefinition({ cron: quietCron(), payload: { version: 1 } })
    await createOrUpdateJob(control(), job)
    const before = await triggerJob(control(), job.name)
    const topic = `topic-${randomUUID()}`
    await createOrUpdateJob(control(), { ...job, topic, payload: { version: 2 }, participantId: 'ACME' })
    const after = await triggerJob(control(), job.name)
    await moveBack(job.name, '5 minutes')
    const { runs } = await createJobRunsFromDueJobs(executor(), { batchSize: 1000 })
    const scheduled = onlyOne(runs.filter(({ jobName }) => jobName === job.name))
    const made = await runsOf(job.name)
    expect(made.find(({ runId }) => runId === before.runId)).toMatchObject({ topic: job.topic })
    for (const { runId } of [after, scheduled]) {
      expect(made.find((run) => run.runId === runId)).toMatchObject({ topic })
      expect(await payloadOf(runId)).toEqual({ version: 2 })
    }
    expect(await payloadOf(before.runId)).toEqual({ version: 1 })
  })

  test('PRIM-POSTGRES-SCHED-008 loses only its READY runs when it is deleted', async () => {
    const name = await createJob(db)
    const other = await createJob(db)
    const states = ['DONE', 'FAILED', 'CANCELLED'] as const
    for (const state of states) {
      const { runId } = await triggerJob(control(), name)
      await db.queryNoRole(
        `UPDATE scheduler_job_runs SET state = $2, finished_at = clock_timestamp() WHERE run_id = $1`,
        [runId, state],
      )
    }
    await triggerJob(control(), name)
    await claimAll(name)
    await triggerJob(control(), name)
    await triggerJob(control(), name)
    await triggerJob(control(), other)
    expect(await deleteJob(control(), name)).toEqual({ deleted: true, runsRemoved: 2 })
    expect(await readJob(control(), name)).toBeUndefined()
    expect((await runsOf(name)).map(({ state }) => state)).toEqual([...states, 'CLAIMED'])
    expect((await runsOf(other)).map(({ state }) => state)).toEqual(['READY'])
    expect(await jobOf(other)).toMatchObject({ state: 'ACTIVE' })
    expect(await deleteJob(control(), name)).toEqual({ deleted: false, runsRemoved: 0 })
    expect(await failureOf(triggerJob(control(), name))).toMatchObject({ code: 'UNKNOWN_JOB' })
  })

  test('PRIM-POSTGRES-SCHED-008 runs no earlier occurrence again after the job is recreated', async () => {
    const job = buildJobDefinition({ cron: quietCron(), missedRuns: 'all' })
    await createOrUpdateJob(control(), job)
    await moveBack(job.name, '10 minutes')
    await createJobRunsFromDueJobs(executor(), { batchSize: 1000 })
    const claimed = await claimAll(job.name)
    await deleteJob(control(), job.name)
    await createOrUpdateJob(control(), job)
    await moveBack(job.name, '10 minutes')
    await createJobRunsFromDueJobs(executor(), { batchSize: 1000 })
    const runs = await runsOf(job.name)
    expect(new Set(runs.map(({ scheduledFor }) => scheduledFor.getTime())).size).toBe(runs.length)
    expect(runs.slice(0, claimed.length).map(({ runId }) => runId)).toEqual(claimed.map(({ runId }) => runId))
  })
})

describe('runs of due jobs', () => {
  test('PRIM-POSTGRES-SCHED-009 are created once per occurrence, and not before it is due', async () => {
    const name = await createJob(db, { cron: quietCron() })
    const { nextDueAt } = await jobOf(name)
    await createJobRunsFromDueJobs(executor(), { batchSize: 1000 })
    expect(await runsOf(name)).toEqual([])
    await moveBack(name, '5 minutes')
    const { runs } = await createJobRunsFromDueJobs(executor(), { batchSize: 1000, missedAfterMs: 600_000 })
    const run = onlyOne(runs.filter(({ jobName }) => jobName === name))
    expect(run.scheduledFor.getTime()).toBe(nextDueAt.getTime() - 300_000)
    expect(await jobOf(name)).toMatchObject({ nextDueAt, revision: 2n })
    expect(await runsOf(name)).toMatchObject([{ ...run, state: 'READY', triggeredBy: null, outboxId: null }])
    await createJobRunsFromDueJobs(executor(), { batchSize: 1000 })
    expect(await runsOf(name)).toHaveLength(1)
  })

  test('PRIM-POSTGRES-SCHED-009 are not created for an older revision of the job or a paused job', async () => {
    const cron = quietCron()
    const name = await createJob(db, { cron })
    await moveBack(name, '5 minutes')
    const seen = await jobOf(name)
    const occurrence = [[name], [seen.revision], [new Date('2100-01-01')], [new Date()]]
    await createOrUpdateJob(control(), buildJobDefinition({ name, cron }))
    expect(await call(executor(), 'create_job_runs', occurrence)).toEqual([])
    await pauseJob(control(), name)
    const paused = await jobOf(name)
    const asPaused = [[name], [paused.revision], [new Date('2100-01-01')], [new Date()]]
    expect(await call(executor(), 'create_job_runs', asPaused)).toEqual([])
    expect(await jobOf(name)).toEqual(paused)
    expect(await runsOf(name)).toEqual([])
  })

  test.each<[MissedRuns, number]>([
    ['skip', 0],
    ['once', 1],
    ['all', 12],
  ])('PRIM-POSTGRES-SCHED-009 follow policy %s: %d runs after 1 hour of downtime', async (policy, count) => {
    const name = await createJob(db, { cron: quietCron(), missedRuns: policy })
    const { nextDueAt } = await jobOf(name)
    await moveBack(name, '1 hour')
    const events: SchedulerEvent[] = []
    await createJobRunsFromDueJobs(executor(), { batchSize: 1000, onEvent: (event) => void events.push(event) })
    const expected = Array.from({ length: 12 }, (_, index) => nextDueAt.getTime() - (12 - index) * 300_000)
    expect((await runsOf(name)).map(({ scheduledFor }) => scheduledFor.getTime())).toEqual(expected.slice(12 - count))
    expect((await jobOf(name)).nextDueAt).toEqual(nextDueAt)
    expect(events.filter((event) => event.type === 'scheduler.missed' && event.jobName === name)).toEqual([
      { type: 'scheduler.missed', jobName: name, policy, since: new Date(expected[0]!), runs: count },
    ])
  })

  test('PRIM-POSTGRES-SCHED-009 are created for batchSize jobs at a time, longest due first', async () => {
    const names: string[] = []
    for (const days of [2, 4, 3]) {
      const name = await createJob(db, { cron: '*/2 * * * *', missedRuns: 'all' })
      await moveBack(name, `${days} days`)
      names.push(name)
    }
    const first = await createJobRunsFromDueJobs(executor(), { batchSize: 2 })
    expect(first.jobsDue).toBe(2)
    // 1,000 runs, the limit of `all`, for each of the two jobs.
    expect(first.runs).toHaveLength(2000)
    expect(new Set(first.runs.map(({ jobName }) => jobName))).toEqual(new Set([names[1], names[2]]))
    const second = await createJobRunsFromDueJobs(executor(), { batchSize: 2 })
    expect(second.runs.filter(({ jobName }) => jobName === names[0])).toHaveLength(1000)
    expect(await failureOf(createJobRunsFromDueJobs(executor(), { batchSize: 0 }))).toBeInstanceOf(RangeError)
    expect(await failureOf(createJobRunsFromDueJobs(executor(), { runsMax: 0 }))).toBeInstanceOf(RangeError)
    expect(await failureOf(createJobRunsFromDueJobs(executor(), { missedAfterMs: 999 }))).toBeInstanceOf(RangeError)
    expect(await failureOf(createJobRunsFromDueJobs(executor(), { missedAfterMs: 600_001 }))).toBeInstanceOf(RangeError)
  })

  test('are postponed for 1 minute if the schedule of their job is invalid', async () => {
    const broken = await createJob(db, { cron: quietCron() })
    const sound = await createJob(db, { cron: quietCron() })
    await db.queryNoRole(`UPDATE scheduler_jobs SET time_zone = 'Mars/Base' WHERE job_name = $1`, [broken])
    for (const name of [broken, sound]) await moveBack(name, '5 minutes')
    const { nextDueAt: occurrence } = await jobOf(broken)
    const events: SchedulerEvent[] = []
    await createJobRunsFromDueJobs(executor(), { batchSize: 1000, onEvent: (event) => void events.push(event) })
    expect(events.filter(({ type }) => type === 'scheduler.invalidSchedule')).toMatchObject([{ jobName: broken }])
    expect([await runsOf(broken), (await runsOf(sound)).length]).toEqual([[], 1])
    expect(await jobOf(broken)).toMatchObject({ scheduleError: expect.stringContaining('Mars/Base'), state: 'ACTIVE' })
    expect(await jobOf(broken)).toMatchObject({ nextDueAt: occurrence })
    const { rows } = await db.queryNoRole(
      `SELECT postponed_until BETWEEN clock_timestamp() + interval '50 seconds' AND clock_timestamp() + interval '1 minute' AS soon
       FROM scheduler_jobs WHERE job_name = $1`,
      [broken],
    )
    expect(rows).toEqual([{ soon: true }])
    // After the repair, the job waits until its postponement of one minute ends, and then runs the occurrence that was
    // due.
    await db.queryNoRole(`UPDATE scheduler_jobs SET time_zone = 'UTC' WHERE job_name = $1`, [broken])
    await createJobRunsFromDueJobs(executor(), { batchSize: 1000 })
    expect(await runsOf(broken)).toEqual([])
    await db.queryNoRole('UPDATE scheduler_jobs SET postponed_until = clock_timestamp() WHERE job_name = $1', [broken])
    await createJobRunsFromDueJobs(executor(), { batchSize: 1000 })
    expect(await runsOf(broken)).toMatchObject([{ scheduledFor: occurrence }])
    expect(await jobOf(broken)).toMatchObject({ scheduleError: null, postponedUntil: null })
  })
})

describe('a paused job', () => {
  test('gets no new runs, keeps existing ones, and resumes at the next occurrence', async () => {
    const job = buildJobDefinition({ cron: quietCron(), missedRuns: 'all' })
    const name = job.name
    await createOrUpdateJob(control(), job)
    const { nextDueAt } = await jobOf(name)
    const run = await triggerJob(control(), name)
    expect([await pauseJob(control(), name), await pauseJob(control(), name)]).toEqual([true, false])
    await moveBack(name, '1 hour')
    await createJobRunsFromDueJobs(executor(), { batchSize: 1000 })
    expect((await claimAll(name)).map(({ runId }) => runId)).toEqual([run.runId])
    // A program that defines its jobs at start does not resume a job that an operator paused.
    expect(await createOrUpdateJob(control(), job)).toMatchObject({ state: 'PAUSED' })
    expect([await resumeJob(control(), name), await resumeJob(control(), name)]).toEqual([true, false])
    expect(await jobOf(name)).toMatchObject({ state: 'ACTIVE', nextDueAt })
    await createJobRunsFromDueJobs(executor(), { batchSize: 1000 })
    expect(await runsOf(name)).toHaveLength(1)
  })

  test('stays paused after resume_job with an old revision; resumeJob retries with the new one', async () => {
    const name = await createJob(db)
    await pauseJob(control(), name)
    const { revision } = await jobOf(name)
    expect(await call(control(), 'resume_job', [name, revision - 1n, new Date()])).toEqual([{ resume_job: false }])
    let changes = 1
    const interfering = {
      schema: db.schema,
      query: async <R>(text: string, values?: readonly unknown[]) => {
        if (text.includes('resume_job') && changes-- > 0)
          await createOrUpdateJob(control(), buildJobDefinition({ name }))
        return control().query<R>(text, values)
      },
    }
    expect(await resumeJob(interfering, name)).toBe(true)
    await pauseJob(control(), name)
    changes = 5
    expect(await failureOf(resumeJob(interfering, name))).toMatchObject({ code: 'JOB_KEEPS_CHANGING' })
  })
})

/** Claims all ready runs of a job, of any topic. */
async function claimAll(name: string): Promise<ClaimedJobRun[]> {
  const topics = [...new Set((await runsOf(name)).map(({ topic }) => topic))]
  return claimJobRuns(executor(), 1000, WORKER, 600, { topics })
}
