import { beforeAll, expect, test } from 'vitest'
import { databaseSource, verifyLedger } from '../../libs/ledger/index.js'
import { useTestDatabase } from '../support/database.js'
import { sealLedger } from '../support/sealLedger.js'
import { fuzz, fuzzSettings, FUZZ_TIMEOUT_MS } from './fuzz.js'
import { OutboxRunner } from './OutboxRunner.js'
import { outboxStep } from './outboxSteps.js'

const db = await useTestDatabase({ countBranches: false })
let runner: OutboxRunner
beforeAll(async () => {
  runner = await OutboxRunner.open(db)
})

test(
  'PRIM-POSTGRES-FUZZ-001 the outbox matches its model in every random sequence of calls',
  async () => {
    const { difference } = await fuzz({ name: 'outbox', step: outboxStep, run: runner.run }, fuzzSettings('outbox'))
    expect(difference).toBeNull()
    // The steps of the sequences seal little while a parallel test has an open transaction. Seals the rest.
    await sealLedger(db)
    const { breaks, blocks } = await verifyLedger(databaseSource(db.as('symphony_auditor')))
    expect(breaks).toEqual([])
    expect(blocks).toBeGreaterThan(0)
  },
  FUZZ_TIMEOUT_MS,
)
