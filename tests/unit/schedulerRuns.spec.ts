import { randomUUID } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import {
  abandonJobRuns,
  ackJobRuns,
  claimJobRuns,
  createOrUpdateJob,
  deleteJob,
  enqueueDueJobRuns,
  failJobRuns,
  purgeFinishedJobRuns,
  readJobRuns,
  triggerJob,
  type ClaimedJobRun,
} from '../../libs/scheduler/index.js'
import { useTestDatabase } from '../support/database.js'
import { claimOnly, complete, enqueue, WORKER } from '../support/outboxItems.js'
import { failureOf } from '../support/race.js'
import { createClaimedJobRun, createJob, buildJobDefinition, onlyOne } from '../support/scheduled.js'

/** Tests job runs: claimed and ended like timers, or enqueued in the outbox, and their history. */

const db = await useTestDatabase()

const control = () => db.as('symphony_control')
const executor = () => db.as('symphony_executor')

const claim = (topic: string, batchSize = 100) => claimJobRuns(executor(), batchSize, WORKER, 600, { topics: [topic] })

async function runOf(runId: string) {
  const { rows } = await db.queryNoRole<{ job_name: string }>(
    'SELECT job_name FROM scheduler_job_runs WHERE run_id = $1',
    [runId],
  )
  const runs = await readJobRuns(db.as('symphony_readonly'), { jobName: onlyOne(rows).job_name, limit: 1000 })
  return onlyOne(runs.filter((run) => run.runId === runId))
}

async function expire({ runId }: ClaimedJobRun): Promise<void> {
  await db.queryNoRole('UPDATE scheduler_job_runs SET lease_expires_at = clock_timestamp() WHERE run_id = $1', [runId])
}

async function allRuns(): Promise<unknown[]> {
  return (await db.queryNoRole('SELECT * FROM scheduler_job_runs ORDER BY run_id')).rows
}

