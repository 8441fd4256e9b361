import { randomUUID } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { call, LeaseLostError } from '../../libs/db/index.js'
import {
  completeOutboxAttempt,
  completeOutboxAttempts,
  placeOutboxHold,
  releaseOutboxLease,
  repairExpiredLeases,
  type AttemptOutcome,
  type ClaimedItem,
  type CompletionVerdict,
  type LeaseRef,
} from '../../libs/outbox/index.js'
import { useTestDatabase } from '../support/database.js'
import {
  buildInstruction,
  attemptRows,
  claim,
  claimOnly,
  complete,
  enqueue,
  enqueueAndClaim,
  eventRows,
  ledger,
  makeDueAndClaim,
  pendingRow,
  WORKER,
} from '../support/outboxItems.js'
import { failureOf, openConnection, untilWaiting } from '../support/race.js'

const db = await useTestDatabase()

const ANSWER = {
  railReference: 'ref-1',
  railCode: '00',
  errorCode: 'NONE',
  errorMessage: 'as the rail said it',
  latencyMs: 120,
}

describe('complete_outbox_attempt', () => {
  test.for([
    [`'DISPATCHED'::outbox_attempt_state`],
    [`'DISPATCHED'`],
    [`'DISPATCHED'::text`],
    [`'DISPATCHED'::varchar`],
    [`p_state => 'DISPATCHED'::outbox_attempt_state`],
    [`p_state => 'DISPATCHED'`],
  ])('accepts the state as %s', async ([state]) => {
    const { outboxId, leaseToken } = await enqueueAndClaim(db)
    const reference = state!.startsWith('p_state') ? `p_rail_reference => 'ref-1'` : `'ref-1'`
    const completion = `SELECT * FROM complete_outbox_attempt($1, $2, $3, ${state}, ${reference})`
    const worker = await db.connect('symphony_executor')
    const { rows } = await worker.query(completion, [outboxId, leaseToken, WORKER])
    expect(rows).toEqual([{ attempt_no: 1, state: 'DISPATCHED', held: false }])
  })

  test('accepts the state as an untyped parameter', async () => {
    const { outboxId, leaseToken } = await enqueueAndClaim(db)
    const worker = await db.connect('symphony_executor')
    const completion = 'SELECT state FROM complete_outbox_attempt($1, $2, $3, $4, $5)'
    const { rows } = await worker.query(completion, [outboxId, leaseToken, WORKER, 'DISPATCHED', 'ref-1'])
    expect(rows).toEqual([{ state: 'DISPATCHED' }])
  })

  test.for([
    ['DISPATCHING', 'P7003', /^INVALID_COMPLETION_STATE: /],
    ['RETRYABLE', 'P7002', /^LEASE_LOST: /],
  ] as const)('refuses the enum value %s from another worker with SQLSTATE %s', async ([state, code, message]) => {
    const { outboxId, leaseToken } = await enqueueAndClaim(db)
    const worker = await db.connect('symphony_executor')
    const completion = `SELECT * FROM complete_outbox_attempt($1, $2, 'other', '${state}'::outbox_attempt_state)`
    expect(await failureOf(worker.query(completion, [outboxId, leaseToken]))).toMatchObject({
      code,
      message: expect.stringMatching(message),
    })
  })
})

