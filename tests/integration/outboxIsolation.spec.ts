import { describe, expect, test } from 'vitest'
import { DatabaseError, IdempotencyConflictError, LeaseLostError } from '../../libs/db/index.js'
import {
  claimOutboxBatch,
  completeOutboxAttempt,
  completeOutboxAttempts,
  enqueuePaymentOutbox,
  enqueuePaymentOutboxBatch,
  recordLateOutcome,
  renewOutboxLease,
  repairExpiredLeases,
  type ClaimedItem,
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
  sequenceOf,
  WORKER,
} from '../support/outboxItems.js'
import { approve, createPerson, propose } from '../support/outboxPeople.js'
import { failureOf, openConnection, race, type Connection } from '../support/race.js'

/**
 * The functions need READ COMMITTED. Under a stricter level a call fails with 40001 or returns the right answer, never
 * a wrong answer from an old snapshot.
 */

const db = await useTestDatabase()

const SERIALIZATION_FAILURE = { sqlstate: '40001', disposition: 'retry' }

const rita = await createPerson(db, 'rita')
const sam = await createPerson(db, 'sam')

type Lease = { readonly outboxId: string; readonly leaseToken: string }

const acts: readonly ((connection: Connection, lease: Lease) => Promise<unknown>)[] = [
  (connection, { outboxId, leaseToken }) =>
    completeOutboxAttempt(connection, WORKER, { outboxId, leaseToken, state: 'DISPATCHED' }),
  (connection, lease) => renewOutboxLease(connection, lease, WORKER, 600),
]

