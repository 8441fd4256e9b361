import { beforeAll, expect, test } from 'vitest'
import { useTestDatabase } from '../support/database.js'
import { fuzz, fuzzSettings, FUZZ_TIMEOUT_MS } from './fuzz.js'
import { LeaseRunner } from './LeaseRunner.js'
import { leaseStep } from './leaseSteps.js'

const db = await useTestDatabase({ countBranches: false })
let runner: LeaseRunner
beforeAll(async () => {
  runner = await LeaseRunner.open(db)
})

test(
  'PRIM-POSTGRES-FUZZ-001 leases match their model in every random sequence of calls',
  async () => {
    const { difference } = await fuzz({ name: 'lease', step: leaseStep, run: runner.run }, fuzzSettings('lease'))
    expect(difference).toBeNull()
  },
  FUZZ_TIMEOUT_MS,
)
