import { runLeaseStress } from '../../support/leaseStress.js'
import { defineScenario } from '../../scorecard/Scenario.js'

export default defineScenario({
  id: 'R22',
  title: 'Processes that are killed acquire, steal, renew, release and abandon named leases.',
  bar: 'Fencing tokens of a resource strictly increase in commit order; 0 tokens are reported that were not issued.',
  sizes: { full: { tokens: 100_000, kills: 200 }, short: { tokens: 1_000, kills: 5 } },
  async run(fixture, { tokens, kills }) {
    const db = await fixture.createDatabase(await fixture.startServer())
    const tokensPerKill = Math.floor(tokens / kills)
    const result = await runLeaseStress(db, { tokens, processes: 3, tokensPerKill })
    const { issued, notGreater, unrecorded } = result
    return {
      figures: {
        tokensIssued: issued,
        kills: result.kills,
        leasesExpired: result.expired,
        notGreater: notGreater.length,
      },
      defects: [
        ...notGreater.map((one) => `a token was not greater than the one before it: ${JSON.stringify(one)}`),
        ...unrecorded.map((line) => `a holder got a token that was never issued or belongs to another: ${line}`),
        ...(issued < tokens ? [`${issued} tokens were issued`] : []),
      ],
    }
  },
})
