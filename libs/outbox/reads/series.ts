import { InvalidArgumentError, requiredId, systemClock } from '../../core/index.js'
import { isoMicros, qualify, type Queryable } from '../../db/index.js'
import type { ItemKind } from '../statusTypes.js'

/**
 * Counts over time, from the tables that workers project from sealed blocks. The cost of a read depends on the number
 * of intervals and rails, not on the size of the ledger.
 */

/** Interval of one point. Quarter-hours are sums of minutes, which are kept for 8 days. */
export type SeriesGrain = 'minute' | 'quarter-hour' | 'hour' | 'day'

export interface SeriesRange {
  readonly from: Date
  /** End, exclusive. */
  readonly to: Date
  /**
   * @default by the length of the range: at most 3 h minute, 2 d quarter-hour, 40 d hour, else day. Older ranges use the
   * finest of these that is still kept.
   */
  readonly grain?: SeriesGrain
}

export interface SeriesQuery extends SeriesRange {
  readonly railType?: string
  /** @default all participants */
  readonly participants?: readonly string[]
  /** @default payments and messages */
  readonly kind?: ItemKind
}

/** Numbers of ledger rows. */
export interface SeriesCounts {
  readonly enqueued: number
  readonly dispatched: number
  /** FAILED items without cancelled ones. */
  readonly failed: number
  readonly cancelled: number
  /** RETRYABLE and ZOMBIE_REQUEUE attempts, which a retry follows. */
  readonly retried: number
  /** Attempts among retried that left the outcome unknown. */
  readonly unknown: number
  readonly held: number
  /** Returns recorded. */
  readonly returned: number
}

/** Range of a read, and the time up to which it is complete. */
export interface SeriesFrame {
  readonly grain: SeriesGrain
  /** Start of the first interval. */
  readonly from: string
  readonly to: string
  /** Time up to which the counts are complete; null before the first projected block. */
  readonly projectedTo: string | null
}

export interface Latency {
  /** Attempts whose latency was measured. */
  readonly measured: number
  readonly p50Ms: number | null
  readonly p95Ms: number | null
  readonly p99Ms: number | null
}

export interface RailStatistics extends SeriesCounts {
  readonly railType: string
  readonly attempts: number
  readonly latency: Latency
  /** Error codes, the most frequent first, at most 20. */
  readonly errors: readonly { readonly errorCode: string; readonly attempts: number }[]
}

const GRAIN_SECONDS: Readonly<Record<SeriesGrain, number>> = {
  minute: 60,
  'quarter-hour': 900,
  hour: 3_600,
  day: 86_400,
}
const GRAINS: readonly SeriesGrain[] = ['minute', 'quarter-hour', 'hour', 'day']
/** Days after which purge_ledger_projection deletes the rows that a grain needs. */
const KEPT_DAYS: Readonly<Record<SeriesGrain, number>> = { minute: 8, 'quarter-hour': 8, hour: 100, day: 3_650 }
const POINTS_MAX = 1_500
const ERRORS_MAX = 20
const RAILS_MAX = 1_000
const HOUR_MS = 3_600_000
/** Longest range for which a grain is the default. */
const LENGTH_MAX_MS: Readonly<Record<SeriesGrain, number>> = {
  minute: 3 * HOUR_MS,
  'quarter-hour': 48 * HOUR_MS,
  hour: 40 * 24 * HOUR_MS,
  day: Infinity,
}
const COUNTS = ['enqueued', 'dispatched', 'failed', 'cancelled', 'retried', 'unknown', 'held', 'returned'] as const
const SUMS = COUNTS.map((name) => `COALESCE(sum(s.${name}), 0)::double precision AS ${name}`).join(', ')

/** Returns one point per interval of the range, empty ones included. */
export async function readSeries(
  role: Queryable,
  query: SeriesQuery,
): Promise<SeriesFrame & { readonly points: readonly (SeriesCounts & { readonly at: string })[] }> {
  const resolved = resolveRange(query)
  const { grain, stored, bin, values } = resolved
  const { rows } = await role.query<SeriesCounts & { at: string }>(
    `SELECT ${isoMicros('b.at')} AS at, ${COUNTS.map((name) => `COALESCE(c.${name}, 0) AS ${name}`).join(', ')}
     FROM generate_series(${bin('$2::timestamptz')}, $3::timestamptz - interval '1 microsecond',
       make_interval(secs => ${GRAIN_SECONDS[grain]})) AS b(at)
     LEFT JOIN (
       SELECT ${bin('s.starts_at')} AS at, ${SUMS} FROM ${qualify(role, 'outbox_series')} s
       WHERE s.grain = $1 AND s.participant_id = ANY ($4::text[]) AND s.starts_at >= ${bin('$2::timestamptz')}
         AND s.starts_at < $3 AND ($5::text IS NULL OR s.rail_type = $5)
         AND ($6::boolean IS NULL OR s.is_message = $6)
       GROUP BY 1
     ) c ON c.at = b.at
     ORDER BY b.at`,
    [
      stored,
      ...values,
      query.participants?.map((id, index) => requiredId(`participants[${index}]`, id)) ?? ALL_PARTICIPANTS,
      query.railType === undefined ? null : requiredId('railType', query.railType),
      isMessage(query),
    ],
  )
  return { ...(await readFrame(role, resolved)), points: rows }
}

