import { spawnSync } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { markdownPage } from '../support/markdownPage.js'
import { ALERT_RULES, AlertEvaluator, Metrics, createStatusRegistry, seriesOf } from '../../libs/observability/index.js'
import { alertsPage } from '../../scripts/monitoring/alertsPage.js'
import { dashboardExpressions, grafanaDashboard } from '../../scripts/monitoring/grafanaDashboard.js'
import { metricsOf } from '../../scripts/monitoring/metricsOf.js'
import { rulesFile, ruleTestsFile } from '../../scripts/monitoring/ruleFiles.js'
import { ALERT_SCENARIOS, type AlertScenario } from '../../scripts/monitoring/scenarios.js'

/** Returns every metric that a process can export, with its type. */
function registered(): Map<string, string> {
  const registries = [new Metrics({ version: '1' }).registry, createStatusRegistry()]
  return new Map(registries.flatMap((one) => one.getMetricsAsArray().map(({ name, type }) => [name, String(type)])))
}

const RULES_FILE = rulesFile(ALERT_RULES)
const RULE_TESTS_FILE = ruleTestsFile(ALERT_RULES, ALERT_SCENARIOS)

// After a change of rules, scenarios or dashboard, run `npm run monitoring` and review the files.
test.each([
  ['deploy/prometheus/symphony.rules.yml', RULES_FILE],
  ['deploy/prometheus/symphony.rules.test.yml', RULE_TESTS_FILE],
  ['deploy/grafana/symphony.json', grafanaDashboard()],
  ['docs/reference/alerts.md', alertsPage(ALERT_RULES)],
])('the generated file %s matches its sources', async (path, generated) => {
  const file = new URL(`../../${path}`, import.meta.url)
  if (process.env['SYMPHONY_WRITE_MONITORING'] === '1') await writeFile(file, generated)
  expect(await readFile(file, 'utf8')).toBe(generated)
})

test('docs/reference/metrics.md lists exactly the registered metrics, with their types', async () => {
  const reference = markdownPage('docs/reference/metrics.md')
  const rows = [...reference.matchAll(/^\| (`.*?) \| (\w+) \|/gm)]
  const documented = rows.flatMap(([, cell = '', kind = '']) =>
    [...cell.matchAll(/`(\w+)/g)].map(([, name = '']) => [name, kind]),
  )
  expect(Object.fromEntries(documented)).toEqual(Object.fromEntries(registered()))
  expect(documented).toHaveLength(registered().size)
})

test('every metric of the specification is registered', () => {
  expect([...registered().keys()]).toEqual(
    expect.arrayContaining([
      'outbox_pending_depth',
      'oldest_pending_age_seconds',
      'notify_wakeups_total',
      'claim_batches_total',
      'dispatch_latency_ms',
      'attempts_total',
      'dlq_depth',
      'reaper_requeues_total',
      'stuck_dispatching_count',
      'expired_lease_count',
      'repair_requeued_count',
      'lease_lost_count',
      'terminal_guard_hit_count',
    ]),
  )
})

