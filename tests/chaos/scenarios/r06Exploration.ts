import { explore, type Exploration } from '../../explore/explore.js'
import { FAULTS, faultyWorld } from '../../explore/faults.js'
import { buildWorlds } from '../../explore/World.js'
import { defineScenario } from '../../scorecard/Scenario.js'

export default defineScenario({
  id: 'R6',
  title:
    'Every state of the TypeScript model of R4 is visited, breadth first: 2 workers that crash and lose leases, 2 ordered payments, rails of each policy, 2 people, holds, redrive, cancel, freeze, restore.',
  bar: 'All states within 14 steps, at least 1,000,000; 0 broken rules; each planted fault is found with its shortest trace.',
  sizes: { full: { depth: 14, states: 1_000_000 }, short: { depth: 8, states: 10_000 } },
  // oxlint-disable-next-line typescript/require-await -- the exploration only computes
  async run(fixture, { depth, states }) {
    const clean = explore(buildWorlds(), depth, (reached, found) =>
      fixture.progress(`${found.toLocaleString('en-US')} states within ${reached} steps`),
    )
    const missed = FAULTS.filter((fault) => !isFound(fault, explore([faultyWorld(fault)], fault.steps)))
    const tooFew = clean.states < states ? [`${clean.states} states were found, expected ${states}`] : []
    return {
      figures: {
        states: clean.states,
        steps: clean.steps,
        depth: clean.depth,
        brokenRules: clean.found === null ? 0 : 1,
        plantedFaults: FAULTS.length,
        faultsFound: FAULTS.length - missed.length,
      },
      defects: [
        ...describe(clean),
        ...tooFew,
        ...missed.map(({ name }) => `this planted fault was not found: ${name}`),
      ],
    }
  },
})

function isFound({ rule, steps }: (typeof FAULTS)[number], { found }: Exploration): boolean {
  return found?.rule === rule && found.steps === steps
}

function describe({ found }: Exploration): string[] {
  if (found === null) return []
  return [`${found.rule}: ${found.detail}`, ...found.trace.map((step, index) => `${index + 1}. ${step}`)]
}
