import { afterAll, beforeAll, expect, test } from 'vitest'
import { OutboxRelayer } from '../../libs/outbox/index.js'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import { gate } from '../support/gate.js'
import { anInstruction, claimOnly, enqueue, pendingRow } from '../support/outboxItems.js'
import { PATIENTLY } from '../support/patiently.js'
import { rememberingRail } from '../support/relayRail.js'

let db: TestDatabase
beforeAll(async () => {
  db = await createTestDatabase()
})
afterAll(() => db.drop())

test('while an item whose lease expired before is carried, nothing else is leased to wait beside it', async () => {
  const { railType } = anInstruction()
  const answered = gate()
  const rail = rememberingRail({ type: railType }, async ({ reference }) => {
    await answered.opened
    return { outcome: 'success', reference: `paid-${reference}` }
  })
  const suspect = await enqueue(db, { railType })
  await claimOnly(db, railType)
  await db.expireLease(suspect.outboxId)
  const relayer = new OutboxRelayer(db.database, rail.rails)
  const first = relayer.runOnce()
  await expect.poll(() => rail.calls.map(({ reference }) => reference), PATIENTLY).toEqual([suspect.outboxId])
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