describe('a completion of an outbox item', () => {
  test.for(['DISPATCHED', 'FAILED'] as const)(
    'ends the item as %s with one ledger row that has all fields',
    async (state) => {
      const lease = await enqueueAndClaim(db)
      expect(await complete(db, lease, { state, ...ANSWER })).toEqual({ attemptNo: 1, state, held: false })
      expect(await pendingRow(db, lease.outboxId)).toBeUndefined()
      const rows = await attemptRows(db, lease.outboxId)
      expect(rows).toHaveLength(1)
      expect(rows[0]).toMatchObject({
        outbox_id: lease.outboxId,
        instruction_id: lease.instructionId,
        participant_id: lease.participantId,
        sequence_id: lease.sequenceId,
        idempotency_key: lease.idempotencyKey,
        rail_type: lease.railType,
        payload: lease.payload,
        attempt_no: 1,
        state,
        claimed_at: lease.claimedAt,
        rail_reference: 'ref-1',
        rail_code: '00',
        error_code: 'NONE',
        error_message: 'as the rail said it',
        latency_ms: 120,
        worker_id: WORKER,
        lease_token: lease.leaseToken,
      })
      expect(rows[0]!.completed_at!.getTime()).toBeGreaterThanOrEqual(lease.claimedAt.getTime())
      expect(await claim(db, lease.railType)).toEqual([])
    },
  )

  test('requeues a RETRYABLE item without its lease, due after the given delay', async () => {
    const lease = await enqueueAndClaim(db)
    const recorded = await complete(db, lease, { state: 'RETRYABLE', ...ANSWER, retryDelaySeconds: 77 })
    expect(recorded).toEqual({ attemptNo: 1, state: 'RETRYABLE', held: false })
    expect(await pendingRow(db, lease.outboxId)).toMatchObject({
      attempt_count: 1,
      claimed_by: null,
      lease_token: null,
      lease_expires_at: null,
      claimed_at: null,
      outcome_unknown: false,
      hold_reason: null,
      retry_after_seconds: 77,
    })
    expect(await attemptRows(db, lease.outboxId)).toMatchObject([{ state: 'RETRYABLE', ...ledgerOf(lease) }])
  })

  test.for([
    [1, 5],
    [2, 10],
    [7, 300],
    [19, 300],
  ] as const)(
    'requeues the item with the backoff of attempt %i if RETRYABLE has no delay',
    async ([attemptNo, mostSeconds]) => {
      const item = await enqueue(db)
      for (let done = 1; done < attemptNo; done++) {
        await complete(db, await makeDueAndClaim(db, item), { state: 'RETRYABLE', retryDelaySeconds: 0 })
      }
      await complete(db, await makeDueAndClaim(db, item), { state: 'RETRYABLE' })
      const { rows } = await db.queryNoRole<{ seconds: number }>(
        'SELECT extract(epoch FROM outbox_backoff($1, $2))::float8 AS seconds',
        [attemptNo, item.outboxId],
      )
      const { seconds } = rows[0]!
      expect(seconds).toBeGreaterThanOrEqual(mostSeconds * 0.8)
      expect(seconds).toBeLessThanOrEqual(mostSeconds)
      expect((await pendingRow(db, item.outboxId))!.retry_after_seconds).toBe(seconds)
    },
  )

  test('makes the item due at once if RETRYABLE has a delay of 0', async () => {
    const lease = await enqueueAndClaim(db)
    await complete(db, lease, { state: 'RETRYABLE', retryDelaySeconds: 0 })
    expect((await claimOnly(db, lease.railType)).outboxId).toBe(lease.outboxId)
  })

  test('records NULL in each field that was not given', async () => {
    const lease = await enqueueAndClaim(db)
    await complete(db, lease, { state: 'DISPATCHED' })
    expect(await attemptRows(db, lease.outboxId)).toMatchObject([
      { rail_reference: null, rail_code: null, error_code: null, error_message: null, latency_ms: null },
    ])
  })

  test.for(['DISPATCHED', 'FAILED', 'RETRYABLE'] as const)(
    'is recorded as %s although the item is held',
    async (state) => {
      const lease = await enqueueAndClaim(db)
      await placeOutboxHold(db.as('symphony_control'), lease.outboxId, 'wait')
      expect(await complete(db, lease, { state })).toEqual({ attemptNo: 1, state, held: state === 'RETRYABLE' })
      const pending = await pendingRow(db, lease.outboxId)
      expect(pending?.hold_reason).toBe(state === 'RETRYABLE' ? 'wait' : undefined)
    },
  )

  test('records the attempt, holds the item and writes an event if it has a hold reason', async () => {
    const lease = await enqueueAndClaim(db)
    const recorded = await complete(db, lease, { state: 'RETRYABLE', holdReason: 'ask the bank' })
    expect(recorded).toEqual({ attemptNo: 1, state: 'RETRYABLE', held: true })
    expect(await pendingRow(db, lease.outboxId)).toMatchObject({ hold_reason: 'ask the bank', held_by: WORKER })
    const [attempt] = await attemptRows(db, lease.outboxId)
    expect(await eventRows(db, lease.outboxId)).toMatchObject([
      { event_type: 'HOLD_PLACED', actor: WORKER, detail: { reason: 'ask the bank' }, attempt_id: attempt!.attempt_id },
    ])
    await db.makeDue(lease.outboxId)
    expect(await claim(db, lease.railType)).toEqual([])
  })
})

