import type { Condition, Quantity } from './conditions.js'
import type { AlertRule } from './rules.js'

/** Returns the rules as a Prometheus rules file. Its texts are JSON strings, which are valid YAML. */
export function prometheusRules(rules: readonly AlertRule[]): string {
  const lines = rules.flatMap((rule) => [
    `      - alert: ${rule.name}`,
    `        expr: ${JSON.stringify(promqlOf(rule.when))}`,
    `        for: ${rule.forSeconds}s`,
    `        labels:`,
    `          severity: ${rule.severity}`,
    `        annotations:`,
    `          summary: ${JSON.stringify(rule.summary)}`,
    `          first_look: ${JSON.stringify(rule.firstLook)}`,
    `          remedy: ${JSON.stringify(rule.remedy)}`,
  ])
  return `groups:\n  - name: symphony\n    rules:\n${lines.join('\n')}\n`
}

/**
 * Returns a condition in PromQL. Comparisons are grouped by job, so that one Prometheus can watch several deployments.
 * `absent` cannot be grouped.
 */
function promqlOf(condition: Condition): string {
  switch (condition.is) {
    case 'absent':
      return `absent(${condition.metric})`
    case 'all':
      return condition.of.map((one) => `(${promqlOf(one)})`).join(' and ')
    case 'above':
    case 'below': {
      const sign = condition.is === 'above' ? '>' : '<'
      return `${quantityOf(condition.left)} ${sign} ${quantityOf(condition.right)}`
    }
  }
}

function quantityOf(asked: Quantity): string {
  if (typeof asked === 'number') return String(asked)
  const labels = Object.entries(asked.labels ?? {}).map(([name, value]) => `${name}="${value}"`)
  return `max by (job) (${asked.metric}${labels.length === 0 ? '' : `{${labels.join(',')}}`})`
}
