import { randomUUID } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import {
  beginOutboxDispatch,
  holdLeasedOutboxItem,
  noteOutboxItem,
  placeOutboxHold,
  readHeldItems,
  recordLateOutcome,
  releaseOutboxLease,
  renewOutboxLease,
  repairExpiredLeases,
  resolveOutboxHold,
} from '../../libs/outbox/index.js'
import { useTestDatabase } from '../support/database.js'
import {
  buildInstruction,
  claim,
  claimOnly,
  complete,
  enqueue,
  enqueueAndClaim,
  eventRows,
  ledger,
  pendingRow,
  WORKER,
} from '../support/outboxItems.js'
import { createPerson, enqueueHeld } from '../support/outboxPeople.js'
import { openConnection } from '../support/race.js'

const db = await useTestDatabase()
const olga = await createPerson(db, 'olga')

test('a claim skips a held item and leases another item of the same rail', async () => {
  const held = await enqueue(db)
  const other = await enqueue(db, { railType: held.railType })
  await placeOutboxHold(olga.control, held.outboxId, 'looks wrong')
  expect((await claim(db, held.railType)).map((item) => item.outboxId)).toEqual([other.outboxId])
})

test('RETRY by one person makes a held item of known outcome due at once', async () => {
  const item = await enqueueAndClaim(db)
  await complete(db, item, { state: 'RETRYABLE', retryDelaySeconds: 3600 })
  await placeOutboxHold(olga.control, item.outboxId, 'looks wrong')
  expect(await resolveOutboxHold(olga.control, item.outboxId, 'RETRY', 'looks right')).toEqual({
    status: 'APPLIED',
    proposalId: null,
  })
  expect((await claimOnly(db, item.railType)).outboxId).toBe(item.outboxId)
})

test('RETRY of an item that was never attempted keeps its notBefore', async () => {
  const notBefore = new Date(Date.now() + 86_400_000)
  const item = await enqueue(db, { notBefore })
  await placeOutboxHold(olga.control, item.outboxId, 'looks wrong')
  await resolveOutboxHold(olga.control, item.outboxId, 'RETRY', 'looks right')
  expect(await claim(db, item.railType)).toEqual([])
  expect((await pendingRow(db, item.outboxId))?.next_attempt_at).toEqual(notBefore)
})

test('a hold and its resolution are events with actor and reason', async () => {
  const { outboxId } = await enqueue(db)
  const eventId = await placeOutboxHold(olga.control, outboxId, 'looks wrong')
  await resolveOutboxHold(olga.control, outboxId, 'RETRY', 'looks right')
  expect(await eventRows(db, outboxId)).toMatchObject([
    {
      event_id: eventId,
      event_no: 1n,
      event_type: 'HOLD_PLACED',
      actor: olga.name,
      detail: { reason: 'looks wrong' },
      attempt_id: null,
    },
    {
      event_no: 2n,
      event_type: 'HOLD_RESOLVED',
      actor: olga.name,
      detail: { decision: 'RETRY', reason: 'looks right' },
    },
  ])
  expect(await pendingRow(db, outboxId)).toMatchObject({ hold_reason: null, held_by: null, held_at: null })
})

async function leasedAndHeld(marked = false) {
  const lease = await enqueueAndClaim(db, {}, { marked })
  await placeOutboxHold(olga.control, lease.outboxId, 'please wait')
  expect(await pendingRow(db, lease.outboxId)).toMatchObject({ lease_token: lease.leaseToken, claimed_by: WORKER })
  return lease
}
const executor = () => db.as('symphony_executor')