/** Returns totals, latencies and error codes of each rail, the busiest first, at most 1000. Covers all participants. */
export async function readRailStatistics(
  role: Queryable,
  query: SeriesRange & { readonly railType?: string },
): Promise<SeriesFrame & { readonly rails: readonly RailStatistics[] }> {
  const resolved = resolveRange(query)
  const { stored, bin, values } = resolved
  const railType = query.railType === undefined ? null : requiredId('railType', query.railType)
  const range = `s.grain = $1 AND s.starts_at >= ${bin('$2::timestamptz')} AND s.starts_at < $3
    AND ($4::text IS NULL OR s.rail_type = $4)`
  const totals = await role.query<SeriesCounts & { railType: string }>(
    `SELECT s.rail_type AS "railType", ${SUMS} FROM ${qualify(role, 'outbox_series')} s
     WHERE s.participant_id = '' AND ${range}
     GROUP BY s.rail_type ORDER BY sum(s.enqueued + s.dispatched) DESC, s.rail_type LIMIT ${RAILS_MAX}`,
    [stored, ...values, railType],
  )
  const { rows } = await role.query<AttemptRow & { railType: string }>(
    `SELECT s.rail_type AS "railType", s.error_code AS "errorCode", s.latency_to_ms AS "toMs",
       sum(s.attempts)::double precision AS attempts
     FROM ${qualify(role, 'outbox_attempt_series')} s WHERE ${range} GROUP BY 1, 2, 3`,
    [stored, ...values, railType],
  )
  const attempts = groupBy(rows, (row) => row.railType)
  return {
    ...(await readFrame(role, resolved)),
    rails: totals.rows.map((rail) => Object.assign(rail, statisticsOf(attempts.get(rail.railType) ?? []))),
  }
}

/** Returns the latencies of one rail per interval. Intervals without an attempt are absent. */
export async function readLatencySeries(
  role: Queryable,
  query: SeriesRange & { readonly railType: string },
): Promise<SeriesFrame & { readonly points: readonly (Latency & { readonly at: string })[] }> {
  const resolved = resolveRange(query)
  const { stored, bin, values } = resolved
  const { rows } = await role.query<AttemptRow & { at: string }>(
    `SELECT ${isoMicros(bin('s.starts_at'))} AS at, s.latency_to_ms AS "toMs",
       sum(s.attempts)::double precision AS attempts
     FROM ${qualify(role, 'outbox_attempt_series')} s
     WHERE s.grain = $1 AND s.starts_at >= ${bin('$2::timestamptz')} AND s.starts_at < $3 AND s.rail_type = $4
     GROUP BY 1, 2 ORDER BY 1`,
    [stored, ...values, requiredId('railType', query.railType)],
  )
  const points = [...groupBy(rows, (row) => row.at)].map(([at, inside]) => Object.assign(latencyOf(inside), { at }))
  return { ...(await readFrame(role, resolved)), points }
}

interface AttemptRow {
  readonly errorCode?: string
  /** Upper end of the range of latencies; 0 if not measured. */
  readonly toMs: number
  readonly attempts: number
}

const ALL_PARTICIPANTS: readonly string[] = ['']

function isMessage({ kind }: SeriesQuery): boolean | null {
  return kind === undefined ? null : kind === 'message'
}

function resolveRange({ from, to, grain: asked }: SeriesRange) {
  const lengthMs = to.getTime() - from.getTime()
  if (!(lengthMs > 0)) throw new InvalidArgumentError('from', 'expected a time before the end of the range')
  const grain = asked ?? grainFor(from, lengthMs)
  const seconds = GRAIN_SECONDS[grain]
  if (grain !== 'day' && !isKept(grain, from)) {
    const kept = `counts by ${grain} are kept for ${KEPT_DAYS[grain]} days`
    throw new InvalidArgumentError('grain', `expected a longer one for a range that begins so early: ${kept}`)
  }
  if (lengthMs / 1_000 / seconds > POINTS_MAX) {
    const most = `${(POINTS_MAX * seconds) / 3_600} h`
    throw new InvalidArgumentError('grain', `expected a longer one: a range by ${grain} has at most ${most}`)
  }
  // All grains divide a day, so that bins from a midnight in UTC are whole minutes, hours and days.
  const bin = (time: string) =>
    `date_bin(make_interval(secs => ${seconds}), ${time}, timestamptz '2000-01-01 00:00:00+00')`
  return { grain, stored: grain === 'quarter-hour' ? 'minute' : grain, bin, values: [from, to] as const }
}

