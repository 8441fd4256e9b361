import { runSpec } from '../../scorecard/runSpec.js'
import { defineScenario } from '../../scorecard/Scenario.js'

/** `npm test` runs this scenario in full. */
export default defineScenario({
  id: 'S1',
  title:
    'Every role, and a login without roles, exercises every right on every table, view, column and function, on existing rows.',
  bar: 'At least 5,000 statements; each result is as documented.',
  sizes: { full: { statements: 5_000 }, short: { statements: 5_000 } },
  async run(fixture, { statements }) {
    const { passed, defects, output } = await runSpec(fixture, 'tests/unit/outboxPrivileges.spec.ts', {})
    const exercised = Number(/privileges: (\d+) statements/.exec(output)?.[1] ?? 0)
    const tooFew = exercised < statements ? [`${exercised} statements were tried`] : []
    return { figures: { statements: exercised, tests: passed }, defects: [...defects, ...tooFew] }
  },
})
