import { beforeAll, expect, test } from 'vitest'
import { useTestDatabase } from '../support/database.js'
import { fuzz, fuzzSettings, FUZZ_TIMEOUT_MS } from './fuzz.js'
import { SchedulerPlayer } from './SchedulerPlayer.js'
import { schedulerStep } from './schedulerSteps.js'

const db = await useTestDatabase({ countBranches: false })
let player: SchedulerPlayer
beforeAll(async () => {
  player = await SchedulerPlayer.open(db)
})

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