describe('a leased item under a hold', () => {
  test.for(['DISPATCHED', 'FAILED'] as const)('completes as %s, which ends the hold', async (state) => {
    const lease = await leasedAndHeld()
    expect(await complete(db, lease, { state, railReference: 'r-1' })).toEqual({ attemptNo: 1, state, held: false })
    expect(await pendingRow(db, lease.outboxId)).toBeUndefined()
    expect(await ledger(db, lease.outboxId)).toEqual([`1 ${state}`])
  })

  test('completes as RETRYABLE and stays held', async () => {
    const lease = await leasedAndHeld()
    expect(await complete(db, lease, { state: 'RETRYABLE', retryDelaySeconds: 0 })).toEqual({
      attemptNo: 1,
      state: 'RETRYABLE',
      held: true,
    })
    expect(await pendingRow(db, lease.outboxId)).toMatchObject({
      lease_token: null,
      hold_reason: 'please wait',
      held_by: olga.name,
    })
    expect(await claim(db, lease.railType)).toEqual([])
  })

  test('keeps its first hold if the completion has a hold reason', async () => {
    const lease = await leasedAndHeld()
    await complete(db, lease, { state: 'RETRYABLE', holdReason: 'the worker would hold it too' })
    expect(await pendingRow(db, lease.outboxId)).toMatchObject({ hold_reason: 'please wait', held_by: olga.name })
    expect((await eventRows(db, lease.outboxId)).map((event) => event.event_type)).toEqual(['HOLD_PLACED'])
  })

  test('can have its lease renewed', async () => {
    const lease = await leasedAndHeld()
    const until = await renewOutboxLease(executor(), lease, WORKER, 3_600)
    expect(until.getTime()).toBeGreaterThan(lease.leaseExpiresAt.getTime())
  })

  test('can have its lease released and stays held', async () => {
    const lease = await leasedAndHeld()
    await releaseOutboxLease(executor(), lease, WORKER)
    expect(await pendingRow(db, lease.outboxId)).toMatchObject({ lease_token: null, hold_reason: 'please wait' })
    expect(await claim(db, lease.railType)).toEqual([])
  })

  test('can still get its dispatch mark', async () => {
    const lease = await leasedAndHeld(true)
    await beginOutboxDispatch(executor(), lease, WORKER)
    expect(await pendingRow(db, lease.outboxId)).toMatchObject({ dispatch_mark: 'begun' })
  })

  test('keeps its first hold if its worker holds it again, which ends the lease', async () => {
    const lease = await leasedAndHeld()
    await holdLeasedOutboxItem(executor(), lease, WORKER, 'the worker would hold it too')
    expect(await pendingRow(db, lease.outboxId)).toMatchObject({ lease_token: null, hold_reason: 'please wait' })
  })

  test('is repaired after its lease expires, but not taken over by a claim', async () => {
    const lease = await leasedAndHeld()
    await db.expireLease(lease.outboxId)
    expect(await claim(db, lease.railType)).toEqual([])
    expect(await ledger(db, lease.outboxId)).toEqual([])
    const repaired = await repairExpiredLeases(executor(), 100, 'repairer')
    expect(repaired).toContainEqual({ outboxId: lease.outboxId, attemptNo: 1 })
    expect(await ledger(db, lease.outboxId)).toEqual(['1 ZOMBIE_REQUEUE'])
    expect(await pendingRow(db, lease.outboxId)).toMatchObject({
      lease_token: null,
      outcome_unknown: true,
      hold_reason: 'please wait',
      held_by: olga.name,
    })
  })

  test('accepts late outcomes of its worker before and after the lease expires', async () => {
    const lease = await leasedAndHeld()
    const { outboxId, leaseToken } = lease
    const live = await recordLateOutcome(executor(), WORKER, { outboxId, leaseToken, state: 'RETRYABLE' })
    expect(live.eventType).toBe('LATE_OUTCOME')
    await db.expireLease(outboxId)
    await recordLateOutcome(executor(), WORKER, { outboxId, leaseToken, state: 'DISPATCHED', railReference: 'r-1' })
    expect(await pendingRow(db, outboxId)).toMatchObject({
      late_outcome: { state: 'DISPATCHED', rail_reference: 'r-1' },
      outcome_unknown: true,
      hold_reason: 'please wait',
    })
  })
})

test('a completion that holds an item writes an event with worker, reason and attempt', async () => {
  const lease = await enqueueAndClaim(db)
  await complete(db, lease, { state: 'RETRYABLE', holdReason: 'account closed?' })
  const [event] = await eventRows(db, lease.outboxId)
  const { rows } = await db.queryNoRole('SELECT attempt_id FROM payment_outbox_attempts WHERE outbox_id = $1', [
    lease.outboxId,
  ])
  expect(event).toMatchObject({
    event_type: 'HOLD_PLACED',
    actor: WORKER,
    detail: { reason: 'account closed?' },
    attempt_id: rows[0]!['attempt_id'],
  })
  expect(await pendingRow(db, lease.outboxId)).toMatchObject({ hold_reason: 'account closed?', held_by: WORKER })
})

describe('place_outbox_hold', () => {
  test.for(['DISPATCHED', 'FAILED'] as const)('refuses an item that ended as %s (P7001)', async (state) => {
    const lease = await enqueueAndClaim(db)
    await complete(db, lease, { state })
    await expect(placeOutboxHold(olga.control, lease.outboxId, 'too late')).rejects.toMatchObject({
      sqlstate: 'P7001',
      message: expect.stringContaining(state),
    })
    expect(await eventRows(db, lease.outboxId)).toEqual([])
  })

  test('refuses a held item (P7006) and keeps the first hold', async () => {
    const lease = await enqueueAndClaim(db)
    await holdLeasedOutboxItem(db.as('symphony_executor'), lease, WORKER, 'first')
    await expect(placeOutboxHold(olga.control, lease.outboxId, 'second')).rejects.toMatchObject({ sqlstate: 'P7006' })
    expect(await pendingRow(db, lease.outboxId)).toMatchObject({ hold_reason: 'first', held_by: WORKER })
  })

  test('refuses an unknown item (22023)', async () => {
    await expect(placeOutboxHold(olga.control, randomUUID(), 'whose?')).rejects.toMatchObject({ sqlstate: '22023' })
  })

  test.for([
    ['a null reason', null],
    ['an empty reason', ''],
    ['a blank reason', ' \n\t '],
    ['a reason with a control character', 'a\u0007b'],
    ['a reason of 1001 characters', 'é'.repeat(1001)],
  ])('refuses %s (22023)', async ([, reason]) => {
    const { outboxId } = await enqueue(db)
    const asked = db.queryNoRole('SELECT place_outbox_hold($1, $2)', [outboxId, reason])
    await expect(asked).rejects.toMatchObject({ code: '22023' })
    expect(await pendingRow(db, outboxId)).toMatchObject({ hold_reason: null })
  })

  test('refuses a null id (22023)', async () => {
    await expect(db.queryNoRole(`SELECT place_outbox_hold(NULL, 'whose?')`)).rejects.toMatchObject({ code: '22023' })
  })
})

