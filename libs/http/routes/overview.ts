import { Type } from '#typebox'
import { ALERT_RULES, type AlertRule } from '../../observability/index.js'
import { readOutboxStatus, readServerVersion, readWorkerHistory } from '../../outbox/index.js'
import type { Member } from '../../platform/index.js'
import { settleWithin } from '../../worker/index.js'
import type { Identity } from '../access/Identity.js'
import type { Api } from '../Api.js'
import { Id } from '../shapes/common.js'
import { Alerts, Databases, Me, Rails, Status, WorkerHistory, Workers, type DatabaseView } from '../shapes/overview.js'
import { readRails, readWorkers, type StatusCache } from '../StatusCache.js'
import { EXAMPLE } from './examples.js'
import { route, type Route } from './route.js'

const RAIL_EXAMPLE = {
  railType: EXAMPLE.railType,
  pending: 3,
  due: 1,
  inFlight: 1,
  held: 1,
  oldestDueAgeSeconds: 0.4,
  workers: 1,
  calls: 1,
  breakers: { closed: 1, halfOpen: 0, open: 0 },
  pause: null,
}

const RULE_EXAMPLE = {
  name: 'SymphonyPaymentsHeld',
  severity: 'warning',
  summary: 'A payment has been held for more than 5 min and waits for a decision.',
  threshold: { setting: 'alertHeldSeconds', value: 300 },
}

const ALERT_EXAMPLE = {
  name: RULE_EXAMPLE.name,
  state: 'firing',
  severity: RULE_EXAMPLE.severity,
  summary: RULE_EXAMPLE.summary,
  firstLook: 'symphony holds list: the reason of each.',
  remedy: 'Ask the rail about the payment, then symphony holds resolve. A second person approves.',
  value: 1,
  since: EXAMPLE.at,
  forSeconds: 0,
}

function ruleOf({ name, severity, summary, threshold }: AlertRule) {
  return { name, severity, summary, threshold: threshold ?? null }
}

const STATUS_EXAMPLE = {
  database: 'payments',
  at: EXAMPLE.at,
  queue: {
    pendingCount: '3',
    dueUnleasedCount: '1',
    leasedCount: '1',
    expiredLeaseCount: '0',
    scheduledCount: '0',
    blockedCount: '0',
    heldCount: '1',
    oldestPendingAgeSeconds: 62.5,
    oldestDueAgeSeconds: 0.4,
    countsAgeSeconds: 0,
    dispatchedTotal: '1041',
    retryableTotal: '12',
    failedTotal: '2',
    zombieRequeueTotal: '0',
    dispatchedLastHour: '58',
    retryableLastHour: '1',
    failedLastHour: '0',
    returnedTotal: '1',
    dlqDepth: '2',
    cancelledTotal: '1',
    cancelledLastHour: '0',
    unreviewedContradictionCount: '1',
    outcomeUnknownCount: '1',
    messages: { heldCount: '0', deadCount: '1', deadLastHour: '0' },
  },
  allPaused: null,
  rails: [RAIL_EXAMPLE],
  workers: { alive: 1, silent: 0 },
  alerts: [ALERT_EXAMPLE],
  throughput: [{ minute: EXAMPLE.at, dispatched: 12, retryable: 1, failed: 0, zombieRequeue: 0, outcomeUnknown: 1 }],
  latency: { sampled: 58, p50Ms: 81, p90Ms: 160, p99Ms: 197, maxMs: 199 },
  errors: [
    { railType: EXAMPLE.railType, state: 'RETRYABLE', errorCode: 'RAIL_TIMEOUT', outcomeUnknown: true, count: 1 },
  ],
}

