import type { AlertRule } from '../../libs/observability/index.js'

/** Returns the metrics that a rule reads. */
export function metricsOf({ when }: Pick<AlertRule, 'when'>): string[] {
  switch (when.is) {
    case 'absent':
      return [when.metric]
    case 'all':
      return when.of.flatMap((one) => metricsOf({ when: one }))
    case 'above':
    case 'below':
      return [when.left, when.right].flatMap((side) => (typeof side === 'number' ? [] : [side.metric]))
  }
}
