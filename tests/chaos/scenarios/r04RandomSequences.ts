import { runProgram } from '../../scorecard/runSpec.js'
import { defineScenario } from '../../scorecard/Scenario.js'

export default defineScenario({
  id: 'R4',
  title: 'Random sequences of all functions are compared with a model in TypeScript (`npm run fuzz`).',
  bar: '10,000 sequences of up to 50 steps; 0 differences.',
  sizes: { full: { sequences: 10_000 }, short: { sequences: 40 } },
  async run(fixture, { sequences }) {
    const words = ['scripts/fuzz.mjs', '--runs', String(sequences), '--seed', String(fixture.seed)]
    fixture.setPostgresVersion('18')
    const { output, exitCode } = await runProgram(fixture, words)
    const why = output.split('\n').filter((line) => /npm run fuzz -- --only|AssertionError|FAIL/.test(line))
    const defects = exitCode === 0 ? [] : [`a sequence differs from the model or failed`, ...why]
    return { figures: { sequences, differences: defects.length === 0 ? 0 : 'some' }, defects }
  },
})
