import { afterAll, beforeAll, expect, test } from 'vitest'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import { fuzz, fuzzSettings, FUZZ_TIMEOUT_MS } from './fuzz.js'
import { LeasePlayer } from './LeasePlayer.js'
import { leaseStep } from './leaseSteps.js'

let db: TestDatabase
let player: LeasePlayer

beforeAll(async () => {
  db = await createTestDatabase({ countBranches: false })
  player = await LeasePlayer.open(db)
})

afterAll(() => db.drop())

test(
  'PRIM-POSTGRES-FUZZ-001 leases match their model in every random sequence',
  async () => {
    const { difference } = await fuzz({ name: 'lease', step: leaseStep, play: player.play }, fuzzSettings('lease'))
    expect(difference).toBeNull()
  },
  FUZZ_TIMEOUT_MS,
)
