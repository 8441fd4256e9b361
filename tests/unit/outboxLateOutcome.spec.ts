import { createHash, randomUUID } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { call, LeaseLostError } from '../../libs/db/index.js'
import {
  beginOutboxDispatch,
  recordLateOutcome,
  releaseOutboxLease,
  repairExpiredLeases,
  type ClaimedItem,
  type LateOutcome,
} from '../../libs/outbox/index.js'
import { useTestDatabase } from '../support/database.js'
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

/** Tests late outcomes: each is stored, the next claim uses it, and it never makes a second terminal outcome. */

const db = await useTestDatabase()

const SLOW = 'slow-worker'
const SUCCESSOR = 'successor'

type ReportedOutcome = Omit<LateOutcome, 'outboxId' | 'leaseToken'>
const PAID: ReportedOutcome = { state: 'DISPATCHED', railReference: 'ref-1' }

function report({ outboxId, leaseToken }: ClaimedItem, reported: ReportedOutcome, workerId = SLOW) {
  return recordLateOutcome(db.as('symphony_executor'), workerId, { outboxId, leaseToken, ...reported })
}

/** Returns an expired lease that is neither repaired nor taken over. */
async function expiredLease(): Promise<ClaimedItem> {
  const lease = await enqueueAndClaim(db, {}, { workerId: SLOW })
  await db.expireLease(lease.outboxId)
  return lease
}

/** Returns an expired lease, and the lease of the worker that took the item over. */
async function takenOver(): Promise<{ readonly lost: ClaimedItem; readonly next: ClaimedItem }> {
  const lost = await expiredLease()
  return { lost, next: await claimOnly(db, lost.railType, { workerId: SUCCESSOR }) }
}

/** Expires the current lease and returns the next one. */
async function nextLease(lease: ClaimedItem): Promise<ClaimedItem> {
  await db.expireLease(lease.outboxId)
  return claimOnly(db, lease.railType, { workerId: SUCCESSOR })
}