describe('a completion with an invalid state', () => {
  const none = ['DISPATCHING', 'ZOMBIE_REQUEUE', 'PENDING', 'LEASED', 'dispatched', 'DISPATCHED ', 'Failed', 'x']

  test.for(none)('is refused (P7003) and keeps the lease: %j', async (state) => {
    const { outboxId, leaseToken } = await enqueueAndClaim(db)
    const refusal = await failureOf(
      call(db.as('symphony_executor'), 'complete_outbox_attempt', [outboxId, leaseToken, WORKER, state]),
    )
    expect(refusal).toMatchObject({ code: 'INVALID_COMPLETION_STATE' })
    expect(refusal).toMatchObject({ sqlstate: 'P7003' })
    expect(await pendingRow(db, outboxId)).toMatchObject({ lease_token: leaseToken })
    expect(await ledger(db, outboxId)).toEqual([])
  })

  test('is refused together with its whole batch', async () => {
    const [first, second] = [await enqueueAndClaim(db), await enqueueAndClaim(db)]
    const refusal = await failureOf(
      call(db.as('symphony_executor'), 'complete_outbox_attempts', [
        [first.outboxId, second.outboxId],
        [first.leaseToken, second.leaseToken],
        WORKER,
        ['DISPATCHED', 'DISPATCHING'],
      ]),
    )
    expect(refusal).toMatchObject({ code: 'INVALID_COMPLETION_STATE' })
    expect(await ledger(db, first.outboxId)).toEqual([])
    expect(await complete(db, first, { state: 'DISPATCHED' })).toMatchObject({ state: 'DISPATCHED' })
  })

  test('is refused if the state is null (INVALID_PARAMETER)', async () => {
    const { outboxId, leaseToken } = await enqueueAndClaim(db)
    const refused = call(db.as('symphony_executor'), 'complete_outbox_attempt', [outboxId, leaseToken, WORKER, null])
    expect(await failureOf(refused)).toMatchObject({ code: 'INVALID_PARAMETER' })
  })
})

describe('attempt numbers in the ledger', () => {
  test('have no gaps, however each attempt ends', async () => {
    const executor = db.as('symphony_executor')
    const item = await enqueue(db)
    await complete(db, await makeDueAndClaim(db, item), { state: 'RETRYABLE' })
    // A released lease is no attempt.
    await releaseOutboxLease(executor, await makeDueAndClaim(db, item), WORKER)
    await makeDueAndClaim(db, item)
    await db.expireLease(item.outboxId)
    await repairExpiredLeases(executor, 100, 'repair-1')
    await makeDueAndClaim(db, item)
    await db.expireLease(item.outboxId)
    const takenOver = await makeDueAndClaim(db, item)
    await complete(db, takenOver, { state: 'FAILED', holdReason: 'unknown' })
    await db.queryNoRole(
      'UPDATE payment_outbox_pending SET hold_reason = NULL, held_by = NULL, held_at = NULL WHERE outbox_id = $1',
      [item.outboxId],
    )
    await complete(db, await makeDueAndClaim(db, item), { state: 'DISPATCHED' })
    expect(await ledger(db, item.outboxId)).toEqual([
      '1 RETRYABLE',
      '2 ZOMBIE_REQUEUE',
      '3 ZOMBIE_REQUEUE',
      '4 RETRYABLE',
      '5 DISPATCHED',
    ])
  })

  test.for([0, 7, 20])('come from the ledger, not from attempt_count (set to %i by hand)', async (count) => {
    const item = await enqueue(db)
    const setBySql = () =>
      db.queryNoRole('UPDATE payment_outbox_pending SET attempt_count = $2 WHERE outbox_id = $1', [
        item.outboxId,
        count,
      ])
    await complete(db, await makeDueAndClaim(db, item), { state: 'RETRYABLE' })
    await setBySql()
    const second = await makeDueAndClaim(db, item)
    expect(await complete(db, second, { state: 'RETRYABLE' })).toEqual({
      attemptNo: 2,
      state: 'RETRYABLE',
      held: false,
    })
    expect((await pendingRow(db, item.outboxId))!.attempt_count).toBe(Math.max(count, 2))
    await setBySql()
    await makeDueAndClaim(db, item)
    await db.expireLease(item.outboxId)
    const repaired = await repairExpiredLeases(db.as('symphony_executor'), 100, 'repair-1')
    expect(repaired).toEqual([{ outboxId: item.outboxId, attemptNo: 3 }])
    expect(await pendingRow(db, item.outboxId)).toMatchObject({ attempt_count: Math.max(count, 3), hold_reason: null })
  })
})

