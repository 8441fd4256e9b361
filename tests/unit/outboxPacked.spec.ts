import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import {
  beginOutboxDispatch,
  claimOutboxBatch,
  completeOutboxAttempts,
  enqueuePaymentOutboxBatch,
  type ClaimedItem,
  type UnleasedTakeover,
} from '../../libs/outbox/index.js'
import { useTestDatabase } from '../support/database.js'

/**
 * Tests that results packed into one row, which the library reads, equal those of the functions with one row per item.
 */

const db = await useTestDatabase()

const TRACE = '00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01 vendor=a b'
const executor = () => db.as('symphony_executor')
const ingest = () => db.as('symphony_ingest')

function buildPayment(railType: string, overrides: object = {}) {
  const id = randomUUID()
  return {
    instructionId: id,
    idempotencyKey: `key:${id}`,
    participantId: `p-${id}`,
    railType,
    payload: { amount: '12.50', text: 'line\nend, "quote" and \u{1F600}', list: [1, 2.5, null, { a: 'b c' }] },
    ...overrides,
  }
}

function shown(item: ClaimedItem) {
  return {
    outbox_id: item.outboxId,
    instruction_id: item.instructionId,
    participant_id: item.participantId,
    sequence_id: item.sequenceId,
    idempotency_key: item.idempotencyKey,
    rail_type: item.railType,
    payload: item.payload,
    attempt_count: item.attemptCount,
    outcome_unknown: item.outcomeUnknown,
    expiry_streak: item.expiryStreak,
    taken_over: item.takenOver,
    ordered: item.ordered,
    created_at: item.createdAt,
    trace_context: item.traceContext,
    last: item.evidence?.lastAttempt ? String(item.evidence.lastAttempt.attemptNo) : null,
  }
}

test('enqueuePaymentOutboxBatch returns new, repeated and known items in the given order', async () => {
  const [first, second] = [buildPayment('packed'), buildPayment('packed')]
  const [before] = await enqueuePaymentOutboxBatch(ingest(), [second])
  const items = await enqueuePaymentOutboxBatch(ingest(), [first, second, first])
  expect(items.map(({ created, state }) => [created, state])).toEqual([
    [true, 'PENDING'],
    [false, 'PENDING'],
    [false, 'PENDING'],
  ])
  expect(items[1]).toEqual({ ...before, created: false })
  expect(items[2]).toEqual({ ...items[0], created: false })
  const { rows } = await db.queryNoRole<{ created_at: Date; sequence_id: bigint }>(
    'SELECT created_at, sequence_id FROM payment_outbox_identities WHERE outbox_id = $1',
    [items[0]!.outboxId],
  )
  expect(rows).toEqual([{ created_at: items[0]!.createdAt, sequence_id: items[0]!.sequenceId }])
})

