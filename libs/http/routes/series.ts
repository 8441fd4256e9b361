import { Type } from '#typebox'
import type { Clock } from '../../core/index.js'
import { readLatencySeries, readRailStatistics, readSeries, type SeriesRange } from '../../outbox/index.js'
import type { Api } from '../Api.js'
import { Id } from '../shapes/common.js'
import { ItemKindShape } from '../shapes/outbox.js'
import { GrainShape, LatencySeries, RailStatisticsList, Series, type SeriesGrain } from '../shapes/series.js'
import { EXAMPLE } from './examples.js'
import { ofParticipants, parseTime, participantsFor } from './parameters.js'
import { route, type Route } from './route.js'

const range = {
  from: Type.Optional(Type.String({ maxLength: 40, description: 'RFC 3339 time; default 24 hours before `to`' })),
  to: Type.Optional(Type.String({ maxLength: 40, description: 'RFC 3339 time, exclusive; default now' })),
  grain: Type.Optional(GrainShape),
}

const COUNTS_EXAMPLE = {
  enqueued: 12,
  dispatched: 11,
  failed: 1,
  cancelled: 0,
  retried: 2,
  unknown: 1,
  held: 1,
  returned: 0,
}
const FRAME_EXAMPLE = {
  grain: 'day',
  from: '2026-01-31T00:00:00.000000Z',
  to: '2026-02-01T00:00:00.000000Z',
  projectedTo: '2026-02-01T00:00:02.000000Z',
}
const LATENCY_EXAMPLE = { measured: 13, p50Ms: 84, p95Ms: 181, p99Ms: 196 }
const QUERY_EXAMPLE = { from: '2026-01-31T00:00:00Z', to: '2026-02-01T00:00:00Z', grain: 'day' }

/** Routes for counts over time. Workers project the counts from sealed blocks. */
export function seriesRoutes({ roles }: Api, clock: Clock): readonly Route[] {
  const common = {
    method: 'GET',
    tag: 'overview',
    access: 'read',
    problems: ['INVALID_QUERY'],
    invalid: 'INVALID_QUERY',
  } as const
  return [
    route({
      ...common,
      path: '/v1/series',
      summary: 'Payments and attempts per minute, quarter-hour, hour or day, a few seconds behind the ledger.',
      participants: 'filtered',
      problems: ['INVALID_QUERY', 'PARTICIPANT_REFUSED'],
      query: {
        ...range,
        kind: Type.Optional(ItemKindShape),
        rail: Type.Optional(Id),
        participant: Type.Optional(Id),
      },
      answers: { 200: { description: 'At most 1500 points.', schema: Series } },
      example: {
        query: QUERY_EXAMPLE,
        status: 200,
        answer: { ...FRAME_EXAMPLE, points: [{ at: FRAME_EXAMPLE.from, ...COUNTS_EXAMPLE }] },
      },
      handle: async ({ identity, query: { kind, rail, participant, ...given } }) =>
        readSeries(roles.readonly, {
          ...rangeOf(given, clock),
          ...ofParticipants(participantsFor(identity, participant)),
          ...(kind === undefined ? {} : { kind }),
          ...ofRail(rail),
        }),
    }),
    route({
      ...common,
      path: '/v1/series/rails',
      summary: 'Totals, latency percentiles and error codes of each rail in a range of time, the busiest rail first.',
      participants: 'refused',
      query: { ...range, rail: Type.Optional(Id) },
      answers: { 200: { description: 'At most 1000 rails.', schema: RailStatisticsList } },
      example: {
        query: QUERY_EXAMPLE,
        status: 200,
        answer: {
          ...FRAME_EXAMPLE,
          rails: [
            {
              railType: EXAMPLE.railType,
              ...COUNTS_EXAMPLE,
              attempts: 14,
              latency: LATENCY_EXAMPLE,
              errors: [{ errorCode: 'RAIL_TIMEOUT', attempts: 2 }],
            },
          ],
        },
      },
      handle: async ({ query: { rail, ...given } }) =>
        readRailStatistics(roles.readonly, { ...rangeOf(given, clock), ...ofRail(rail) }),
    }),
    route({
      ...common,
      path: '/v1/series/latency',
      summary: 'Latency percentiles of one rail per minute, quarter-hour, hour or day.',
      participants: 'refused',
      query: { ...range, rail: Id },
      answers: { 200: { description: 'At most 1500 points.', schema: LatencySeries } },
      example: {
        query: { ...QUERY_EXAMPLE, rail: EXAMPLE.railType },
        status: 200,
        answer: { ...FRAME_EXAMPLE, points: [{ at: FRAME_EXAMPLE.from, ...LATENCY_EXAMPLE }] },
      },
      handle: async ({ query: { rail, ...given } }) =>
        readLatencySeries(roles.readonly, { ...rangeOf(given, clock), railType: rail }),
    }),
  ]
}

interface GivenRange {
  readonly from?: string
  readonly to?: string
  readonly grain?: SeriesGrain
}

function rangeOf({ from, to, grain }: GivenRange, clock: Clock): SeriesRange {
  const end = to === undefined ? clock.now() : parseTime('to', to)
  const start = from === undefined ? new Date(end.getTime() - DAY_MS) : parseTime('from', from)
  return { from: start, to: end, ...(grain === undefined ? {} : { grain }) }
}

function ofRail(rail: string | undefined): { railType?: string } {
  return rail === undefined ? {} : { railType: rail }
}

const DAY_MS = 86_400_000
