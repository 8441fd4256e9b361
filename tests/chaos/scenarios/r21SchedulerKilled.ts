import { runSpec } from '../../support/scorecard/runSpec.js'
import { defineScenario } from '../../support/scorecard/Scenario.js'

export default defineScenario({
  id: 'R21',
  title: 'schedulers killed while a hundred jobs are due every second',
  bar: 'exactly one run and one message per occurrence: none missed, none doubled',
  sizes: { full: { schedulerSeconds: 60 }, short: { schedulerSeconds: 3 } },
  async run(fixture, { schedulerSeconds }) {
    const { defects, output } = await runSpec(fixture, 'tests/integration/schedulerKills.spec.ts', {
      SYMPHONY_TEST_SCHEDULER_SECONDS: String(schedulerSeconds),
    })
    const [, runs = 0, jobs = 0, kills = 0] = /schedulers: (\d+) runs of (\d+) jobs, (\d+) kills/.exec(output) ?? []
    return { figures: { runs: Number(runs), jobs: Number(jobs), kills: Number(kills) }, defects }
  },
})
