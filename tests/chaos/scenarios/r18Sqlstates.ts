import { runSpec } from '../../support/scorecard/runSpec.js'
import { defineScenario } from '../../support/scorecard/Scenario.js'

const STATES_MIN = 40

/** `npm test` plays it in full: it takes seconds. */
export default defineScenario({
  id: 'R18',
  title:
    'SQLSTATEs provoked by their real causes: timeouts, deadlock, serialization, too many connections, shutdown, …',
  bar: `at least ${STATES_MIN}, each classified retry, unknown or fatal by one table`,
  sizes: { full: { states: STATES_MIN }, short: { states: STATES_MIN } },
  async run(stage, { states }) {
    const { passed, defects, output } = await runSpec(stage, 'tests/integration/dbSqlstates.spec.ts', {})
    const provoked = Number(/sqlstates: (\d+) provoked/.exec(output)?.[1] ?? 0)
    const tooFew = provoked < states ? [`${provoked} states were provoked`] : []
    return { figures: { sqlstatesProvoked: provoked, tests: passed }, defects: [...defects, ...tooFew] }
  },
})
