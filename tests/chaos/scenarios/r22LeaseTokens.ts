import { runLeaseStress } from '../../support/leaseStress.js'
import { defineScenario } from '../../support/scorecard/Scenario.js'

export default defineScenario({
  id: 'R22',
  title: 'leases acquired, stolen, renewed, released, expired and forgotten by processes that are killed',
  bar: 'fencing tokens of a resource strictly increasing in the order of the commits; no token told that was not issued',
  sizes: { full: { tokens: 100_000, kills: 200 }, short: { tokens: 1_000, kills: 5 } },
  async run(fixture, { tokens, kills }) {
    const db = await fixture.createDatabase(await fixture.startServer())
    const tokensPerKill = Math.floor(tokens / kills)
    const result = await runLeaseStress(db, { tokens, processes: 3, tokensPerKill })
    const { issued, notGreater, unfounded } = result
    return {
      figures: {
        tokensIssued: issued,
        kills: result.kills,
        leasesExpired: result.expired,
        notGreater: notGreater.length,
      },
      defects: [
        ...notGreater.map((one) => `a token was not greater than the one before it: ${JSON.stringify(one)}`),
        ...unfounded.map((line) => `a holder was told a token that was never issued, or that another has: ${line}`),
        ...(issued < tokens ? [`${issued} tokens were issued`] : []),
      ],
    }
  },
})
