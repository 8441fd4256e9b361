import { Type, type Static } from '#typebox'
import { Id, nullable, oneOf, shape, Timestamp, Uuid, WholeNumber } from './common.js'
import { ItemStateShape } from './outbox.js'

export const Alert = shape({
  name: Type.String(),
  state: oneOf(['pending', 'firing'], 'pending: its condition is met, but not for long enough yet'),
  severity: oneOf(['warning', 'critical']),
  summary: Type.String(),
  firstLook: Type.String(),
  remedy: Type.String(),
  value: nullable(Type.Number()),
  since: Timestamp,
  forSeconds: Type.Number(),
  detail: Type.Optional(Type.String({ description: 'cause, if the database names it' })),
})
export type Alert = Static<typeof Alert>

const AlertRule = shape({
  name: Type.String(),
  severity: oneOf(['warning', 'critical']),
  summary: Type.String(),
  threshold: nullable(
    shape({
      setting: Type.String({ description: 'setting of this threshold' }),
      value: Type.Number({ description: 'in seconds, if the setting ends in Seconds' }),
    }),
  ),
})
type AlertRule = Static<typeof AlertRule>

export const Alerts = shape({ alerts: Type.Array(Alert), rules: Type.Array(AlertRule) })
export type Alerts = Static<typeof Alerts>

const BreakerShape = oneOf(['closed', 'open', 'half-open'])

const WorkerRail = shape({ railType: Id, breaker: BreakerShape, calls: Type.Integer() })

/**
 * Last report of a worker. A worker that stopped cleanly is not listed. A killed worker is dead since its last report.
 */
export const WorkerView = shape({
  workerId: Type.String(),
  alive: Type.Boolean({ description: 'reported within the last minute' }),
  deadSince: nullable(Timestamp),
  startedAt: Timestamp,
  lastSeenAt: Timestamp,
  running: nullable(Type.Integer({ description: 'calls to rails in progress' })),
  waiting: nullable(Type.Integer({ description: 'leased items that wait for a slot' })),
  completing: nullable(Type.Integer({ description: 'outcomes being recorded' })),
  leases: Type.Integer({ description: 'items leased to it now, by the queue' }),
  rails: Type.Array(WorkerRail),
})
export type WorkerView = Static<typeof WorkerView>

export const Workers = shape({ workers: Type.Array(WorkerView) })
export type Workers = Static<typeof Workers>

const BreakerChange = shape({ at: Timestamp, railType: Id, workerId: Id, from: BreakerShape, to: BreakerShape })

const WorkerThroughput = shape({
  from: Timestamp,
  dispatched: Type.Integer(),
  failed: Type.Integer(),
  retried: Type.Integer({ description: 'attempts that a retry follows, expired leases included' }),
})

/** History of workers. The database stores it, so the history remains after a worker's process has ended. */
export const WorkerHistory = shape({
  breakerChanges: Type.Array(BreakerChange, { description: 'the last 20 changes, latest first' }),
  throughput: Type.Array(WorkerThroughput, {
    description: 'sealed attempts per 5 minutes of the last hour, latest first, without empty intervals',
  }),
})
export type WorkerHistory = Static<typeof WorkerHistory>

/** Pause of a rail, a participant, a participant's ordered stream, or everything. */
export const Pause = shape({
  kind: oneOf(['rail', 'participant', 'stream', 'all']),
  name: Id,
  reason: Type.String(),
  pausedBy: Type.String(),
  pausedAt: Timestamp,
})
export type Pause = Static<typeof Pause>

export const Pauses = shape({
  pauses: Type.Array(Pause),
  rails: Type.Array(Id, {
    description: 'rails that a process has declared, that have pending items or that are paused',
  }),
})
export type Pauses = Static<typeof Pauses>

/** Rail with its queue and the reports of its live workers. */
export const Rail = shape({
  railType: Id,
  pending: Type.Integer(),
  due: Type.Integer(),
  inFlight: Type.Integer({ description: 'leased items' }),
  held: Type.Integer(),
  oldestDueAgeSeconds: Type.Number(),
  workers: Type.Integer({ description: 'live workers that serve it' }),
  calls: Type.Integer({ description: 'calls in progress, as those workers last reported' }),
  breakers: shape({ closed: Type.Integer(), halfOpen: Type.Integer(), open: Type.Integer() }),
  pause: nullable(Pause),
})
export type Rail = Static<typeof Rail>

export const Rails = shape({ rails: Type.Array(Rail) })
export type Rails = Static<typeof Rails>

/** Database that this process serves, without address and login. */
export const DatabaseView = shape({
  name: Type.String(),
  schema: Type.String(),
  state: oneOf(['up', 'down']),
  pendingCount: nullable(Type.String({ description: 'null while the database does not answer' })),
  oldestPendingAgeSeconds: nullable(Type.Number()),
  heldCount: nullable(Type.String()),
  serverVersion: nullable(Type.String()),
})
export type DatabaseView = Static<typeof DatabaseView>

export const Databases = shape({ databases: Type.Array(DatabaseView) })
export type Databases = Static<typeof Databases>

const ScopeShape = oneOf(['ingest', 'read', 'audit', 'operate'])
export type Scope = Static<typeof ScopeShape>

