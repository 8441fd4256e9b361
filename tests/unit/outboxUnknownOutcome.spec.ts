import { describe, expect, test } from 'vitest'
import {
  beginOutboxDispatch,
  holdLeasedOutboxItem,
  releaseOutboxLease,
  releaseOutboxLeases,
  repairExpiredLeases,
  type AttemptOutcome,
  type ClaimedItem,
} from '../../libs/outbox/index.js'
import { useTestDatabase } from '../support/database.js'
import {
  attemptRows,
  claim,
  claimOnly,
  complete,
  enqueueAndClaim,
  eventRows,
  ledger,
  makeDueAndClaim,
  pendingRow,
  WORKER,
} from '../support/outboxItems.js'
import { failureOf } from '../support/race.js'

/**
 * Tests unknown outcomes. If the rail may have acted and no definitive answer exists, the item gets `outcome_unknown`.
 * No automatic step ever fails such an item: it is retried where that is safe, or held.
 */

const db = await useTestDatabase()

const repair = () => repairExpiredLeases(db.as('symphony_executor'), 100, 'repair-1')
const begin = (lease: ClaimedItem) => beginOutboxDispatch(db.as('symphony_executor'), lease, WORKER)
const markedLease = () => enqueueAndClaim(db, {}, { marked: true })

/** Returns a lease of an item whose earlier attempt left the outcome unknown. */
async function unknownLease(): Promise<ClaimedItem> {
  const first = await enqueueAndClaim(db)
  await complete(db, first, { state: 'RETRYABLE', outcomeUnknown: true })
  const lease = await makeDueAndClaim(db, first)
  expect(lease.outcomeUnknown).toBe(true)
  return lease
}

/** Expires the lease, records the expiry by repair or takeover, and claims the item again. */
async function expire(lease: ClaimedItem, noticedBy: 'repair' | 'takeover'): Promise<ClaimedItem[]> {
  await db.expireLease(lease.outboxId)
  if (noticedBy === 'takeover') return claim(db, lease.railType)
  await repair()
  await db.makeDue(lease.outboxId)
  return claim(db, lease.railType)
}

describe.for(['repair', 'takeover'] as const)('an expired lease recorded by %s', (noticedBy) => {
  test('makes the outcome unknown for the next claim', async () => {
    const next = await expire(await enqueueAndClaim(db), noticedBy)
    expect(next).toMatchObject([{ outcomeUnknown: true, expiryStreak: 1, attemptCount: 1 }])
  })

  test('increases the expiry streak, which a known outcome resets and an inquiry does not', async () => {
    const first = await enqueueAndClaim(db)
    let [lease] = await expire(first, noticedBy)
    const streaks = [lease!.expiryStreak]
    for (let expiry = 2; expiry <= 3; expiry += 1) {
      await complete(db, lease!, { state: 'RETRYABLE', errorCode: 'INQUIRY_TOO_EARLY', action: 'inquired' })
      lease = (await expire(await makeDueAndClaim(db, first), noticedBy))[0]
      streaks.push(lease!.expiryStreak)
    }
    expect(streaks).toEqual([1, 2, 3])
    await complete(db, lease!, { state: 'RETRYABLE', outcomeUnknown: false })
    expect(await makeDueAndClaim(db, first)).toMatchObject({ expiryStreak: 0 })
  })

  test('leaves the outcome known if the dispatch mark shows no call', async () => {
    const lease = await markedLease()
    const next = await expire(lease, noticedBy)
    expect(next).toMatchObject([{ outboxId: lease.outboxId, outcomeUnknown: false, evidence: null, attemptCount: 1 }])
    expect(await ledger(db, lease.outboxId)).toEqual(['1 ZOMBIE_REQUEUE'])
  })

  test('keeps an older unknown outcome if the dispatch mark shows no call', async () => {
    const first = await enqueueAndClaim(db)
    await complete(db, first, { state: 'RETRYABLE', outcomeUnknown: true })
    const lease = await makeDueAndClaim(db, first, { marked: true })
    expect(await expire(lease, noticedBy)).toMatchObject([{ outcomeUnknown: true }])
  })

  test('holds the item if the dispatch mark shows a call, with a ledger row and an event', async () => {
    const lease = await markedLease()
    await begin(lease)
    expect(await expire(lease, noticedBy)).toEqual([])
    const [attempt, ...more] = await attemptRows(db, lease.outboxId)
    expect(more).toEqual([])
    expect(attempt).toMatchObject({ state: 'ZOMBIE_REQUEUE', worker_id: WORKER, lease_token: lease.leaseToken })
    const finder = noticedBy === 'repair' ? 'repair-1' : WORKER
    expect(await pendingRow(db, lease.outboxId)).toMatchObject({
      outcome_unknown: true,
      hold_reason: 'OUTCOME_UNKNOWN',
      held_by: finder,
      lease_token: null,
      dispatch_mark: null,
    })
    expect(await eventRows(db, lease.outboxId)).toMatchObject([
      {
        event_type: 'HOLD_PLACED',
        actor: finder,
        detail: { reason: 'OUTCOME_UNKNOWN' },
        attempt_id: attempt!.attempt_id,
      },
    ])
  })

  test('ignores the dispatch mark of an earlier lease', async () => {
    const lease = await markedLease()
    await begin(lease)
    await complete(db, lease, { state: 'RETRYABLE' })
    const next = await makeDueAndClaim(db, lease, { marked: true })
    expect(await pendingRow(db, next.outboxId)).toMatchObject({ dispatch_mark: 'awaited' })
    expect(await expire(next, noticedBy)).toMatchObject([{ outcomeUnknown: false }])
  })
})

