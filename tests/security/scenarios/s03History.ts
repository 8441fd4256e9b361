import { runSpec } from '../../support/scorecard/runSpec.js'
import { defineScenario } from '../../support/scorecard/Scenario.js'

/** `npm test` plays it in full. */
export default defineScenario({
  id: 'S3',
  title:
    'every way to change history, by each runtime role and on each table of the ledger: UPDATE, DELETE, TRUNCATE, replica mode, DISABLE TRIGGER, ALTER TYPE, RULE, partitions, RENAME, DROP, …; then by a superuser',
  bar: 'refused to everybody but a superuser, and then found',
  sizes: { full: { ways: 30 }, short: { ways: 30 } },
  async run(fixture, { ways }) {
    const { passed, defects, output } = await runSpec(fixture, 'tests/security/historyRewriting.spec.ts', {})
    const [, tried = 0, refused = 0] = (/history: (\d+) ways, (\d+) refused/.exec(output) ?? []).map(Number)
    const tooFew = tried < ways ? [`${tried} ways were tried`] : []
    return { figures: { ways: tried, statementsRefused: refused, tests: passed }, defects: [...defects, ...tooFew] }
  },
})
