import { expect, it } from 'vitest'
import { markdownPage } from '../support/markdownPage.js'
import { HTTP_STATUS_OUTCOMES, runRailContract, SIMULATED_BEHAVIOURS, type Rail } from '../../libs/rails/index.js'
import { PAYABLE } from '../support/railRequest.js'

const guide = markdownPage('docs/coding/writing-a-rail.md')
const httpGuide = markdownPage('docs/coding/http-rail.md')
const testGuide = markdownPage('docs/coding/testing.md')

it('the rail of writing-a-rail.md works as pasted and passes the contract test', async () => {
  const [, source = ''] = /```js\n(.*?)```/s.exec(guide) ?? []
  const { default: rails }: { default: Rail[] } = await import(`data:text/javascript,${encodeURIComponent(source)}`)
  const refusedPayload = { ...PAYABLE, amount: '9999999999.99' }
  const results = await Promise.all(rails.map((rail) => runRailContract(rail, { payload: PAYABLE, refusedPayload })))
  expect(results).toHaveLength(1)
})

it('http-rail.md lists the outcome of each HTTP status', () => {
  for (const outcome of ['terminal', 'retryable']) {
    const statuses = Object.entries(HTTP_STATUS_OUTCOMES).filter(([, listed]) => listed === outcome)
    expect(httpGuide).toContain(`| ${statuses.map(([status]) => status).join(', ')} | ${outcome}`)
  }
})

it('testing.md names every behaviour of the simulated rail', () => {
  for (const behaviour of SIMULATED_BEHAVIOURS) expect(testGuide).toContain(`\`${behaviour}\``)
})
