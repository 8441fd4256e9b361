import { Type } from '#typebox'
import {
  cancelTimer,
  createOrUpdateJob,
  deleteJob,
  pauseJob,
  readJobRunPage,
  readJobViews,
  readTimerPage,
  resumeJob,
  scheduleTimer,
  triggerJob,
  type JobDefinition,
  type TimeCursor,
} from '../../scheduler/index.js'
import type { Api } from '../Api.js'
import { Changed, oneOf } from '../shapes/common.js'
import {
  JobBody,
  JobDefined,
  JobDeleted,
  JobRunPage,
  Jobs,
  JobTriggered,
  TimerBody,
  TimerPage,
  TimerScheduled,
  type JobBody as JobGiven,
} from '../shapes/scheduler.js'
import { EXAMPLE } from './examples.js'
import {
  type CursorKind,
  decodeCursor,
  encodeCursor,
  jobNameParam,
  LIMIT_DEFAULT,
  MICROS_PART,
  page,
  parseTime,
  range,
  sinceUntil,
  timerIdParam,
  UUID_PART,
  refuseNotices,
} from './parameters.js'
import { route, type Route } from './route.js'

const PARAMS = { name: EXAMPLE.jobName }
const WORK_STATES = ['READY', 'CLAIMED', 'DONE', 'ENQUEUED', 'FAILED', 'CANCELLED'] as const
const RUNS = { list: 'runs', parts: { micros: MICROS_PART, id: UUID_PART } }
const TIMERS = { list: 'timers', parts: { micros: MICROS_PART, id: UUID_PART } }

