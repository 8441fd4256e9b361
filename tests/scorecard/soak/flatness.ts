/** One measurement, at a number of seconds since the load began. */
export interface Point {
  readonly at: number
  readonly value: number
}

/** Measurements that must not grow, with their limit. */
export interface Gauge {
  /** Name of the result. */
  readonly name: string
  readonly points: readonly Point[]
  /** Maximum median in the last quarter of the run: `factor` times the median in the second quarter, plus `slack`. */
  readonly factor: number
  readonly slack: number
}

/**
 * Returns the medians in the second and the last quarter of the run, or undefined if one of them has no measurement.
 */
export function compareQuarters(
  { points }: Pick<Gauge, 'points'>,
  seconds: number,
): { readonly second: number; readonly last: number } | undefined {
  const medianOf = (from: number, to: number) =>
    median(points.filter(({ at }) => at >= from * seconds && at < to * seconds).map(({ value }) => value))
  const [second, last] = [medianOf(0.25, 0.5), medianOf(0.75, Infinity)]
  return second === undefined || last === undefined ? undefined : { second, last }
}

/** Returns a sentence for each gauge that grew beyond its limit, or that was not measured. */
export function findGrowth(gauges: readonly Gauge[], seconds: number): string[] {
  return gauges.flatMap((gauge) => {
    const { name, factor, slack } = gauge
    const quarters = compareQuarters(gauge, seconds)
    if (quarters === undefined) return [`${name} was not measured in the second and the last quarter`]
    const { second, last } = quarters
    if (last <= factor * second + slack) return []
    return [`${name} grew from ${round(second)} to ${round(last)}, expected at most ${round(factor * second + slack)}`]
  })
}

/**
 * Returns "95 → 97" for the medians in the second and the last quarter of the run, or undefined if one of them has no
 * measurement.
 */
export function describeGauge(gauge: Pick<Gauge, 'points'>, seconds: number): string | undefined {
  const quarters = compareQuarters(gauge, seconds)
  return quarters === undefined ? undefined : `${round(quarters.second)} → ${round(quarters.last)}`
}

function median(values: readonly number[]): number | undefined {
  return values.toSorted((left, right) => left - right)[Math.floor(values.length / 2)]
}

function round(value: number): string {
  return String(Math.round(value * 10) / 10)
}
