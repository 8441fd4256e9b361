import type { Registry } from 'prom-client'

/** A number, or a metric: of several series, as when every process shows the same gauge, the greatest. */
export type Quantity = number | { readonly metric: string; readonly labels?: Labels }

export type Condition =
  | { readonly is: 'above' | 'below'; readonly left: Quantity; readonly right: Quantity }
  | { readonly is: 'absent'; readonly metric: string }
  | { readonly is: 'all'; readonly of: readonly Condition[] }

export interface Judgement {
  readonly holds: boolean
  /** Left side of the first comparison; undefined where the metric is missing. */
  readonly value: number | undefined
}

export function judge(condition: Condition, reading: Reading): Judgement {
  switch (condition.is) {
    case 'absent':
      return { holds: samplesOf(reading, condition.metric).size === 0, value: undefined }
    case 'all': {
      const judgements = condition.of.map((one) => judge(one, reading))
      return { holds: judgements.every(({ holds }) => holds), value: judgements[0]?.value }
    }
    case 'above':
    case 'below': {
      const value = measure(condition.left, reading)
      const bound = measure(condition.right, reading)
      if (value === undefined || bound === undefined) return { holds: false, value }
      return { holds: condition.is === 'above' ? value > bound : value < bound, value }
    }
  }
}

export function measure(quantity: Quantity, reading: Reading): number | undefined {
  if (typeof quantity === 'number') return quantity
  const samples = samplesOf(reading, quantity.metric, quantity.labels)
  return samples.size === 0 ? undefined : Math.max(...samples.values())
}

/** All samples at one moment, by series: the name of a metric and its labels, as they stand on the page. */
export interface Reading {
  readonly at: Date
  readonly values: ReadonlyMap<string, number>
}

export type Labels = Readonly<Record<string, string>>

/** Reads every sample of a registry without histograms. */
export async function takeReading(at: Date, registry: Registry): Promise<Reading> {
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

/** The samples of a metric that bear these labels, whatever others they have. */
function samplesOf({ values }: Reading, metric: string, labels: Labels = {}): ReadonlyMap<string, number> {
  const wanted = Object.entries(labels).map(([label, value]) => `${label}="${value}"`)
  const isAsked = (series: string) =>
    series === metric
      ? wanted.length === 0
      : series.startsWith(`${metric}{`) && wanted.every((word) => series.includes(word))
  return new Map([...values].filter(([series]) => isAsked(series)))
}