export function schedulerRoutes({ roles }: Api): readonly Route[] {
  return [
    route({
      method: 'GET',
      path: '/v1/jobs',
      tag: 'scheduler',
      summary: 'All jobs, by name, with their next due times.',
      access: 'read',
      participants: 'refused',
      answers: { 200: { description: 'The first thousand jobs.', schema: Jobs } },
      problems: [],
      example: {
        status: 200,
        answer: {
          jobs: [
            {
              name: EXAMPLE.jobName,
              cron: '0 2 * * *',
              timeZone: 'Europe/Berlin',
              topic: EXAMPLE.railType,
              participantId: null,
              delivery: 'outbox',
              missedRuns: 'once',
              state: 'ACTIVE',
              nextDueAt: EXAMPLE.at,
              revision: '1',
              scheduleError: null,
            },
          ],
        },
      },
      handle: async () => ({ jobs: await readJobViews(roles.readonly) }),
    }),
    route({
      method: 'PUT',
      path: '/v1/jobs/{name}',
      tag: 'scheduler',
      summary: 'Creates a job, or updates the job of this name. A paused job stays paused.',
      access: 'operate',
      participants: 'refused',
      params: jobNameParam,
      body: JobBody,
      answers: { 200: { description: 'The job is created or updated.', schema: JobDefined } },
      problems: ['INVALID_ARGUMENT'],
      example: {
        params: PARAMS,
        body: { cron: '0 2 * * *', timeZone: 'Europe/Berlin', topic: EXAMPLE.railType, payload: { report: 'daily' } },
        status: 200,
        answer: { name: EXAMPLE.jobName, nextDueAt: EXAMPLE.at, state: 'ACTIVE', created: true },
      },
      handle: async ({ identity, params: { name }, body }) => {
        const { nextDueAt, state, created } = await createOrUpdateJob(roles.control(identity), definitionOf(name, body))
        return { name, nextDueAt: nextDueAt.toISOString(), state, created }
      },
    }),
    route({
      method: 'POST',
      path: '/v1/jobs/{name}/pause',
      tag: 'scheduler',
      summary: 'Creates no more runs of a job; existing runs continue.',
      access: 'operate',
      participants: 'refused',
      params: jobNameParam,
      answers: { 200: { description: 'The job is paused.', schema: Changed } },
      problems: ['JOB_NOT_FOUND', 'INVALID_ARGUMENT'],
      example: { params: PARAMS, status: 200, answer: { changed: true } },
      handle: async ({ identity, params: { name } }) => ({
        changed: await pauseJob(roles.control(identity), name),
      }),
    }),
    route({
      method: 'POST',
      path: '/v1/jobs/{name}/resume',
      tag: 'scheduler',
      summary: 'Creates runs again, from the next occurrence on.',
      access: 'operate',
      participants: 'refused',
      params: jobNameParam,
      answers: { 200: { description: 'The job is not paused.', schema: Changed } },
      problems: ['JOB_NOT_FOUND', 'INVALID_ARGUMENT'],
      example: { params: PARAMS, status: 200, answer: { changed: true } },
      handle: async ({ identity, params: { name } }) => ({
        changed: await resumeJob(roles.control(identity), name),
      }),
    }),
    route({
      method: 'POST',
      path: '/v1/jobs/{name}/trigger',
      tag: 'scheduler',
      summary: 'Creates a run that is due now, in addition to the schedule.',
      access: 'operate',
      participants: 'refused',
      params: jobNameParam,
      answers: { 200: { description: 'The run.', schema: JobTriggered } },
      problems: ['JOB_NOT_FOUND', 'INVALID_ARGUMENT'],
      example: {
        params: PARAMS,
        status: 200,
        answer: { name: EXAMPLE.jobName, runId: EXAMPLE.runId, scheduledFor: EXAMPLE.at },
      },
      handle: async ({ identity, params: { name } }) => {
        const { runId, scheduledFor } = await triggerJob(roles.control(identity), name)
        return { name, runId, scheduledFor: scheduledFor.toISOString() }
      },
    }),
    route({
      method: 'GET',
      path: '/v1/jobs/{name}/runs',
      tag: 'scheduler',
      summary: 'Runs of a job, newest occurrence first; also of a deleted job.',
      access: 'read',
      participants: 'refused',
      params: jobNameParam,
      query: { state: Type.Optional(oneOf([...WORK_STATES])), ...range, ...page },
      answers: { 200: { description: 'A page of runs.', schema: JobRunPage } },
      problems: ['INVALID_QUERY', 'INVALID_ARGUMENT'],
      invalid: 'INVALID_QUERY',
      example: {
        params: PARAMS,
        query: { limit: '20' },
        status: 200,
        answer: {
          items: [
            {
              runId: EXAMPLE.runId,
              jobName: EXAMPLE.jobName,
              scheduledFor: EXAMPLE.at,
              triggeredBy: null,
              topic: EXAMPLE.railType,
              delivery: 'outbox',
              state: 'ENQUEUED',
              attemptCount: 0,
              startedAt: EXAMPLE.at,
              finishedAt: null,
              error: null,
              outboxId: EXAMPLE.paidId,
              outboxState: 'PENDING',
            },
          ],
          next: null,
        },
      },
      handle: async ({ params: { name }, query: { state, cursor, limit = LIMIT_DEFAULT, ...times } }) => {
        const search = { jobName: name, state, after: decodeCursor(RUNS, cursor), limit, ...sinceUntil(times) }
        return paged(RUNS, await readJobRunPage(roles.readonly, search), limit)
      },
    }),
    route({
      method: 'DELETE',
      path: '/v1/jobs/{name}',
      tag: 'scheduler',
      summary: 'Deletes a job and its runs that have not started. Succeeds if there is no such job.',
      access: 'operate',
      participants: 'refused',
      params: jobNameParam,
      answers: { 200: { description: 'The job does not exist.', schema: JobDeleted } },
      problems: ['INVALID_ARGUMENT'],
      example: {
        params: PARAMS,
        status: 200,
        answer: { name: EXAMPLE.jobName, deleted: true, runsRemoved: 1 },
      },
      handle: async ({ identity, params: { name } }) => ({
        name,
        ...(await deleteJob(roles.control(identity), name)),
      }),
    }),
    route({
      method: 'GET',
      path: '/v1/timers',
      tag: 'scheduler',
      summary: 'Timers in a state: pending timers by due time, ended timers by the time of their end, newest first.',
      access: 'read',
      participants: 'refused',
      query: { state: Type.Optional(oneOf([...WORK_STATES], 'default READY')), ...page },
      answers: { 200: { description: 'A page of timers.', schema: TimerPage } },
      problems: ['INVALID_QUERY'],
      example: {
        query: { state: 'READY' },
        status: 200,
        answer: {
          items: [
            {
              timerId: EXAMPLE.timerId,
              topic: EXAMPLE.railType,
              participantId: null,
              delivery: 'outbox',
              dueAt: EXAMPLE.at,
              state: 'READY',
              attemptCount: 0,
              claimedBy: null,
              createdAt: EXAMPLE.at,
              startedAt: null,
              finishedAt: null,
              error: null,
              outboxId: null,
            },
          ],
          next: null,
        },
      },
      handle: async ({ query: { state = 'READY', cursor, limit = LIMIT_DEFAULT } }) => {
        const after = decodeCursor(TIMERS, cursor)
        return paged(TIMERS, await readTimerPage(roles.readonly, { state, after, limit }), limit)
      },
    }),
    route({
      method: 'PUT',
      path: '/v1/timers/{timerId}',
      tag: 'scheduler',
      summary: 'Schedules a message for one time, under an id that the caller chooses. Repeating the request is safe.',
      access: 'ingest',
      participants: 'refused',
      params: timerIdParam,
      body: TimerBody,
      answers: {
        200: { description: 'The timer is scheduled, now or by an earlier request.', schema: TimerScheduled },
      },
      problems: ['IDEMPOTENCY_CONFLICT', 'INVALID_ARGUMENT'],
      example: {
        params: { timerId: EXAMPLE.timerId },
        body: { topic: EXAMPLE.railType, payload: {}, dueAt: '2099-01-01T00:00:00Z' },
        status: 200,
        answer: { timerId: EXAMPLE.timerId },
      },
      handle: async ({ params: { timerId }, body: { topic, payload, dueAt, participantId, delivery } }) => {
        refuseNotices('', { topic, participantId })
        const timer = {
          timerId,
          topic,
          payload,
          dueAt: parseTime('dueAt', dueAt),
          ...(participantId === undefined ? {} : { participantId }),
          ...(delivery === undefined ? {} : { delivery }),
        }
        return { timerId: await scheduleTimer(roles.ingest, timer) }
      },
    }),
    route({
      method: 'POST',
      path: '/v1/timers/{timerId}/cancel',
      tag: 'scheduler',
      summary: 'Cancels a timer for ever, even a claimed one. Its message is never sent.',
      access: 'operate',
      participants: 'refused',
      params: timerIdParam,
      answers: {
        200: {
          description: 'The timer is cancelled. Without a change, it has ended or does not exist.',
          schema: Changed,
        },
      },
      problems: ['INVALID_ARGUMENT'],
      example: { params: { timerId: EXAMPLE.timerId }, status: 200, answer: { changed: true } },
      handle: async ({ identity, params: { timerId } }) => ({
        changed: await cancelTimer(roles.control(identity), timerId),
      }),
    }),
  ]
}

function definitionOf(name: string, body: JobGiven): JobDefinition {
  const { cron, timeZone, topic, payload, participantId, missedRuns, delivery } = body
  refuseNotices('', { topic, participantId })
  return {
    name,
    cron,
    topic,
    payload,
    ...(timeZone === undefined ? {} : { timeZone }),
    ...(participantId === undefined ? {} : { participantId }),
    ...(missedRuns === undefined ? {} : { missedRuns }),
    ...(delivery === undefined ? {} : { delivery }),
  }
}

interface Row<View> {
  readonly view: View
  readonly cursor: TimeCursor
}

function paged<View>(kind: CursorKind<'micros' | 'id'>, rows: readonly Row<View>[], limit: number) {
  const last = rows.length === limit ? rows.at(-1) : undefined
  return {
    items: rows.map(({ view }) => view),
    next: last === undefined ? null : encodeCursor(kind, last.cursor),
  }
}
