import { beforeAll, expect, test } from 'vitest'
import { useTestDatabase } from '../support/database.js'
import { fuzz, fuzzSettings, FUZZ_TIMEOUT_MS } from './fuzz.js'
import { InboxPlayer } from './InboxPlayer.js'
import { inboxStep } from './inboxSteps.js'

const db = await useTestDatabase({ countBranches: false })
let player: InboxPlayer
beforeAll(async () => {
  player = await InboxPlayer.open(db)
})

test(
  'PRIM-POSTGRES-FUZZ-001 the inbox matches its model in every random sequence',
  async () => {
    const { difference } = await fuzz({ name: 'inbox', step: inboxStep, play: player.play }, fuzzSettings('inbox'))
    expect(difference).toBeNull()
  },
  FUZZ_TIMEOUT_MS,
)
