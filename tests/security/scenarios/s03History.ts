import { runSpec } from '../../scorecard/runSpec.js'
import { defineScenario } from '../../scorecard/Scenario.js'

/** `npm test` runs this scenario in full. */
export default defineScenario({
  id: 'S3',
  title:
    'Each runtime role, and then a superuser, tries to change each ledger table: UPDATE, DELETE, TRUNCATE, replica mode, DISABLE TRIGGER, ALTER TYPE, RULE, partitions, RENAME, DROP. Verification searches for changed rows, and doctor for changed objects.',
  bar: 'Every runtime role is refused; every change by the superuser is refused or found.',
  sizes: { full: { ways: 30 }, short: { ways: 30 } },
  async run(fixture, { ways }) {
    const rows = await runSpec(fixture, 'tests/security/historyRewriting.spec.ts', {})
    const guards = await runSpec(fixture, 'tests/unit/outboxAppendOnlyTrigger.spec.ts', {})
    const objects = await runSpec(fixture, 'tests/unit/doctor.spec.ts', {})
    const [, tried = 0, refused = 0] = (/history: (\d+) ways, (\d+) refused/.exec(rows.output) ?? []).map(Number)
    const tooFew = tried < ways ? [`${tried} ways were tried`] : []
    const all = [rows, guards, objects]
    const tests = all.reduce((sum, { passed }) => sum + passed, 0)
    const defects = [...all.flatMap((one) => one.defects), ...tooFew]
    return { figures: { ways: tried, statementsRefused: refused, tests }, defects }
  },
})
