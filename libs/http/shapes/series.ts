import { Type, type Static } from '#typebox'
import { Id, nullable, oneOf, shape, Timestamp } from './common.js'

export const GrainShape = oneOf(
  ['minute', 'quarter-hour', 'hour', 'day'],
  'interval of one point, in UTC; default by the length and age of the range. Minutes are kept for 8 days, hours for 100',
)
export type SeriesGrain = Static<typeof GrainShape>

const counts = {
  enqueued: Type.Integer(),
  dispatched: Type.Integer(),
  failed: Type.Integer({ description: 'FAILED without cancelled ones' }),
  cancelled: Type.Integer(),
  retried: Type.Integer({ description: 'attempts that a retry follows, expired leases included' }),
  unknown: Type.Integer({ description: 'attempts among retried that left the outcome unknown' }),
  held: Type.Integer({ description: 'holds placed' }),
  returned: Type.Integer({ description: 'returns recorded' }),
}

const frame = {
  grain: GrainShape,
  from: Timestamp,
  to: Timestamp,
  projectedTo: nullable({
    ...Timestamp,
    description: 'time up to which the counts are complete; null before the first sealed block',
  }),
}

export const SeriesPoint = shape({ at: Timestamp, ...counts })
export type SeriesPoint = Static<typeof SeriesPoint>

/** Counts per interval, empty intervals included. */
export const Series = shape({ ...frame, points: Type.Array(SeriesPoint) })
export type Series = Static<typeof Series>

const latency = {
  measured: Type.Integer({ description: 'attempts whose latency was measured' }),
  p50Ms: nullable(Type.Number({ description: 'estimated from ranges of latencies, within about 20 percent' })),
  p95Ms: nullable(Type.Number()),
  p99Ms: nullable(Type.Number()),
}

export const RailStatistics = shape({
  railType: Id,
  ...counts,
  attempts: Type.Integer(),
  latency: shape(latency),
  errors: Type.Array(shape({ errorCode: Type.String(), attempts: Type.Integer() }), {
    description: 'the most frequent first, at most 20',
  }),
})
export type RailStatistics = Static<typeof RailStatistics>

export const RailStatisticsList = shape({ ...frame, rails: Type.Array(RailStatistics) })
export type RailStatisticsList = Static<typeof RailStatisticsList>

/** Latency of a rail per interval. Intervals without an attempt are absent. */
export const LatencySeries = shape({ ...frame, points: Type.Array(shape({ at: Timestamp, ...latency })) })
export type LatencySeries = Static<typeof LatencySeries>
