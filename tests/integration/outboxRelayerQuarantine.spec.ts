import { afterAll, beforeAll, expect, test } from 'vitest'
import { OutboxRelayer, recordLateOutcome } from '../../libs/outbox/index.js'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import { gate } from '../support/gate.js'
import { buildInstruction, attemptRows, claim, claimOnly, enqueue, pendingRow, WORKER } from '../support/outboxItems.js'
import { POLL_OPTIONS } from '../support/pollOptions.js'
import { recordingRail } from '../support/relayRail.js'

let db: TestDatabase
beforeAll(async () => {
  db = await createTestDatabase()
})
afterAll(() => db.drop())

test('while an item whose lease expired before is carried, nothing else is leased to wait beside it', async () => {
  const { railType } = buildInstruction()
  const answered = gate()
  const rail = recordingRail({ type: railType }, async ({ reference }) => {
    await answered.opened
    return { outcome: 'success', reference: `paid-${reference}` }
  })
  const suspect = await enqueue(db, { railType })
  await claimOnly(db, railType)
  await db.expireLease(suspect.outboxId)
  const relayer = new OutboxRelayer(db.database, rail.rails)
  const first = relayer.runOnce()
  await expect.poll(() => rail.calls.map(({ reference }) => reference), POLL_OPTIONS).toEqual([suspect.outboxId])
  const other = await enqueue(db, { railType })
  // What there is room for is decided before this call returns, so the suspect is surely still in flight.
  const second = relayer.runOnce()
  answered.open()
  await Promise.all([first, second])
  expect(await pendingRow(db, suspect.outboxId)).toBeUndefined()
  expect(await pendingRow(db, other.outboxId)).toMatchObject({ claimed_by: null, attempt_count: 0 })
  await relayer.runOnce()
  expect(await pendingRow(db, other.outboxId)).toBeUndefined()
})

/** A rail whose calls are answered when the test opens its gate. */
function gatedRail() {
  const { railType } = buildInstruction()
  const { opened, open } = gate()
  const rail = recordingRail({ type: railType }, async ({ reference }) => {
    await opened
    return { outcome: 'success', reference: `paid-${reference}` }
  })
  return { railType, rail, open, called: () => rail.calls.map(({ reference }) => reference) }
}

test('after one expiry an item waits for its own rail alone, and keeps no other rail waiting', async () => {
  const [hung, suspected, other] = [gatedRail(), gatedRail(), gatedRail()]
  const rails = new Map([...hung.rail.rails, ...suspected.rail.rails, ...other.rail.rails])
  const suspect = (await enqueue(db, { railType: suspected.railType })).outboxId
  await claimOnly(db, suspected.railType)
  const relayer = new OutboxRelayer(db.database, rails, { pollMs: 50 })
  await relayer.start()
  const calling = await enqueue(db, { railType: hung.railType })
  await expect.poll(hung.called, POLL_OPTIONS).toEqual([calling.outboxId])
  // A call hangs elsewhere: the suspect goes. The suspect hangs: others go, but none beside it on its rail.
  await db.expireLease(suspect)
  await expect.poll(suspected.called, POLL_OPTIONS).toEqual([suspect])
  const beside = await enqueue(db, { railType: suspected.railType })
  const elsewhere = await enqueue(db, { railType: other.railType })
  await expect.poll(other.called, POLL_OPTIONS).toEqual([elsewhere.outboxId])
  expect(suspected.called()).toEqual([suspect])
  for (const { open } of [hung, suspected, other]) open()
  await expect.poll(suspected.called, POLL_OPTIONS).toEqual([suspect, beside.outboxId])
  await relayer.stop()
  expect(suspected.rail.gauge.most).toBe(1)
})

test('after two expiries in a row an item waits until nothing is in flight in the process', async () => {
  const [hung, suspected] = [gatedRail(), gatedRail()]
  suspected.open()
  const relayer = new OutboxRelayer(db.database, new Map([...hung.rail.rails, ...suspected.rail.rails]))
  const calling = await enqueue(db, { railType: hung.railType })
  const first = relayer.runOnce()
  await expect.poll(hung.called, POLL_OPTIONS).toEqual([calling.outboxId])
  const suspect = (await enqueue(db, { railType: suspected.railType })).outboxId
  for (let expiries = 0; expiries < 2; expiries += 1) {
    await claimOnly(db, suspected.railType)
    await db.expireLease(suspect)
  }
  const second = relayer.runOnce()
  await expect.poll(() => relayer.gauge.waiting, POLL_OPTIONS).toBe(1)
  expect(suspected.called()).toEqual([])
  hung.open()
  await Promise.all([first, second])
  expect(suspected.called()).toEqual([suspect])
})

test.each([1, 2])(
  'of items whose leases expired together %d times, one is carried and the others go back: whoever dies now dies with one',
  async (expiries) => {
    const { railType, rail, open, called } = gatedRail()
    const items = await Promise.all([1, 2, 3].map(() => enqueue(db, { railType })))
    for (let expiry = 0; expiry < expiries; expiry += 1) {
      await claim(db, railType)
      for (const { outboxId } of items) await db.expireLease(outboxId)
    }
    const relayer = new OutboxRelayer(db.database, rail.rails)
    const round = relayer.runOnce()
    await expect.poll(() => called().length, POLL_OPTIONS).toBe(1)
    const others = items.map(({ outboxId }) => outboxId).filter((outboxId) => outboxId !== called()[0])
    const rows = () => Promise.all(others.map((outboxId) => pendingRow(db, outboxId)))
    await expect
      .poll(rows, POLL_OPTIONS)
      .toMatchObject(others.map(() => ({ claimed_by: null, expiry_streak: expiries })))
    open()
    await round
    for (const _ of others) await relayer.runOnce()
    expect(rail.gauge.most).toBe(1)
    expect(await rows()).toEqual(others.map(() => undefined))
  },
)

test('after three expiries a late success completes the item, without a call and without a hold', async () => {
  const { railType } = buildInstruction()
  const rail = recordingRail({ type: railType }, () => ({ outcome: 'success', reference: 'paid-again' }))
  const { outboxId } = await enqueue(db, { railType })
  const lost = await claimOnly(db, railType)
  await db.expireLease(outboxId)
  for (let expiries = 1; expiries < 3; expiries += 1) {
    await claimOnly(db, railType)
    await db.expireLease(outboxId)
  }
  await recordLateOutcome(db.as('symphony_executor'), WORKER, {
    outboxId,
    leaseToken: lost.leaseToken,
    state: 'DISPATCHED',
    railReference: 'paid-late',
  })
  await new OutboxRelayer(db.database, rail.rails).runOnce()
  expect(rail.calls).toEqual([])
  expect((await attemptRows(db, outboxId)).at(-1)).toMatchObject({
    attempt_no: 4,
    state: 'DISPATCHED',
    rail_reference: 'paid-late',
    action: 'inquired',
  })
})
