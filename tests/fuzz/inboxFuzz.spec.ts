import { beforeAll, expect, test } from 'vitest'
import { useTestDatabase } from '../support/database.js'
import { fuzz, fuzzSettings, FUZZ_TIMEOUT_MS } from './fuzz.js'
import { InboxRunner } from './InboxRunner.js'
import { inboxStep } from './inboxSteps.js'

const db = await useTestDatabase({ countBranches: false })
let runner: InboxRunner
beforeAll(async () => {
  runner = await InboxRunner.open(db)
})

test(
  'PRIM-POSTGRES-FUZZ-001 the inbox matches its model in every random sequence of calls',
  async () => {
    const { difference } = await fuzz({ name: 'inbox', step: inboxStep, run: runner.run }, fuzzSettings('inbox'))
    expect(difference).toBeNull()
  },
  FUZZ_TIMEOUT_MS,
)