export const Me = shape({
  owner: Type.String({ description: 'person of two-person decisions' }),
  scopes: Type.Array(ScopeShape),
  participants: nullable(Type.Array(Id, { description: 'participants that the key is restricted to' })),
  via: oneOf(['token', 'key', 'jwt', 'session']),
  keyId: nullable(Type.String()),
  expiresAt: nullable(Timestamp),
})
export type Me = Static<typeof Me>

export const SignInMethods = shape({
  provider: nullable(Type.String({ description: 'name of the identity provider' })),
})
export type SignInMethods = Static<typeof SignInMethods>

export const StartedSignIn = shape({ authorizationUrl: Type.String() })
export type StartedSignIn = Static<typeof StartedSignIn>

export const SignedOut = shape({ signOutUrl: nullable(Type.String()) })
export type SignedOut = Static<typeof SignedOut>

/** Counts of the queue. Each pending item is due, leased, expired, scheduled, blocked or held. */
export const QueueStats = shape({
  pendingCount: WholeNumber,
  dueUnleasedCount: WholeNumber,
  leasedCount: WholeNumber,
  expiredLeaseCount: WholeNumber,
  scheduledCount: WholeNumber,
  blockedCount: WholeNumber,
  heldCount: WholeNumber,
  oldestPendingAgeSeconds: Type.Number(),
  oldestDueAgeSeconds: Type.Number(),
  countsAgeSeconds: Type.Number({ description: 'age of the counts of pending items; 0 unless the queue is large' }),
  dispatchedTotal: WholeNumber,
  retryableTotal: WholeNumber,
  failedTotal: WholeNumber,
  zombieRequeueTotal: WholeNumber,
  dispatchedLastHour: WholeNumber,
  retryableLastHour: WholeNumber,
  failedLastHour: WholeNumber,
  returnedTotal: { ...WholeNumber, description: 'DISPATCHED payments of which the rail returned money' },
  dlqDepth: WholeNumber,
  cancelledTotal: WholeNumber,
  cancelledLastHour: WholeNumber,
  unreviewedContradictionCount: WholeNumber,
  outcomeUnknownCount: WholeNumber,
  messages: {
    ...shape({ heldCount: WholeNumber, deadCount: WholeNumber, deadLastHour: WholeNumber }),
    description: 'messages among the held and the FAILED items; cancelled ones do not count',
  },
})
export type QueueStats = Static<typeof QueueStats>

export const ThroughputMinute = shape({
  minute: Timestamp,
  dispatched: Type.Integer(),
  retryable: Type.Integer(),
  failed: Type.Integer(),
  zombieRequeue: Type.Integer({ description: 'leases that expired' }),
  outcomeUnknown: Type.Integer({
    description: 'attempts among retryable and zombieRequeue that left the outcome unknown: the rail may have paid',
  }),
})
export type ThroughputMinute = Static<typeof ThroughputMinute>

/** Latency of rails in the newest attempts of the last hour; null if no attempt was measured. */
export const LatencyStats = shape({
  sampled: Type.Integer({ description: 'number of attempts, at most 5000' }),
  p50Ms: nullable(Type.Number()),
  p90Ms: nullable(Type.Number()),
  p99Ms: nullable(Type.Number()),
  maxMs: nullable(Type.Number()),
})
export type LatencyStats = Static<typeof LatencyStats>

/** Count of an error code in the newest attempts of the last hour. The most frequent comes first. */
export const ErrorCount = shape({
  railType: Type.String(),
  state: oneOf(['FAILED', 'RETRYABLE', 'ZOMBIE_REQUEUE']),
  errorCode: nullable(Type.String()),
  outcomeUnknown: Type.Boolean({ description: 'the rail may have paid: the outcome was unknown afterwards' }),
  count: Type.Integer(),
})
export type ErrorCount = Static<typeof ErrorCount>

export const Status = shape({
  database: Type.String({ description: 'its name, as in /v1/databases' }),
  at: Timestamp,
  queue: QueueStats,
  allPaused: nullable(Pause),
  rails: Type.Array(Rail),
  workers: shape({
    alive: Type.Integer({ description: 'reported within the last minute' }),
    silent: Type.Integer({ description: 'dead: did not stop cleanly and did not report within a minute' }),
  }),
  alerts: Type.Array(Alert),
  throughput: Type.Array(ThroughputMinute, { description: 'the last 60 minutes, oldest first, without gaps' }),
  latency: LatencyStats,
  errors: Type.Array(ErrorCount),
})
export type Status = Static<typeof Status>

/** Event `status`: the body of GET /v1/status, at most about once per second, and only after a change. */
export const StatusEvent = Status
export type StatusEvent = Static<typeof StatusEvent>

/**
 * Event `items`: items changed since the last such event. `truncated`: more items changed than are listed, so the
 * client should read the page again.
 */
export const ItemsEvent = shape({
  items: Type.Array(shape({ outboxId: Uuid, instructionId: Id, state: ItemStateShape })),
  truncated: Type.Boolean(),
})
export type ItemsEvent = Static<typeof ItemsEvent>

/**
 * Event `looked`, sent about once per second after the server has read the database. If it stops arriving, the shown
 * data may be old.
 */
export const LookedEvent = shape({ at: Timestamp })
export type LookedEvent = Static<typeof LookedEvent>
