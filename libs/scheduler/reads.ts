import { boundedInteger, requiredId, requiredUuid } from '../core/index.js'
import { epochMicros, fromEpochMicros, isoMicros, qualify, type Queryable } from '../db/index.js'
import type { Delivery, JobState, MissedRuns, WorkState } from './types.js'

/**
 * Reads lists and pages for people, as symphony_readonly, symphony_auditor or symphony_control, without payloads and
 * tokens. Times are text with microseconds.
 */

export interface JobView {
  readonly name: string
  readonly cron: string
  readonly timeZone: string
  readonly topic: string
  readonly participantId: string | null
  readonly delivery: Delivery
  readonly missedRuns: MissedRuns
  readonly state: JobState
  readonly nextDueAt: string
  readonly revision: string
  readonly scheduleError: string | null
}

/** Returns the first 1000 jobs by name. */
export async function readJobViews(role: Queryable): Promise<JobView[]> {
  const { rows } = await role.query<JobView>(
    `SELECT job_name AS name, cron, time_zone AS "timeZone", topic, participant_id AS "participantId", delivery,
       missed_runs AS "missedRuns", state, ${isoMicros('next_due_at')} AS "nextDueAt", revision::text AS revision,
       schedule_error AS "scheduleError"
     FROM ${qualify(role, 'scheduler_jobs')} ORDER BY job_name COLLATE "C" LIMIT 1000`,
  )
  return rows
}

export interface JobRunView {
  readonly runId: string
  readonly jobName: string
  readonly scheduledFor: string
  readonly triggeredBy: string | null
  readonly topic: string
  readonly delivery: Delivery
  readonly state: WorkState
  readonly attemptCount: number
  readonly startedAt: string | null
  readonly finishedAt: string | null
  readonly error: string | null
  readonly outboxId: string | null
  readonly outboxState: string | null
}

/** Position in a list ordered by time: microseconds since 1970, and an id for equal times. */
export interface TimeCursor {
  readonly micros: string
  readonly id: string
}

export interface WithCursor<View> {
  readonly view: View
  readonly cursor: TimeCursor
}

/** Returns runs of one job, latest occurrence first. If a run became a message, its outcome comes from the ledger. */
export async function readJobRunPage(
  role: Queryable,
  {
    jobName,
    state,
    after,
    since,
    until,
    limit,
  }: {
    jobName: string
    state?: WorkState | undefined
    after?: TimeCursor | undefined
    since?: Date
    until?: Date
    limit: number
  },
): Promise<WithCursor<JobRunView>[]> {
  const { rows } = await role.query<JobRunView & { micros: string }>(
    `SELECT r.run_id AS "runId", r.job_name AS "jobName", ${isoMicros('r.scheduled_for')} AS "scheduledFor",
       r.triggered_by AS "triggeredBy", r.topic, r.delivery, r.state, r.attempt_count AS "attemptCount",
       ${isoMicros('r.started_at')} AS "startedAt", r.outbox_id AS "outboxId",
       ${isoMicros('CASE WHEN r.outbox_id IS NULL THEN r.finished_at ELSE ending.completed_at END')} AS "finishedAt",
       COALESCE(r.error_message, ending.error_message, ending.error_code) AS "error",
       CASE WHEN r.outbox_id IS NOT NULL THEN COALESCE(ending.state::text, 'PENDING') END AS "outboxState",
       ${epochMicros('r.scheduled_for')} AS micros
     FROM ${qualify(role, 'scheduler_job_runs')} r
     LEFT JOIN LATERAL (
       SELECT a.state, a.error_code, a.error_message,
         CASE WHEN a.state IN ('DISPATCHED', 'FAILED') THEN a.completed_at END AS completed_at
       FROM ${qualify(role, 'payment_outbox_attempts')} a
       WHERE a.outbox_id = r.outbox_id ORDER BY a.attempt_no DESC LIMIT 1
     ) ending ON true
     WHERE r.job_name = $1 AND ($2::text IS NULL OR r.state = $2) AND r.scheduled_for < ${fromEpochMicros('$3')}
       AND r.scheduled_for >= COALESCE($5::timestamptz, '-infinity')
       AND r.scheduled_for < COALESCE($6::timestamptz, 'infinity')
     ORDER BY r.scheduled_for DESC LIMIT $4`,
    [
      requiredId('jobName', jobName),
      state ?? null,
      after?.micros ?? LAST_MICROS,
      boundedInteger('limit', limit, PAGE),
      since ?? null,
      until ?? null,
    ],
  )
  return rows.map(({ micros, ...view }) => ({ view, cursor: { micros, id: view.runId } }))
}

export interface TimerView {
  readonly timerId: string
  readonly topic: string
  readonly participantId: string | null
  readonly delivery: Delivery
  readonly dueAt: string
  readonly state: WorkState
  readonly attemptCount: number
  readonly claimedBy: string | null
  readonly createdAt: string
  readonly startedAt: string | null
  readonly finishedAt: string | null
  readonly error: string | null
  readonly outboxId: string | null
}

/** Returns timers of one state: pending timers by due time, earliest first; ended timers by end, latest first. */
export async function readTimerPage(
  role: Queryable,
  { state, after, limit }: { state: WorkState; after?: TimeCursor | undefined; limit: number },
): Promise<WithCursor<TimerView>[]> {
  const pending = state === 'READY' || state === 'CLAIMED'
  const time = pending ? 't.due_at' : 't.finished_at'
  const [comparison, direction] = pending ? ['>', 'ASC'] : ['<', 'DESC']
  const { rows } = await role.query<TimerView & { micros: string }>(
    `SELECT t.timer_id AS "timerId", t.topic, t.participant_id AS "participantId", t.delivery,
       ${isoMicros('t.due_at')} AS "dueAt", t.state, t.attempt_count AS "attemptCount", t.claimed_by AS "claimedBy",
       ${isoMicros('t.created_at')} AS "createdAt", ${isoMicros('t.started_at')} AS "startedAt",
       ${isoMicros('t.finished_at')} AS "finishedAt", t.error_message AS error, t.outbox_id AS "outboxId",
       ${epochMicros(time)} AS micros
     FROM ${qualify(role, 'scheduler_timers')} t
     WHERE t.state = $1 AND (${time}, t.timer_id) ${comparison} (${fromEpochMicros('$2')}, $3::uuid)
     ORDER BY ${time} ${direction}, t.timer_id ${direction} LIMIT $4`,
    [
      state,
      after?.micros ?? (pending ? FIRST_MICROS : LAST_MICROS),
      requiredUuid('after', after?.id ?? (pending ? FIRST_UUID : LAST_UUID)),
      boundedInteger('limit', limit, PAGE),
    ],
  )
  return rows.map(({ micros, ...view }) => ({ view, cursor: { micros, id: view.timerId } }))
}

const PAGE = Object.freeze({ min: 1, max: 501 })
/** Bounds of all stored times. The SQL functions accept only times within a hundred years of now. */
const FIRST_MICROS = '-10000000000000000'
const LAST_MICROS = '10000000000000000'
const FIRST_UUID = '00000000-0000-0000-0000-000000000000'
const LAST_UUID = 'ffffffff-ffff-ffff-ffff-ffffffffffff'
