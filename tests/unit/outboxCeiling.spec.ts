import { describe, expect, test } from 'vitest'
import { releaseOutboxLease, repairExpiredLeases, resolveOutboxHold } from '../../libs/outbox/index.js'
import { useTestDatabase, withTestDatabase } from '../support/database.js'
import {
  claim,
  claimOnly,
  complete,
  enqueueAndFail,
  eventRows,
  ledger,
  makeDueAndClaim,
  pendingRow,
  WORKER,
  type Enqueued,
} from '../support/outboxItems.js'
import { createPerson, approve, propose } from '../support/outboxPeople.js'
import { failureOf } from '../support/race.js'

/**
 * Tests the retry ceiling: at 20 recorded attempts an item fails if its outcome is known, and is held if it is unknown.
 */

const CEILING = 20

const db = await useTestDatabase()
const alice = await createPerson(db, 'alice')
const bob = await createPerson(db, 'bob')

const lastOf = async (item: Enqueued) => (await ledger(db, item.outboxId)).at(-1)

describe('an item whose outcomes are known', () => {
  test('is retried after attempt 19, and ends FAILED if attempt 20 is RETRYABLE', async () => {
    const item = await enqueueAndFail(db, CEILING - 2)
    const nineteenth = await claimOnly(db, item.railType)
    expect(await complete(db, nineteenth, { state: 'RETRYABLE' })).toEqual({
      attemptNo: 19,
      state: 'RETRYABLE',
      held: false,
    })
    const twentieth = await makeDueAndClaim(db, item)
    expect(await complete(db, twentieth, { state: 'RETRYABLE', errorCode: 'BUSY' })).toEqual({
      attemptNo: 20,
      state: 'FAILED',
      held: false,
    })
    expect(await pendingRow(db, item.outboxId)).toBeUndefined()
    const numbers = Array.from({ length: 19 }, (_, index) => `${index + 1} RETRYABLE`)
    expect(await ledger(db, item.outboxId)).toEqual([...numbers, '20 FAILED'])
  })

  test.for(['DISPATCHED', 'FAILED'] as const)('may end as %s with attempt 20', async (state) => {
    const item = await enqueueAndFail(db, CEILING - 1)
    const lease = await claimOnly(db, item.railType)
    expect(await complete(db, lease, { state })).toEqual({ attemptNo: 20, state, held: false })
  })

  test('is held at attempt 20 if the completion has a hold reason', async () => {
    const item = await enqueueAndFail(db, CEILING - 1)
    const lease = await claimOnly(db, item.railType)
    expect(await complete(db, lease, { state: 'RETRYABLE', holdReason: 'ask the bank' })).toEqual({
      attemptNo: 20,
      state: 'RETRYABLE',
      held: true,
    })
    expect(await pendingRow(db, item.outboxId)).toMatchObject({ hold_reason: 'ask the bank', attempt_count: 20 })
  })
})