describe('a claim of job runs', () => {
  test('PRIM-POSTGRES-SCHED-002 takes at most the batch size of due runs, longest due first', async () => {
    const job = buildJobDefinition()
    await createOrUpdateJob(control(), job)
    const runs: string[] = []
    for (const seconds of [-30, -10, -20, 60, -20]) {
      const { runId } = await triggerJob(control(), job.name)
      await db.queryNoRole(
        `UPDATE scheduler_job_runs SET due_at = clock_timestamp()::timestamptz(0) + make_interval(secs => $2) WHERE run_id = $1`,
        [runId, seconds],
      )
      runs.push(runId)
    }
    const first = await claim(job.topic, 2)
    expect(first.map(({ runId }) => runId)).toEqual([runs[0], runs[2]])
    expect((await claim(job.topic, 1000)).map(({ runId }) => runId)).toEqual([runs[4], runs[1]])
    expect(await claim(job.topic)).toEqual([])
    expect((await runOf(runs[3]!)).state).toBe('READY')
    for (const batchSize of [0, -1, 1.5, Number.NaN, 1001]) {
      const before = await allRuns()
      expect(await failureOf(claim(job.topic, batchSize))).toBeInstanceOf(RangeError)
      expect(await failureOf(enqueueDueJobRuns(executor(), batchSize))).toBeInstanceOf(RangeError)
      expect(await failureOf(purgeFinishedJobRuns(executor(), 60, batchSize))).toBeInstanceOf(RangeError)
      expect(await allRuns()).toEqual(before)
    }
  })

  test('PRIM-POSTGRES-SCHED-003 is ended by its holder only; other workers change nothing', async () => {
    for (const end of [ackJobRuns, abandonJobRuns, failJobRuns]) {
      const claimed = await createClaimedJobRun(db)
      const other = await createClaimedJobRun(db, {}, 'worker-2')
      const before = await allRuns()
      const unknown = { runId: randomUUID(), leaseToken: randomUUID() }
      expect(await end(executor(), [claimed], 'worker-2')).toEqual([])
      expect(await end(executor(), [{ ...claimed, leaseToken: other.leaseToken }], WORKER)).toEqual([])
      expect(await end(executor(), [other, unknown, { runId: '', leaseToken: '' }], WORKER)).toEqual([])
      expect(await end(executor(), [], WORKER)).toEqual([])
      expect(await allRuns()).toEqual(before)
      expect(await end(executor(), [other, claimed, claimed], WORKER)).toEqual([claimed.runId])
      expect(await end(executor(), [claimed], WORKER)).toEqual([])
    }
  })

  test('PRIM-POSTGRES-SCHED-003 is skipped if stale; the others end in the given order', async () => {
    for (const end of [ackJobRuns, abandonJobRuns, failJobRuns]) {
      const first = await createClaimedJobRun(db)
      const second = await createClaimedJobRun(db)
      const stale = { runId: second.runId, leaseToken: randomUUID() }
      expect(await end(executor(), [stale, first, second], WORKER)).toEqual([first.runId, second.runId])
    }
  })

  test('PRIM-POSTGRES-SCHED-003 leaves start, end and error in the history', async () => {
    const done = await createClaimedJobRun(db)
    const failed = await createClaimedJobRun(db)
    await ackJobRuns(executor(), [done], WORKER)
    await failJobRuns(executor(), [failed], WORKER, 'the printer is on fire')
    const dates = { startedAt: expect.any(Date), finishedAt: expect.any(Date) }
    expect(await runOf(done.runId)).toMatchObject({ state: 'DONE', error: null, attemptCount: 1, ...dates })
    expect(await runOf(failed.runId)).toMatchObject({ state: 'FAILED', error: 'the printer is on fire', ...dates })
  })

  test('PRIM-POSTGRES-SCHED-004 makes its run ready again if abandoned, at once or after a delay', async () => {
    const claimed = await createClaimedJobRun(db)
    expect(await abandonJobRuns(executor(), [claimed], WORKER, { error: 'busy' })).toEqual([claimed.runId])
    expect(await runOf(claimed.runId)).toMatchObject({ state: 'READY', error: 'busy', finishedAt: null })
    const again = onlyOne(await claim(claimed.topic))
    expect(again).toMatchObject({ runId: claimed.runId, attemptCount: 2, scheduledFor: claimed.scheduledFor })
    await abandonJobRuns(executor(), [again], WORKER, { retryDelaySeconds: 60 })
    expect(await claim(claimed.topic)).toEqual([])
  })

  test('PRIM-POSTGRES-SCHED-004 leaves its run cancelled if it is abandoned or expires after deleteJob', async () => {
    const abandoned = await createClaimedJobRun(db)
    const expired = await createClaimedJobRun(db)
    for (const { jobName } of [abandoned, expired]) await deleteJob(control(), jobName)
    expect(await abandonJobRuns(executor(), [abandoned], WORKER)).toEqual([abandoned.runId])
    await expire(expired)
    expect([...(await claim(abandoned.topic)), ...(await claim(expired.topic))]).toEqual([])
    for (const { runId } of [abandoned, expired]) {
      expect(await runOf(runId)).toMatchObject({ state: 'CANCELLED', finishedAt: expect.any(Date) })
    }
  })

  test('is taken over with a new token after it expires; the 20th expiry fails the run', async () => {
    const claimed = await createClaimedJobRun(db)
    await expire(claimed)
    expect(await ackJobRuns(executor(), [claimed], WORKER)).toEqual([])
    const next = onlyOne(await claim(claimed.topic))
    expect(next).toMatchObject({ runId: claimed.runId, attemptCount: 2 })
    expect(await ackJobRuns(executor(), [claimed], WORKER)).toEqual([])
    await db.queryNoRole('UPDATE scheduler_job_runs SET attempt_count = 20 WHERE run_id = $1', [next.runId])
    await expire(next)
    expect(await claim(claimed.topic)).toEqual([])
    expect(await runOf(next.runId)).toMatchObject({ state: 'FAILED', error: `the claim of ${WORKER} expired` })
  })
})

