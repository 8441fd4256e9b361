import { samplesOf, type Labels, type Reading } from './Reading.js'

/**
 * What rules are made of: few enough words that a rule means the same here and in PromQL (`scripts/monitoring/promql.ts`
 * renders them). A quantity that cannot be had, because the metric is not there or was not there then, makes no comparison
 * true: only `absent` speaks of what is missing.
 */
export type Quantity =
  | number
  /** The value now: of gauges that every process reads alike, the greatest. */
  | { readonly of: 'value'; readonly metric: string; readonly labels?: Labels }
  /** How much that value has grown since so many seconds ago. */
  | { readonly of: 'growth'; readonly metric: string; readonly labels?: Labels; readonly seconds: number }
  /** How much the counters of all processes counted within so many seconds; one that starts anew is not a fall. */
  | { readonly of: 'increase'; readonly metric: string; readonly labels?: Labels; readonly seconds: number }

export type Condition =
  | { readonly is: 'above' | 'below'; readonly left: Quantity; readonly right: Quantity }
  | { readonly is: 'absent'; readonly metric: string }
  | { readonly is: 'all'; readonly of: readonly Condition[] }

export interface Judgement {
  readonly holds: boolean
  /** What the first comparison looked at; undefined where there was nothing to look at. */
  readonly value: number | undefined
}

/** `readings`: oldest first; the last one is now. */
export function judge(condition: Condition, readings: readonly Reading[]): Judgement {
  switch (condition.is) {
    case 'absent': {
      const now = readings.at(-1)
      return { holds: now !== undefined && samplesOf(now, condition.metric).size === 0, value: undefined }
    }
    case 'all': {
      const judgements = condition.of.map((one) => judge(one, readings))
      return { holds: judgements.every(({ holds }) => holds), value: judgements[0]?.value }
    }
    case 'above':
    case 'below': {
      const value = measure(condition.left, readings)
      const bound = measure(condition.right, readings)
      if (value === undefined || bound === undefined) return { holds: false, value }
      return { holds: condition.is === 'above' ? value > bound : value < bound, value }
    }
  }
}

function measure(quantity: Quantity, readings: readonly Reading[]): number | undefined {
  if (typeof quantity === 'number') return quantity
  const now = readings.at(-1)
  if (now === undefined) return undefined
  switch (quantity.of) {
    case 'value':
      return greatest(now, quantity)
    case 'growth': {
      const then = readingAt(readings, now.at.getTime() - quantity.seconds * 1_000)
      const before = then && greatest(then, quantity)
      const after = greatest(now, quantity)
      return before === undefined || after === undefined ? undefined : after - before
    }
    case 'increase':
      return increase(quantity, readings, now.at.getTime() - quantity.seconds * 1_000)
  }
}

interface Asked {
  readonly metric: string
  readonly labels?: Labels
}

function greatest(reading: Reading, { metric, labels }: Asked): number | undefined {
  const samples = samplesOf(reading, metric, labels)
  return samples.size === 0 ? undefined : Math.max(...samples.values())
}

/** The latest at that time or before, unless it is older than anybody should trust. */
function readingAt(readings: readonly Reading[], atMs: number): Reading | undefined {
  const reading = readings.findLast(({ at }) => at.getTime() <= atMs)
  return reading !== undefined && atMs - reading.at.getTime() < TRUSTED_MS ? reading : undefined
}

/** Like Prometheus, it needs two samples: the first of a series says nothing about when it was counted. */
function increase({ metric, labels }: Asked, readings: readonly Reading[], sinceMs: number): number | undefined {
  const last = new Map<string, number>()
  let total: number | undefined
  for (const reading of readings) {
    if (reading.at.getTime() <= sinceMs) continue
    for (const [series, value] of samplesOf(reading, metric, labels)) {
      const before = last.get(series)
      if (before !== undefined) total = (total ?? 0) + (value >= before ? value - before : value)
      last.set(series, value)
    }
  }
  return total
}

/** As Prometheus looks back: five minutes. */
export const TRUSTED_MS = 300_000
