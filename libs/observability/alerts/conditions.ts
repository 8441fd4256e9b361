import type { Registry } from 'prom-client'

/** Number, or a metric. Of several series, such as a gauge of every process, the greatest value counts. */
export type Quantity = number | { readonly metric: string; readonly labels?: Labels }

export type Condition =
  | { readonly is: 'above' | 'below'; readonly left: Quantity; readonly right: Quantity }
  | { readonly is: 'absent'; readonly metric: string }
  | { readonly is: 'all'; readonly of: readonly Condition[] }

interface ConditionResult {
  readonly holds: boolean
  /** Left side of the first comparison; undefined if its metric is missing. */
  readonly value: number | undefined
}

export function evaluate(condition: Condition, samples: MetricSamples): ConditionResult {
  switch (condition.is) {
    case 'absent':
      return { holds: samplesOf(samples, condition.metric).size === 0, value: undefined }
    case 'all': {
      const results = condition.of.map((one) => evaluate(one, samples))
      return { holds: results.every(({ holds }) => holds), value: results[0]?.value }
    }
    case 'above':
    case 'below': {
      const value = measure(condition.left, samples)
      const bound = measure(condition.right, samples)
      if (value === undefined || bound === undefined) return { holds: false, value }
      return { holds: condition.is === 'above' ? value > bound : value < bound, value }
    }
  }
}

export function measure(quantity: Quantity, samples: MetricSamples): number | undefined {
  if (typeof quantity === 'number') return quantity
  const found = samplesOf(samples, quantity.metric, quantity.labels)
  return found.size === 0 ? undefined : Math.max(...found.values())
}

/** Samples at one time, by series: metric name and labels, in the format of the metrics page. */
export interface MetricSamples {
  readonly at: Date
  readonly values: ReadonlyMap<string, number>
}

type Labels = Readonly<Record<string, string>>

/** Reads all samples of a registry that has no histograms. */
export async function collectSamples(at: Date, registry: Registry): Promise<MetricSamples> {
  const values = new Map<string, number>()
  for (const { name, values: samples } of await registry.getMetricsAsJSON()) {
    for (const { labels, value } of samples) values.set(seriesOf(name, labels), value)
  }
  return { at, values }
}

export function seriesOf(name: string, labels: Partial<Record<string, string | number>> = {}): string {
  const words = Object.entries(labels).map(([label, value]) => `${label}="${value}"`)
  return words.length === 0 ? name : `${name}{${words.toSorted().join(',')}}`
}

/** Returns the samples of a metric with at least these labels. */
function samplesOf({ values }: MetricSamples, metric: string, labels: Labels = {}): ReadonlyMap<string, number> {
  const wanted = Object.entries(labels).map(([label, value]) => `${label}="${value}"`)
  const isAsked = (series: string) =>
    series === metric
      ? wanted.length === 0
      : series.startsWith(`${metric}{`) && wanted.every((word) => series.includes(word))
  return new Map([...values].filter(([series]) => isAsked(series)))
}
