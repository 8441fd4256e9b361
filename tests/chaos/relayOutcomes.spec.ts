import { expect, inject, test } from 'vitest'
import { runScenario } from '../scorecard/runScenario.js'
import { ScenarioFixture } from '../scorecard/ScenarioFixture.js'
import { commitSeed } from '../support/commitSlice.js'
import outcomeMessages, { runOrders } from './scenarios/r24OutcomeMessages.js'

/** Short form of scenario R24, and the same scenario with a handler that does not write through `tx`. */

test(
  'scenario R24: rows that a handler writes through tx match the ledger despite kills',
  { timeout: 300_000 },
  async () => {
    const seed = commitSeed()
    process.stdout.write(`R24: seed ${seed}\n`)
    const { defects, figures } = await runScenario(outcomeMessages, {
      seed,
      short: true,
      size: { payments: 150, workers: 3 },
    })
    expect(defects.join('\n')).toBe('')
    for (const name of ['handlersKilled', 'serverKills', 'decisions', 'cancelledByApplication', 'messagesHandledAgain'])
      expect(Number(figures[name])).toBeGreaterThanOrEqual(1)
  },
)

test('scenario R24 reports outcomes that a handler without tx writes twice', { timeout: 300_000 }, async () => {
  const fixture = await ScenarioFixture.create({ id: 'R24', seed: commitSeed(), serverUrl: inject('serverUrl') })
  try {
    const { defects } = await runOrders(fixture, { payments: 12, workers: 2 }, { handler: 'outside', faults: [] })
    expect(defects.join('\n')).toContain('outcomes were written twice')
  } finally {
    await fixture.dispose()
  }
})
