import { SymphonyError, BATCH_SIZE, boundedInteger, redact, requiredId, requiredUuid } from '../core/index.js'
import { call, onlyRow, qualify, type Queryable } from '../db/index.js'
import { jobColumns, RETENTION_SECONDS, timerColumns } from './arguments.js'
import { CronSchedule, requiredSchedule } from './cron.js'
import type {
  CreatedJobRun,
  DefinedJob,
  DueJob,
  EnqueuedWork,
  JobDefinition,
  JobRunStatus,
  JobState,
  JobStatus,
  MissedRuns,
  SchedulerStats,
  TimerDefinition,
  TimerStatus,
  WorkState,
} from './types.js'

/**
 * Wrappers of the SQL functions of the scheduler, with the same names. The first argument is a role of a database or a
 * transaction in it; for timers also the caller's own client. Arguments are checked before any I/O.
 */

// Timers, as symphony_ingest; an operator cancels as symphony_control -------------------------------------------------

/**
 * Schedules a timer in the caller's transaction. Returns its id, which is also the id of its message. With a `timerId`,
 * a repeated call schedules only one timer.
 */
export async function scheduleTimer(role: Queryable, timer: TimerDefinition): Promise<string> {
  const { topic, payload, dueAt, participantId, delivery, timerId } = timerColumns(timer)
  const rows = await call<{ schedule_timer: string }>(role, 'schedule_timer', [
    topic,
    payload,
    dueAt,
    participantId,
    delivery,
    // Omits an undefined id, because the function of the previous release takes five arguments.
    ...(timerId === undefined ? [] : [timerId]),
  ])
  return onlyRow(rows).schedule_timer
}

/** Cancels a timer. Returns false if it has ended or does not exist. */
export async function cancelTimer(role: Queryable, timerId: string): Promise<boolean> {
  const rows = await call<{ cancel_timer: boolean }>(role, 'cancel_timer', [requiredUuid('timerId', timerId)])
  return onlyRow(rows).cancel_timer
}

// Jobs, as symphony_control -------------------------------------------------------------------------------------------

/**
 * Creates or updates a job by name. If expression and zone are unchanged, the next due time stays; a paused job stays
 * paused. The database clock determines the first occurrence.
 */
export async function createOrUpdateJob(role: Queryable, job: JobDefinition): Promise<DefinedJob> {
  const { name, cron, timeZone, topic, payload, participantId, missedRuns, delivery } = jobColumns(job)
  const schedule = requiredSchedule(cron, timeZone)
  const nextDueAt = schedule.next(await readClock(role))
  const rows = await call<{ next_due_at: Date; state: JobState; created: boolean }>(role, 'create_or_update_job', [
    name,
    cron,
    timeZone,
    topic,
    payload,
    nextDueAt,
    participantId,
    missedRuns,
    delivery,
  ])
  const row = onlyRow(rows)
  return { nextDueAt: row.next_due_at, state: row.state, created: row.created }
}

/** Stops the creation of runs. Existing runs continue. Returns false if the job was already paused. */
export async function pauseJob(role: Queryable, name: string): Promise<boolean> {
  const rows = await call<{ pause_job: boolean }>(role, 'pause_job', [requiredId('name', name)])
  return onlyRow(rows).pause_job
}

/**
 * Resumes a job from its next occurrence. Occurrences during the pause are skipped under every `missedRuns` policy.
 * Returns false if the job was not paused.
 */
export async function resumeJob(role: Queryable, name: string): Promise<boolean> {
  for (let round = 1; ; round += 1) {
    const job = await readJob(role, name)
    if (job?.state === 'ACTIVE') return false
    const now = await readClock(role)
    // For an unknown job any time will do, because the database refuses the call.
    const nextDueAt = job === undefined ? now : new CronSchedule(job.cron, job.timeZone).next(now)
    const rows = await call<{ resume_job: boolean }>(role, 'resume_job', [name, job?.revision ?? 1n, nextDueAt])
    // The function returns false if the job changed after the read. The loop then reads the job again.
    if (onlyRow(rows).resume_job) return true
    if (round === RESUME_ROUNDS_MAX) {
      throw new SymphonyError(
        'JOB_KEEPS_CHANGING',
        `The job ${name} was not resumed, because other calls changed it during every attempt.`,
      )
    }
  }
}