describe('a call that needs a dispatch mark', () => {
  test('prevents the release of its lease once it has begun (P7006)', async () => {
    const lease = await markedLease()
    await begin(lease)
    const refusal = await failureOf(releaseOutboxLease(db.as('symphony_executor'), lease, WORKER))
    expect(refusal).toMatchObject({ code: 'HELD' })
    expect(refusal).toMatchObject({ sqlstate: 'P7006' })
    const other = await markedLease()
    expect(await releaseOutboxLeases(db.as('symphony_executor'), [lease, other], WORKER)).toEqual([
      { outboxId: lease.outboxId, released: false },
      { outboxId: other.outboxId, released: true },
    ])
    expect(await pendingRow(db, lease.outboxId)).toMatchObject({
      lease_token: lease.leaseToken,
      dispatch_mark: 'begun',
    })
  })

  test('allows the release of its lease before it begins', async () => {
    const lease = await markedLease()
    await releaseOutboxLease(db.as('symphony_executor'), lease, WORKER)
    expect(await claimOnly(db, lease.railType)).toMatchObject({ outcomeUnknown: false, attemptCount: 0 })
  })

  test('can begin twice, and can then complete as DISPATCHED, FAILED or RETRYABLE', async () => {
    for (const state of ['DISPATCHED', 'FAILED', 'RETRYABLE'] as const) {
      const lease = await markedLease()
      await begin(lease)
      await begin(lease)
      expect(await complete(db, lease, { state })).toEqual({ attemptNo: 1, state, held: false })
    }
  })

  test('holds the item if it ends without an answer', async () => {
    const lease = await markedLease()
    await begin(lease)
    expect(await complete(db, lease, { state: 'RETRYABLE', outcomeUnknown: true })).toEqual({
      attemptNo: 1,
      state: 'RETRYABLE',
      held: true,
    })
    expect(await pendingRow(db, lease.outboxId)).toMatchObject({
      hold_reason: 'OUTCOME_UNKNOWN',
      outcome_unknown: true,
    })
  })

  test('makes the outcome unknown if the worker holds the item after the call began, not before', async () => {
    for (const begun of [true, false]) {
      const lease = await markedLease()
      if (begun) await begin(lease)
      await holdLeasedOutboxItem(db.as('symphony_executor'), lease, WORKER, 'not this one')
      expect(await pendingRow(db, lease.outboxId)).toMatchObject({
        outcome_unknown: begun,
        hold_reason: 'not this one',
        held_by: WORKER,
        lease_token: null,
        dispatch_mark: null,
      })
      expect(await ledger(db, lease.outboxId)).toEqual([])
    }
  })

  test('causes a hold if it began before the lease expired, even if the claim had no markedRails', async () => {
    const lease = await enqueueAndClaim(db)
    await begin(lease)
    expect(await expire(lease, 'repair')).toEqual([])
    expect(await pendingRow(db, lease.outboxId)).toMatchObject({ hold_reason: 'OUTCOME_UNKNOWN' })
  })
})

