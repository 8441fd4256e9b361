import { expect, test } from 'vitest'
import { OutboxRelayer, type RelayerEvent } from '../../libs/outbox/index.js'
import { useTestDatabase } from '../support/database.js'
import { buildInstruction, enqueue } from '../support/outboxItems.js'
import { openConnection, untilTableWaits } from '../support/race.js'
import { recordingRail } from '../support/relayRail.js'

/**
 * Tests clock jumps. A worker detects one when the distance between the database clock and its monotonic clock changes.
 */

const db = await useTestDatabase()

const LEASE_SECONDS = 600

/**
 * Builds a worker with a movable monotonic clock. Moving it has the same effect as moving the database clock the other
 * way.
 */
function buildWorker() {
  const { railType } = buildInstruction()
  const rail = recordingRail({ type: railType })
  const events: RelayerEvent[] = []
  // The clock starts at one day, so that it can be moved both ways.
  let shiftMs = 86_400_000
  const clock = { now: () => new Date(), monotonicMs: () => performance.now() + shiftMs }
  const options = { leaseSeconds: LEASE_SECONDS }
  const relayer = new OutboxRelayer(db.database, rail.rails, options, (event) => events.push(event), clock)
  return {
    relayer,
    move: (ms: number) => (shiftMs += ms),
    jumps: () =>
      events.flatMap((event) => (event.type === 'outbox.clockJumped' ? [Math.round(event.byMs / 1_000)] : [])),
    enqueueOne: () => enqueue(db, { railType }),
    /** Enqueues an item, runs a round and returns the number of dispatched items. */
    round: async () => {
      await enqueue(db, { railType })
      return (await relayer.runOnce()).dispatched
    },
  }
}

test.each([
  ['forward', -7_200],
  ['back', 7_200],
])('a worker claims nothing for one lease duration after the database clock jumps %s', async (_way, seconds) => {
  const { move, jumps, round } = buildWorker()
  expect(await round()).toBe(1)
  move(seconds * 1_000)
  // The items of the claim that reveals the jump are still dispatched. The next claim is omitted.
  expect(await round()).toBe(1)
  expect(jumps()).toEqual([-seconds])
  expect(await round()).toBe(0)
  move((LEASE_SECONDS / 2) * 1_000)
  expect(await round()).toBe(0)
})

test('a worker claims again one lease duration after a clock jump', async () => {
  const { move, round } = buildWorker()
  await round()
  move(7_200_000)
  await round()
  expect(await round()).toBe(0)
  move(LEASE_SECONDS * 1_000)
  expect(await round()).toBe(2)
})

test.each([
  ['before', -8_000],
  ['after', 0],
])('a claim whose server waits 8 s for a lock %s it reads its clock is no jump', async (_when, beforeMs) => {
  const { relayer, jumps, move, round, enqueueOne } = buildWorker()
  await round()
  await enqueueOne()
  const blocker = await openConnection(db)
  await blocker.query('BEGIN; LOCK TABLE payment_outbox_pending IN ACCESS EXCLUSIVE MODE')
  move(beforeMs)
  const waiting = relayer.runOnce()
  await untilTableWaits(db, 'payment_outbox_pending')
  move(8_000)
  await blocker.query('ROLLBACK')
  await blocker.close()
  await waiting
  expect(await round()).toBe(1)
  expect(jumps()).toEqual([])
})

test('a clock difference of less than five seconds does not count as a jump', async () => {
  const { move, jumps, round } = buildWorker()
  await round()
  move(4_000)
  expect(await round()).toBe(1)
  move(-4_000)
  expect(await round()).toBe(1)
  expect(jumps()).toEqual([])
})
