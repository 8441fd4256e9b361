import { runSpec } from '../../scorecard/runSpec.js'
import { defineScenario } from '../../scorecard/Scenario.js'

/** `npm test` runs this scenario in full. */
export default defineScenario({
  id: 'S3',
  title:
    'Each runtime role, and then a superuser, tries to change each ledger table: UPDATE, DELETE, TRUNCATE, replica mode, DISABLE TRIGGER, ALTER TYPE, RULE, partitions, RENAME, DROP.',
  bar: 'Every runtime role is refused; every change by the superuser is found.',
  sizes: { full: { ways: 30 }, short: { ways: 30 } },
  async run(fixture, { ways }) {
    const { passed, defects, output } = await runSpec(fixture, 'tests/security/historyRewriting.spec.ts', {})
    const [, tried = 0, refused = 0] = (/history: (\d+) ways, (\d+) refused/.exec(output) ?? []).map(Number)
    const tooFew = tried < ways ? [`${tried} ways were tried`] : []
    return { figures: { ways: tried, statementsRefused: refused, tests: passed }, defects: [...defects, ...tooFew] }
  },
})
