import { runSpec } from '../../scorecard/runSpec.js'
import { defineScenario } from '../../scorecard/Scenario.js'

export default defineScenario({
  id: 'R23',
  title: 'Inbox workers are killed, senders repeat messages, and handlers fail.',
  bar: 'Each message takes effect exactly once; other content under a known id is reported.',
  sizes: { full: { messages: 100_000 }, short: { messages: 1_000 } },
  async run(fixture, { messages }) {
    const { defects, output } = await runSpec(fixture, 'tests/integration/inboxExactlyOnce.spec.ts', {
      INBOX_TEST_MESSAGES: String(messages),
    })
    const [, effects = 0, kills = 0] = /inbox: (\d+) effects, (\d+) kills/.exec(output) ?? []
    return { figures: { messages, effects: Number(effects), kills: Number(kills) }, defects }
  },
})
