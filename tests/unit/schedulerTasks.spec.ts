import { describe, expect, test } from 'vitest'
import {
  abandonJobRuns,
  abandonTimers,
  ackJobRuns,
  ackTimers,
  cancelTimer,
  claimJobRuns,
  claimTimers,
  enqueueDueJobRuns,
  enqueueDueTimers,
  failJobRuns,
  failTimers,
  purgeFinishedJobRuns,
  purgeFinishedTimers,
  readTimer,
  scheduleTimer,
  triggerJob,
} from '../../libs/scheduler/index.js'
import { useTestDatabase } from '../support/database.js'
import { WORKER } from '../support/outboxItems.js'
import { failureOf } from '../support/race.js'
import {
  createClaimedJobRun,
  createClaimedTimer,
  createJob,
  buildJobDefinition,
  createEndedTimer,
  createTimer,
  buildTimerDefinition,
} from '../support/scheduled.js'

/**
 * Tests that functions for timers do not act on job runs, nor the reverse. Both kinds share the table scheduler_tasks.
 */

const db = await useTestDatabase()

const ingest = () => db.as('symphony_ingest')
const executor = () => db.as('symphony_executor')

async function stateOf(taskId: string): Promise<string | undefined> {
  const { rows } = await db.queryNoRole<{ state: string }>('SELECT state FROM scheduler_tasks WHERE task_id = $1', [
    taskId,
  ])
  return rows[0]?.state
}

async function triggeredRun(topic: string, delivery: 'claim' | 'outbox'): Promise<string> {
  const name = await createJob(db, { topic, delivery })
  return (await triggerJob(db.as('symphony_control'), name)).runId
}

describe('timers and job runs in one table', () => {
  test('are claimed separately', async () => {
    const { timerId, topic } = await createTimer(db, { delivery: 'claim' })
    const runId = await triggeredRun(topic, 'claim')
    const timers = await claimTimers(executor(), 10, WORKER, 600, { topics: [topic] })
    expect(timers.map((timer) => timer.timerId)).toEqual([timerId])
    expect(await stateOf(runId)).toBe('READY')
    const runs = await claimJobRuns(executor(), 10, WORKER, 600, { topics: [topic] })
    expect(runs.map((run) => run.runId)).toEqual([runId])
  })

  test('are enqueued separately', async () => {
    const { timerId, topic } = await createTimer(db)
    const runId = await triggeredRun(topic, 'outbox')
    const mine = (enqueued: readonly { readonly id: string; readonly topic: string }[]) =>
      enqueued.filter((one) => one.topic === topic).map(({ id }) => id)
    expect(mine(await enqueueDueTimers(executor(), 1000))).toEqual([timerId])
    expect(await stateOf(runId)).toBe('READY')
    expect(mine(await enqueueDueJobRuns(executor(), 1000))).toEqual([runId])
  })

  test.each([
    ['ack', ackTimers, ackJobRuns],
    ['abandon', abandonTimers, abandonJobRuns],
    ['fail', failTimers, failJobRuns],
  ])('are ended separately by %s', async (_verb, endTimers, endJobRuns) => {
    const timer = await createClaimedTimer(db)
    const run = await createClaimedJobRun(db)
    expect(await endTimers(executor(), [{ ...run, timerId: run.runId }], WORKER)).toEqual([])
    expect(await endJobRuns(executor(), [{ ...timer, runId: timer.timerId }], WORKER)).toEqual([])
    expect([await stateOf(run.runId), await stateOf(timer.timerId)]).toEqual(['CLAIMED', 'CLAIMED'])
  })

  test('are released separately when their claims expire', async () => {
    const timer = await createClaimedTimer(db)
    const run = await createClaimedJobRun(db)
    await db.queryNoRole('UPDATE scheduler_tasks SET lease_expires_at = now() WHERE task_id = ANY ($1)', [
      [timer.timerId, run.runId],
    ])
    await claimTimers(executor(), 1, WORKER, 600, { topics: ['other'] })
    expect([await stateOf(timer.timerId), await stateOf(run.runId)]).toEqual(['READY', 'CLAIMED'])
    await claimJobRuns(executor(), 1, WORKER, 600, { topics: ['other'] })
    expect(await stateOf(run.runId)).toBe('READY')
  })

  test('are purged separately', async () => {
    const timerId = await createEndedTimer(db, '9 days')
    const run = await createClaimedJobRun(db)
    await ackJobRuns(executor(), [run], WORKER)
    await db.queryNoRole(`UPDATE scheduler_tasks SET finished_at = now() - interval '9 days' WHERE task_id = $1`, [
      run.runId,
    ])
    expect(await purgeFinishedJobRuns(executor(), 86_400, 1000)).toBe(1)
    expect([await stateOf(run.runId), await stateOf(timerId)]).toEqual([undefined, 'CANCELLED'])
    expect(await purgeFinishedTimers(executor(), 86_400, 1000)).toBe(1)
  })

  test('are distinguished by cancelTimer and readTimer, which do not find a run', async () => {
    const runId = await triggeredRun('t', 'claim')
    expect(await cancelTimer(ingest(), runId)).toBe(false)
    expect(await stateOf(runId)).toBe('READY')
    expect(await readTimer(db.as('symphony_control'), runId)).toBeUndefined()
  })

  test('cannot share an id, even with the same content (IDEMPOTENCY_CONFLICT)', async () => {
    const job = buildJobDefinition({ delivery: 'claim' })
    const runId = await triggeredRun(job.topic, 'claim')
    await db.queryNoRole('UPDATE scheduler_tasks SET due_at = $2 WHERE task_id = $1', [
      runId,
      buildTimerDefinition().dueAt,
    ])
    const timer = buildTimerDefinition({ topic: job.topic, payload: job.payload, delivery: 'claim', timerId: runId })
    expect(await failureOf(scheduleTimer(ingest(), timer))).toMatchObject({ code: 'IDEMPOTENCY_CONFLICT' })
  })

  test.each([
    ['a run without a job', `'run', NULL, now(), NULL`],
    ['a run without an occurrence', `'run', 'j', NULL, NULL`],
    ['a timer with a job', `'timer', 'j', now(), NULL`],
    ['a timer that a person triggered', `'timer', NULL, NULL, 'ann'`],
    ['an unknown kind', `'other', NULL, NULL, NULL`],
  ])('are checked by a constraint, which refuses %s (23514)', async (_what, columns) => {
    const insert = db.queryNoRole(
      `INSERT INTO scheduler_tasks (task_id, kind, job_name, scheduled_for, triggered_by, topic, payload, delivery, due_at)
       VALUES (gen_random_uuid(), ${columns}, 't', '{}', 'claim', now())`,
    )
    expect(await failureOf(insert)).toMatchObject({ code: '23514', constraint: 'scheduler_tasks_timer_or_run' })
  })
})
