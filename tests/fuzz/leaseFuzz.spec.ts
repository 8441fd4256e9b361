import { beforeAll, expect, test } from 'vitest'
import { useTestDatabase } from '../support/database.js'
import { fuzz, fuzzSettings, FUZZ_TIMEOUT_MS } from './fuzz.js'
import { LeasePlayer } from './LeasePlayer.js'
import { leaseStep } from './leaseSteps.js'

const db = await useTestDatabase({ countBranches: false })
let player: LeasePlayer
beforeAll(async () => {
  player = await LeasePlayer.open(db)
})

test(
  'PRIM-POSTGRES-FUZZ-001 leases match their model in every random sequence',
  async () => {
    const { difference } = await fuzz({ name: 'lease', step: leaseStep, play: player.play }, fuzzSettings('lease'))
    expect(difference).toBeNull()
  },
  FUZZ_TIMEOUT_MS,
)