/** Creates a run that is due now, in addition to the schedule. */
export async function triggerJob(role: Queryable, name: string): Promise<CreatedJobRun> {
  const rows = await call<{ run_id: string; scheduled_for: Date }>(role, 'trigger_job', [requiredId('name', name)])
  const row = onlyRow(rows)
  return { runId: row.run_id, jobName: name, scheduledFor: row.scheduled_for }
}

/**
 * Deletes the job and its READY runs. Claimed runs stay with their holders, finished runs until their retention ends.
 */
export async function deleteJob(
  role: Queryable,
  name: string,
): Promise<{ readonly deleted: boolean; readonly runsRemoved: number }> {
  const rows = await call<{ deleted: boolean; runs_removed: number }>(role, 'delete_job', [requiredId('name', name)])
  const row = onlyRow(rows)
  return { deleted: row.deleted, runsRemoved: row.runs_removed }
}

// Functions for schedulers, as symphony_executor ----------------------------------------------------------------------

export async function dueJobs(role: Queryable, batchSize: number): Promise<DueJob[]> {
  const rows = await call<{
    job_name: string
    cron: string
    time_zone: string
    missed_runs: MissedRuns
    next_due_at: Date
    revision: bigint
    observed_at: Date
  }>(role, 'due_jobs', [boundedInteger('batchSize', batchSize, BATCH_SIZE)])
  return rows.map((row) => ({
    name: row.job_name,
    cron: row.cron,
    timeZone: row.time_zone,
    missedRuns: row.missed_runs,
    nextDueAt: row.next_due_at,
    revision: row.revision,
    observedAt: row.observed_at,
  }))
}

/** Occurrences of one job, and the job's next due time. */
export interface JobSchedule {
  readonly job: DueJob
  readonly nextDueAt: Date
  readonly occurrences: readonly Date[]
}

/** Creates the runs and updates the jobs in one statement. Skips jobs whose revision has changed. */
export async function createJobRuns(role: Queryable, schedules: readonly JobSchedule[]): Promise<CreatedJobRun[]> {
  const lines = schedules.flatMap(({ job, nextDueAt, occurrences }) =>
    (occurrences.length === 0 ? [null] : occurrences).map((scheduledFor) => ({ job, nextDueAt, scheduledFor })),
  )
  const rows = await call<{ run_id: string; job_name: string; scheduled_for: Date }>(role, 'create_job_runs', [
    lines.map(({ job }) => job.name),
    lines.map(({ job }) => job.revision),
    lines.map(({ nextDueAt }) => nextDueAt),
    lines.map(({ scheduledFor }) => scheduledFor),
  ])
  return rows.map((row) => ({ runId: row.run_id, jobName: row.job_name, scheduledFor: row.scheduled_for }))
}

/** Postpones a job by a minute, with the reason, because this process cannot parse its schedule. The due time stays. */
export async function postponeJob(role: Queryable, job: DueJob, reason: string): Promise<boolean> {
  const rows = await call<{ postpone_job: boolean }>(role, 'postpone_job', [job.name, job.revision, redact(reason)])
  return onlyRow(rows).postpone_job
}

interface NextEvent {
  /** Time of the next event; null if nothing is scheduled. */
  readonly at: Date | null
  /** Database time of the query. */
  readonly observedAt: Date
}

/**
 * Returns the next due time. `outboxOnly` ignores timers and runs with `delivery: 'claim'`, because a scheduler does
 * not process them.
 */
export async function nextSchedulerEvent(role: Queryable, outboxOnly = false): Promise<NextEvent> {
  const rows = await call<{ next_event_at: Date | null; observed_at: Date }>(role, 'next_scheduler_event', [outboxOnly])
  const row = onlyRow(rows)
  return { at: row.next_event_at, observedAt: row.observed_at }
}

/** Returns the next due time of a pending timer, run or active job, or the next expiry of a claim; null without any. */
export async function getNextEventTime(role: Queryable): Promise<Date | null> {
  return (await nextSchedulerEvent(role)).at
}

