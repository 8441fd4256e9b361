import { afterAll, beforeAll, expect, test } from 'vitest'
import { databaseSource, verifyLedger } from '../../libs/ledger/index.js'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import { fuzz, fuzzSettings, FUZZ_TIMEOUT_MS } from './fuzz.js'
import { OutboxPlayer } from './OutboxPlayer.js'
import { outboxStep } from './outboxSteps.js'

let db: TestDatabase
let player: OutboxPlayer

beforeAll(async () => {
  db = await createTestDatabase({ countBranches: false })
  player = await OutboxPlayer.open(db)
})

afterAll(() => db.drop())

test(
  'PRIM-POSTGRES-FUZZ-001 the outbox matches its model in every random sequence',
  async () => {
    const { difference } = await fuzz({ name: 'outbox', step: outboxStep, play: player.play }, fuzzSettings('outbox'))
    expect(difference).toBeNull()
    // Steps of every sequence seal blocks.
    const { breaks, blocks } = await verifyLedger(databaseSource(db.as('symphony_auditor')))
    expect(breaks).toEqual([])
    expect(blocks).toBeGreaterThan(0)
  },
  FUZZ_TIMEOUT_MS,
)
