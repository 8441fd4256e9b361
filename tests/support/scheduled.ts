import { randomUUID } from 'node:crypto'
import {
  cancelTimer,
  claimJobRuns,
  claimTimers,
  createOrUpdateJob,
  scheduleTimer,
  triggerJob,
  type ClaimedJobRun,
  type ClaimedTimer,
  type JobDefinition,
  type TimerDefinition,
} from '../../libs/scheduler/index.js'
import type { TestDatabase } from './database.js'
import { WORKER } from './outboxItems.js'

/** Timers and jobs with unique topics, so that tests of one file share no queue. */

export function buildTimerDefinition(overrides: Partial<TimerDefinition> = {}): TimerDefinition {
  return {
    topic: `topic-${randomUUID()}`,
    payload: { remind: 'me' },
    dueAt: new Date('2026-01-01T00:00:00Z'),
    ...overrides,
  }
}

export function buildJobDefinition(overrides: Partial<JobDefinition> = {}): JobDefinition {
  const name = `job-${randomUUID()}`
  return { name, cron: '0 0 1 1 *', topic: `topic-${name}`, payload: { report: 'daily' }, ...overrides }
}

/**
 * Returns a schedule of every five minutes whose next occurrence is 2 to 3 minutes away, so that none is due during a
 * test.
 */
export function quietCron(): string {
  return `${(new Date().getUTCMinutes() + 3) % 5}-59/5 * * * *`
}

/** Creates a timer, due in the past by default. Returns its id and topic. */
export async function createTimer(
  db: TestDatabase,
  overrides: Partial<TimerDefinition> = {},
): Promise<{ readonly timerId: string; readonly topic: string }> {
  const timer = buildTimerDefinition(overrides)
  return { timerId: await scheduleTimer(db.as('symphony_ingest'), timer), topic: timer.topic }
}

/** Creates a timer that was cancelled `ago` before now. Returns its id. */
export async function createEndedTimer(db: TestDatabase, ago: string): Promise<string> {
  const { timerId } = await createTimer(db)
  await cancelTimer(db.as('symphony_ingest'), timerId)
  await db.queryNoRole('UPDATE scheduler_timers SET finished_at = now() - $2::interval WHERE timer_id = $1', [
    timerId,
    ago,
  ])
  return timerId
}

/** Creates a job, due on 1 January of every year by default. Returns its name. */
export async function createJob(db: TestDatabase, overrides: Partial<JobDefinition> = {}): Promise<string> {
  const job = buildJobDefinition(overrides)
  await createOrUpdateJob(db.as('symphony_control'), job)
  return job.name
}

export async function createClaimedTimer(
  db: TestDatabase,
  overrides: Partial<TimerDefinition> = {},
  workerId = WORKER,
): Promise<ClaimedTimer> {
  const { topic } = await createTimer(db, overrides)
  return onlyOne(await claimTimers(db.as('symphony_executor'), 10, workerId, 600, { topics: [topic] }))
}

export async function createClaimedJobRun(
  db: TestDatabase,
  overrides: Partial<JobDefinition> = {},
  workerId = WORKER,
): Promise<ClaimedJobRun> {
  const job = buildJobDefinition(overrides)
  await createOrUpdateJob(db.as('symphony_control'), job)
  await triggerJob(db.as('symphony_control'), job.name)
  return onlyOne(await claimJobRuns(db.as('symphony_executor'), 10, workerId, 600, { topics: [job.topic] }))
}

export function onlyOne<T>(items: readonly T[]): T {
  const [item] = items
  if (item === undefined || items.length > 1) throw new Error(`expected one, got ${items.length}`)
  return item
}
