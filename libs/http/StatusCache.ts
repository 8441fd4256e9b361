import { isObject, systemClock, type Clock, type JsonObject, type JsonValue } from '../core/index.js'
import {
  readLatestAttempts,
  readDatabaseTime,
  readOutboxStatus,
  readPauses,
  readRailQueues,
  readThroughput,
  readWorkerReports,
  type OutboxStatus,
  type PauseView,
  type RailQueue,
  type WorkerReport,
} from '../outbox/index.js'
import type { Api, Role } from './Api.js'
import type { QueueStats, Rail, Status, WorkerView } from './shapes/overview.js'

/** Caches the status, so that all pages and streams together read it from the database about once per second. */
export class StatusCache {
  readonly #api: Pick<Api, 'databaseName' | 'readStatusSnapshot'>
  readonly #role: Role
  readonly #clock: Clock
  #latest: { readonly status: Promise<Status>; readonly untilMs: number } | undefined

  constructor({ roles, databaseName, readStatusSnapshot }: Api, clock: Clock = systemClock) {
    this.#api = { databaseName, readStatusSnapshot }
    this.#role = roles.readonly
    this.#clock = clock
  }

  read(): Promise<Status> {
    const nowMs = this.#clock.monotonicMs()
    if (this.#latest !== undefined && this.#latest.untilMs > nowMs) return this.#latest.status
    const status = this.#read()
    const latest = { status, untilMs: nowMs + FRESH_MS }
    this.#latest = latest
    status.catch(() => {
      if (this.#latest === latest) this.#latest = undefined
    })
    return status
  }

  async #read(): Promise<Status> {
    const role = this.#role
    // Sends one query at a time, so that a read uses one connection. The snapshot of the alerts usually contains the
    // queue; otherwise the queue is read here.
    const { alerts, queue } = await this.#api.readStatusSnapshot()
    const figures = figuresOf(queue ?? (await readOutboxStatus(role)))
    const reports = await readWorkerReports(role)
    const pauses = await readPauses(role)
    const rails = railsOf(await readRailQueues(role), pauses, reports)
    const throughput = await readThroughput(role)
    const { latency, errors } = await readLatestAttempts(role)
    const at = await readDatabaseTime(role)
    const alive = reports.filter((report) => report.alive).length
    return {
      database: this.#api.databaseName,
      at,
      queue: figures,
      allPaused: pauses.find(({ kind }) => kind === 'all') ?? null,
      rails,
      workers: { alive, silent: reports.length - alive },
      alerts: [...alerts],
      throughput,
      latency,
      errors,
    }
  }
}

/** Reads every rail that has pending items, is paused, or is served by a live worker. */
export async function readRails(role: Role): Promise<Rail[]> {
  const [queues, pauses, reports] = await Promise.all([readRailQueues(role), readPauses(role), readWorkerReports(role)])
  return railsOf(queues, pauses, reports)
}

export async function readWorkers(role: Role): Promise<WorkerView[]> {
  return (await readWorkerReports(role)).map(workerOf)
}

function railsOf(queues: readonly RailQueue[], pauses: readonly PauseView[], reports: readonly WorkerReport[]): Rail[] {
  const paused = new Map(pauses.flatMap((pause) => (pause.kind === 'rail' ? [[pause.name, pause]] : [])))
  const served = reports.flatMap((report) => (report.alive ? workerOf(report).rails : []))
  const queued = new Map(queues.map((queue) => [queue.railType, queue]))
  const names = new Set([...queued.keys(), ...paused.keys(), ...served.map(({ railType }) => railType)])
  return [...names].toSorted().map((railType) => {
    const own = served.filter((rail) => rail.railType === railType)
    const breakers = { closed: 0, halfOpen: 0, open: 0 }
    for (const { breaker } of own) breakers[breaker === 'half-open' ? 'halfOpen' : breaker] += 1
    const { pending, due, inFlight, held, oldestDueAgeSeconds } = queued.get(railType) ?? NOTHING_QUEUED
    return {
      railType,
      pending,
      due,
      inFlight,
      held,
      oldestDueAgeSeconds,
      workers: own.length,
      calls: own.reduce((sum, { calls }) => sum + calls, 0),
      breakers,
      pause: paused.get(railType) ?? null,
    }
  })
}

const NOTHING_QUEUED = { pending: 0, due: 0, inFlight: 0, held: 0, oldestDueAgeSeconds: 0 }

/** Converts a worker's report. Omits unexpected values, because the report is arbitrary JSON. */
function workerOf({ detail, ...report }: WorkerReport): WorkerView {
  return {
    ...report,
    deadSince: report.alive ? null : report.lastSeenAt,
    running: countIn(detail['running']),
    waiting: countIn(detail['waiting']),
    completing: countIn(detail['completing']),
    rails: objectsIn(detail['rails']).flatMap(servedRail),
  }
}

/** Maximum number of entries read from a list in a report. Reports of real workers have fewer. */
const REPORTED_MAX = 1_000

function objectsIn(list: JsonValue | undefined): readonly JsonObject[] {
  return Array.isArray(list)
    ? list.slice(0, REPORTED_MAX).flatMap((one: JsonValue) => (isObject(one) ? [one] : []))
    : []
}

function servedRail({ railType, breaker, calls }: JsonObject): WorkerView['rails'] {
  const state = BREAKERS.find((word) => word === breaker)
  return typeof railType === 'string' && state !== undefined
    ? [{ railType, breaker: state, calls: countIn(calls) ?? 0 }]
    : []
}

const BREAKERS = ['closed', 'open', 'half-open'] as const

function countIn(value: JsonValue | undefined): number | null {
  return typeof value === 'number' && Number.isInteger(value) ? value : null
}

function figuresOf(queue: OutboxStatus): QueueStats {
  const {
    countsAgeSeconds,
    oldestPendingAgeSeconds,
    oldestDueAgeSeconds,
    kinds: { message },
  } = queue
  return {
    pendingCount: String(queue.pendingCount),
    dueUnleasedCount: String(queue.dueUnleasedCount),
    leasedCount: String(queue.leasedCount),
    expiredLeaseCount: String(queue.expiredLeaseCount),
    scheduledCount: String(queue.scheduledCount),
    blockedCount: String(queue.blockedCount),
    heldCount: String(queue.heldCount),
    countsAgeSeconds,
    oldestPendingAgeSeconds,
    oldestDueAgeSeconds,
    dispatchedTotal: String(queue.dispatchedTotal),
    retryableTotal: String(queue.retryableTotal),
    failedTotal: String(queue.failedTotal),
    zombieRequeueTotal: String(queue.zombieRequeueTotal),
    dispatchedLastHour: String(queue.dispatchedLastHour),
    retryableLastHour: String(queue.retryableLastHour),
    failedLastHour: String(queue.failedLastHour),
    returnedTotal: String(queue.returnedTotal),
    dlqDepth: String(queue.dlqDepth),
    cancelledTotal: String(queue.cancelledTotal),
    cancelledLastHour: String(queue.cancelledLastHour),
    unreviewedContradictionCount: String(queue.unreviewedContradictionCount),
    outcomeUnknownCount: String(queue.outcomeUnknownCount),
    messages: {
      heldCount: String(message.held),
      deadCount: String(message.failed - message.cancelled),
      deadLastHour: String(message.deadLastHour),
    },
  }
}

/**
 * Time for which a status is reused. Slightly less than the poll interval of streams, so that each poll reads a new
 * one.
 */
const FRESH_MS = 800
