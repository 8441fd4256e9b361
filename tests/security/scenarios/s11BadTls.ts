import { runSpec } from '../../scorecard/runSpec.js'
import { defineScenario } from '../../scorecard/Scenario.js'

/** `npm test` runs this scenario in full. */
export default defineScenario({
  id: 'S11',
  title: 'Databases and rails present bad certificates: another name, expired, self-signed, or no TLS.',
  bar: 'All are refused; the error names the reason.',
  sizes: { full: {}, short: {} },
  async run(fixture) {
    const databases = await runSpec(fixture, 'tests/unit/dbTls.spec.ts', {})
    const rails = await runSpec(fixture, 'tests/integration/railsHttp.spec.ts', {})
    return {
      figures: { testsOfDatabases: databases.passed, testsOfRails: rails.passed },
      defects: [...databases.defects, ...rails.defects],
    }
  },
})
