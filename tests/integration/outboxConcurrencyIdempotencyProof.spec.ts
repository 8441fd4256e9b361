import { describe, expect, test } from 'vitest'
import { IdempotencyConflictError } from '../../libs/db/index.js'
import {
  claimOutboxBatch,
  enqueuePaymentOutbox,
  enqueuePaymentOutboxBatch,
  type OutboxInstruction,
} from '../../libs/outbox/index.js'
import { useTestDatabase } from '../support/database.js'
import { buildInstruction, claim, complete, enqueue, makeDueAndClaim, sequenceOf } from '../support/outboxItems.js'
import { openConnection, race, untilWaiting } from '../support/race.js'

/**
 * Concurrent enqueues of one instruction create one item with one sequence number. Concurrent claims give each item one
 * holder.
 */

const RACERS = 32

const db = await useTestDatabase()

/** Enqueues in an open transaction. Another enqueue of the same instruction waits until this transaction ends. */
async function uncommitted(
  ...instructions: OutboxInstruction[]
): Promise<{ readonly end: (how: string) => Promise<void> }> {
  const connection = await openConnection(db, 'symphony_ingest')
  await connection.query('BEGIN')
  await enqueuePaymentOutboxBatch(connection, instructions)
  return {
    end: async (how) => {
      await connection.query(how)
      await connection.close()
    },
  }
}

async function counts(instruction: OutboxInstruction): Promise<{ identities: bigint; pending: bigint }> {
  const { rows } = await db.queryNoRole<{ identities: bigint; pending: bigint }>(
    `SELECT
       (SELECT count(*) FROM payment_outbox_identities WHERE instruction_id = $1 AND idempotency_key = $2) AS identities,
       (SELECT count(*) FROM payment_outbox_pending WHERE instruction_id = $1 AND idempotency_key = $2) AS pending`,
    [instruction.instructionId, instruction.idempotencyKey],
  )
  return rows[0]!
}

describe('concurrent enqueues of one instruction', () => {
  test('create one item with one sequence number; one caller gets created: true', async () => {
    const instruction = buildInstruction()
    const { values, errors } = await race(db, 'symphony_ingest', RACERS, (connection) =>
      enqueuePaymentOutbox(connection, instruction),
    )
    expect(errors).toEqual([])
    expect(new Set(values.map(({ outboxId }) => outboxId)).size).toBe(1)
    expect(values.filter(({ created }) => created)).toHaveLength(1)
    expect(values.every(({ sequenceId, state }) => sequenceId === 1n && state === 'PENDING')).toBe(true)
    expect(await counts(instruction)).toEqual({ identities: 1n, pending: 1n })
    expect(await sequenceOf(db, instruction.participantId)).toEqual({ taken: [1n], next: 2n })
  })

  test.for([
    ['rolls back: one of them creates the item', 'ROLLBACK', 1],
    ['commits: none of them creates an item', 'COMMIT', 0],
  ] as const)('all wait for an earlier transaction that %s', async ([, how, made]) => {
    const instruction = buildInstruction()
    const first = await uncommitted(instruction)
    const { values, errors } = await race(
      db,
      'symphony_ingest',
      RACERS,
      (connection) => enqueuePaymentOutbox(connection, instruction),
      { releaseWhenAllWait: () => first.end(how) },
    )
    expect(errors).toEqual([])
    expect(values).toHaveLength(RACERS)
    expect(new Set(values.map(({ outboxId }) => outboxId)).size).toBe(1)
    expect(values.filter(({ created }) => created)).toHaveLength(made)
    expect(await counts(instruction)).toEqual({ identities: 1n, pending: 1n })
    expect(await sequenceOf(db, instruction.participantId)).toEqual({ taken: [1n], next: 2n })
  })

  test('return the existing item while it is being completed', async () => {
    const item = await enqueue(db)
    const lease = await makeDueAndClaim(db, item)
    const completion = complete(db, lease, { state: 'DISPATCHED', railReference: 'ref-1' })
    const { values, errors } = await race(db, 'symphony_ingest', RACERS, (connection) =>
      enqueuePaymentOutbox(connection, item),
    )
    await completion
    expect(errors).toEqual([])
    expect(new Set(values.map(({ outboxId }) => outboxId))).toEqual(new Set([item.outboxId]))
    expect(values.some(({ created }) => created)).toBe(false)
    expect(await counts(item)).toEqual({ identities: 1n, pending: 0n })
    expect(await sequenceOf(db, item.participantId)).toEqual({ taken: [1n], next: 2n })
  })
})

