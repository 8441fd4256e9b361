import { expect, it } from 'vitest'
import { markdownPage } from '../support/markdownPage.js'
import { HTTP_STATUS_OUTCOMES, runRailContract, SIMULATED_BEHAVIOURS, type Rail } from '../../libs/rails/index.js'
import { PAYABLE } from '../support/railRequest.js'

const guide = markdownPage('docs/coding/writing-a-rail.md')

it('the rail at the top of the guide works as pasted, and keeps the contract', async () => {
  const [, source = ''] = /```js\n(.*?)```/s.exec(guide) ?? []
  const { default: rails }: { default: Rail[] } = await import(`data:text/javascript,${encodeURIComponent(source)}`)
  const refusedPayload = { ...PAYABLE, amount: '9999999999.99' }
  const results = await Promise.all(rails.map((rail) => runRailContract(rail, { payload: PAYABLE, refusedPayload })))
  expect(results).toHaveLength(1)
})

it('the guide lists the HTTP statuses as they are judged', () => {
  for (const outcome of ['terminal', 'retryable']) {
    const statuses = Object.entries(HTTP_STATUS_OUTCOMES).filter(([, listed]) => listed === outcome)
    expect(guide).toContain(`| ${statuses.map(([status]) => status).join(', ')} | ${outcome}`)
  }
})

it('the guide names every simulated behaviour', () => {
  for (const behaviour of SIMULATED_BEHAVIOURS) expect(guide).toContain(`\`${behaviour}\``)
})