describe('note_outbox_item', () => {
  test('records a note; assignee null keeps the assignee, a name sets it, empty text clears it', async () => {
    const { outboxId } = await enqueue(db, { outcomeTopic: 'orders' })
    await placeOutboxHold(olga.control, outboxId, 'odd')
    const before = await pendingRow(db, outboxId)
    for (const [note, assignee] of [['asked'], ['take it', 'pavel'], ['no answer yet', null], ['done', '']] as const) {
      await noteOutboxItem(olga.control, outboxId, note, assignee)
    }
    const [, ...notes] = await eventRows(db, outboxId)
    expect(notes.map(({ event_type, actor, detail }) => [event_type, actor, detail])).toEqual([
      ['NOTE_ADDED', olga.name, { note: 'asked' }],
      ['NOTE_ADDED', olga.name, { note: 'take it', assignee: 'pavel' }],
      ['NOTE_ADDED', olga.name, { note: 'no answer yet', assignee: 'pavel' }],
      ['NOTE_ADDED', olga.name, { note: 'done' }],
    ])
    expect(await pendingRow(db, outboxId)).toEqual(before)
    // The hold sent an outcome message, and the notes sent none.
    const { rows } = await db.queryNoRole('SELECT 1 FROM payment_outbox_pending WHERE participant_id = $1', [
      `~outcomes~${outboxId}`,
    ])
    expect(rows).toHaveLength(1)
  })

  test('accepts an item that has ended', async () => {
    const lease = await enqueueAndClaim(db)
    await complete(db, lease, { state: 'FAILED' })
    await noteOutboxItem(olga.control, lease.outboxId, 'the payee sends a new account')
    expect(await eventRows(db, lease.outboxId)).toMatchObject([{ event_type: 'NOTE_ADDED' }])
  })

  test('refuses an unknown item (22023) and a REPEATABLE READ transaction (40001)', async () => {
    await expect(noteOutboxItem(olga.control, randomUUID(), 'whose?')).rejects.toMatchObject({ sqlstate: '22023' })
    const { outboxId } = await enqueue(db)
    const connection = await openConnection(db, 'symphony_control')
    await connection.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
    await expect(noteOutboxItem(connection, outboxId, 'late')).rejects.toMatchObject({ sqlstate: '40001' })
    await connection.close()
    expect(await eventRows(db, outboxId)).toEqual([])
  })

  test('shows the latest note and the assignee in the list of holds', async () => {
    const railType = buildInstruction().railType
    const [plain, noted] = [await enqueueHeld(db, olga, { railType }), await enqueueHeld(db, olga, { railType })]
    await noteOutboxItem(olga.control, noted.outboxId, 'first', 'pavel')
    await noteOutboxItem(olga.control, noted.outboxId, 'second')
    const { items } = await readHeldItems(db.as('symphony_readonly'), { railType, limit: 10 })
    expect(items.map(({ item, assignee, latestNote }) => [item.outboxId, assignee, latestNote])).toEqual([
      [noted.outboxId, 'pavel', { note: 'second', actor: olga.name, createdAt: expect.any(String) }],
      [plain.outboxId, null, null],
    ])
  })

  test('lets the list of holds filter by the latest assignee of each item', async () => {
    const railType = buildInstruction().railType
    const held = [await enqueueHeld(db, olga, { railType }), await enqueueHeld(db, olga, { railType })]
    for (const { outboxId } of held) await noteOutboxItem(olga.control, outboxId, 'take it', 'pavel')
    await noteOutboxItem(olga.control, held[0]!.outboxId, 'take it over', 'wendy')
    const idsOf = async (assignee: string) => {
      const { items } = await readHeldItems(db.as('symphony_readonly'), { railType, assignee, limit: 10 })
      return items.map(({ item }) => item.outboxId)
    }
    expect(await idsOf('pavel')).toEqual([held[1]?.outboxId])
    expect(await idsOf('wendy')).toEqual([held[0]?.outboxId])
    expect(await idsOf('olga')).toEqual([])
    for (const name of ['', 'x'.repeat(201)]) await expect(idsOf(name)).rejects.toMatchObject({ argument: 'assignee' })
  })
})

test('a hold stores a reason of 1000 characters in full', async () => {
  const { outboxId } = await enqueue(db)
  await placeOutboxHold(olga.control, outboxId, 'é'.repeat(1000))
  expect((await pendingRow(db, outboxId))?.hold_reason).toBe('é'.repeat(1000))
})