describe('a batch of completions', () => {
  /** Part of each expected verdict: no late success reported another rail reference. */
  const agreed = { contradicted: false }

  test('returns one verdict per completion, in the given order', async () => {
    const [dispatched, failed, retryable, recorded, lost, expired] = [
      await enqueueAndClaim(db),
      await enqueueAndClaim(db),
      await enqueueAndClaim(db),
      await enqueueAndClaim(db),
      await enqueueAndClaim(db),
      await enqueueAndClaim(db),
    ]
    await complete(db, recorded, { state: 'RETRYABLE' })
    await db.expireLease(expired.outboxId)
    const unknown = { outboxId: randomUUID(), leaseToken: randomUUID() }
    const verdicts = await completeAll([
      { ...unknown, state: 'DISPATCHED' },
      { ...expired, state: 'DISPATCHED' },
      { ...lost, leaseToken: randomUUID(), state: 'DISPATCHED' },
      { ...recorded, state: 'DISPATCHED' },
      { ...retryable, state: 'RETRYABLE' },
      { ...failed, state: 'FAILED' },
      { ...dispatched, state: 'DISPATCHED' },
    ])
    expect(verdicts).toEqual([
      { outboxId: unknown.outboxId, verdict: 'LEASE_LOST' },
      { outboxId: expired.outboxId, verdict: 'LEASE_LOST' },
      { outboxId: lost.outboxId, verdict: 'LEASE_LOST' },
      { outboxId: recorded.outboxId, verdict: 'ALREADY_RECORDED', attemptNo: 1, state: 'RETRYABLE', ...agreed },
      { outboxId: retryable.outboxId, verdict: 'RECORDED', attemptNo: 1, state: 'RETRYABLE', held: false, ...agreed },
      { outboxId: failed.outboxId, verdict: 'RECORDED', attemptNo: 1, state: 'FAILED', held: false, ...agreed },
      { outboxId: dispatched.outboxId, verdict: 'RECORDED', attemptNo: 1, state: 'DISPATCHED', held: false, ...agreed },
    ])
    expect(await ledger(db, expired.outboxId)).toEqual([])
    expect(await ledger(db, lost.outboxId)).toEqual([])
    expect(await ledger(db, recorded.outboxId)).toEqual(['1 RETRYABLE'])
  })

  test('stores the fields of each completion in the ledger row of its own item', async () => {
    const { railType } = buildInstruction()
    for (let n = 0; n < 5; n++) await enqueue(db, { railType, payload: { n } })
    const given = await claim(db, railType)
    const outcomes = given.toReversed().map((lease, index) => ({
      outboxId: lease.outboxId,
      leaseToken: lease.leaseToken,
      state: 'DISPATCHED' as const,
      railReference: `ref-${lease.outboxId}`,
      railCode: `code-${index}`,
      latencyMs: index,
    }))
    await completeAll(outcomes)
    for (const [index, { outboxId, railReference, railCode, latencyMs, leaseToken }] of outcomes.entries()) {
      expect(await attemptRows(db, outboxId)).toMatchObject([
        {
          rail_reference: railReference,
          rail_code: railCode,
          latency_ms: latencyMs,
          lease_token: leaseToken,
          payload: { n: 4 - index },
        },
      ])
    }
  })

  test('records the first of two completions of one lease; the second is ALREADY_RECORDED', async () => {
    const [lease, other] = [await enqueueAndClaim(db), await enqueueAndClaim(db)]
    const verdicts = await completeAll([
      { ...lease, state: 'RETRYABLE', errorCode: 'FIRST' },
      { ...other, state: 'DISPATCHED' },
      { ...lease, state: 'DISPATCHED', railReference: 'second' },
    ])
    expect(verdicts).toEqual([
      { outboxId: lease.outboxId, verdict: 'RECORDED', attemptNo: 1, state: 'RETRYABLE', held: false, ...agreed },
      { outboxId: other.outboxId, verdict: 'RECORDED', attemptNo: 1, state: 'DISPATCHED', held: false, ...agreed },
      { outboxId: lease.outboxId, verdict: 'ALREADY_RECORDED', attemptNo: 1, state: 'RETRYABLE', ...agreed },
    ])
    expect(await attemptRows(db, lease.outboxId)).toMatchObject([{ state: 'RETRYABLE', error_code: 'FIRST' }])
  })

  test('records a completion although an earlier one of the same item has a wrong lease token', async () => {
    const lease = await enqueueAndClaim(db)
    const verdicts = await completeAll([
      { ...lease, leaseToken: randomUUID(), state: 'FAILED' },
      { ...lease, state: 'DISPATCHED' },
    ])
    expect(verdicts).toMatchObject([{ verdict: 'LEASE_LOST' }, { verdict: 'RECORDED', state: 'DISPATCHED' }])
    expect(await ledger(db, lease.outboxId)).toEqual(['1 DISPATCHED'])
  })

  test('records an item only once if its lease is listed twice with wrong tokens in between', async () => {
    const lease = await enqueueAndClaim(db)
    const verdicts = await completeAll([
      { ...lease, state: 'RETRYABLE', errorCode: 'FIRST' },
      { ...lease, leaseToken: randomUUID(), state: 'FAILED' },
      { ...lease, leaseToken: '00000000-0000-0000-0000-000000000000', state: 'FAILED' },
      { ...lease, state: 'DISPATCHED' },
    ])
    expect(verdicts).toMatchObject([
      { verdict: 'RECORDED', state: 'RETRYABLE' },
      { verdict: 'LEASE_LOST' },
      { verdict: 'LEASE_LOST' },
      { verdict: 'ALREADY_RECORDED', state: 'RETRYABLE' },
    ])
    expect(await ledger(db, lease.outboxId)).toEqual(['1 RETRYABLE'])
  })

  describe('with DISPATCHED outcomes only', () => {
    test('returns one verdict per completion, in the given order', async () => {
      const [paid, expired, recorded, taken, alsoPaid] = [
        await enqueueAndClaim(db),
        await enqueueAndClaim(db),
        await enqueueAndClaim(db),
        await enqueueAndClaim(db),
        await enqueueAndClaim(db),
      ]
      await db.expireLease(expired.outboxId)
      await complete(db, recorded, { state: 'DISPATCHED' })
      await db.expireLease(taken.outboxId)
      await claimOnly(db, taken.railType)
      const verdicts = await completeAll(
        [alsoPaid, taken, { outboxId: randomUUID(), leaseToken: randomUUID() }, recorded, expired, paid].map(successOf),
      )
      expect(verdicts).toMatchObject([
        { outboxId: alsoPaid.outboxId, verdict: 'RECORDED', attemptNo: 1, state: 'DISPATCHED', held: false },
        { outboxId: taken.outboxId, verdict: 'LEASE_LOST' },
        { verdict: 'LEASE_LOST' },
        { outboxId: recorded.outboxId, verdict: 'ALREADY_RECORDED', attemptNo: 1, state: 'DISPATCHED' },
        { outboxId: expired.outboxId, verdict: 'LEASE_LOST' },
        { outboxId: paid.outboxId, verdict: 'RECORDED', attemptNo: 1, state: 'DISPATCHED', held: false },
      ])
      expect(await pendingRow(db, paid.outboxId)).toBeUndefined()
      expect(await ledger(db, expired.outboxId)).toEqual([])
      expect(await ledger(db, taken.outboxId)).toEqual(['1 ZOMBIE_REQUEUE'])
    })

    test('returns LEASE_LOST for two items with swapped tokens and records the third', async () => {
      const [a, b, c] = [await enqueueAndClaim(db), await enqueueAndClaim(db), await enqueueAndClaim(db)]
      const crossed = [{ ...a, leaseToken: b.leaseToken }, { ...b, leaseToken: a.leaseToken }, c]
      expect(await completeAll(crossed.map(successOf))).toMatchObject([
        { outboxId: a.outboxId, verdict: 'LEASE_LOST' },
        { outboxId: b.outboxId, verdict: 'LEASE_LOST' },
        { outboxId: c.outboxId, verdict: 'RECORDED', attemptNo: 1 },
      ])
      for (const { outboxId, leaseToken } of [a, b]) {
        expect(await pendingRow(db, outboxId)).toMatchObject({ lease_token: leaseToken })
        expect(await ledger(db, outboxId)).toEqual([])
      }
    })

    test('records an item only once if the batch lists it twice', async () => {
      const [lease, other] = [await enqueueAndClaim(db), await enqueueAndClaim(db)]
      expect(await completeAll([lease, other, lease].map(successOf))).toMatchObject([
        { outboxId: lease.outboxId, verdict: 'RECORDED', attemptNo: 1 },
        { outboxId: other.outboxId, verdict: 'RECORDED', attemptNo: 1 },
        { outboxId: lease.outboxId, verdict: 'ALREADY_RECORDED', attemptNo: 1 },
      ])
      expect(await ledger(db, lease.outboxId)).toEqual(['1 DISPATCHED'])
    })

    test('returns LEASE_LOST for a completion by another worker', async () => {
      const lease = await enqueueAndClaim(db)
      expect(await completeAll([successOf(lease)], 'other-worker')).toMatchObject([{ verdict: 'LEASE_LOST' }])
      expect(await pendingRow(db, lease.outboxId)).toMatchObject({ lease_token: lease.leaseToken })
    })

    test('returns LEASE_LOST if the lease expires while the call waits for the row lock', async () => {
      const lease = await enqueueAndClaim(db)
      const [holder, completer] = [await openConnection(db), await openConnection(db, 'symphony_executor')]
      try {
        await holder.query('BEGIN')
        await holder.query('SELECT 1 FROM payment_outbox_pending WHERE outbox_id = $1 FOR UPDATE', [lease.outboxId])
        const verdicts = completeOutboxAttempts(completer, WORKER, [successOf(lease)])
        await untilWaiting(db, completer)
        await holder.query(
          'UPDATE payment_outbox_pending SET lease_expires_at = clock_timestamp() WHERE outbox_id = $1',
          [lease.outboxId],
        )
        await holder.query('COMMIT')
        expect(await verdicts).toMatchObject([{ verdict: 'LEASE_LOST' }])
      } finally {
        await Promise.all([holder.close(), completer.close()])
      }
      expect(await pendingRow(db, lease.outboxId)).toMatchObject({ lease_token: lease.leaseToken })
      expect(await ledger(db, lease.outboxId)).toEqual([])
    })
  })

  test('returns the recorded attempt for a lease token that has already completed', async () => {
    const lease = await enqueueAndClaim(db)
    await complete(db, lease, { state: 'FAILED' })
    for (const workerId of [WORKER, 'other-worker']) {
      expect(await completeAll([{ ...lease, state: 'DISPATCHED' }], workerId)).toEqual([
        { outboxId: lease.outboxId, verdict: 'ALREADY_RECORDED', attemptNo: 1, state: 'FAILED', ...agreed },
      ])
      const refusal = await failureOf(complete(db, lease, { state: 'DISPATCHED' }, workerId))
      expect(refusal).toBeInstanceOf(LeaseLostError)
      expect(refusal).toMatchObject({ recorded: { attemptNo: 1, state: 'FAILED' } })
    }
  })

  test('records 1,000 completions in one call', async () => {
    const { railType } = buildInstruction()
    await db.queryNoRole(
      `SELECT count(*) FROM (SELECT array_agg($1 || '-' || n) AS ids, array_agg($1) AS rails, array_agg('{}'::jsonb) AS p
       FROM generate_series(1, 1000) AS n) AS g
       CROSS JOIN LATERAL enqueue_payment_outbox_batch(g.ids, g.rails, g.ids, g.rails, g.p)`,
      [railType],
    )
    const claimed = await claim(db, railType, { batchSize: 1000 })
    expect(claimed).toHaveLength(1000)
    const verdicts = await completeAll(claimed.map((lease) => ({ ...lease, state: 'DISPATCHED' as const })))
    expect(verdicts.every(({ verdict }) => verdict === 'RECORDED')).toBe(true)
    expect(verdicts.map(({ outboxId }) => outboxId)).toEqual(claimed.map(({ outboxId }) => outboxId))
  })
})