describe.for(['REPEATABLE READ', 'SERIALIZABLE'] as const)('transactions under %s', (level) => {
  /** Opens a transaction and takes its snapshot, so that later commits are invisible to it. */
  async function oldSnapshot(role: string): Promise<Connection> {
    const connection = await openConnection(db, role)
    await connection.query(`BEGIN ISOLATION LEVEL ${level}`)
    await connection.query('SELECT 1')
    return connection
  }

  /** Repeats the transaction while it fails with 40001 or 40P01, as a caller under a stricter level must. */
  async function retrying<T>(connection: Connection, body: () => Promise<T>): Promise<T> {
    for (;;) {
      await connection.query(`BEGIN ISOLATION LEVEL ${level}`)
      try {
        const result = await body()
        await connection.query('COMMIT')
        return result
      } catch (error) {
        await connection.query('ROLLBACK')
        const sqlstate = error instanceof DatabaseError ? error.sqlstate : sqlstateOf(error)
        if (sqlstate !== '40001' && sqlstate !== '40P01') throw error
      }
    }
  }

  test('an enqueue fails if its key was taken concurrently (40001); a retry returns the item', async () => {
    const connection = await oldSnapshot('symphony_ingest')
    const first = await enqueue(db)
    expect(await failureOf(enqueuePaymentOutbox(connection, first))).toMatchObject(SERIALIZATION_FAILURE)
    await connection.query('ROLLBACK')
    const again = await retrying(connection, () => enqueuePaymentOutbox(connection, first))
    expect(again).toMatchObject({ outboxId: first.outboxId, created: false })
    expect(await sequenceOf(db, first.participantId)).toEqual({ taken: [1n], next: 2n })
    await connection.close()
  })

  test('an enqueue fails if another participant took its key (40001); a retry is a conflict', async () => {
    const connection = await oldSnapshot('symphony_ingest')
    const other = { ...(await enqueue(db)), participantId: buildInstruction().participantId }
    expect(await failureOf(enqueuePaymentOutbox(connection, other))).toMatchObject(SERIALIZATION_FAILURE)
    await connection.query('ROLLBACK')
    const refusal = await failureOf(retrying(connection, () => enqueuePaymentOutbox(connection, other)))
    expect(refusal).toBeInstanceOf(IdempotencyConflictError)
    expect(await sequenceOf(db, other.participantId)).toEqual({ taken: [], next: undefined })
    await connection.close()
  })

  test('an enqueue fails if its stream grew concurrently (40001); a retry gets the next number', async () => {
    const { participantId } = await enqueue(db)
    const connection = await oldSnapshot('symphony_ingest')
    await enqueue(db, { participantId })
    expect(await failureOf(enqueuePaymentOutbox(connection, buildInstruction({ participantId })))).toMatchObject(
      SERIALIZATION_FAILURE,
    )
    await connection.query('ROLLBACK')
    const item = await retrying(connection, () => enqueuePaymentOutbox(connection, buildInstruction({ participantId })))
    expect(item).toMatchObject({ sequenceId: 3n, created: true })
    expect(await sequenceOf(db, participantId)).toEqual({ taken: [1n, 2n, 3n], next: 4n })
    await connection.close()
  })

  test('an enqueue of a known key returns the existing item', async () => {
    const first = await enqueue(db)
    const connection = await oldSnapshot('symphony_ingest')
    expect(await enqueuePaymentOutbox(connection, first)).toMatchObject({ outboxId: first.outboxId, created: false })
    await connection.close()
  })

  test('a batch of a new and a known key returns a new item and the existing one', async () => {
    const known = await enqueue(db)
    const connection = await oldSnapshot('symphony_ingest')
    const fresh = buildInstruction({ participantId: known.participantId })
    expect(await enqueuePaymentOutboxBatch(connection, [fresh, known])).toMatchObject([
      { sequenceId: 2n, created: true },
      { outboxId: known.outboxId, created: false },
    ])
    await connection.close()
  })

  test('concurrent enqueues with retries create one item per key and no gap in the sequence', async () => {
    const shared = buildInstruction()
    const { values, errors } = await race(db, 'symphony_ingest', 16, (connection) =>
      retrying(connection, () =>
        enqueuePaymentOutboxBatch(connection, [shared, buildInstruction({ participantId: shared.participantId })]),
      ),
    )
    expect(errors).toEqual([])
    expect(values.filter(([first]) => first!.created)).toHaveLength(1)
    expect(new Set(values.map(([first]) => first!.outboxId)).size).toBe(1)
    const numbers = Array.from({ length: 17 }, (_, index) => BigInt(index + 1))
    expect(await sequenceOf(db, shared.participantId)).toEqual({ taken: numbers, next: 18n })
  })

  test('a claim fails if its item was claimed concurrently (40001); a retry returns no item', async () => {
    const item = await enqueue(db)
    const connection = await oldSnapshot('symphony_executor')
    const claimIt = () => claimOutboxBatch(connection, 10, 'worker-2', 60, { rails: [item.railType] })
    const [lease] = await claim(db, item.railType)
    expect(await failureOf(claimIt())).toMatchObject(SERIALIZATION_FAILURE)
    await connection.query('ROLLBACK')
    expect(await retrying(connection, claimIt)).toEqual([])
    expect(await pendingRow(db, item.outboxId)).toMatchObject({ claimed_by: WORKER, lease_token: lease!.leaseToken })
    await connection.close()
  })

  test('concurrent claims with retries lease every item once', async () => {
    const rails = [buildInstruction().railType, buildInstruction().railType]
    const items = await enqueuePaymentOutboxBatch(
      db.as('symphony_ingest'),
      Array.from({ length: 60 }, (_, index) => buildInstruction({ railType: rails[index % 2]! })),
    )
    const { values, errors } = await race(db, 'symphony_executor', 8, async (connection, index) => {
      const mine = []
      for (;;) {
        const batch = await retrying(connection, () =>
          claimOutboxBatch(connection, 4, `worker-${index}`, 600, { rails }),
        )
        if (batch.length === 0) return mine
        mine.push(...batch)
      }
    })
    expect(errors).toEqual([])
    const ids = values.flat().map(({ outboxId }) => outboxId)
    // A claimer stops when it sees only rows that others have leased. The last claim gets the items that are left.
    const rest = await claim(db, rails)
    expect([...ids, ...rest.map(({ outboxId }) => outboxId)].toSorted()).toEqual(
      items.map((i) => i.outboxId).toSorted(),
    )
  })

  test.for([
    ['completed', (held: Lease) => complete(db, held, { state: 'DISPATCHED' })],
    [
      'lost',
      async ({ outboxId }: Lease) => {
        await db.expireLease(outboxId)
        await repairExpiredLeases(db.as('symphony_executor'), 1000, 'repair-1')
      },
    ],
  ] as const)('a call fails if its lease was %s concurrently (40001); a retry gets LeaseLostError', async (given) => {
    const [, meanwhile] = given
    for (const act of acts) {
      const held = await enqueueAndClaim(db)
      const connection = await oldSnapshot('symphony_executor')
      await meanwhile(held)
      const before = await ledger(db, held.outboxId)
      expect(await failureOf(act(connection, held))).toMatchObject(SERIALIZATION_FAILURE)
      await connection.query('ROLLBACK')
      expect(await failureOf(retrying(connection, () => act(connection, held)))).toBeInstanceOf(LeaseLostError)
      expect(await ledger(db, held.outboxId)).toEqual(before)
      await connection.close()
    }
  })

  test('a call on an item younger than the snapshot fails with 40001, not with LEASE_LOST', async () => {
    const connection = await oldSnapshot('symphony_executor')
    const held = await enqueueAndClaim(db)
    const { outboxId, leaseToken } = held
    await complete(db, held, { state: 'RETRYABLE' })
    const outcome = { outboxId, leaseToken, state: 'DISPATCHED' as const }
    for (const act of [
      () => completeOutboxAttempt(connection, WORKER, outcome),
      () => completeOutboxAttempts(connection, WORKER, [outcome]),
      () => recordLateOutcome(connection, WORKER, outcome),
      () => renewOutboxLease(connection, held, WORKER, 60),
    ]) {
      await connection.query('SAVEPOINT before_act')
      expect(await failureOf(act())).toMatchObject(SERIALIZATION_FAILURE)
      await connection.query('ROLLBACK TO before_act')
    }
    await connection.query('ROLLBACK')
    const refusal = await failureOf(retrying(connection, () => completeOutboxAttempt(connection, WORKER, outcome)))
    expect(refusal).toMatchObject({ sqlstate: 'P7002', recorded: { attemptNo: 1, state: 'RETRYABLE' } })
    await connection.close()
  })

  test('concurrent completions with retries record one outcome; other callers get its state', async () => {
    const { outboxId, leaseToken } = await enqueueAndClaim(db)
    const { values, errors } = await race(db, 'symphony_executor', 16, (connection) =>
      retrying(connection, () =>
        completeOutboxAttempt(connection, WORKER, { outboxId, leaseToken, state: 'DISPATCHED' }),
      ),
    )
    expect(values).toEqual([{ attemptNo: 1, state: 'DISPATCHED', held: false }])
    expect(errors).toHaveLength(15)
    for (const error of errors) expect(error).toMatchObject({ recorded: { attemptNo: 1, state: 'DISPATCHED' } })
    expect(await ledger(db, outboxId)).toEqual(['1 DISPATCHED'])
  })

  test('a repair fails if its lease was repaired concurrently (40001); a retry repairs nothing', async () => {
    const { outboxId } = await enqueueAndClaim(db)
    await db.expireLease(outboxId)
    const connection = await oldSnapshot('symphony_executor')
    await repairExpiredLeases(db.as('symphony_executor'), 1000, 'repair-1')
    expect(await failureOf(repairExpiredLeases(connection, 1000, 'repair-2'))).toMatchObject(SERIALIZATION_FAILURE)
    await connection.query('ROLLBACK')
    expect(await retrying(connection, () => repairExpiredLeases(connection, 1000, 'repair-2'))).toEqual([])
    expect(await ledger(db, outboxId)).toEqual(['1 ZOMBIE_REQUEUE'])
    await connection.close()
  })

  test('concurrent reports of late outcomes record each outcome once', async () => {
    const lost = await enqueueAndClaim(db)
    await db.expireLease(lost.outboxId)
    const [next] = await claim(db, lost.railType)
    await complete(db, next!, { state: 'DISPATCHED', railReference: 'ref-1' })
    const { outboxId, leaseToken } = lost
    const { values, errors } = await race(db, 'symphony_executor', 16, (connection, index) =>
      retrying(connection, () =>
        recordLateOutcome(connection, WORKER, {
          outboxId,
          leaseToken,
          state: 'DISPATCHED',
          railReference: `ref-${index % 4}`,
        }),
      ),
    )
    expect(errors).toEqual([])
    expect(new Set(values.map(({ eventId }) => eventId)).size).toBe(4)
    expect((await eventRows(db, outboxId)).map(({ event_type }) => event_type).toSorted()).toEqual([
      'LATE_OUTCOME',
      'TERMINAL_BLOCKED',
      'TERMINAL_BLOCKED',
      'TERMINAL_BLOCKED',
    ])
  })

  test.for([
    [
      'replacement',
      ({ outboxId: replaces, participantId, railType }: ClaimedItem) =>
        enqueue(db, { participantId, railType, replaces }),
    ],
    ['redrive', redrive],
  ] as const)('a late success fails after a %s (40001); a retry holds that item', async ([, sendAgain]) => {
    const lease = await enqueueAndClaim(db)
    await complete(db, lease, { state: 'FAILED' })
    await redrive(lease)
    const redriven = await claimOnly(db, lease.railType)
    await complete(db, redriven, { state: 'FAILED' })
    const connection = await oldSnapshot('symphony_executor')
    const { outboxId } = await sendAgain(redriven)
    const report = () => recordLateOutcome(connection, WORKER, { ...lease, state: 'DISPATCHED' })
    expect(await failureOf(report())).toMatchObject(SERIALIZATION_FAILURE)
    await connection.query('ROLLBACK')
    expect(await retrying(connection, report)).toMatchObject({ eventType: 'TERMINAL_BLOCKED' })
    expect(await pendingRow(db, outboxId)).toMatchObject({ hold_reason: 'EARLIER_ITEM_PAID' })
    await connection.close()
  })

  test('calls that are not concurrent return the same answers as under READ COMMITTED', async () => {
    const ingest = await openConnection(db, 'symphony_ingest')
    const executor = await openConnection(db, 'symphony_executor')
    const instruction = buildInstruction()
    const { outboxId } = await retrying(ingest, () => enqueuePaymentOutbox(ingest, instruction))
    const claimIt = () => claimOutboxBatch(executor, 1, WORKER, 60, { rails: [instruction.railType] })
    const [first] = await retrying(executor, claimIt)
    await retrying(executor, () => renewOutboxLease(executor, first!, WORKER, 600))
    await db.expireLease(outboxId)
    expect(await retrying(executor, () => repairExpiredLeases(executor, 1000, 'repair-1'))).toEqual([
      { outboxId, attemptNo: 1 },
    ])
    await db.makeDue(outboxId)
    const [second] = await retrying(executor, claimIt)
    const outcome = { outboxId, leaseToken: second!.leaseToken, state: 'DISPATCHED' as const }
    expect(await retrying(executor, () => completeOutboxAttempt(executor, WORKER, outcome))).toEqual({
      attemptNo: 2,
      state: 'DISPATCHED',
      held: false,
    })
    expect(await retrying(ingest, () => enqueuePaymentOutbox(ingest, instruction))).toMatchObject({
      outboxId,
      state: 'DISPATCHED',
      created: false,
    })
    await Promise.all([ingest.close(), executor.close()])
  })
})

test('an enqueue under READ UNCOMMITTED succeeds without a retry, as under READ COMMITTED', async () => {
  const instruction = buildInstruction()
  const first = await openConnection(db, 'symphony_ingest')
  await first.query('BEGIN')
  await enqueuePaymentOutbox(first, instruction)
  const { values, errors } = await race(
    db,
    'symphony_ingest',
    8,
    async (connection) => {
      await connection.query('BEGIN ISOLATION LEVEL READ UNCOMMITTED')
      const item = await enqueuePaymentOutbox(connection, instruction)
      await connection.query('COMMIT')
      return item
    },
    { releaseWhenAllWait: () => first.query('COMMIT') },
  )
  expect(errors).toEqual([])
  expect(values.filter(({ created }) => created)).toEqual([])
  await first.close()
})

/** Redrives a FAILED item. Returns the new item. */
async function redrive({ outboxId }: ClaimedItem): Promise<{ readonly outboxId: string }> {
  const { redrivenAs } = await approve(sam, await propose(rita, outboxId, 'REDRIVE'))
  return { outboxId: redrivenAs! }
}

/** Returns the SQLSTATE of a driver error. The test sends COMMIT itself, so its failure is no DatabaseError. */
function sqlstateOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined
}