describe('enqueueDueJobRuns', () => {
  test('enqueues a due run once under its id, and no run of a job with the delivery “claim”', async () => {
    const job = buildJobDefinition({ payload: { report: 7 }, participantId: 'ACME' })
    await createOrUpdateJob(control(), job)
    const { runId } = await triggerJob(control(), job.name)
    const waiting = buildJobDefinition({ topic: job.topic, delivery: 'claim' })
    await createOrUpdateJob(control(), waiting)
    const kept = await triggerJob(control(), waiting.name)
    const enqueued = onlyOne((await enqueueDueJobRuns(executor(), 1000)).filter(({ topic }) => topic === job.topic))
    expect(enqueued).toEqual({ id: runId, topic: job.topic, outboxId: expect.any(String) })
    expect(await enqueueDueJobRuns(executor(), 1000)).toEqual([])
    expect((await claim(job.topic)).map((run) => run.runId)).toEqual([kept.runId])
    const item = await claimOnly(db, job.topic)
    expect(item).toMatchObject({
      instructionId: runId,
      idempotencyKey: runId,
      participantId: 'ACME',
      payload: { report: 7 },
    })
  })

  test('adds the outcome of the message to the history of the run', async () => {
    const job = buildJobDefinition()
    await createOrUpdateJob(control(), job)
    const { runId } = await triggerJob(control(), job.name)
    await enqueueDueJobRuns(executor(), 1000)
    expect(await runOf(runId)).toMatchObject({ state: 'ENQUEUED', outboxState: 'PENDING', finishedAt: null })
    const item = await claimOnly(db, job.topic)
    await complete(db, item, { state: 'FAILED', errorCode: 'REFUSED', errorMessage: 'account closed' })
    expect(await runOf(runId)).toMatchObject({
      state: 'ENQUEUED',
      outboxState: 'FAILED',
      error: 'account closed',
      startedAt: expect.any(Date),
      finishedAt: expect.any(Date),
    })
  })

  test('fails only the run that the outbox refuses', async () => {
    const job = buildJobDefinition()
    await createOrUpdateJob(control(), job)
    const bad = await triggerJob(control(), job.name)
    const good = await triggerJob(control(), job.name)
    await enqueue(db, { instructionId: bad.runId, idempotencyKey: bad.runId })
    const results = (await enqueueDueJobRuns(executor(), 1000)).filter(({ topic }) => topic === job.topic)
    expect(results.map(({ id, outboxId }) => [id, outboxId !== null])).toEqual([
      [bad.runId, false],
      [good.runId, true],
    ])
    expect(await runOf(bad.runId)).toMatchObject({ state: 'FAILED', outboxState: null })
  })
})

test('a unique constraint refuses a second run of an occurrence (23505)', async () => {
  const { runId } = await createClaimedJobRun(db)
  const again = db.queryNoRole(
    `INSERT INTO scheduler_tasks (task_id, kind, job_name, scheduled_for, topic, payload, delivery, due_at)
     SELECT uuid_v7(), kind, job_name, scheduled_for, topic, payload, delivery, due_at FROM scheduler_tasks WHERE task_id = $1`,
    [runId],
  )
  expect(await failureOf(again)).toMatchObject({ code: '23505', constraint: 'scheduler_job_runs_one_per_occurrence' })
})

test('purgeFinishedJobRuns deletes runs finished before the retention time, in batches', async () => {
  const name = await createJob(db)
  const pending = await triggerJob(control(), name)
  const ended: string[] = []
  for (const seconds of [61, 59, 3600]) {
    const { runId } = await triggerJob(control(), name)
    await db.queryNoRole(
      `UPDATE scheduler_job_runs SET state = 'DONE', finished_at = clock_timestamp() - make_interval(secs => $2)
       WHERE run_id = $1`,
      [runId, seconds],
    )
    ended.push(runId)
  }
  const left = async () => (await readJobRuns(control(), { jobName: name })).map(({ runId }) => runId)
  expect(await purgeFinishedJobRuns(executor(), 60, 1)).toBe(1)
  expect(await left()).not.toContain(ended[2])
  expect(await purgeFinishedJobRuns(executor(), 60, 1000)).toBe(1)
  expect(await purgeFinishedJobRuns(executor(), 60, 1000)).toBe(0)
  expect(await left()).toEqual([ended[1], pending.runId])
})

test('readJobRuns returns runs newest first, filtered by job and state, up to a limit', async () => {
  const name = await createJob(db)
  const first = await triggerJob(control(), name)
  const second = await triggerJob(control(), name)
  const ids = async (filter: object) =>
    (await readJobRuns(control(), { jobName: name, ...filter })).map((run) => run.runId)
  expect(await ids({})).toEqual([second.runId, first.runId])
  expect(await ids({ limit: 1 })).toEqual([second.runId])
  expect(await ids({ state: 'DONE' })).toEqual([])
  expect(await ids({ state: 'READY' })).toHaveLength(2)
  expect(await failureOf(ids({ limit: 0 }))).toBeInstanceOf(RangeError)
})
