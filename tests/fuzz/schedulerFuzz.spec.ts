import { afterAll, beforeAll, expect, test } from 'vitest'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import { fuzz, fuzzSettings, FUZZ_TIMEOUT_MS } from './fuzz.js'
import { SchedulerPlayer } from './SchedulerPlayer.js'
import { schedulerStep } from './schedulerSteps.js'

let db: TestDatabase
let player: SchedulerPlayer

beforeAll(async () => {
  db = await createTestDatabase({ countBranches: false })
  player = await SchedulerPlayer.open(db)
})

afterAll(() => db.drop())

test(
  'PRIM-POSTGRES-FUZZ-001 the scheduler matches its model in every random sequence',
  async () => {
    const { difference } = await fuzz(
      { name: 'scheduler', step: schedulerStep, play: player.play },
      fuzzSettings('scheduler'),
    )
    expect(difference).toBeNull()
  },
  FUZZ_TIMEOUT_MS,
)
