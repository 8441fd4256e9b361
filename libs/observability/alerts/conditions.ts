import { samplesOf, type Labels, type Reading } from './Reading.js'

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
