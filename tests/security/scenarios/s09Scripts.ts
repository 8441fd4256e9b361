import { runSpec } from '../../scorecard/runSpec.js'
import { defineScenario } from '../../scorecard/Scenario.js'

/** Number of rows that a dashboard page lists at once. */
const AT_ONCE = 50

export default defineScenario({
  id: 'S9',
  title:
    'Scripts are stored in every field that the dashboard shows, and a browser opens each page without its content security policy. With the policy, another site and an injected script attack the page. A person signs in at an identity provider; its answers and tokens are forged, replayed and mixed up, and another origin uses the cookie.',
  bar: '0 of 200 scripts run; 0 actions from another site; the policy stops the injected script; 0 forged sign-ins.',
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
    for (const spec of ['unit/httpDashboard', 'unit/httpSignIn', 'e2e/dashboardSignIn']) {
      const result = await runSpec(fixture, `tests/${spec}.spec.ts`, {})
      defects.push(...result.defects)
      tests += result.passed
    }
    return { figures: { scripts, tests }, defects }
  },
})
