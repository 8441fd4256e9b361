import { runSpec } from '../../support/scorecard/runSpec.js'
import { defineScenario } from '../../support/scorecard/Scenario.js'

/** As many as a page of the dashboard lists at once. */
const AT_ONCE = 50

export default defineScenario({
  id: 'S9',
  title:
    'scripts stored in every field that the dashboard shows, in a real browser without the policy’s help; then a page of another site, and a script that got in, with it',
  bar: '200 scripts, none runs; no action from another site; a strict policy holds',
  sizes: { full: { scripts: 200 }, short: { scripts: 50 } },
  async run(fixture, { scripts }) {
    const defects: string[] = []
    let tests = 0
    for (let from = 0; from < scripts; from += AT_ONCE) {
      fixture.progress(`scripts ${from + 1} to ${from + AT_ONCE}`)
      const result = await runSpec(fixture, 'tests/e2e/dashboardHostileText.spec.ts', {
        SYMPHONY_TEST_SCRIPTS_FROM: String(from),
      })
      defects.push(...result.defects)
      tests += result.passed
    }
    const headers = await runSpec(fixture, 'tests/unit/httpDashboard.spec.ts', {})
    return {
      figures: { scripts, fieldsOfPages: 9, tests: tests + headers.passed },
      defects: [...defects, ...headers.defects],
    }
  },
})