describe('an item of unknown outcome', () => {
  test('is held, not failed, when its 20th attempt is retryable', async () => {
    const item = await enqueueAndFail(db, CEILING - 1)
    const lease = await claimOnly(db, item.railType)
    expect(await complete(db, lease, { state: 'RETRYABLE', outcomeUnknown: true })).toEqual({
      attemptNo: 20,
      state: 'RETRYABLE',
      held: true,
    })
    expect(await pendingRow(db, item.outboxId)).toMatchObject({
      hold_reason: 'RETRY_CEILING',
      held_by: WORKER,
      outcome_unknown: true,
      attempt_count: 20,
    })
    await expectNotClaimable(item)
  })

  test('is held when its 20th lease is repaired, and gets a ledger row and an event', async () => {
    const item = await enqueueAndFail(db, CEILING - 1)
    await claimOnly(db, item.railType)
    await db.expireLease(item.outboxId)
    const repaired = await repairExpiredLeases(db.as('symphony_executor'), 100, 'repair-1')
    expect(repaired).toEqual([{ outboxId: item.outboxId, attemptNo: 20, placedHold: 'RETRY_CEILING' }])
    expect(await lastOf(item)).toBe('20 ZOMBIE_REQUEUE')
    expect(await pendingRow(db, item.outboxId)).toMatchObject({
      hold_reason: 'RETRY_CEILING',
      held_by: 'repair-1',
      outcome_unknown: true,
      attempt_count: 20,
      lease_token: null,
    })
    expect(await eventRows(db, item.outboxId)).toMatchObject([
      { event_type: 'HOLD_PLACED', actor: 'repair-1', detail: { reason: 'RETRY_CEILING' } },
    ])
    await expectNotClaimable(item)
  })

  test('is held, not leased, by a claim that finds its 20th lease expired', async () => {
    const item = await enqueueAndFail(db, CEILING - 1)
    await claimOnly(db, item.railType)
    await db.expireLease(item.outboxId)
    expect(await claim(db, item.railType, { workerId: 'successor' })).toEqual([])
    expect(await lastOf(item)).toBe('20 ZOMBIE_REQUEUE')
    expect(await pendingRow(db, item.outboxId)).toMatchObject({ hold_reason: 'RETRY_CEILING', held_by: 'successor' })
  })

  test('is not held when its 19th lease expires', async () => {
    const item = await enqueueAndFail(db, CEILING - 2)
    await claimOnly(db, item.railType)
    await db.expireLease(item.outboxId)
    expect(await claimOnly(db, item.railType)).toMatchObject({ attemptCount: 19, outcomeUnknown: true })
  })

  test('is held after 20 expired leases in a row, with 20 ledger rows', async () => {
    const item = await enqueueAndFail(db, 0)
    for (let crash = 1; crash <= 25; crash++) {
      const [lease] = await claim(db, item.railType)
      if (lease === undefined) break
      await db.expireLease(item.outboxId)
    }
    expect(await ledger(db, item.outboxId)).toEqual(Array.from({ length: 20 }, (_, i) => `${i + 1} ZOMBIE_REQUEUE`))
    expect(await pendingRow(db, item.outboxId)).toMatchObject({ hold_reason: 'RETRY_CEILING', attempt_count: 20 })
  })
})

describe('an item on a rail with dispatch marks', () => {
  test('is held with a known outcome if its 20th lease expires before its call begins', async () => {
    const item = await enqueueAndFail(db, CEILING - 1)
    await claimOnly(db, item.railType, { marked: true })
    await db.expireLease(item.outboxId)
    await repairExpiredLeases(db.as('symphony_executor'), 100, 'repair-1')
    expect(await lastOf(item)).toBe('20 ZOMBIE_REQUEUE')
    expect(await pendingRow(db, item.outboxId)).toMatchObject({
      hold_reason: 'RETRY_CEILING',
      outcome_unknown: false,
    })
  })
})

describe('a retry granted beyond the ceiling', () => {
  test('allows one attempt; a RETRYABLE outcome holds the item again', async () => {
    const item = await granted()
    const lease = await claimOnly(db, item.railType)
    expect(lease.attemptCount).toBe(20)
    expect(await complete(db, lease, { state: 'RETRYABLE' })).toEqual({ attemptNo: 21, state: 'RETRYABLE', held: true })
    expect(await pendingRow(db, item.outboxId)).toMatchObject({ hold_reason: 'RETRY_CEILING', attempt_count: 20 })
    await expectNotClaimable(item)
    // One person may grant a further retry after each hold at the ceiling.
    await resolveOutboxHold(bob.control, item.outboxId, 'RETRY', 'and again')
    const again = await claimOnly(db, item.railType)
    expect(await complete(db, again, { state: 'RETRYABLE', outcomeUnknown: true })).toMatchObject({
      attemptNo: 22,
      held: true,
    })
    expect(await pendingRow(db, item.outboxId)).toMatchObject({ hold_reason: 'RETRY_CEILING', attempt_count: 20 })
  })

  test.for(['DISPATCHED', 'FAILED'] as const)('may end the item as %s with attempt 21', async (state) => {
    const item = await granted()
    const lease = await claimOnly(db, item.railType)
    expect(await complete(db, lease, { state })).toEqual({ attemptNo: 21, state, held: false })
  })

  test('clears the unknown outcome; another unknown outcome holds the item again', async () => {
    const item = await grantedByTwo()
    const lease = await claimOnly(db, item.railType)
    expect(lease.outcomeUnknown).toBe(false)
    expect(await complete(db, lease, { state: 'RETRYABLE', outcomeUnknown: true })).toMatchObject({
      attemptNo: 21,
      state: 'RETRYABLE',
      held: true,
    })
  })

  test.for(['repair', 'takeover'] as const)(
    'ends in a hold if its lease expires and %s records the expiry',
    async (by) => {
      const item = await granted()
      await claimOnly(db, item.railType)
      await db.expireLease(item.outboxId)
      if (by === 'repair') await repairExpiredLeases(db.as('symphony_executor'), 100, 'repair-1')
      expect(await claim(db, item.railType)).toEqual([])
      expect(await lastOf(item)).toBe('21 ZOMBIE_REQUEUE')
      expect(await pendingRow(db, item.outboxId)).toMatchObject({
        hold_reason: 'RETRY_CEILING',
        outcome_unknown: true,
        attempt_count: 20,
      })
    },
  )

  test('is not used up when its lease is released', async () => {
    const item = await granted()
    await releaseOutboxLease(db.as('symphony_executor'), await claimOnly(db, item.railType), WORKER)
    expect(await claimOnly(db, item.railType)).toMatchObject({ outboxId: item.outboxId, attemptCount: 20 })
  })
})