test('alert rules and the dashboard use registered metrics only', () => {
  const known = new Set(registered().keys())
  const asked = ALERT_RULES.flatMap(metricsOf)
  expect(asked.filter((name) => !known.has(name))).toEqual([])
  const words = dashboardExpressions()
    .join('\n')
    .matchAll(/\b([a-z_]+)\{/g)
  const drawn = [...words].map(([, name = '']) => name.replace(/_bucket$/, ''))
  expect(drawn.length).toBeGreaterThanOrEqual(dashboardExpressions().length)
  expect(drawn.filter((name) => !known.has(name))).toEqual([])
})

test('the dashboard sums counts of the database over deployments', () => {
  const { outbox_pending_depth: depth, ...others } = Object.fromEntries(
    dashboardExpressions().map((expression) => [/\b([a-z_]+)\{/.exec(expression)?.[1], expression]),
  )
  expect(depth).toBe('sum(max by (job, kind) (outbox_pending_depth{job=~"$job"}))')
  expect(others).toMatchObject({
    outbox_workers_alive: 'sum(max by (job) (outbox_workers_alive{job=~"$job"}))',
    outbox_held_by_reason: 'sum by (reason) (max by (job, reason) (outbox_held_by_reason{job=~"$job"}))',
    reconciliation_findings_open: 'sum by (kind) (max by (job, kind) (reconciliation_findings_open{job=~"$job"}))',
    inbox_depth: 'sum by (state) (max by (job, state) (inbox_depth{job=~"$job"}))',
    attempts_total: 'sum by (state) (max by (job, state, kind) (rate(attempts_total{job=~"$job"}[$__rate_interval])))',
    leases_held: 'sum(max by (job) (leases_held{job=~"$job"}))',
    oldest_due_age_seconds: 'max(oldest_due_age_seconds{job=~"$job"})',
  })
})

describe('alert rules', () => {
  test('have unique names, and each rule fires in at least one scenario', () => {
    const names = ALERT_RULES.map(({ name }) => name)
    expect(new Set(names).size).toBe(names.length)
    const firing = ALERT_SCENARIOS.filter(({ verdicts }) => verdicts.includes('F')).map(({ rule }) => rule)
    expect(new Set(firing)).toEqual(new Set(names))
  })

  test('appear on docs/reference/alerts.md with severity, summary, first check and remedy', async () => {
    const page = await readFile(new URL('../../docs/reference/alerts.md', import.meta.url), 'utf8')
    const sections = new Map(
      page
        .split(/^## /m)
        .slice(1)
        .map((section) => [section.split('\n', 1)[0] ?? '', section.replaceAll(/\s+/g, ' ')]),
    )
    for (const { name, severity, summary, firstLook, remedy } of ALERT_RULES) {
      const section = sections.get(name) ?? ''
      for (const text of [`\`${severity}\``, summary, firstLook, remedy])
        expect([name, section]).toEqual([name, expect.stringContaining(text)])
    }
    expect([...sections.keys()].filter((name) => name.startsWith('Symphony'))).toHaveLength(ALERT_RULES.length)
  })
})

test.each(ALERT_SCENARIOS.map((scenario) => [scenario.rule, scenario.title, scenario] as const))(
  'AlertEvaluator returns the expected states of the alert %s: %s',
  (_rule, _title, scenario) => {
    expect(verdictsOf(scenario)).toBe(scenario.verdicts)
  },
)

test('promtool, if installed, accepts the rules and passes the rule tests', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'symphony-rules-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  await writeFile(join(folder, 'symphony.rules.yml'), RULES_FILE)
  await writeFile(join(folder, 'symphony.rules.test.yml'), RULE_TESTS_FILE)
  const outputs = [
    ['check', 'rules', 'symphony.rules.yml'],
    ['test', 'rules', 'symphony.rules.test.yml'],
  ].map((words) => promtool(words, folder))
  expect(outputs).toEqual([
    expect.stringMatching(new RegExp(`^not installed$|SUCCESS: ${ALERT_RULES.length} rules found`)),
    expect.stringMatching(/^not installed$|SUCCESS/),
  ])
  expect(ALERT_SCENARIOS.map(verdictsOf)).toEqual(ALERT_SCENARIOS.map(({ verdicts }) => verdicts))
  process.stdout.write(`promtool: ${outputs.map((text) => text.trim().split('\n').at(-1)).join('; ')}\n`)
})

function promtool(words: readonly string[], cwd: string): string {
  const { error, status, stdout, stderr } = spawnSync('promtool', words, { cwd, encoding: 'utf8' })
  // EACCES: PATH holds a folder that this user may not enter, as after `su`.
  if (error !== undefined && 'code' in error && (error.code === 'ENOENT' || error.code === 'EACCES')) {
    return 'not installed'
  }
  return status === 0 ? stdout : `exit ${status}: ${stdout}${stderr}`
}

/** Evaluates a scenario minute by minute. Returns F for firing, - otherwise. */
function verdictsOf({ rule, series, verdicts }: AlertScenario): string {
  const evaluator = new AlertEvaluator(ALERT_RULES)
  return verdicts
    .split('')
    .map((_, minute) => {
      const values = new Map<string, number>()
      for (const { metric, labels = {}, samples } of series) {
        const sample = samples[minute]
        if (typeof sample === 'number') values.set(seriesOf(metric, { job: 'symphony', ...labels }), sample)
      }
      const alerts = evaluator.observe({ at: new Date(minute * 60_000), values })
      return alerts.some(({ name, state }) => name === rule && state === 'firing') ? 'F' : '-'
    })
    .join('')
}
