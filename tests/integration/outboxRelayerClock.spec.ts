import { afterAll, beforeAll, expect, test } from 'vitest'
import { OutboxRelayer, type RelayerEvent } from '../../libs/outbox/index.js'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import { buildInstruction, enqueue } from '../support/outboxItems.js'
import { recordingRail } from '../support/relayRail.js'

/** The database's clock and a worker's monotonic one run at one pace. When their distance changes, one of them was set. */

let db: TestDatabase
beforeAll(async () => {
  db = await createTestDatabase()
})
afterAll(() => db.drop())

const LEASE_SECONDS = 600

/** A worker whose monotonic clock can be moved; to it that looks as if the database's had moved the other way. */
function buildWorker() {
  const { railType } = buildInstruction()
  const rail = recordingRail({ type: railType })
  const events: RelayerEvent[] = []
  // A machine that has been up for a day: its clock can be moved both ways.
  let shiftMs = 86_400_000
  const clock = { now: () => new Date(), monotonicMs: () => performance.now() + shiftMs }
  const options = { leaseSeconds: LEASE_SECONDS }
  const relayer = new OutboxRelayer(db.database, rail.rails, options, (event) => events.push(event), clock)
  return {
    move: (ms: number) => (shiftMs += ms),
    jumps: () =>
      events.flatMap((event) => (event.type === 'outbox.clockJumped' ? [Math.round(event.byMs / 1_000)] : [])),
    /** One item more, and a round: how many were dispatched in it. */
    round: async () => {
      await enqueue(db, { railType })
      return (await relayer.runOnce()).dispatched
    },
  }
}

test.each([
  ['forward', -7_200],
  ['back', 7_200],
])(
  'a database whose clock is set two hours %s raises the alarm, and claims pause for one lease',
  async (_way, seconds) => {
    const { move, jumps, round } = buildWorker()
    expect(await round()).toBe(1)
    move(seconds * 1_000)
    // The claim by which it is noticed is carried; the next one is not made.
    expect(await round()).toBe(1)
    expect(jumps()).toEqual([-seconds])
    expect(await round()).toBe(0)
    move((LEASE_SECONDS / 2) * 1_000)
    expect(await round()).toBe(0)
  },
)

test('after the pause the worker claims again, what came in meanwhile included', async () => {
  const { move, round } = buildWorker()
  await round()
  move(7_200_000)
  await round()
  expect(await round()).toBe(0)
  move(LEASE_SECONDS * 1_000)
  expect(await round()).toBe(2)
})

test('a difference of less than five seconds is no jump', async () => {
  const { move, jumps, round } = buildWorker()
  await round()
  move(4_000)
  expect(await round()).toBe(1)
  move(-4_000)
  expect(await round()).toBe(1)
  expect(jumps()).toEqual([])
})
