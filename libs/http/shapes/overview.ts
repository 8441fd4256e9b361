import { Type, type Static } from 'typebox'
import { Id, nullable, oneOf, shape, Timestamp, Uuid, WholeNumber } from './common.js'
import { ItemStateShape } from './outbox.js'

/** The verdict of one alert rule. */
export const Alert = shape({
  name: Type.String(),
  state: oneOf(['pending', 'firing'], 'pending: it holds, and not for long enough yet'),
  severity: oneOf(['warning', 'critical']),
  summary: Type.String(),
  firstLook: Type.String(),
  remedy: Type.String(),
  /** Value that the rule compares. */
  value: nullable(Type.Number()),
  since: Timestamp,
  forSeconds: Type.Number(),
  detail: Type.Optional(Type.String({ description: 'the cause, where the database names it' })),
})
export type Alert = Static<typeof Alert>

/** One alert rule, whether it fires or not. */
const AlertRule = shape({
  name: Type.String(),
  severity: oneOf(['warning', 'critical']),
  summary: Type.String(),
  threshold: nullable(
    shape({
      setting: Type.String({ description: 'the setting that moves it' }),
      value: Type.Number({ description: 'of seconds, where the setting ends in Seconds' }),
    }),
  ),
})
type AlertRule = Static<typeof AlertRule>

export const Alerts = shape({ alerts: Type.Array(Alert), rules: Type.Array(AlertRule) })
export type Alerts = Static<typeof Alerts>

const BreakerShape = oneOf(['closed', 'open', 'half-open'])

const WorkerRail = shape({ railType: Id, breaker: BreakerShape, calls: Type.Integer() })

/** A worker as it last reported. One that stopped cleanly is not listed; one that was killed is dead since its last report. */
export const WorkerView = shape({
  workerId: Type.String(),
  alive: Type.Boolean({ description: 'reported within the last 30 seconds' }),
  deadSince: nullable(Timestamp),
  startedAt: Timestamp,
  lastSeenAt: Timestamp,
  running: nullable(Type.Integer({ description: 'calls to rails in progress' })),
  waiting: nullable(Type.Integer({ description: 'leased, and waiting for a slot' })),
  completing: nullable(Type.Integer({ description: 'outcomes that are being recorded' })),
  leases: Type.Integer({ description: 'items that are leased to it now, as the queue says' }),
  rails: Type.Array(WorkerRail),
})
export type WorkerView = Static<typeof WorkerView>

export const Workers = shape({ workers: Type.Array(WorkerView) })
export type Workers = Static<typeof Workers>

/** A pause of a rail, a participant, a participant's ordered stream, or everything. */
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
  rails: Type.Array(Id, { description: 'rails that a process declared, that items wait for or that are paused' }),
})
export type Pauses = Static<typeof Pauses>

/** A rail: what the queue holds for it, and what living workers say of it. */
export const Rail = shape({
  railType: Id,
  pending: Type.Integer(),
  due: Type.Integer(),
  inFlight: Type.Integer({ description: 'leased items' }),
  held: Type.Integer(),
  oldestDueAgeSeconds: Type.Number(),
  workers: Type.Integer({ description: 'living workers that serve it' }),
  calls: Type.Integer({ description: 'calls in progress, as those workers last said' }),
  breakers: shape({ closed: Type.Integer(), halfOpen: Type.Integer(), open: Type.Integer() }),
  pause: nullable(Pause),
})
export type Rail = Static<typeof Rail>

export const Rails = shape({ rails: Type.Array(Rail) })
export type Rails = Static<typeof Rails>

/** A database that this process serves. No address, no login. */
export const DatabaseView = shape({
  name: Type.String(),
  schema: Type.String(),
  state: oneOf(['up', 'down']),
  pendingCount: nullable(Type.String({ description: 'null while it does not answer' })),
  oldestPendingAgeSeconds: nullable(Type.Number()),
  heldCount: nullable(Type.String()),
  serverVersion: nullable(Type.String()),
})
export type DatabaseView = Static<typeof DatabaseView>

export const Databases = shape({ databases: Type.Array(DatabaseView) })
export type Databases = Static<typeof Databases>

const ScopeShape = oneOf(['ingest', 'read', 'audit', 'operate'])
export type Scope = Static<typeof ScopeShape>

/** Identity of the caller. */
export const Me = shape({
  owner: Type.String({ description: 'the person of two-person actions' }),
  scopes: Type.Array(ScopeShape),
  participants: nullable(Type.Array(Id, { description: 'the only ones it sees and pays for' })),
  via: oneOf(['token', 'key', 'jwt']),
  keyId: nullable(Type.String()),
  expiresAt: nullable(Timestamp),
})
export type Me = Static<typeof Me>

/** Each pending item is counted in exactly one of due, leased, expired, scheduled, blocked, held. */
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
  dispatchedTotal: WholeNumber,
  retryableTotal: WholeNumber,
  failedTotal: WholeNumber,
  zombieRequeueTotal: WholeNumber,
  dispatchedLastHour: WholeNumber,
  retryableLastHour: WholeNumber,
  failedLastHour: WholeNumber,
  dlqDepth: WholeNumber,
  unreviewedContradictionCount: WholeNumber,
  outcomeUnknownCount: WholeNumber,
})
export type QueueStats = Static<typeof QueueStats>

/** Attempts recorded in one minute. */
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

/** How long rails took, over the latest attempts of the last hour; null where none was measured. */
export const LatencyStats = shape({
  sampled: Type.Integer({ description: 'how many attempts, at most 5000' }),
  p50Ms: nullable(Type.Number()),
  p90Ms: nullable(Type.Number()),
  p99Ms: nullable(Type.Number()),
  maxMs: nullable(Type.Number()),
})
export type LatencyStats = Static<typeof LatencyStats>

/** Error codes of the same attempts with their counts, the most frequent first. */
export const ErrorCount = shape({
  railType: Type.String(),
  state: oneOf(['FAILED', 'RETRYABLE', 'ZOMBIE_REQUEUE']),
  errorCode: nullable(Type.String()),
  outcomeUnknown: Type.Boolean({ description: 'the rail may have paid, and the outcome was unknown afterwards' }),
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
    alive: Type.Integer({ description: 'reported within the last 30 seconds' }),
    silent: Type.Integer({ description: 'dead: they did not stop cleanly, and have not reported for longer' }),
  }),
  alerts: Type.Array(Alert),
  throughput: Type.Array(ThroughputMinute, { description: 'the last 60 minutes, oldest first, none left out' }),
  latency: LatencyStats,
  errors: Type.Array(ErrorCount),
})
export type Status = Static<typeof Status>

/** The event `status`: the same as GET /v1/status, at most about once per second, and only when it changed. */
export const StatusEvent = Status
export type StatusEvent = Static<typeof StatusEvent>

/** The event `items`: what changed since the last one. `truncated`: more changed than is listed; read the page anew. */
export const ItemsEvent = shape({
  items: Type.Array(shape({ outboxId: Uuid, instructionId: Id, state: ItemStateShape })),
  truncated: Type.Boolean(),
})
export type ItemsEvent = Static<typeof ItemsEvent>

/** The event `looked`: the server has read the database, about once per second. Without it, whatever was told may be old. */
export const LookedEvent = shape({ at: Timestamp })
export type LookedEvent = Static<typeof LookedEvent>