describe('concurrent enqueues of different content with one key', () => {
  test.for([
    ['participants', (index: number) => ({ participantId: `participant-${index}` })],
    ['rails', (index: number) => ({ railType: `rail-${index}` })],
    ['payloads', (index: number) => ({ payload: { amountMinor: String(index) } })],
  ] as const)('create one item if the %s differ; the other callers get IdempotencyConflictError', async ([, vary]) => {
    const instruction = buildInstruction()
    const given = Array.from({ length: RACERS }, (_, index) => ({ ...instruction, ...vary(index) }))
    const { values, errors } = await race(db, 'symphony_ingest', RACERS, (connection, index) =>
      enqueuePaymentOutbox(connection, given[index]!),
    )
    expect(values.map(({ created, sequenceId }) => ({ created, sequenceId }))).toEqual([
      { created: true, sequenceId: 1n },
    ])
    expect(errors).toHaveLength(RACERS - 1)
    expect(errors.filter((error) => !(error instanceof IdempotencyConflictError))).toEqual([])
    expect(await counts(instruction)).toEqual({ identities: 1n, pending: 1n })
    // The refused callers took no sequence number and left no sequence row.
    const { rows } = await db.queryNoRole<{ next_sequence_id: bigint }>(
      'SELECT next_sequence_id FROM participant_outbox_sequences WHERE participant_id = ANY ($1)',
      [given.map(({ participantId }) => participantId)],
    )
    expect(rows).toEqual([{ next_sequence_id: 2n }])
  })
})

describe('the sequence of a participant', () => {
  test('has no gap after concurrent batches, and the callers get exactly the stored numbers', async () => {
    const participantId = buildInstruction().participantId
    const { values, errors } = await race(db, 'symphony_ingest', RACERS, async (connection, index) => {
      const items = Array.from({ length: (index % 3) + 1 }, () => buildInstruction({ participantId }))
      return enqueuePaymentOutboxBatch(connection, items)
    })
    expect(errors).toEqual([])
    const numbers = values.flat().map(({ sequenceId }) => sequenceId)
    const { taken, next } = await sequenceOf(db, participantId)
    expect(taken).toEqual(taken.map((_, index) => BigInt(index + 1)))
    expect(next).toBe(BigInt(taken.length + 1))
    expect(numbers.toSorted((a, b) => Number(a - b))).toEqual(taken)
  })

  test('has no gap after half of the concurrent callers rolled back', async () => {
    const participantId = buildInstruction().participantId
    const { errors } = await race(db, 'symphony_ingest', RACERS, async (connection, index) => {
      await connection.query('BEGIN')
      await enqueuePaymentOutbox(connection, buildInstruction({ participantId }))
      await connection.query(index % 2 === 0 ? 'COMMIT' : 'ROLLBACK')
    })
    expect(errors).toEqual([])
    const kept = Array.from({ length: RACERS / 2 }, (_, index) => BigInt(index + 1))
    expect(await sequenceOf(db, participantId)).toEqual({ taken: kept, next: BigInt(RACERS / 2 + 1) })
  })
})

describe('concurrent enqueues of overlapping batches', () => {
  test('return every item without a deadlock or a gap, although their orders are opposite', async () => {
    const [first, second] = [buildInstruction().participantId, buildInstruction().participantId]
    const instructions = Array.from({ length: 40 }, (_, index) =>
      buildInstruction({ participantId: index % 2 === 0 ? first : second }),
    )
    const { values, errors } = await race(db, 'symphony_ingest', 16, (connection, index) =>
      enqueuePaymentOutboxBatch(connection, index % 2 === 0 ? instructions : instructions.toReversed()),
    )
    expect(errors).toEqual([])
    for (const participantId of [first, second]) {
      const numbers = Array.from({ length: 20 }, (_, index) => BigInt(index + 1))
      expect(await sequenceOf(db, participantId)).toEqual({ taken: numbers, next: 21n })
    }
    const answers = values.map((items, index) =>
      (index % 2 === 0 ? items : items.toReversed()).map(({ outboxId }) => outboxId),
    )
    for (const answer of answers) expect(answer).toEqual(answers[0])
    expect(values.flat().filter(({ created }) => created)).toHaveLength(instructions.length)
  })

  test('insert keys in sorted order, so that batches in opposite orders do not deadlock', async () => {
    // The participants differ, so only the order of the keys can prevent a deadlock.
    const [low, middle, high] = [
      buildInstruction({ idempotencyKey: 'in-key-order-1' }),
      buildInstruction({ idempotencyKey: 'in-key-order-2' }),
      buildInstruction({ idempotencyKey: 'in-key-order-3' }),
    ]
    const left = await openConnection(db, 'symphony_ingest')
    const right = await openConnection(db, 'symphony_ingest')
    const blocker = await uncommitted(middle)
    // Uses allSettled, because a call may be refused before the test awaits it.
    const leftCall = Promise.allSettled([
      enqueuePaymentOutboxBatch(left, [
        { ...high, participantId: 'left-1' },
        { ...middle, participantId: 'left-2' },
        { ...low, participantId: 'left-3' },
      ]),
    ])
    await untilWaiting(db, left)
    // If the left call wrote its high key before its low one, the two calls would deadlock.
    const rightCall = Promise.allSettled([
      enqueuePaymentOutboxBatch(right, [
        { ...low, participantId: 'right-1' },
        { ...high, participantId: 'right-2' },
      ]),
    ])
    await untilWaiting(db, right)
    await blocker.end('ROLLBACK')
    expect(await leftCall).toMatchObject([{ status: 'fulfilled' }])
    expect(await rightCall).toMatchObject([{ status: 'rejected', reason: expect.any(IdempotencyConflictError) }])
    await Promise.all([left.close(), right.close()])
  })
})

