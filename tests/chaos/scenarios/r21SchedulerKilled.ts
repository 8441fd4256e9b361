import { runSpec } from '../../scorecard/runSpec.js'
import { defineScenario } from '../../scorecard/Scenario.js'

export default defineScenario({
  id: 'R21',
  title: 'Schedulers are killed while 100 jobs are due every second.',
  bar: 'Exactly one run and one message per occurrence: 0 missed, 0 double.',
  sizes: { full: { schedulerSeconds: 60 }, short: { schedulerSeconds: 3 } },
  async run(fixture, { schedulerSeconds }) {
    const { defects, output } = await runSpec(fixture, 'tests/integration/schedulerKills.spec.ts', {
      SYMPHONY_TEST_SCHEDULER_SECONDS: String(schedulerSeconds),
    })
    const [, runs = 0, jobs = 0, kills = 0] = /schedulers: (\d+) runs of (\d+) jobs, (\d+) kills/.exec(output) ?? []
    return { figures: { runs: Number(runs), jobs: Number(jobs), kills: Number(kills) }, defects }
  },
})