test('claimOutboxBatch returns the same items as the rows of claim_outbox_batch', async () => {
  const rail = `rail-${randomUUID()}`
  const claim = (options = {}) => claimOutboxBatch(executor(), 100, 'w', 60, { rails: [rail], ...options })
  const [unknown, expired, held, plain] = await enqueuePaymentOutboxBatch(ingest(), [
    buildPayment(rail),
    buildPayment(rail),
    buildPayment(rail),
    buildPayment(rail),
    buildPayment(rail, { ordered: true }),
    buildPayment(rail, { traceContext: TRACE }),
  ])
  const first = await claim({ markedRails: [rail] })
  const leaseOf = (item: { outboxId: string }) => first.find(({ outboxId }) => outboxId === item.outboxId)!
  await beginOutboxDispatch(executor(), leaseOf(held!), 'w')
  const retry = first
    .filter(({ outboxId }) => outboxId !== expired!.outboxId && outboxId !== held!.outboxId)
    .map(({ outboxId, leaseToken }) => ({
      outboxId,
      leaseToken,
      state: 'RETRYABLE' as const,
      errorCode: 'LATER',
      retryDelaySeconds: 0,
      outcomeUnknown: outboxId === unknown!.outboxId,
    }))
  await completeOutboxAttempts(executor(), 'w', retry)
  await db.expireLease(expired!.outboxId)
  await db.expireLease(held!.outboxId)

  // Reads the rows in a transaction that is rolled back, then the packed result of the same queue.
  const client = await db.connect('symphony_executor')
  await client.query('BEGIN')
  const { rows } = await client.query(
    `SELECT outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type, payload, attempt_count,
       outcome_unknown, expiry_streak, taken_over, ordered, evidence -> 'last_attempt' ->> 'attempt_no' AS last, created_at,
       due_at, trace_context, lease_token IS NULL AS unleased, hold_reason
     FROM ${db.qualify('claim_outbox_batch')}(100, 'w', 60, ARRAY[$1], NULL, true)`,
    [rail],
  )
  await client.query('ROLLBACK')
  const unleased: UnleasedTakeover[] = []
  const items = await claim({ onUnleased: (takeover: UnleasedTakeover) => unleased.push(takeover) })
  const expected = rows.filter((row) => !row['unleased'])
  expect(expected).toHaveLength(5)
  // Leaves out due_at: the second claim repeats the takeover at another time.
  expect(items.map(shown)).toEqual(
    expected.map(({ due_at: _due, unleased: _none, hold_reason: _reason, ...row }) => row),
  )
  const dueOf = (id: string) => items.find(({ outboxId }) => outboxId === id)!.dueAt
  expect(dueOf(plain!.outboxId)).toEqual(expected.find((row) => row['outbox_id'] === plain!.outboxId)!['due_at'])
  expect(new Set(items.map(({ leaseToken }) => leaseToken)).size).toBe(5)
  expect(
    items.every(({ leaseExpiresAt, claimedAt }) => leaseExpiresAt.getTime() - claimedAt.getTime() === 60_000),
  ).toBe(true)
  expect(unleased).toEqual([{ outboxId: held!.outboxId, railType: rail, holdReason: 'OUTCOME_UNKNOWN' }])
  expect(items.map(({ traceContext }) => traceContext)).toContain(TRACE)
  expect(items.some(({ takenOver, expiryStreak }) => takenOver && expiryStreak === 1)).toBe(true)
  expect(await claim()).toEqual([])
})

test('completeOutboxAttempts returns one verdict per outcome, in the given order', async () => {
  const rail = `rail-${randomUUID()}`
  await enqueuePaymentOutboxBatch(ingest(), [
    buildPayment(rail),
    buildPayment(rail),
    buildPayment(rail),
    buildPayment(rail),
  ])
  const items = await claimOutboxBatch(executor(), 100, 'w', 60, { rails: [rail] })
  const outcome = (index: number, state: 'DISPATCHED' | 'RETRYABLE' | 'FAILED', token = items[index]!.leaseToken) => ({
    outboxId: items[index]!.outboxId,
    leaseToken: token,
    state,
    ...(state === 'DISPATCHED' ? { railReference: `ref-${index}` } : { errorCode: 'NO' }),
  })
  expect(await completeOutboxAttempts(executor(), 'w', [outcome(1, 'DISPATCHED')])).toMatchObject([{ attemptNo: 1 }])
  const verdicts = await completeOutboxAttempts(executor(), 'w', [
    outcome(0, 'RETRYABLE'),
    outcome(1, 'DISPATCHED'),
    outcome(2, 'DISPATCHED'),
    outcome(3, 'DISPATCHED', randomUUID()),
    outcome(3, 'DISPATCHED'),
  ])
  const id = (index: number) => items[index]!.outboxId
  expect(verdicts).toEqual([
    { outboxId: id(0), verdict: 'RECORDED', attemptNo: 1, state: 'RETRYABLE', held: false, contradicted: false },
    { outboxId: id(1), verdict: 'ALREADY_RECORDED', attemptNo: 1, state: 'DISPATCHED', contradicted: false },
    { outboxId: id(2), verdict: 'RECORDED', attemptNo: 1, state: 'DISPATCHED', held: false, contradicted: false },
    { outboxId: id(3), verdict: 'LEASE_LOST' },
    { outboxId: id(3), verdict: 'RECORDED', attemptNo: 1, state: 'DISPATCHED', held: false, contradicted: false },
  ])
})
