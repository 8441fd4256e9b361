import { Type, type Static } from 'typebox'
import { Alert } from './alerts.js'
import { nullable, oneOf, shape, Timestamp, WholeNumber } from './common.js'
import { Pause, Rail } from './workers.js'

/** Each pending item is counted in exactly one of due, leased, expired, scheduled, blocked, held. */
export const QueueFigures = shape({
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
export type QueueFigures = Static<typeof QueueFigures>

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
export const LatencyFigures = shape({
  sampled: Type.Integer({ description: 'how many attempts, at most 5000' }),
  p50Ms: nullable(Type.Number()),
  p90Ms: nullable(Type.Number()),
  p99Ms: nullable(Type.Number()),
  maxMs: nullable(Type.Number()),
})
export type LatencyFigures = Static<typeof LatencyFigures>

/** What went wrong how often, over the same attempts; the most frequent first. */
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
  queue: QueueFigures,
  allPaused: nullable(Pause),
  rails: Type.Array(Rail),
  workers: shape({
    alive: Type.Integer({ description: 'reported within the last 30 seconds' }),
    silent: Type.Integer({ description: 'dead: they did not stop cleanly, and have not reported for longer' }),
  }),
  alerts: Type.Array(Alert),
  throughput: Type.Array(ThroughputMinute, { description: 'the last 60 minutes, oldest first, none left out' }),
  latency: LatencyFigures,
  errors: Type.Array(ErrorCount),
})
export type Status = Static<typeof Status>
