import type { Registry } from 'prom-client'

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
export function samplesOf({ values }: Reading, metric: string, labels: Labels = {}): ReadonlyMap<string, number> {
  const wanted = Object.entries(labels).map(([label, value]) => `${label}="${value}"`)
  const isAsked = (series: string) =>
    series === metric
      ? wanted.length === 0
      : series.startsWith(`${metric}{`) && wanted.every((word) => series.includes(word))
  return new Map([...values].filter(([series]) => isAsked(series)))
}
