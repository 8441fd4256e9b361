import { runSpec } from '../../scorecard/runSpec.js'
import { defineScenario } from '../../scorecard/Scenario.js'

/** `npm test` runs this scenario in full. */
export default defineScenario({
  id: 'S6',
  title:
    'A card number and a password pass through failing rails, checks, API requests, webhooks and commands. Logs, errors, metrics, spans, tables, API answers and dashboard pages are searched for both.',
  bar: '0 occurrences.',
  sizes: { full: { places: 50 }, short: { places: 50 } },
  async run(fixture, { places }) {
    const { defects, output } = await runSpec(fixture, 'tests/security/canary.spec.ts', {})
    const [, searched = 0, occurrences = 'unknown'] = /canary: (\d+) places, (\d+) occurrences/.exec(output) ?? []
    const tooFew = Number(searched) < places ? [`${searched} places were searched`] : []
    return { figures: { placesSearched: Number(searched), occurrences }, defects: [...defects, ...tooFew] }
  },
})
