import { Type, type Static } from '#typebox'
import { Id, JsonObjectShape, nullable, oneOf, pageOf, shape, Timestamp, Uuid, WholeNumber } from './common.js'

const Delivery = oneOf(['outbox', 'claim'])
const MissedRuns = oneOf(
  ['skip', 'once', 'all'],
  'occurrences missed while no scheduler ran: skip them, run one for all, or run each',
)
const WorkState = oneOf(['READY', 'CLAIMED', 'DONE', 'ENQUEUED', 'FAILED', 'CANCELLED'])

/** Job, without its payload. */
export const Job = shape({
  name: Id,
  cron: Type.String(),
  timeZone: Type.String(),
  topic: Id,
  participantId: nullable(Id),
  delivery: Delivery,
  missedRuns: MissedRuns,
  state: oneOf(['ACTIVE', 'PAUSED']),
  nextDueAt: Timestamp,
  revision: WholeNumber,
  scheduleError: nullable(Type.String()),
})
export type Job = Static<typeof Job>

export const Jobs = shape({ jobs: Type.Array(Job) })
export type Jobs = Static<typeof Jobs>

export const JobBody = shape({
  cron: Type.String({
    minLength: 1,
    maxLength: 256,
    description: 'five fields, or six with the seconds first, or @daily',
  }),
  timeZone: Type.Optional(Type.String({ minLength: 1, maxLength: 128, description: 'IANA name; default UTC' })),
  topic: Id,
  payload: JsonObjectShape,
  participantId: Type.Optional(Id),
  missedRuns: Type.Optional(MissedRuns),
  delivery: Type.Optional(Delivery),
})
export type JobBody = Static<typeof JobBody>

export const JobDefined = shape({
  name: Id,
  nextDueAt: Timestamp,
  state: oneOf(['ACTIVE', 'PAUSED']),
  created: Type.Boolean(),
})
export type JobDefined = Static<typeof JobDefined>

export const JobDeleted = shape({ name: Id, deleted: Type.Boolean(), runsRemoved: Type.Integer() })
export type JobDeleted = Static<typeof JobDeleted>

export const JobTriggered = shape({ name: Id, runId: Uuid, scheduledFor: Timestamp })
export type JobTriggered = Static<typeof JobTriggered>

export const JobRun = shape({
  runId: Uuid,
  jobName: Id,
  scheduledFor: Timestamp,
  triggeredBy: nullable(Type.String({ description: 'null: the schedule' })),
  topic: Id,
  delivery: Delivery,
  state: WorkState,
  attemptCount: Type.Integer(),
  startedAt: nullable(Timestamp),
  finishedAt: nullable(Timestamp),
  error: nullable(Type.String()),
  outboxId: nullable(Uuid),
  outboxState: nullable(Type.String({ description: 'state of its message in the outbox' })),
})
export type JobRun = Static<typeof JobRun>

export const JobRunPage = pageOf(JobRun)
export type JobRunPage = Static<typeof JobRunPage>

export const Timer = shape({
  timerId: Uuid,
  topic: Id,
  participantId: nullable(Id),
  delivery: Delivery,
  dueAt: Timestamp,
  state: WorkState,
  attemptCount: Type.Integer(),
  claimedBy: nullable(Type.String()),
  createdAt: Timestamp,
  startedAt: nullable(Timestamp),
  finishedAt: nullable(Timestamp),
  error: nullable(Type.String()),
  outboxId: nullable(Uuid),
})
export type Timer = Static<typeof Timer>

export const TimerBody = shape({
  topic: Id,
  payload: JsonObjectShape,
  dueAt: Type.String({ description: 'due time: RFC 3339 with offset; a past time is due at once' }),
  participantId: Type.Optional(Id),
  delivery: Type.Optional(Delivery),
})
export type TimerBody = Static<typeof TimerBody>

export const TimerScheduled = shape({ timerId: Uuid })
export type TimerScheduled = Static<typeof TimerScheduled>

export const TimerPage = pageOf(Timer)
export type TimerPage = Static<typeof TimerPage>
