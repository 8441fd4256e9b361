import type { AlertRule, Condition, Quantity } from '../../libs/observability/index.js'

/** A condition in PromQL. By job, so that one Prometheus can watch several deployments. */
export function promqlOf(condition: Condition): string {
  switch (condition.is) {
    case 'absent':
      return `absent(${condition.metric})`
    case 'all':
      return condition.of.map((one) => `(${promqlOf(one)})`).join(' and ')
    case 'above':
    case 'below': {
      const sign = condition.is === 'above' ? '>' : '<'
      return `${quantity(condition.left)} ${sign} ${quantity(condition.right)}`
    }
  }
}

function quantity(asked: Quantity): string {
  if (typeof asked === 'number') return String(asked)
  const selected = `${asked.metric}${selector(asked.labels)}`
  switch (asked.of) {
    case 'value':
      return `max by (job) (${selected})`
    case 'growth':
      return `(max by (job) (${selected}) - max by (job) (${selected} offset ${duration(asked.seconds)}))`
    case 'increase':
      return `sum by (job) (increase(${selected}[${duration(asked.seconds)}]))`
  }
}

function selector(labels: Readonly<Record<string, string>> = {}): string {
  const words = Object.entries(labels).map(([name, value]) => `${name}="${value}"`)
  return words.length === 0 ? '' : `{${words.join(',')}}`
}

export function duration(seconds: number): string {
  return seconds > 0 && seconds % 60 === 0 ? `${seconds / 60}m` : `${seconds}s`
}

/** The metrics that a rule looks at. */
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