describe('an item of unknown outcome', () => {
  test.for([
    ['omits outcomeUnknown', undefined],
    ['has outcomeUnknown: true', true],
  ] as const)('is held, not failed, if a FAILED completion %s', async ([, outcomeUnknown]) => {
    const lease = await unknownLease()
    expect(await complete(db, lease, { state: 'FAILED', errorCode: 'REFUSED', ...given(outcomeUnknown) })).toEqual({
      attemptNo: 2,
      state: 'RETRYABLE',
      held: true,
    })
    expect(await pendingRow(db, lease.outboxId)).toMatchObject({
      hold_reason: 'FAILED_WHILE_OUTCOME_UNKNOWN',
      held_by: WORKER,
      outcome_unknown: true,
    })
    // The ledger keeps the rail's error code for the decision.
    expect(await attemptRows(db, lease.outboxId)).toMatchObject([{}, { state: 'RETRYABLE', error_code: 'REFUSED' }])
    expect(await eventRows(db, lease.outboxId)).toMatchObject([
      { event_type: 'HOLD_PLACED', detail: { reason: 'FAILED_WHILE_OUTCOME_UNKNOWN' } },
    ])
  })

  test('is held with the holdReason of a FAILED completion, if the worker gives one', async () => {
    const lease = await unknownLease()
    await complete(db, lease, { state: 'FAILED', holdReason: 'the bank denies it' })
    expect(await pendingRow(db, lease.outboxId)).toMatchObject({ hold_reason: 'the bank denies it' })
  })

  test('keeps its unknown outcome after a RETRYABLE completion without outcomeUnknown', async () => {
    const lease = await unknownLease()
    expect(await complete(db, lease, { state: 'RETRYABLE' })).toEqual({ attemptNo: 2, state: 'RETRYABLE', held: false })
    expect((await makeDueAndClaim(db, lease)).outcomeUnknown).toBe(true)
  })

  test('gets a known outcome by a RETRYABLE completion with outcomeUnknown: false', async () => {
    const lease = await unknownLease()
    await complete(db, lease, { state: 'RETRYABLE', outcomeUnknown: false })
    const next = await makeDueAndClaim(db, lease)
    expect(next).toMatchObject({ outcomeUnknown: false, evidence: null })
    expect(await complete(db, next, { state: 'FAILED' })).toMatchObject({ state: 'FAILED', held: false })
  })

  test('ends FAILED by a FAILED completion with outcomeUnknown: false', async () => {
    const lease = await unknownLease()
    expect(await complete(db, lease, { state: 'FAILED', outcomeUnknown: false })).toEqual({
      attemptNo: 2,
      state: 'FAILED',
      held: false,
    })
  })

  test.for([undefined, true, false])(
    'ends by a DISPATCHED completion, whatever its outcomeUnknown (%s)',
    async (outcomeUnknown) => {
      const lease = await unknownLease()
      expect(await complete(db, lease, { state: 'DISPATCHED', ...given(outcomeUnknown) })).toEqual({
        attemptNo: 2,
        state: 'DISPATCHED',
        held: false,
      })
      expect(await pendingRow(db, lease.outboxId)).toBeUndefined()
    },
  )

  test('is claimed with evidence of its last attempt', async () => {
    const lease = await unknownLease()
    const [attempt] = await attemptRows(db, lease.outboxId)
    expect(lease.evidence).toEqual({
      lateOutcome: null,
      lastAttempt: {
        attemptNo: 1,
        state: 'RETRYABLE',
        railReference: null,
        railCode: null,
        errorCode: null,
        workerId: WORKER,
        claimedAt: attempt!.claimed_at,
        completedAt: attempt!.completed_at,
        action: 'sent',
        outcomeUnknown: true,
      },
    })
  })

  test('never ends FAILED in 40 rounds of expiries and completions of unknown outcome', async () => {
    const outcomes: Omit<AttemptOutcome, 'outboxId' | 'leaseToken'>[] = []
    for (const state of ['FAILED', 'RETRYABLE'] as const) {
      for (const outcomeUnknown of [undefined, true] as const) {
        for (const holdReason of [undefined, 'held'] as const) {
          outcomes.push({ state, ...given(outcomeUnknown), ...(holdReason === undefined ? {} : { holdReason }) })
        }
      }
    }
    let lease = await unknownLease()
    const { outboxId } = lease
    const outcomeAt = (index: number) => outcomes[index % outcomes.length]!
    for (let round = 0; round < 40; round++) {
      if (round % 3 === 0) await db.expireLease(outboxId)
      else await complete(db, lease, outcomeAt(round))
      await repair()
      expect(await pendingRow(db, outboxId)).toMatchObject({ outcome_unknown: true, lease_token: null })
      // Clears the hold by SQL, because a person's decision would make the outcome known.
      await db.queryNoRole(
        `UPDATE payment_outbox_pending SET hold_reason = NULL, held_by = NULL, held_at = NULL WHERE outbox_id = $1`,
        [outboxId],
      )
      lease = await makeDueAndClaim(db, lease)
    }
    const states = new Set((await attemptRows(db, outboxId)).map(({ state }) => state))
    expect(states).toEqual(new Set(['RETRYABLE', 'ZOMBIE_REQUEUE']))
    expect(await ledger(db, outboxId)).toHaveLength(41)
  })
})

function given(outcomeUnknown: boolean | undefined): { outcomeUnknown?: boolean } {
  return outcomeUnknown === undefined ? {} : { outcomeUnknown }
}