function grainFor(from: Date, lengthMs: number): SeriesGrain {
  const finest = GRAINS.findIndex((grain) => lengthMs <= LENGTH_MAX_MS[grain])
  return GRAINS.slice(finest).find((grain) => isKept(grain, from)) ?? 'day'
}

/** Returns whether the rows of the first interval still exist. */
function isKept(grain: SeriesGrain, from: Date): boolean {
  const intervalMs = GRAIN_SECONDS[grain] * 1_000
  const firstMs = Math.floor(from.getTime() / intervalMs) * intervalMs
  return firstMs >= systemClock.now().getTime() - KEPT_DAYS[grain] * 24 * HOUR_MS
}

async function readFrame(
  role: Queryable,
  { grain, bin, values }: ReturnType<typeof resolveRange>,
): Promise<SeriesFrame> {
  const { rows } = await role.query<Omit<SeriesFrame, 'grain'>>(
    `SELECT ${isoMicros(bin('$1::timestamptz'))} AS "from", ${isoMicros('$2::timestamptz')} AS "to",
       (SELECT ${isoMicros('p.projected_to')} FROM ${qualify(role, 'ledger_projection')} p) AS "projectedTo"`,
    values,
  )
  const [frame] = rows
  return { grain, from: frame?.from ?? '', to: frame?.to ?? '', projectedTo: frame?.projectedTo ?? null }
}

function statisticsOf(rows: readonly AttemptRow[]): Pick<RailStatistics, 'attempts' | 'latency' | 'errors'> {
  const errors = new Map<string, number>()
  for (const { errorCode = '', attempts } of rows) {
    if (errorCode !== '') errors.set(errorCode, (errors.get(errorCode) ?? 0) + attempts)
  }
  return {
    attempts: total(rows),
    latency: latencyOf(rows),
    errors: [...errors]
      .map(([errorCode, attempts]) => ({ errorCode, attempts }))
      .toSorted((one, other) => other.attempts - one.attempts)
      .slice(0, ERRORS_MAX),
  }
}

/** Estimates latency percentiles from a histogram, by linear interpolation inside a range. */
function latencyOf(rows: readonly AttemptRow[]): Latency {
  const measured = [...groupBy(rows, (row) => row.toMs)]
    .map(([toMs, same]) => ({ toMs, attempts: total(same) }))
    .filter(({ toMs }) => toMs > 0)
    .toSorted((one, other) => one.toMs - other.toMs)
  const count = total(measured)
  const percentile = (share: number): number | null => {
    let below = 0
    for (const { toMs, attempts } of measured) {
      below += attempts
      if (below >= share * count) {
        const fromMs = LATENCY_RANGES.findLast((end) => end < toMs) ?? 0
        // A latency above the last range has no upper end, so the end of the last range is returned.
        if (toMs > LATENCY_MAX_MS) return fromMs
        return Math.round(fromMs + ((toMs - fromMs) * (attempts - (below - share * count))) / attempts)
      }
    }
    return null
  }
  return { measured: count, p50Ms: percentile(0.5), p95Ms: percentile(0.95), p99Ms: percentile(0.99) }
}

function groupBy<Row, Key>(rows: readonly Row[], keyOf: (row: Row) => Key): Map<Key, Row[]> {
  const groups = new Map<Key, Row[]>()
  for (const row of rows) {
    const group = groups.get(keyOf(row))
    if (group === undefined) groups.set(keyOf(row), [row])
    else group.push(row)
  }
  return groups
}

function total(rows: readonly Pick<AttemptRow, 'attempts'>[]): number {
  return rows.reduce((sum, { attempts }) => sum + attempts, 0)
}

/** Upper ends of the ranges in the SQL function latency_range. A test compares both lists. */
export const LATENCY_RANGES: readonly number[] = [
  1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700, 1_000, 1_500, 2_000, 3_000, 5_000, 7_000, 10_000,
  15_000, 20_000, 30_000, 50_000, 70_000, 100_000, 150_000, 200_000, 300_000, 500_000, 700_000, 1_000_000,
]
const LATENCY_MAX_MS = 1_000_000