describe('a late outcome', () => {
  test('is accepted for an expired lease before repair or takeover', async () => {
    const lease = await expiredLease()
    expect(await report(lease, PAID)).toEqual({ eventId: expect.any(String), eventType: 'LATE_OUTCOME' })
  })

  test('is accepted after the lease was repaired', async () => {
    const lease = await expiredLease()
    await repairExpiredLeases(db.as('symphony_executor'), 100, 'repair-1')
    expect(await report(lease, PAID)).toMatchObject({ eventType: 'LATE_OUTCOME' })
  })

  test('is accepted after a takeover and does not change the new lease', async () => {
    const { lost, next } = await takenOver()
    const before = await pendingRow(db, lost.outboxId)
    expect(await report(lost, PAID)).toMatchObject({ eventType: 'LATE_OUTCOME' })
    expect(await pendingRow(db, lost.outboxId)).toEqual({
      ...before,
      outcome_unknown: true,
      late_outcome: expect.objectContaining({ state: 'DISPATCHED', rail_reference: 'ref-1' }),
    })
    expect(await complete(db, next, { state: 'DISPATCHED', railReference: 'ref-1' }, SUCCESSOR)).toMatchObject({
      attemptNo: 2,
      state: 'DISPATCHED',
    })
  })

  test('is accepted after RETRYABLE was recorded under the same lease', async () => {
    const lease = await enqueueAndClaim(db, {}, { workerId: SLOW })
    await complete(db, lease, { state: 'RETRYABLE' }, SLOW)
    expect(await report(lease, PAID)).toMatchObject({ eventType: 'LATE_OUTCOME' })
    expect((await pendingRow(db, lease.outboxId))!.outcome_unknown).toBe(true)
  })

  test('is stored with all its fields and a hash of the token, not the token', async () => {
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

describe('record_late_outcome', () => {
  const refused: readonly (readonly [string, (lost: ClaimedItem) => Promise<[ClaimedItem, string]>])[] = [
    ['a token that was never issued', async (lost) => [{ ...lost, leaseToken: randomUUID() }, SLOW]],
    ['a token issued to another worker', async (lost) => [lost, 'other-worker']],
    ['a token of another item', async (lost) => [{ ...lost, leaseToken: (await expiredLease()).leaseToken }, SLOW]],
    ['an unknown item', async (lost) => [{ ...lost, outboxId: randomUUID() }, SLOW]],
    [
      'the token of a released lease',
      async () => {
        const lease = await enqueueAndClaim(db, {}, { workerId: SLOW })
        await releaseOutboxLease(db.as('symphony_executor'), lease, SLOW)
        return [lease, SLOW]
      },
    ],
  ]

  test.for(refused)('refuses %s and stores nothing (P7002)', async ([, arrange]) => {
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

  test('accepts for an ended item only a token that was issued for this item', async () => {
    const { lost, next } = await takenOver()
    await complete(db, next, PAID, SUCCESSOR)
    const refusal = await failureOf(report({ ...lost, leaseToken: randomUUID() }, PAID))
    expect(refusal).toBeInstanceOf(LeaseLostError)
    expect(await report(lost, PAID)).toMatchObject({ eventType: 'LATE_OUTCOME' })
  })

  test.for(['ZOMBIE_REQUEUE', 'DISPATCHING', 'paid'])('refuses state %s (INVALID_COMPLETION_STATE)', async (state) => {
    const { outboxId, leaseToken } = await expiredLease()
    const refusal = await failureOf(
      call(db.as('symphony_executor'), 'record_late_outcome', [outboxId, leaseToken, SLOW, state]),
    )
    expect(refusal).toMatchObject({ code: 'INVALID_COMPLETION_STATE' })
  })
})

describe('a late success', () => {
  test('is returned as evidence by the next claim; a completion can use its rail reference', async () => {
    const lease = await expiredLease()
    await report(lease, { ...PAID, railCode: '00' })
    const next = await claimOnly(db, lease.railType, { workerId: SUCCESSOR })
    expect(next).toMatchObject({ outcomeUnknown: true })
    expect(next.evidence).toMatchObject({
      lateOutcome: { state: 'DISPATCHED', railReference: 'ref-1', railCode: '00', errorCode: null },
      lastAttempt: { state: 'ZOMBIE_REQUEUE', workerId: SLOW },
    })
    const { railReference } = next.evidence!.lateOutcome!
    await complete(db, next, { state: 'DISPATCHED', railReference }, SUCCESSOR)
    expect(await ledger(db, lease.outboxId)).toEqual(['1 ZOMBIE_REQUEUE', '2 DISPATCHED'])
    expect((await attemptRows(db, lease.outboxId)).at(-1)).toMatchObject({ rail_reference: 'ref-1' })
    expect((await eventRows(db, lease.outboxId)).map(({ event_type }) => event_type)).toEqual(['LATE_OUTCOME'])
  })

  test('is returned as evidence by the next claim even if the dispatch mark shows no call', async () => {
    const lease = await enqueueAndClaim(db, {}, { workerId: SLOW, marked: true })
    await db.expireLease(lease.outboxId)
    await report(lease, PAID)
    const next = await claimOnly(db, lease.railType, { workerId: SUCCESSOR })
    expect(next).toMatchObject({ outcomeUnknown: true, evidence: { lateOutcome: PAID } })
  })

  test.for([
    ['FAILED', undefined],
    ['FAILED', false],
    ['FAILED', true],
  ] as const)('turns a %s completion (outcomeUnknown: %s) into a hold', async (given) => {
    const [state, outcomeUnknown] = given
    const { lost, next } = await takenOver()
    await report(lost, PAID)
    const outcome = outcomeUnknown === undefined ? { state } : { state, outcomeUnknown }
    expect(await complete(db, next, outcome, SUCCESSOR)).toEqual({ attemptNo: 2, state: 'RETRYABLE', held: true })
    expect(await pendingRow(db, lost.outboxId)).toMatchObject({
      outcome_unknown: true,
      hold_reason: 'FAILED_WHILE_OUTCOME_UNKNOWN',
      late_outcome: expect.objectContaining({ state: 'DISPATCHED', rail_reference: 'ref-1' }),
    })
  })

  test('is returned as evidence even after a RETRYABLE completion of known outcome', async () => {
    const { lost, next } = await takenOver()
    await report(lost, PAID)
    expect(await complete(db, next, { state: 'RETRYABLE', outcomeUnknown: false }, SUCCESSOR)).toMatchObject({
      held: false,
    })
    const third = await makeDueAndClaim(db, lost, { workerId: SUCCESSOR })
    expect(third).toMatchObject({ outcomeUnknown: true, evidence: { lateOutcome: PAID } })
  })

  test('replaces an earlier late RETRYABLE as evidence, and no later report replaces it', async () => {
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

describe('a DISPATCHED completion after a late outcome', () => {
  test('writes TERMINAL_BLOCKED after a late success with another reference', async () => {
    const { lost, next } = await takenOver()
    await report(lost, PAID)
    await complete(db, next, { state: 'DISPATCHED', railReference: 'ref-2' }, SUCCESSOR)
    const [terminal] = (await attemptRows(db, lost.outboxId)).slice(-1)
    expect((await eventRows(db, lost.outboxId)).slice(1)).toMatchObject([
      {
        event_type: 'TERMINAL_BLOCKED',
        actor: SUCCESSOR,
        attempt_id: terminal!.attempt_id,
        detail: expect.objectContaining({ state: 'DISPATCHED', rail_reference: 'ref-1' }),
      },
    ])
  })

  test.for([
    ['a late success with the same reference', PAID],
    ['a late failure', { state: 'FAILED', railReference: 'ref-2' }],
  ] as const)('writes no TERMINAL_BLOCKED after %s', async ([, late]) => {
    const { lost, next } = await takenOver()
    await report(lost, late)
    await complete(db, next, { state: 'DISPATCHED', railReference: 'ref-1' }, SUCCESSOR)
    expect((await eventRows(db, lost.outboxId)).map(({ event_type }) => event_type)).toEqual(['LATE_OUTCOME'])
  })
})

describe('a late failure', () => {
  test('is returned as evidence by the next claim and does not end the item', async () => {
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

  test('does not make a known outcome unknown', async () => {
    const lease = await enqueueAndClaim(db, {}, { workerId: SLOW })
    await complete(db, lease, { state: 'RETRYABLE' }, SLOW)
    await report(lease, { state: 'FAILED', errorCode: 'REFUSED' })
    expect((await pendingRow(db, lease.outboxId))!.outcome_unknown).toBe(false)
    expect(await makeDueAndClaim(db, lease)).toMatchObject({ evidence: { lateOutcome: { state: 'FAILED' } } })
  })
})

describe('a terminal outcome', () => {
  const failed: ReportedOutcome = { state: 'FAILED', railReference: null }
  const cases: readonly (readonly [ReportedOutcome, ReportedOutcome, 'LATE_OUTCOME' | 'TERMINAL_BLOCKED'])[] = [
    [PAID, PAID, 'LATE_OUTCOME'],
    [PAID, { state: 'DISPATCHED', railReference: 'ref-2' }, 'TERMINAL_BLOCKED'],
    [PAID, { state: 'DISPATCHED' }, 'TERMINAL_BLOCKED'],
    [PAID, failed, 'TERMINAL_BLOCKED'],
    [PAID, { state: 'RETRYABLE' }, 'LATE_OUTCOME'],
    [failed, PAID, 'TERMINAL_BLOCKED'],
    [failed, failed, 'LATE_OUTCOME'],
    [failed, { state: 'RETRYABLE' }, 'LATE_OUTCOME'],
  ]

  test.for(cases.map(([terminal, late, type]) => [name(terminal), name(late), type, terminal, late] as const))(
    '%s is not changed by a late %s, which is stored as %s',
    async ([, , eventType, terminal, late]) => {
      const { lost, next } = await takenOver()
      await complete(db, next, { ...terminal, outcomeUnknown: false }, SUCCESSOR)
      const before = await attemptRows(db, lost.outboxId)
      expect(await report(lost, late)).toMatchObject({ eventType })
      expect(await attemptRows(db, lost.outboxId)).toEqual(before)
      expect(await pendingRow(db, lost.outboxId)).toBeUndefined()
      // The event names the terminal attempt.
      expect(await eventRows(db, lost.outboxId)).toMatchObject([
        { event_type: eventType, actor: SLOW, attempt_id: before.at(-1)!.attempt_id },
      ])
    },
  )
})

describe('a repeated late outcome', () => {
  test('adds no second event and returns the result of the first report', async () => {
    const lease = await expiredLease()
    const first = await report(lease, PAID)
    expect(await report(lease, PAID)).toEqual(first)
    await repairExpiredLeases(db.as('symphony_executor'), 100, 'repair-1')
    expect(await report(lease, PAID)).toEqual(first)
    expect(await eventRows(db, lease.outboxId)).toHaveLength(1)
  })

  test('adds no second TERMINAL_BLOCKED if it contradicts the terminal outcome', async () => {
    const { lost, next } = await takenOver()
    await complete(db, next, { state: 'DISPATCHED', railReference: 'ref-2' }, SUCCESSOR)
    const first = await report(lost, PAID)
    expect(first.eventType).toBe('TERMINAL_BLOCKED')
    expect(await report(lost, PAID)).toEqual(first)
    expect(await eventRows(db, lost.outboxId)).toHaveLength(1)
  })

  test('returns a TERMINAL_BLOCKED event if a completion contradicted the first report meanwhile', async () => {
    const { lost, next } = await takenOver()
    expect(await report(lost, PAID)).toMatchObject({ eventType: 'LATE_OUTCOME' })
    await complete(db, next, { state: 'DISPATCHED', railReference: 'ref-2' }, SUCCESSOR)
    const alarm = await report(lost, PAID)
    expect(alarm.eventType).toBe('TERMINAL_BLOCKED')
    expect(await report(lost, PAID)).toEqual(alarm)
    expect((await eventRows(db, lost.outboxId)).map(({ event_type }) => event_type)).toEqual([
      'LATE_OUTCOME',
      'TERMINAL_BLOCKED',
    ])
  })

  test('writes a second event if its content or its worker differs', async () => {
    const { lost, next } = await takenOver()
    await db.expireLease(next.outboxId)
    await report(lost, PAID)
    await report(lost, { ...PAID, railCode: '00' })
    await report(next, PAID, SUCCESSOR)
    expect(await eventRows(db, lost.outboxId)).toHaveLength(3)
  })
})

describe.for(['repair', 'takeover'] as const)('a late success before %s of the expired lease', (foundBy) => {
  async function findExpired(lease: ClaimedItem): Promise<void> {
    await db.expireLease(lease.outboxId)
    if (foundBy === 'repair') await repairExpiredLeases(db.as('symphony_executor'), 100, 'repair-1')
    else await claim(db, lease.railType, { workerId: SUCCESSOR })
  }

  test('allows one more claim of an item at the retry ceiling', async () => {
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

  test('prevents the hold of an item whose dispatch mark shows a call', async () => {
    const lease = await enqueueAndClaim(db, {}, { workerId: SLOW, marked: true })
    await beginOutboxDispatch(db.as('symphony_executor'), lease, SLOW)
    await report(lease, PAID)
    await findExpired(lease)
    expect(await pendingRow(db, lease.outboxId)).toMatchObject({ hold_reason: null, outcome_unknown: true })
  })
})

function name({ state, railReference }: ReportedOutcome): string {
  return railReference === undefined || railReference === null ? state : `${state} ${railReference}`
}
