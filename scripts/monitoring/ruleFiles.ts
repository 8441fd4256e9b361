import { prometheusRules, type AlertRule } from '../../libs/observability/index.js'
import type { AlertScenario, ScenarioSeries } from './scenarios.js'

/** Quotes text as a JSON string, which is also valid YAML. */
const quoted = (text: string): string => JSON.stringify(text)

const HEADER = '# Made from libs/observability/alerts/rules.ts by `npm run monitoring`. Do not edit.\n'

export function rulesFile(rules: readonly AlertRule[]): string {
  return `${HEADER}# With other thresholds: symphony alerts --prometheus --alert-… > symphony.rules.yml\n${prometheusRules(rules)}`
}

export function ruleTestsFile(rules: readonly AlertRule[], scenarios: readonly AlertScenario[]): string {
  const tests = scenarios.flatMap((scenario) => {
    const rule = rules.find(({ name }) => name === scenario.rule)
    return rule === undefined ? [] : testOf(rule, scenario)
  })
  return `${HEADER}rule_files:\n  - symphony.rules.yml\nevaluation_interval: 1m\ntests:\n${tests.join('\n')}\n`
}

function testOf(rule: AlertRule, { title, series, verdicts }: AlertScenario): string[] {
  return [
    `  - name: ${quoted(`${rule.name}: ${title}`)}`,
    `    interval: 1m`,
    `    input_series:`,
    ...series.flatMap((one) => [
      `      - series: ${quoted(seriesName(one))}`,
      `        values: ${quoted(one.samples.map((sample) => sample ?? 'stale').join(' '))}`,
    ]),
    `    alert_rule_test:`,
    ...verdicts.split('').flatMap((verdict, minute) => expectation(rule, verdict === 'F', minute)),
  ]
}

function expectation(rule: AlertRule, isFiring: boolean, minute: number): string[] {
  const check = [`      - eval_time: ${minute}m`, `        alertname: ${rule.name}`]
  if (!isFiring) return check.concat(`        exp_alerts: []`)
  // An alert on an absent metric has no `job` label.
  const labels = { severity: rule.severity, ...(rule.when.is === 'absent' ? {} : { job: 'symphony' }) }
  return check.concat(
    `        exp_alerts:`,
    `          - exp_labels: ${JSON.stringify(labels)}`,
    `            exp_annotations: ${JSON.stringify(annotationsOf(rule))}`,
  )
}

function seriesName({ metric, labels = {} }: ScenarioSeries): string {
  const words = Object.entries({ job: 'symphony', ...labels }).map(([name, value]) => `${name}="${value}"`)
  return `${metric}{${words.join(',')}}`
}

function annotationsOf({ summary, firstLook, remedy }: AlertRule): Record<string, string> {
  return { summary, first_look: firstLook, remedy }
}
