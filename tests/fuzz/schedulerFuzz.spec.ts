import { beforeAll, expect, test } from 'vitest'
import { useTestDatabase } from '../support/database.js'
import { fuzz, fuzzSettings, FUZZ_TIMEOUT_MS } from './fuzz.js'
import { SchedulerRunner } from './SchedulerRunner.js'
import { schedulerStep } from './schedulerSteps.js'

const db = await useTestDatabase({ countBranches: false })
let runner: SchedulerRunner
beforeAll(async () => {
  runner = await SchedulerRunner.open(db)
})

test(
  'PRIM-POSTGRES-FUZZ-001 the scheduler matches its model in every random sequence of calls',
  async () => {
    const { difference } = await fuzz(
      { name: 'scheduler', step: schedulerStep, run: runner.run },
      fuzzSettings('scheduler'),
    )
    expect(difference).toBeNull()
  },
  FUZZ_TIMEOUT_MS,
)
