import { BATCH_SIZE, boundedInteger } from '../core/index.js'
import type { Queryable } from '../db/index.js'
import { guardListener } from '../worker/index.js'
import { CronSchedule } from './cron.js'
import { createJobRuns, dueJobs, postponeJob, type JobSchedule } from './db.js'
import type { OnSchedulerEvent } from './events.js'
import { MISSED_AFTER_DEFAULT_MS, MISSED_AFTER_MS } from './options.js'
import type { CreatedJobRun, DueJob } from './types.js'

/** Maximum number of runs that the policy `all` creates for one job. Older occurrences are dropped. */
export const MISSED_RUNS_MAX = 1_000

export interface CreateJobRunsOptions {
  /** Maximum number of jobs. @default 100 */
  readonly batchSize?: number
  /** Age from which an occurrence counts as missed. @default 10000 */
  readonly missedAfterMs?: number
  /**
   * Number of created runs after which further jobs wait for the next call. The last job may exceed this number by up
   * to 1000 runs. @default 1000000
   */
  readonly runsMax?: number
  readonly onEvent?: OnSchedulerEvent
}

export interface JobRunsFromDueJobs {
  /**
   * Number of due jobs that the call read, at most `batchSize`. Another scheduler may have created the runs of some.
   */
  readonly jobsDue: number
  /** Number of these jobs that are left for the next call, because of `runsMax`. */
  readonly jobsLeft: number
  readonly runs: readonly CreatedJobRun[]
}

/**
 * Creates the runs of due jobs, longest due first. Several schedulers may call this function at once. Each computes the
 * occurrences from the revision of the job that it read, and the database accepts only one set of runs per revision.
 */
export async function createJobRunsFromDueJobs(
  role: Queryable,
  options: CreateJobRunsOptions = {},
): Promise<JobRunsFromDueJobs> {
  const onEvent = guardListener(options.onEvent)
  const batchSize = boundedInteger('batchSize', options.batchSize ?? 100, BATCH_SIZE)
  const missedAfterMs = boundedInteger(
    'missedAfterMs',
    options.missedAfterMs ?? MISSED_AFTER_DEFAULT_MS,
    MISSED_AFTER_MS,
  )
  const runsMax = boundedInteger('runsMax', options.runsMax ?? RUNS_MAX.max, RUNS_MAX)
  const jobs = await dueJobs(role, batchSize)
  const schedules: JobSchedule[] = []
  let planned = 0
  let jobsSeen = 0
  for (const job of jobs) {
    if (planned >= runsMax) break
    jobsSeen += 1
    const schedule = await planOrPostpone(role, job, missedAfterMs, onEvent)
    if (schedule === undefined) continue
    schedules.push(schedule)
    planned += schedule.occurrences.length
  }
  const runs: CreatedJobRun[] = []
  for (const batch of batchesOf(schedules)) runs.push(...(await createJobRuns(role, batch)))
  if (runs.length > 0) {
    onEvent({ type: 'scheduler.runsCreated', jobs: jobsSeen, runs: runs.length, lagsMs: lagsOf(runs, jobs) })
  }
  return { jobsDue: jobs.length, jobsLeft: jobs.length - jobsSeen, runs }
}

function lagsOf(runs: readonly CreatedJobRun[], jobs: readonly DueJob[]): number[] {
  const observedAt = new Map(jobs.map((job) => [job.name, job.observedAt.getTime()]))
  return runs.map(({ jobName, scheduledFor }) => (observedAt.get(jobName) ?? 0) - scheduledFor.getTime())
}

/** Plans the runs of one job. Postpones a job with an unparsable schedule, so that it does not block other jobs. */
async function planOrPostpone(
  role: Queryable,
  job: DueJob,
  missedAfterMs: number,
  onEvent: OnSchedulerEvent,
): Promise<JobSchedule | undefined> {
  try {
    const { occurrences, nextDueAt, missed } = planRuns(job, missedAfterMs)
    const { name: jobName, nextDueAt: since, missedRuns: policy } = job
    if (missed) onEvent({ type: 'scheduler.missed', jobName, since, policy, runs: occurrences.length })
    return { job, nextDueAt, occurrences }
  } catch (error) {
    onEvent({ type: 'scheduler.invalidSchedule', jobName: job.name, error })
    await postponeJob(role, job, error instanceof Error ? error.message : String(error))
    return undefined
  }
}

/**
 * Groups the schedules into as few calls as the batch size allows. All runs of a job are in one call, because the call
 * also sets the next due time of the job.
 */
function* batchesOf(schedules: readonly JobSchedule[]): Generator<readonly JobSchedule[]> {
  let batch: JobSchedule[] = []
  let lines = 0
  for (const schedule of schedules) {
    const more = Math.max(1, schedule.occurrences.length)
    if (lines + more > BATCH_SIZE.max) {
      yield batch
      batch = []
      lines = 0
    }
    batch.push(schedule)
    lines += more
  }
  if (batch.length > 0) yield batch
}

/** Upper limit: the maximum number of jobs per call times the maximum number of runs per job. */
const RUNS_MAX = Object.freeze({ min: 1, max: BATCH_SIZE.max * MISSED_RUNS_MAX })

interface PlannedRuns {
  /** Occurrences to run, oldest first. */
  readonly occurrences: readonly Date[]
  readonly nextDueAt: Date
  /** Whether the oldest occurrence is late, so that the job's policy applies. */
  readonly missed: boolean
}

/**
 * Returns the runs to create for a due job. An occurrence at most `missedAfterMs` old is on time. If all are on time,
 * all run. If the oldest is late, no scheduler ran at its time, and the job's policy decides: `skip` runs the
 * occurrences on time, `once` the latest, `all` the newest thousand.
 */
export function planRuns(job: DueJob, missedAfterMs: number): PlannedRuns {
  const { nextDueAt: promised, observedAt: now } = job
  const schedule = new CronSchedule(job.cron, job.timeZone)
  const onTimeFrom = new Date(now.getTime() - missedAfterMs)
  const missed = promised < onTimeFrom
  const following = schedule.next(promised)
  // Usual case: one occurrence is due, and the next is in the future.
  if (following > now) {
    return { occurrences: missed && job.missedRuns === 'skip' ? [] : [promised], nextDueAt: following, missed }
  }
  const nextDueAt = schedule.next(now)
  if (!missed) return { occurrences: between(schedule, promised, now), nextDueAt, missed }
  switch (job.missedRuns) {
    case 'skip': {
      const first = schedule.next(new Date(onTimeFrom.getTime() - 1))
      return { occurrences: first > now ? [] : between(schedule, first, now), nextDueAt, missed }
    }
    case 'once':
      return { occurrences: schedule.latest(1, now), nextDueAt, missed }
    case 'all':
      return {
        occurrences: [promised, ...newestAfter(schedule, promised, now)].slice(-MISSED_RUNS_MAX),
        nextDueAt,
        missed,
      }
  }
}

/**
 * Returns the newest occurrences after `promised`. Searches the latest 16, then 64 and so on, because usually few were
 * missed and computing an occurrence is slow.
 */
function newestAfter(schedule: CronSchedule, promised: Date, now: Date): Date[] {
  for (let count = 16; ; count *= 4) {
    const found = schedule.latest(Math.min(count, MISSED_RUNS_MAX), now)
    const later = found.filter((one) => one > promised)
    if (later.length < found.length || count >= MISSED_RUNS_MAX) return later
  }
}

function between(schedule: CronSchedule, first: Date, until: Date): Date[] {
  const found: Date[] = []
  for (let at = first; at <= until; at = schedule.next(at)) found.push(at)
  return found
}
