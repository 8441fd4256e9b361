import { expect, test } from 'vitest'
import { OutboxRelayer, recordLateOutcome } from '../../libs/outbox/index.js'
import { useTestDatabase } from '../support/database.js'
import { gate } from '../support/gate.js'
import { buildInstruction, attemptRows, claim, claimOnly, enqueue, pendingRow, WORKER } from '../support/outboxItems.js'
import { POLL_OPTIONS } from '../support/pollOptions.js'
import { recordingRail } from '../support/relayRail.js'

const db = await useTestDatabase()

test('no other item of a rail is leased while a quarantined item of the rail is dispatched', async () => {
  const { railType } = buildInstruction()
  const answered = gate()
  const rail = recordingRail({ type: railType }, async ({ reference }) => {
    await answered.opened
    return { outcome: 'success', reference: `paid-${reference}` }
  })
  const quarantined = await enqueue(db, { railType })
  await claimOnly(db, railType)
  await db.expireLease(quarantined.outboxId)
  const relayer = new OutboxRelayer(db.database, rail.rails)
  const first = relayer.runOnce()
  await expect.poll(() => rail.calls.map(({ reference }) => reference), POLL_OPTIONS).toEqual([quarantined.outboxId])
  const other = await enqueue(db, { railType })
  // The relayer decides what to claim before this call returns, while the quarantined item is still in flight.
  const second = relayer.runOnce()
  answered.open()
  await Promise.all([first, second])
  expect(await pendingRow(db, quarantined.outboxId)).toBeUndefined()
  expect(await pendingRow(db, other.outboxId)).toMatchObject({ claimed_by: null, attempt_count: 0 })
  await relayer.runOnce()
  expect(await pendingRow(db, other.outboxId)).toBeUndefined()
})

/** Creates a rail that answers when the test opens its gate. */
function gatedRail() {
  const { railType } = buildInstruction()
  const { opened, open } = gate()
  const rail = recordingRail({ type: railType }, async ({ reference }) => {
    await opened
    return { outcome: 'success', reference: `paid-${reference}` }
  })
  return { railType, rail, open, called: () => rail.calls.map(({ reference }) => reference) }
}

test('a quarantined item (one expired lease) blocks only its rail, and waits for no other rail', async () => {
  const [hung, quarantineRail, other] = [gatedRail(), gatedRail(), gatedRail()]
  const rails = new Map([...hung.rail.rails, ...quarantineRail.rail.rails, ...other.rail.rails])
  const quarantined = (await enqueue(db, { railType: quarantineRail.railType })).outboxId
  await claimOnly(db, quarantineRail.railType)
  const relayer = new OutboxRelayer(db.database, rails, { pollMs: 50 })
  await relayer.start()
  const calling = await enqueue(db, { railType: hung.railType })
  await expect.poll(hung.called, POLL_OPTIONS).toEqual([calling.outboxId])
  // A hung call on another rail does not delay the quarantined item, and its own hung call delays only its own rail.
  await db.expireLease(quarantined)
  await expect.poll(quarantineRail.called, POLL_OPTIONS).toEqual([quarantined])
  const beside = await enqueue(db, { railType: quarantineRail.railType })
  const elsewhere = await enqueue(db, { railType: other.railType })
  await expect.poll(other.called, POLL_OPTIONS).toEqual([elsewhere.outboxId])
  expect(quarantineRail.called()).toEqual([quarantined])
  for (const { open } of [hung, quarantineRail, other]) open()
  await expect.poll(quarantineRail.called, POLL_OPTIONS).toEqual([quarantined, beside.outboxId])
  await relayer.stop()
  expect(quarantineRail.rail.gauge.most).toBe(1)
})

test('a quarantined item (two expired leases) waits until the process has no call in flight', async () => {
  const [hung, quarantineRail] = [gatedRail(), gatedRail()]
  quarantineRail.open()
  const relayer = new OutboxRelayer(db.database, new Map([...hung.rail.rails, ...quarantineRail.rail.rails]))
  const calling = await enqueue(db, { railType: hung.railType })
  const first = relayer.runOnce()
  await expect.poll(hung.called, POLL_OPTIONS).toEqual([calling.outboxId])
  const quarantined = (await enqueue(db, { railType: quarantineRail.railType })).outboxId
  for (let expiries = 0; expiries < 2; expiries += 1) {
    await claimOnly(db, quarantineRail.railType)
    await db.expireLease(quarantined)
  }
  const second = relayer.runOnce()
  await expect.poll(() => relayer.gauge.waiting, POLL_OPTIONS).toBe(1)
  expect(quarantineRail.called()).toEqual([])
  hung.open()
  await Promise.all([first, second])
  expect(quarantineRail.called()).toEqual([quarantined])
})

test.each([1, 2])('items whose leases expired together (%d times) are dispatched one at a time', async (expiries) => {
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
  await expect.poll(rows, POLL_OPTIONS).toMatchObject(others.map(() => ({ claimed_by: null, expiry_streak: expiries })))
  open()
  await round
  for (const _ of others) await relayer.runOnce()
  expect(rail.gauge.most).toBe(1)
  expect(await rows()).toEqual(others.map(() => undefined))
})

test('a late success completes an item with three expired leases, without a call or a hold', async () => {
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