describe('payment_outbox_attempts', () => {
  test.for([
    ['DISPATCHED', 'FAILED'],
    ['DISPATCHED', 'DISPATCHED'],
    ['FAILED', 'DISPATCHED'],
    ['FAILED', 'FAILED'],
  ] as const)(
    'keeps one terminal row per item: after %s, it refuses %s even from a superuser (23505)',
    async ([first, second]) => {
      const lease = await enqueueAndClaim(db)
      await complete(db, lease, { state: first })
      const refusal = await failureOf(insertAgain(lease.outboxId, second))
      expect(refusal).toMatchObject({
        code: '23505',
        constraint: 'payment_outbox_attempts_one_terminal_per_outbox',
      })
    },
  )

  test('accepts a terminal row after a RETRYABLE row', async () => {
    const lease = await enqueueAndClaim(db)
    await complete(db, lease, { state: 'RETRYABLE' })
    await insertAgain(lease.outboxId, 'FAILED')
    expect(await ledger(db, lease.outboxId)).toEqual(['1 RETRYABLE', '2 FAILED'])
  })

  test('refuses a row in state DISPATCHING, even from a superuser (23514)', async () => {
    const lease = await enqueueAndClaim(db)
    await complete(db, lease, { state: 'RETRYABLE' })
    const refusal = await failureOf(insertAgain(lease.outboxId, 'DISPATCHING'))
    expect(refusal).toMatchObject({
      code: '23514',
      constraint: 'payment_outbox_attempts_dispatching_is_not_stored',
    })
  })

  test('refuses a second terminal completion while the item is still queued (23505)', async () => {
    const item = await enqueue(db)
    await complete(db, await claimOnly(db, item.railType), { state: 'RETRYABLE' })
    await insertAgain(item.outboxId, 'FAILED')
    const lease = await makeDueAndClaim(db, item)
    const completion = completeOutboxAttempt(db.as('symphony_executor'), WORKER, { ...lease, state: 'DISPATCHED' })
    expect(await failureOf(completion)).toMatchObject({
      sqlstate: '23505',
      constraint: 'payment_outbox_attempts_one_terminal_per_outbox',
    })
    expect(await pendingRow(db, item.outboxId)).toMatchObject({ lease_token: lease.leaseToken })
  })
})