describe('concurrent claims of outbox items', () => {
  test.for([
    ['of one rail', 1],
    ['of several rails', 5],
  ] as const)('lease every item once: claims %s', async ([, railCount]) => {
    const rails = Array.from({ length: railCount }, () => buildInstruction().railType)
    const instructions = Array.from({ length: 300 }, (_, index) =>
      buildInstruction({ railType: rails[index % railCount]!, participantId: 'claimed' }),
    )
    const items = await enqueuePaymentOutboxBatch(db.as('symphony_ingest'), instructions)
    const { values, errors } = await race(db, 'symphony_executor', 16, async (connection, index) => {
      const mine = []
      for (;;) {
        const batch = await claimOutboxBatch(connection, 7, `worker-${index}`, 600, { rails })
        expect(batch.length).toBeLessThanOrEqual(7)
        if (batch.length === 0) return mine
        mine.push(...batch)
      }
    })
    expect(errors).toEqual([])
    const claimed = values.flat()
    expect(claimed.map(({ outboxId }) => outboxId).toSorted()).toEqual(items.map(({ outboxId }) => outboxId).toSorted())
    expect(new Set(claimed.map(({ leaseToken }) => leaseToken)).size).toBe(items.length)
  })

  test('skip items that another transaction has locked, and lease them after its rollback', async () => {
    const [older, newer] = [buildInstruction().railType, buildInstruction().railType]
    const rails = [older, newer]
    const items = await enqueuePaymentOutboxBatch(
      db.as('symphony_ingest'),
      Array.from({ length: 10 }, (_, index) => buildInstruction({ railType: index < 4 ? older : newer })),
    )
    const holder = await openConnection(db, 'symphony_executor')
    await holder.query('BEGIN')
    const first = await claimOutboxBatch(holder, 4, 'worker-1', 600, { rails })
    expect(first.map(({ outboxId }) => outboxId)).toEqual(items.slice(0, 4).map(({ outboxId }) => outboxId))
    // The claim divides the batch among the rails without regard to locks, so four places go to the older rail. Its
    // items are locked, so the newer rail fills the batch.
    const second = await claim(db, rails, { batchSize: 6 })
    expect(second.map(({ outboxId }) => outboxId)).toEqual(items.slice(4).map(({ outboxId }) => outboxId))
    expect(await claim(db, rails)).toEqual([])
    await holder.query('ROLLBACK')
    const third = await claim(db, rails)
    expect(third.map(({ outboxId }) => outboxId)).toEqual(items.slice(0, 4).map(({ outboxId }) => outboxId))
    await holder.close()
  })

  test('take over each expired lease once, with one ledger row each', async () => {
    const railType = buildInstruction().railType
    const items = await enqueuePaymentOutboxBatch(
      db.as('symphony_ingest'),
      Array.from({ length: 60 }, () => buildInstruction({ railType })),
    )
    await claim(db, railType, { workerId: 'crashed' })
    for (const { outboxId } of items) await db.expireLease(outboxId)
    const { values, errors } = await race(db, 'symphony_executor', 16, (connection, index) =>
      claimOutboxBatch(connection, 10, `worker-${index}`, 600, { rails: [railType] }),
    )
    expect(errors).toEqual([])
    const ids = values.flat().map(({ outboxId }) => outboxId)
    expect(new Set(ids).size).toBe(ids.length)
    const rest = await claim(db, railType)
    expect([...ids, ...rest.map(({ outboxId }) => outboxId)].toSorted()).toEqual(
      items.map((item) => item.outboxId).toSorted(),
    )
    const { rows } = await db.queryNoRole(
      `SELECT state, attempt_no, count(*) FROM payment_outbox_attempts WHERE rail_type = $1 GROUP BY 1, 2`,
      [railType],
    )
    expect(rows).toEqual([{ state: 'ZOMBIE_REQUEUE', attempt_no: 1, count: 60n }])
  })
})