interface EnqueuedRow {
  readonly topic: string
  readonly outbox_id: string | null
  readonly error_message: string | null
}

/** Turns due timers into messages. A timer ends in the transaction that enqueues its message. */
export async function enqueueDueTimers(role: Queryable, batchSize: number): Promise<EnqueuedWork[]> {
  const rows = await call<EnqueuedRow & { timer_id: string }>(role, 'enqueue_due_timers', [
    boundedInteger('batchSize', batchSize, BATCH_SIZE),
  ])
  return rows.map((row) => toEnqueuedWork(row.timer_id, row))
}

export async function enqueueDueJobRuns(role: Queryable, batchSize: number): Promise<EnqueuedWork[]> {
  const rows = await call<EnqueuedRow & { run_id: string }>(role, 'enqueue_due_job_runs', [
    boundedInteger('batchSize', batchSize, BATCH_SIZE),
  ])
  return rows.map((row) => toEnqueuedWork(row.run_id, row))
}

function toEnqueuedWork(id: string, { topic, outbox_id: outboxId, error_message: error }: EnqueuedRow): EnqueuedWork {
  return outboxId === null ? { id, topic, outboxId, error: error ?? '' } : { id, topic, outboxId }
}

// Retention, as symphony_executor -------------------------------------------------------------------------------------

/** Deletes one batch of timers whose retention has passed. Returns their number. */
export async function purgeFinishedTimers(
  role: Queryable,
  retentionSeconds: number,
  batchSize: number,
): Promise<number> {
  const values = purgeValues(retentionSeconds, batchSize)
  const rows = await call<{ purge_finished_timers: number }>(role, 'purge_finished_timers', values)
  return onlyRow(rows).purge_finished_timers
}

export async function purgeFinishedJobRuns(
  role: Queryable,
  retentionSeconds: number,
  batchSize: number,
): Promise<number> {
  const values = purgeValues(retentionSeconds, batchSize)
  const rows = await call<{ purge_finished_job_runs: number }>(role, 'purge_finished_job_runs', values)
  return onlyRow(rows).purge_finished_job_runs
}

function purgeValues(retentionSeconds: number, batchSize: number): unknown[] {
  return [
    boundedInteger('retentionSeconds', retentionSeconds, RETENTION_SECONDS),
    boundedInteger('batchSize', batchSize, BATCH_SIZE),
  ]
}

// Reading, as symphony_control, symphony_auditor or symphony_readonly -------------------------------------------------

const JOB_COLUMNS = `job_name AS "name", cron, time_zone AS "timeZone", topic, participant_id AS "participantId", delivery,
  missed_runs AS "missedRuns", state, next_due_at AS "nextDueAt", postponed_until AS "postponedUntil", revision,
  schedule_error AS "scheduleError"`

export async function readJob(role: Queryable, name: string): Promise<JobStatus | undefined> {
  const { rows } = await role.query<JobStatus>(
    `SELECT ${JOB_COLUMNS} FROM ${qualify(role, 'scheduler_jobs')} WHERE job_name = $1`,
    [requiredId('name', name)],
  )
  return rows[0]
}

/** Returns the first 1000 jobs by name. */
export async function readJobs(role: Queryable): Promise<JobStatus[]> {
  const { rows } = await role.query<JobStatus>(
    `SELECT ${JOB_COLUMNS} FROM ${qualify(role, 'scheduler_jobs')} ORDER BY job_name COLLATE "C" LIMIT ${BATCH_SIZE.max}`,
  )
  return rows
}

const TIMER_COLUMNS = `timer_id AS "timerId", topic, delivery, due_at AS "dueAt", state, attempt_count AS "attemptCount",
  started_at AS "startedAt", finished_at AS "finishedAt", error_message AS "error", outbox_id AS "outboxId"`

export async function readTimer(role: Queryable, timerId: string): Promise<TimerStatus | undefined> {
  const { rows } = await role.query<TimerStatus>(
    `SELECT ${TIMER_COLUMNS} FROM ${qualify(role, 'scheduler_timers')} WHERE timer_id = $1`,
    [requiredUuid('timerId', timerId)],
  )
  return rows[0]
}

