import { afterAll, beforeAll, expect, test } from 'vitest'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import { fuzz, fuzzSettings, FUZZ_TIMEOUT_MS } from './fuzz.js'
import { InboxPlayer } from './InboxPlayer.js'
import { inboxStep } from './inboxSteps.js'

let db: TestDatabase
let player: InboxPlayer

beforeAll(async () => {
  db = await createTestDatabase({ countBranches: false })
  player = await InboxPlayer.open(db)
})

afterAll(() => db.drop())

test(
  'PRIM-POSTGRES-FUZZ-001 the inbox matches its model in every random sequence',
  async () => {
    const { difference } = await fuzz({ name: 'inbox', step: inboxStep, play: player.play }, fuzzSettings('inbox'))
    expect(difference).toBeNull()
  },
  FUZZ_TIMEOUT_MS,
)
