import { runSpec } from '../../scorecard/runSpec.js'
import { defineScenario } from '../../scorecard/Scenario.js'

/** `npm test` runs this scenario in full. */
export default defineScenario({
  id: 'S8',
  title:
    'Every route is called without a key, and with keys that are incomplete, unknown, expired, revoked, of another scope or of another participant. Tokens are forged or expired. Webhooks are unsigned, old or replayed.',
  bar: 'All are refused; nothing changes.',
  sizes: { full: { refusals: 300 }, short: { refusals: 300 } },
  async run(fixture, { refusals }) {
    const access = await runSpec(fixture, 'tests/unit/httpAccess.spec.ts', {})
    const tokens = await runSpec(fixture, 'tests/unit/httpOidc.spec.ts', {})
    const webhooks = await runSpec(fixture, 'tests/unit/httpWebhooks.spec.ts', {})
    const refused = Number(/access: (\d+) refusals/.exec(access.output)?.[1] ?? 0)
    const tooFew = refused < refusals ? [`${refused} requests were refused`] : []
    return {
      figures: { refusals: refused, tests: access.passed + tokens.passed + webhooks.passed },
      defects: [...access.defects, ...tokens.defects, ...webhooks.defects, ...tooFew],
    }
  },
})
