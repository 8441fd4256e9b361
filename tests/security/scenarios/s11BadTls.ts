import { runSpec } from '../../support/scorecard/runSpec.js'
import { defineScenario } from '../../support/scorecard/Scenario.js'

/** `npm test` plays it in full. */
export default defineScenario({
  id: 'S11',
  title: 'servers with a bad certificate, as databases and as rails: another name, expired, self-signed, plaintext',
  bar: 'all refused, the reason named',
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
