import { runProgram } from '../../scorecard/runSpec.js'
import { defineScenario } from '../../scorecard/Scenario.js'

/** Mutants of the short run: those that remove guards of two-person decisions. All take half an hour on two cores. */
const SHORT = [
  'one person decides alone',
  'any login may name the person who acts',
  'a proposal is approved in the transaction that made it',
]

export default defineScenario({
  id: 'R3',
  title: 'Mutants in SQL and TypeScript are applied one by one to a copy (`npm run mutants`).',
  bar: 'At least 60 mutants; the tests catch all.',
  sizes: { full: { mutants: 60 }, short: { mutants: 3 } },
  async run(fixture, { mutants }) {
    const words = mutants < 60 ? SHORT : ['--at-once', '2']
    fixture.setPostgresVersion('18')
    const { output, exitCode } = await runProgram(fixture, ['scripts/mutants.mjs', ...words])
    const [, caught = 0, planted = 0] = (/mutants: (\d+) of (\d+) caught/.exec(output) ?? []).map(Number)
    const survivors = output.split('\n').filter((line) => /SURVIVED|STALE|DOES NOT COMPILE/.test(line))
    const tooFew = planted < mutants ? [`${planted} mutants ran, expected ${mutants}`] : []
    const failed = exitCode !== 0 && survivors.length === 0 ? [`npm run mutants ended with ${exitCode}`] : []
    return { figures: { planted, caught }, defects: [...survivors, ...tooFew, ...failed] }
  },
})