export interface TimerFilter {
  readonly state: WorkState
  readonly topic?: string
  /** Maximum number of timers. @default 100 */
  readonly limit?: number
}

/** Returns timers of one state, earliest due time first. */
export async function readTimers(role: Queryable, filter: TimerFilter): Promise<TimerStatus[]> {
  const { state, topic, limit = 100 } = filter
  const { rows } = await role.query<TimerStatus>(
    `SELECT ${TIMER_COLUMNS} FROM ${qualify(role, 'scheduler_timers')}
     WHERE state = $1 AND ($2::text IS NULL OR topic = $2) ORDER BY due_at, timer_id LIMIT $3`,
    [state, topic === undefined ? null : requiredId('topic', topic), boundedInteger('limit', limit, BATCH_SIZE)],
  )
  return rows
}

export interface JobRunFilter {
  readonly jobName?: string
  readonly state?: WorkState
  /** Earliest time for which the runs are scheduled. */
  readonly since?: Date
  /** Time before which the runs are scheduled. */
  readonly until?: Date
  /** Maximum number of runs. @default 100 */
  readonly limit?: number
}

/** Returns runs, newest first. If a run became a message, its outcome comes from the ledger. */
export async function readJobRuns(role: Queryable, filter: JobRunFilter = {}): Promise<JobRunStatus[]> {
  const { jobName, state, since, until, limit = 100 } = filter
  const { rows } = await role.query<JobRunStatus>(
    `SELECT r.run_id AS "runId", r.job_name AS "jobName", r.scheduled_for AS "scheduledFor",
       r.triggered_by AS "triggeredBy", r.topic, r.delivery, r.state, r.attempt_count AS "attemptCount",
       r.started_at AS "startedAt", r.outbox_id AS "outboxId",
       CASE WHEN r.outbox_id IS NULL THEN r.finished_at ELSE ending.completed_at END AS "finishedAt",
       COALESCE(r.error_message, ending.error_message, ending.error_code) AS "error",
       CASE WHEN r.outbox_id IS NOT NULL THEN COALESCE(ending.state::text, 'PENDING') END AS "outboxState"
     FROM ${qualify(role, 'scheduler_job_runs')} r
     LEFT JOIN LATERAL (
       SELECT a.state, a.error_code, a.error_message,
         CASE WHEN a.state IN ('DISPATCHED', 'FAILED') THEN a.completed_at END AS completed_at
       FROM ${qualify(role, 'payment_outbox_attempts')} a
       WHERE a.outbox_id = r.outbox_id ORDER BY a.attempt_no DESC LIMIT 1
     ) ending ON true
     WHERE ($1::text IS NULL OR r.job_name = $1) AND ($2::text IS NULL OR r.state = $2)
       AND r.scheduled_for >= COALESCE($4::timestamptz, '-infinity')
       AND r.scheduled_for < COALESCE($5::timestamptz, 'infinity')
     ORDER BY r.scheduled_for DESC LIMIT $3`,
    [
      jobName === undefined ? null : requiredId('jobName', jobName),
      state ?? null,
      boundedInteger('limit', limit, BATCH_SIZE),
      since ?? null,
      until ?? null,
    ],
  )
  return rows
}

export async function readSchedulerStats(role: Queryable): Promise<SchedulerStats> {
  const { rows } = await role.query<SchedulerStats>(`
    SELECT active_jobs_count AS "activeJobsCount", due_jobs_count AS "dueJobsCount",
      unreadable_jobs_count AS "unreadableJobsCount", ready_timers_count AS "readyTimersCount",
      ready_runs_count AS "readyRunsCount", lag_seconds AS "lagSeconds"
    FROM ${qualify(role, 'supervisor_scheduler_status')}`)
  return onlyRow(rows)
}

/** Reads the database clock, which decides when an occurrence is due. */
async function readClock(role: Queryable): Promise<Date> {
  const { rows } = await role.query<{ now: Date }>('SELECT clock_timestamp() AS now')
  return new Date(onlyRow(rows).now)
}

const RESUME_ROUNDS_MAX = 5