/** Routes for the status of the database. All except `/v1/me` cover all participants. */
export function overviewRoutes(
  { roles, readStatusSnapshot, readDatabases, alertRules: rules = ALERT_RULES }: Api,
  statusCache: StatusCache,
): readonly Route[] {
  const common = { method: 'GET', tag: 'overview', access: 'read', participants: 'refused', problems: [] } as const
  return [
    route({
      ...common,
      path: '/v1/me',
      summary: 'Identity of the caller: person, scopes, and the participants that the key is restricted to.',
      access: 'any',
      participants: 'filtered',
      answers: { 200: { description: 'The caller.', schema: Me } },
      example: {
        status: 200,
        answer: {
          owner: 'alice',
          scopes: ['read', 'operate'],
          participants: null,
          via: 'key',
          keyId: 'k3y1d0000000000a',
          expiresAt: null,
        },
      },
      handle: async ({ identity }) => describeCaller(identity),
    }),
    route({
      ...common,
      path: '/v1/status',
      summary: 'The queue, rails, workers, alerts, the last hour’s throughput, latencies and errors, in one answer.',
      answers: { 200: { description: 'The status, at most a second old.', schema: Status } },
      example: { status: 200, answer: STATUS_EXAMPLE },
      handle: () => statusCache.read(),
    }),
    route({
      ...common,
      path: '/v1/rails',
      summary: 'Rails with their queues, workers, circuit breakers and pauses.',
      answers: {
        200: {
          description:
            'All rails with pending items, a pause or a live worker. Counts and ages are current for a queue of up to ' +
            '50,000 items. For a larger queue they are stored counts, some seconds old: `countsAgeSeconds` of /v1/status.',
          schema: Rails,
        },
      },
      example: { status: 200, answer: { rails: [RAIL_EXAMPLE] } },
      handle: async () => ({ rails: await readRails(roles.readonly) }),
    }),
    route({
      ...common,
      path: '/v1/workers',
      summary:
        'Workers that reported within a day and did not stop, newest first. A worker without a report for a minute counts as dead.',
      answers: { 200: { description: 'Workers as they last reported.', schema: Workers } },
      example: {
        status: 200,
        answer: {
          workers: [
            {
              workerId: 'worker-1',
              alive: true,
              deadSince: null,
              startedAt: EXAMPLE.at,
              lastSeenAt: EXAMPLE.at,
              running: 1,
              waiting: 0,
              completing: 0,
              leases: 1,
              rails: [{ railType: EXAMPLE.railType, breaker: 'closed', calls: 1 }],
            },
          ],
        },
      },
      handle: async () => ({ workers: await readWorkers(roles.readonly) }),
    }),
    route({
      ...common,
      path: '/v1/workers/history',
      summary: 'Breaker changes and throughput of a rail, of a worker or of all. Workers that ended are included.',
      problems: ['INVALID_QUERY'],
      query: { rail: Type.Optional(Id), worker: Type.Optional(Id) },
      answers: { 200: { description: 'The history, a few seconds behind the ledger.', schema: WorkerHistory } },
      example: {
        query: { rail: EXAMPLE.railType },
        status: 200,
        answer: {
          breakerChanges: [
            { at: EXAMPLE.at, railType: EXAMPLE.railType, workerId: 'worker-1', from: 'closed', to: 'open' },
          ],
          throughput: [{ from: EXAMPLE.at, dispatched: 11, failed: 1, retried: 2 }],
        },
      },
      handle: ({ query: { rail, worker } }) =>
        readWorkerHistory(roles.readonly, { railType: rail ?? null, workerId: worker ?? null }),
    }),
    route({
      ...common,
      path: '/v1/alerts',
      summary: 'Active alerts, and all alert rules with their thresholds. Every process returns the same.',
      answers: { 200: { description: 'Alerts and rules.', schema: Alerts } },
      example: { status: 200, answer: { alerts: [ALERT_EXAMPLE], rules: [RULE_EXAMPLE] } },
      handle: async () => ({ alerts: (await readStatusSnapshot()).alerts, rules: rules.map(ruleOf) }),
    }),
    route({
      ...common,
      path: '/v1/databases',
      summary: 'The databases that this process serves.',
      answers: { 200: { description: 'Databases with the counts of their queues.', schema: Databases } },
      example: {
        status: 200,
        answer: {
          databases: [
            {
              name: 'payments',
              schema: 'symphony',
              state: 'up',
              pendingCount: '3',
              oldestPendingAgeSeconds: 62.5,
              heldCount: '1',
              serverVersion: '18.4',
            },
          ],
        },
      },
      handle: async () => ({ databases: await readDatabases() }),
    }),
  ]
}

export function describeCaller({ owner, scopes, participants, via, apiKey, expiresAt }: Identity): Me {
  return {
    owner,
    scopes: [...scopes],
    participants: participants === null ? null : [...participants],
    via,
    keyId: apiKey?.keyId ?? null,
    expiresAt: expiresAt?.toISOString() ?? null,
  }
}

type Described = Pick<Member, 'name' | 'database'>

/**
 * Describes each database for `GET /v1/databases`, in the given order. Queries ten at a time, and waits 2 s for each.
 */
export async function describeDatabases(all: readonly Described[]): Promise<DatabaseView[]> {
  const views: DatabaseView[] = []
  for (let from = 0; from < all.length; from += AT_ONCE) {
    views.push(...(await Promise.all(all.slice(from, from + AT_ONCE).map(describe))))
  }
  return views
}

/** Describes a database. A database that does not answer is `down`, with unknown counts. */
async function describe({ name, database }: Described): Promise<DatabaseView> {
  const { schema } = database
  let view: DatabaseView = { name, schema, state: 'down', ...UNKNOWN }
  const reading = readCounts(database).then((counts) => (view = { name, schema, state: 'up', ...counts }))
  await settleWithin(reading, ANSWER_MS)
  return view
}

async function readCounts(database: Described['database']): Promise<Omit<DatabaseView, 'name' | 'schema' | 'state'>> {
  const readonly = database.as('symphony_readonly')
  const { pendingCount, heldCount, oldestPendingAgeSeconds } = await readOutboxStatus(readonly)
  return {
    pendingCount: String(pendingCount),
    oldestPendingAgeSeconds,
    heldCount: String(heldCount),
    serverVersion: await readServerVersion(readonly),
  }
}

const UNKNOWN = { pendingCount: null, oldestPendingAgeSeconds: null, heldCount: null, serverVersion: null }
/** Databases queried at the same time, over one connection each. */
const AT_ONCE = 10
const ANSWER_MS = 2_000
