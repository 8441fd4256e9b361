import { createHash, randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { call, LeaseLostError } from '../../libs/db/index.js'
import {
  beginOutboxDispatch,
  recordLateOutcome,
  releaseOutboxLease,
  repairExpiredLeases,
  type ClaimedItem,
  type LateOutcome,
} from '../../libs/outbox/index.js'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import {
  attemptRows,
  claim,
  claimOnly,
  complete,
  enqueueAndClaim,
  enqueueAndFail,
  eventRows,
  ledger,
  makeDueAndClaim,
  pendingRow,
} from '../support/outboxItems.js'
import { failureOf } from '../support/race.js'

/** What a worker learned after it lost its lease is kept, is used, and never makes a second ending. */

let db: TestDatabase
beforeAll(async () => {
  db = await createTestDatabase()
})
afterAll(() => db.drop())

const SLOW = 'slow-worker'
const HEIR = 'heir'

type Learned = Omit<LateOutcome, 'outboxId' | 'leaseToken'>
const PAID: Learned = { state: 'DISPATCHED', railReference: 'ref-1' }

function report({ outboxId, leaseToken }: ClaimedItem, learned: Learned, workerId = SLOW) {
  return recordLateOutcome(db.as('symphony_executor'), workerId, { outboxId, leaseToken, ...learned })
}

/** A lease that has run out and that nobody has noticed yet. */
async function expiredLease(): Promise<ClaimedItem> {
  const lease = await enqueueAndClaim(db, {}, { workerId: SLOW })
  await db.expireLease(lease.outboxId)
  return lease
}

/** A lease that ran out, and the lease of the worker that took the item over. */
async function takenOver(): Promise<{ readonly lost: ClaimedItem; readonly next: ClaimedItem }> {
  const lost = await expiredLease()
  return { lost, next: await claimOnly(db, lost.railType, { workerId: HEIR }) }
}

/** The next lease of an item, after whoever holds it now has lost it. */
async function nextLease(lease: ClaimedItem): Promise<ClaimedItem> {
  await db.expireLease(lease.outboxId)
  return claimOnly(db, lease.railType, { workerId: HEIR })
}

describe('a late outcome is accepted', () => {
  test('for an expired lease that nobody has noticed yet', async () => {
    const lease = await expiredLease()
    expect(await report(lease, PAID)).toEqual({ eventId: expect.any(String), eventType: 'LATE_OUTCOME' })
  })

  test('after the lease was repaired', async () => {
    const lease = await expiredLease()
    await repairExpiredLeases(db.as('symphony_executor'), 100, 'repair-1')
    expect(await report(lease, PAID)).toMatchObject({ eventType: 'LATE_OUTCOME' })
  })

  test('after another worker took the item over, whose lease it does not touch', async () => {
    const { lost, next } = await takenOver()
    const before = await pendingRow(db, lost.outboxId)
    expect(await report(lost, PAID)).toMatchObject({ eventType: 'LATE_OUTCOME' })
    expect(await pendingRow(db, lost.outboxId)).toEqual({
      ...before,
      outcome_unknown: true,
      late_outcome: expect.objectContaining({ state: 'DISPATCHED', rail_reference: 'ref-1' }),
    })
    expect(await complete(db, next, { state: 'DISPATCHED', railReference: 'ref-1' }, HEIR)).toMatchObject({
      attemptNo: 2,
      state: 'DISPATCHED',
    })
  })

  test('from the worker that had recorded another outcome with that very lease', async () => {
    const lease = await enqueueAndClaim(db, {}, { workerId: SLOW })
    await complete(db, lease, { state: 'RETRYABLE' }, SLOW)
    expect(await report(lease, PAID)).toMatchObject({ eventType: 'LATE_OUTCOME' })
    expect((await pendingRow(db, lease.outboxId))!.outcome_unknown).toBe(true)
  })

  test('with all that was learned, and without the token itself', async () => {
    const lease = await expiredLease()
    const { eventId } = await report(lease, {
      ...PAID,
      railCode: '00',
      errorCode: 'LATE',
      errorMessage: 'after the lease',
      latencyMs: 61_000,
    })
    expect(await eventRows(db, lease.outboxId)).toMatchObject([
      {
        event_id: eventId,
        event_type: 'LATE_OUTCOME',
        actor: SLOW,
        attempt_id: null,
        detail: {
          state: 'DISPATCHED',
          rail_reference: 'ref-1',
          rail_code: '00',
          error_code: 'LATE',
          error_message: 'after the lease',
          latency_ms: 61_000,
          lease_token_hash: createHash('sha256')
            .update(Buffer.from(lease.leaseToken.replaceAll('-', ''), 'hex'))
            .digest('hex'),
        },
      },
    ])
    expect(JSON.stringify((await eventRows(db, lease.outboxId))[0]!.detail)).not.toContain(lease.leaseToken)
  })
})

describe('a late outcome is refused', () => {
  const refused: readonly (readonly [string, (lost: ClaimedItem) => Promise<[ClaimedItem, string]>])[] = [
    ['for a token that was never issued', async (lost) => [{ ...lost, leaseToken: randomUUID() }, SLOW]],
    ['from a worker to whom the token was not issued', async (lost) => [lost, 'somebody-else']],
    ['for a token of another item', async (lost) => [{ ...lost, leaseToken: (await expiredLease()).leaseToken }, SLOW]],
    ['for an item that does not exist', async (lost) => [{ ...lost, outboxId: randomUUID() }, SLOW]],
    [
      'for a token that was given back unused',
      async () => {
        const lease = await enqueueAndClaim(db, {}, { workerId: SLOW })
        await releaseOutboxLease(db.as('symphony_executor'), lease, SLOW)
        return [lease, SLOW]
      },
    ],
  ]

  test.for(refused)('%s, and nothing is kept', async ([, arrange]) => {
    const { lost } = await takenOver()
    const [shown, workerId] = await arrange(lost)
    const refusal = await failureOf(report(shown, PAID, workerId))
    expect(refusal).toBeInstanceOf(LeaseLostError)
    expect(refusal).toMatchObject({ sqlstate: 'P7002', detail: '{"recorded" : false}' })
    for (const { outboxId } of [lost, shown]) {
      expect(await eventRows(db, outboxId)).toEqual([])
      expect((await pendingRow(db, outboxId))?.late_outcome ?? null).toBeNull()
    }
  })

  test('when the item has ended, unless the token was issued for it', async () => {
    const { lost, next } = await takenOver()
    await complete(db, next, PAID, HEIR)
    const refusal = await failureOf(report({ ...lost, leaseToken: randomUUID() }, PAID))
    expect(refusal).toBeInstanceOf(LeaseLostError)
    expect(await report(lost, PAID)).toMatchObject({ eventType: 'LATE_OUTCOME' })
  })

  test.for(['ZOMBIE_REQUEUE', 'DISPATCHING', 'paid'])('with a state that is no outcome: %s', async (state) => {
    const { outboxId, leaseToken } = await expiredLease()
    const refusal = await failureOf(
      call(db.as('symphony_executor'), 'record_late_outcome', [outboxId, leaseToken, SLOW, state]),
    )
    expect(refusal).toMatchObject({ code: 'INVALID_COMPLETION_STATE' })
  })
})

describe('a late success', () => {
  test('is handed to the next claimer, who completes with it and calls no rail', async () => {
    const lease = await expiredLease()
    await report(lease, { ...PAID, railCode: '00' })
    const next = await claimOnly(db, lease.railType, { workerId: HEIR })
    expect(next).toMatchObject({ outcomeUnknown: true })
    expect(next.evidence).toMatchObject({
      lateOutcome: { state: 'DISPATCHED', railReference: 'ref-1', railCode: '00', errorCode: null },
      lastAttempt: { state: 'ZOMBIE_REQUEUE', workerId: SLOW },
    })
    const { railReference } = next.evidence!.lateOutcome!
    await complete(db, next, { state: 'DISPATCHED', railReference }, HEIR)
    expect(await ledger(db, lease.outboxId)).toEqual(['1 ZOMBIE_REQUEUE', '2 DISPATCHED'])
    expect((await attemptRows(db, lease.outboxId)).at(-1)).toMatchObject({ rail_reference: 'ref-1' })
    expect((await eventRows(db, lease.outboxId)).map(({ event_type }) => event_type)).toEqual(['LATE_OUTCOME'])
  })

  test('is handed over even if the lease had not begun its marked call, as far as anybody knew', async () => {
    const lease = await enqueueAndClaim(db, {}, { workerId: SLOW, marked: true })
    await db.expireLease(lease.outboxId)
    await report(lease, PAID)
    const next = await claimOnly(db, lease.railType, { workerId: HEIR })
    expect(next).toMatchObject({ outcomeUnknown: true, evidence: { lateOutcome: PAID } })
  })

  test.for([
    ['FAILED', undefined],
    ['FAILED', false],
    ['FAILED', true],
  ] as const)('makes %s impossible, even if that is called certain (unknown: %s): the item is held', async (given) => {
    const [state, outcomeUnknown] = given
    const { lost, next } = await takenOver()
    await report(lost, PAID)
    const outcome = outcomeUnknown === undefined ? { state } : { state, outcomeUnknown }
    expect(await complete(db, next, outcome, HEIR)).toEqual({ attemptNo: 2, state: 'RETRYABLE', held: true })
    expect(await pendingRow(db, lost.outboxId)).toMatchObject({
      outcome_unknown: true,
      hold_reason: 'FAILED_WHILE_OUTCOME_UNKNOWN',
      late_outcome: expect.objectContaining({ state: 'DISPATCHED', rail_reference: 'ref-1' }),
    })
  })

  test('survives a retryable answer that is called certain, and reaches the claimer after it', async () => {
    const { lost, next } = await takenOver()
    await report(lost, PAID)
    expect(await complete(db, next, { state: 'RETRYABLE', outcomeUnknown: false }, HEIR)).toMatchObject({ held: false })
    const third = await makeDueAndClaim(db, lost, { workerId: HEIR })
    expect(third).toMatchObject({ outcomeUnknown: true, evidence: { lateOutcome: PAID } })
  })

  test('is not outranked by another word, before or after it', async () => {
    const { lost, next } = await takenOver()
    await report(lost, { state: 'RETRYABLE', errorCode: 'TIMEOUT' })
    expect((await pendingRow(db, lost.outboxId))!.late_outcome).toMatchObject({ state: 'RETRYABLE' })
    await report(lost, PAID)
    await report(lost, { state: 'FAILED', errorCode: 'REFUSED' })
    await report(lost, { state: 'DISPATCHED', railReference: 'ref-2' })
    const third = await nextLease(next)
    expect(third.evidence!.lateOutcome).toMatchObject(PAID)
    expect(await eventRows(db, lost.outboxId)).toHaveLength(4)
  })
})

describe('an ending after a late success', () => {
  test('under another reference alarms: it may be a second payment', async () => {
    const { lost, next } = await takenOver()
    await report(lost, PAID)
    await complete(db, next, { state: 'DISPATCHED', railReference: 'ref-2' }, HEIR)
    const [ending] = (await attemptRows(db, lost.outboxId)).slice(-1)
    expect((await eventRows(db, lost.outboxId)).slice(1)).toMatchObject([
      {
        event_type: 'TERMINAL_BLOCKED',
        actor: HEIR,
        attempt_id: ending!.attempt_id,
        detail: expect.objectContaining({ state: 'DISPATCHED', rail_reference: 'ref-1' }),
      },
    ])
  })

  test.for([
    ['under the same reference', PAID],
    ['when the late word was a failure', { state: 'FAILED', railReference: 'ref-2' }],
  ] as const)('does not alarm %s', async ([, late]) => {
    const { lost, next } = await takenOver()
    await report(lost, late)
    await complete(db, next, { state: 'DISPATCHED', railReference: 'ref-1' }, HEIR)
    expect((await eventRows(db, lost.outboxId)).map(({ event_type }) => event_type)).toEqual(['LATE_OUTCOME'])
  })
})

describe('a late failure', () => {
  test('is evidence for the next claimer, and ends nothing by itself', async () => {
    const { lost, next } = await takenOver()
    await report(lost, { state: 'FAILED', errorCode: 'REFUSED' })
    expect(await ledger(db, lost.outboxId)).toEqual(['1 ZOMBIE_REQUEUE'])
    const third = await nextLease(next)
    expect(third.evidence!.lateOutcome).toEqual({
      state: 'FAILED',
      railReference: null,
      railCode: null,
      errorCode: 'REFUSED',
    })
  })

  test('does not mark an item of which nothing was unknown', async () => {
    const lease = await enqueueAndClaim(db, {}, { workerId: SLOW })
    await complete(db, lease, { state: 'RETRYABLE' }, SLOW)
    await report(lease, { state: 'FAILED', errorCode: 'REFUSED' })
    expect((await pendingRow(db, lease.outboxId))!.outcome_unknown).toBe(false)
    expect(await makeDueAndClaim(db, lease)).toMatchObject({ evidence: { lateOutcome: { state: 'FAILED' } } })
  })
})

describe('after the item has ended', () => {
  const failed: Learned = { state: 'FAILED', railReference: null }
  const cases: readonly (readonly [Learned, Learned, 'LATE_OUTCOME' | 'TERMINAL_BLOCKED'])[] = [
    [PAID, PAID, 'LATE_OUTCOME'],
    [PAID, { state: 'DISPATCHED', railReference: 'ref-2' }, 'TERMINAL_BLOCKED'],
    [PAID, { state: 'DISPATCHED' }, 'TERMINAL_BLOCKED'],
    [PAID, failed, 'TERMINAL_BLOCKED'],
    [PAID, { state: 'RETRYABLE' }, 'LATE_OUTCOME'],
    [failed, PAID, 'TERMINAL_BLOCKED'],
    [failed, failed, 'LATE_OUTCOME'],
    [failed, { state: 'RETRYABLE' }, 'LATE_OUTCOME'],
  ]

  test.for(cases.map(([ending, late, type]) => [name(ending), name(late), type, ending, late] as const))(
    'as %s, the late word %s is %s, and there is no second ending',
    async ([, , eventType, ending, late]) => {
      const { lost, next } = await takenOver()
      await complete(db, next, { ...ending, outcomeUnknown: false }, HEIR)
      const before = await attemptRows(db, lost.outboxId)
      expect(await report(lost, late)).toMatchObject({ eventType })
      expect(await attemptRows(db, lost.outboxId)).toEqual(before)
      expect(await pendingRow(db, lost.outboxId)).toBeUndefined()
      // The event names the ending that stands.
      expect(await eventRows(db, lost.outboxId)).toMatchObject([
        { event_type: eventType, actor: SLOW, attempt_id: before.at(-1)!.attempt_id },
      ])
    },
  )
})

describe('the same late outcome twice', () => {
  test('is one event, and the same answer', async () => {
    const lease = await expiredLease()
    const first = await report(lease, PAID)
    expect(await report(lease, PAID)).toEqual(first)
    await repairExpiredLeases(db.as('symphony_executor'), 100, 'repair-1')
    expect(await report(lease, PAID)).toEqual(first)
    expect(await eventRows(db, lease.outboxId)).toHaveLength(1)
  })

  test('is one alarm, when it contradicts the ending', async () => {
    const { lost, next } = await takenOver()
    await complete(db, next, { state: 'DISPATCHED', railReference: 'ref-2' }, HEIR)
    const first = await report(lost, PAID)
    expect(first.eventType).toBe('TERMINAL_BLOCKED')
    expect(await report(lost, PAID)).toEqual(first)
    expect(await eventRows(db, lost.outboxId)).toHaveLength(1)
  })

  test('is the alarm that an ending raised, when one that it contradicts came in between', async () => {
    const { lost, next } = await takenOver()
    expect(await report(lost, PAID)).toMatchObject({ eventType: 'LATE_OUTCOME' })
    await complete(db, next, { state: 'DISPATCHED', railReference: 'ref-2' }, HEIR)
    const alarm = await report(lost, PAID)
    expect(alarm.eventType).toBe('TERMINAL_BLOCKED')
    expect(await report(lost, PAID)).toEqual(alarm)
    expect((await eventRows(db, lost.outboxId)).map(({ event_type }) => event_type)).toEqual([
      'LATE_OUTCOME',
      'TERMINAL_BLOCKED',
    ])
  })

  test('is two events, when it says something else or another worker says it', async () => {
    const { lost, next } = await takenOver()
    await db.expireLease(next.outboxId)
    await report(lost, PAID)
    await report(lost, { ...PAID, railCode: '00' })
    await report(next, PAID, HEIR)
    expect(await eventRows(db, lost.outboxId)).toHaveLength(3)
  })
})

describe.for(['repair', 'takeover'] as const)('a late success, when %s finds the next expired lease,', (foundBy) => {
  async function findExpired(lease: ClaimedItem): Promise<void> {
    await db.expireLease(lease.outboxId)
    if (foundBy === 'repair') await repairExpiredLeases(db.as('symphony_executor'), 100, 'repair-1')
    else await claim(db, lease.railType, { workerId: HEIR })
  }

  test('keeps an item at the ceiling claimable, once', async () => {
    const item = await enqueueAndFail(db, 19)
    const lease = await claimOnly(db, item.railType, { workerId: SLOW })
    await report(lease, PAID)
    await findExpired(lease)
    expect(await pendingRow(db, item.outboxId)).toMatchObject({ hold_reason: null, attempt_count: 20 })
    await db.makeDue(item.outboxId)
    const [again] = foundBy === 'repair' ? await claim(db, item.railType) : [lease]
    await findExpired(again!)
    expect((await ledger(db, item.outboxId)).at(-1)).toBe('21 ZOMBIE_REQUEUE')
    expect(await pendingRow(db, item.outboxId)).toMatchObject({ hold_reason: 'RETRY_CEILING' })
  })

  test('keeps an item claimable whose marked call had begun', async () => {
    const lease = await enqueueAndClaim(db, {}, { workerId: SLOW, marked: true })
    await beginOutboxDispatch(db.as('symphony_executor'), lease, SLOW)
    await report(lease, PAID)
    await findExpired(lease)
    expect(await pendingRow(db, lease.outboxId)).toMatchObject({ hold_reason: null, outcome_unknown: true })
  })
})

function name({ state, railReference }: Learned): string {
  return railReference === undefined || railReference === null ? state : `${state} ${railReference}`
}
