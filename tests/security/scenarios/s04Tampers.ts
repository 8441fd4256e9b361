import { runSpec } from '../../scorecard/runSpec.js'
import { defineScenario } from '../../scorecard/Scenario.js'

export default defineScenario({
  id: 'S4',
  title:
    'A superuser changes, deletes, swaps, inserts, truncates, restores and forks ledger rows and blocks at random.',
  bar: '10,000 of 10,000 tampers are found with their place; 0 false alarms in 100 clean runs.',
  sizes: { full: { tampers: 10_000, cleanRuns: 100 }, short: { tampers: 66, cleanRuns: 20 } },
  async run(fixture, { tampers, cleanRuns }) {
    const { defects, output } = await runSpec(fixture, 'tests/security/ledgerTamper.spec.ts', {
      SYMPHONY_TEST_TAMPERS: String(tampers),
      SYMPHONY_TEST_CLEAN_RUNS: String(cleanRuns),
      SYMPHONY_TEST_TAMPER_SEED: String(fixture.seed),
    })
    const [, found = 0] = (/tampers from seed .*: (\d+) of \d+ found/.exec(output) ?? []).map(Number)
    const falseAlarms = defects.some((defect) => defect.includes('an untouched ledger')) ? 'some' : 0
    const missed = found < tampers ? [`${found} of ${tampers} were found`] : []
    return { figures: { tampers, found, cleanRuns, falseAlarms }, defects: [...defects, ...missed] }
  },
})