describe('attempt_count', () => {
  test.for([21, -1])('cannot be set to %i, even by a superuser (23514)', async (count) => {
    const item = await enqueueAndFail(db, 0)
    const refusal = await failureOf(
      db.queryNoRole('UPDATE payment_outbox_pending SET attempt_count = $2 WHERE outbox_id = $1', [
        item.outboxId,
        count,
      ]),
    )
    expect(refusal).toMatchObject({
      code: '23514',
      constraint: 'payment_outbox_pending_attempt_count_within_ceiling',
    })
  })

  test('set to 20 by hand neither fails nor holds an item at its second attempt', async () => {
    const item = await enqueueAndFail(db, 1)
    await db.queryNoRole('UPDATE payment_outbox_pending SET attempt_count = 20 WHERE outbox_id = $1', [item.outboxId])
    expect(await complete(db, await claimOnly(db, item.railType), { state: 'RETRYABLE' })).toEqual({
      attemptNo: 2,
      state: 'RETRYABLE',
      held: false,
    })
  })

  test('set to 0 by hand grants no attempt beyond the ceiling', async () => {
    const item = await enqueueAndFail(db, CEILING - 1)
    await db.queryNoRole('UPDATE payment_outbox_pending SET attempt_count = 0 WHERE outbox_id = $1', [item.outboxId])
    const lease = await claimOnly(db, item.railType)
    expect(lease.attemptCount).toBe(0)
    expect(await complete(db, lease, { state: 'RETRYABLE' })).toMatchObject({ attemptNo: 20, state: 'FAILED' })
  })
})

test('a completion that would schedule an attempt beyond the ceiling is refused (P7008)', async () => {
  // No code path schedules such an attempt. To reach the guard, the test lowers the ceiling to 2 once the item's
  // second attempt is written.
  await withTestDatabase(async (own) => {
    const item = await enqueueAndFail(own, 1)
    const lease = await claimOnly(own, item.railType)
    await own.queryNoRole(
      `CREATE OR REPLACE FUNCTION outbox_attempt_ceiling() RETURNS integer
       LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
       AS $$ SELECT CASE WHEN count(*) < 2 THEN 20 ELSE 2 END FROM payment_outbox_attempts $$`,
    )
    const refusal = await failureOf(complete(own, lease, { state: 'RETRYABLE' }))
    expect(refusal).toMatchObject({ code: 'RETRY_CEILING' })
    expect(refusal).toMatchObject({ sqlstate: 'P7008' })
    expect(await ledger(own, item.outboxId)).toEqual(['1 RETRYABLE'])
    expect(await pendingRow(own, item.outboxId)).toMatchObject({ lease_token: lease.leaseToken })
  })
})

async function expectNotClaimable({ outboxId, railType }: Enqueued): Promise<void> {
  await db.makeDue(outboxId)
  expect(await claim(db, railType)).toEqual([])
}

/** Enqueues an item, holds it at the ceiling with a known outcome, and grants a retry by one person. */
async function granted(): Promise<Enqueued> {
  const item = await enqueueAndFail(db, CEILING - 1)
  await complete(db, await claimOnly(db, item.railType), { state: 'RETRYABLE', holdReason: 'ask the bank' })
  await resolveOutboxHold(alice.control, item.outboxId, 'RETRY', 'the bank asks for it')
  return item
}

/** Enqueues an item, holds it at the ceiling with an unknown outcome, and grants a retry by two people. */
async function grantedByTwo(): Promise<Enqueued> {
  const item = await enqueueAndFail(db, CEILING - 1)
  await complete(db, await claimOnly(db, item.railType), { state: 'RETRYABLE', outcomeUnknown: true })
  await approve(bob, await propose(alice, item.outboxId, 'RETRY'))
  return item
}