test('a DISPATCHED completion with a hold reason is refused (22023) and keeps the lease', async () => {
  const lease = await enqueueAndClaim(db)
  await expect(
    complete(db, lease, { state: 'DISPATCHED', railReference: 'paid', holdReason: 'to be sure' }),
  ).rejects.toMatchObject({ code: 'INVALID_PARAMETER', message: expect.stringContaining('p_hold_reason') })
  expect(await complete(db, lease, { state: 'DISPATCHED', railReference: 'paid' })).toMatchObject({ attemptNo: 1 })
})

function successOf({ outboxId, leaseToken }: LeaseRef): AttemptOutcome {
  return { outboxId, leaseToken, state: 'DISPATCHED', railReference: `ref-${outboxId}` }
}

function completeAll(outcomes: readonly AttemptOutcome[], workerId = WORKER): Promise<CompletionVerdict[]> {
  return completeOutboxAttempts(db.as('symphony_executor'), workerId, outcomes)
}

/** Inserts the item's attempt again as superuser, with the given state and the next number. */
function insertAgain(outboxId: string, state: string) {
  return db.queryNoRole(
    `INSERT INTO payment_outbox_attempts (attempt_id, outbox_id, instruction_id, participant_id, sequence_id,
       idempotency_key, rail_type, payload, attempt_no, state, action, outcome_unknown)
     SELECT gen_random_uuid(), outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type, payload,
       attempt_no + 1, $2::outbox_attempt_state, 'sent', false
     FROM payment_outbox_attempts WHERE outbox_id = $1`,
    [outboxId, state],
  )
}

function ledgerOf(lease: ClaimedItem) {
  return {
    worker_id: WORKER,
    lease_token: lease.leaseToken,
    claimed_at: lease.claimedAt,
    rail_reference: ANSWER.railReference,
    rail_code: ANSWER.railCode,
    error_code: ANSWER.errorCode,
    error_message: ANSWER.errorMessage,
    latency_ms: ANSWER.latencyMs,
  }
}
