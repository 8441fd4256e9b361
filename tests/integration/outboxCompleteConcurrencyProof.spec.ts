import { describe, expect, test } from 'vitest'
import { LeaseLostError } from '../../libs/db/index.js'
import {
  completeOutboxAttempt,
  completeOutboxAttempts,
  enqueuePaymentOutboxBatch,
  holdLeasedOutboxItem,
  placeOutboxHold,
  releaseOutboxLease,
  repairExpiredLeases,
  type AttemptOutcome,
  type ClaimedItem,
  type CompletionState,
} from '../../libs/outbox/index.js'
import { useTestDatabase } from '../support/database.js'
import {
  buildInstruction,
  attemptRows,
  claim,
  enqueueAndClaim,
  eventRows,
  ledger,
  pendingRow,
  WORKER,
} from '../support/outboxItems.js'
import { openConnection, race, untilWaiting, type Connection } from '../support/race.js'

const RACERS = 32
const STATES = ['DISPATCHED', 'FAILED', 'RETRYABLE'] as const

const db = await useTestDatabase()

async function leases(count: number): Promise<ClaimedItem[]> {
  const { railType } = buildInstruction()
  const instructions = Array.from({ length: count }, () => buildInstruction({ railType }))
  await enqueuePaymentOutboxBatch(db.as('symphony_ingest'), instructions)
  return claim(db, railType, { batchSize: count })
}

/** Locks a row. The returned function commits, which releases the lock. */
async function holdRow(outboxId: string): Promise<() => Promise<void>> {
  const holder = await openConnection(db)
  await holder.query('BEGIN')
  await holder.query('SELECT 1 FROM payment_outbox_pending WHERE outbox_id = $1 FOR UPDATE', [outboxId])
  return async () => {
    await holder.query('COMMIT')
    await holder.close()
  }
}

const outcomeOf = ({ outboxId, leaseToken }: ClaimedItem, state: CompletionState): AttemptOutcome => ({
  outboxId,
  leaseToken,
  state,
})

const completeAll = (connection: Connection, items: readonly ClaimedItem[]) =>
  completeOutboxAttempts(
    connection,
    WORKER,
    items.map((item) => outcomeOf(item, 'DISPATCHED')),
  )

describe('the completion of one lease by 64 callers at once', () => {
  test.for(STATES)('is recorded once as %s; 63 callers get the recorded state (P7002)', async (state) => {
    const lease = await enqueueAndClaim(db)
    const { values, errors } = await race(
      db,
      'symphony_executor',
      RACERS,
      (connection) => completeOutboxAttempt(connection, WORKER, outcomeOf(lease, state)),
      { releaseWhenAllWait: await holdRow(lease.outboxId) },
    )
    expect(values).toEqual([{ attemptNo: 1, state, held: false }])
    expect(errors).toHaveLength(RACERS - 1)
    for (const error of errors) {
      expect(error).toBeInstanceOf(LeaseLostError)
      expect(error).toMatchObject({ sqlstate: 'P7002', recorded: { attemptNo: 1, state } })
    }
    expect(await ledger(db, lease.outboxId)).toEqual([`1 ${state}`])
    expect((await pendingRow(db, lease.outboxId)) === undefined).toBe(state !== 'RETRYABLE')
  })

  test('is recorded once if the callers report different outcomes; 63 get the recorded state', async () => {
    const lease = await enqueueAndClaim(db)
    const { values, errors } = await race(db, 'symphony_executor', RACERS, async (connection, index) => {
      const outcome = { ...outcomeOf(lease, STATES[index % 3]!), railReference: `ref-${index}`, latencyMs: index }
      return { ...(await completeOutboxAttempt(connection, WORKER, outcome)), index }
    })
    expect(values).toHaveLength(1)
    const { index, state } = values[0]!
    expect(await attemptRows(db, lease.outboxId)).toMatchObject([
      { attempt_no: 1, state, rail_reference: `ref-${index}`, latency_ms: index },
    ])
    for (const error of errors) expect(error).toMatchObject({ recorded: { attemptNo: 1, state } })
  })

  test('gets the verdict RECORDED once and ALREADY_RECORDED 63 times from batch calls', async () => {
    const lease = await enqueueAndClaim(db)
    const { values, errors } = await race(
      db,
      'symphony_executor',
      RACERS,
      (connection) => completeOutboxAttempts(connection, WORKER, [outcomeOf(lease, 'DISPATCHED')]),
      { releaseWhenAllWait: await holdRow(lease.outboxId) },
    )
    expect(errors).toEqual([])
    const verdicts = values.flat().map(({ verdict }) => verdict)
    expect(verdicts.filter((verdict) => verdict === 'RECORDED')).toHaveLength(1)
    expect(verdicts.filter((verdict) => verdict === 'ALREADY_RECORDED')).toHaveLength(RACERS - 1)
    expect(await ledger(db, lease.outboxId)).toEqual(['1 DISPATCHED'])
  })
})

describe('overlapping batches of completions', () => {
  test('record each item once and do not deadlock, in whatever order they list the items', async () => {
    const items = await leases(40)
    const { values, errors } = await race(db, 'symphony_executor', 16, (connection, index) => {
      const turned = [...items.slice(index), ...items.slice(0, index)]
      const mine = index % 2 === 0 ? turned : turned.toReversed()
      return completeOutboxAttempts(
        connection,
        WORKER,
        mine.slice(0, 30).map((item) => outcomeOf(item, 'DISPATCHED')),
      )
    })
    expect(errors).toEqual([])
    const recorded = values.flat().filter(({ verdict }) => verdict === 'RECORDED')
    expect(recorded.map(({ outboxId }) => outboxId).toSorted()).toEqual(
      items.map(({ outboxId }) => outboxId).toSorted(),
    )
    expect(values.flat().some(({ verdict }) => verdict === 'LEASE_LOST')).toBe(false)
    for (const { outboxId } of items) expect(await ledger(db, outboxId)).toEqual(['1 DISPATCHED'])
  })

  test('lock their rows in the order of ids, so that opposite orders do not deadlock', async () => {
    const [low, middle, high] = (await leases(3)).toSorted((a, b) => (a.outboxId < b.outboxId ? -1 : 1))
    const left = await openConnection(db, 'symphony_executor')
    const right = await openConnection(db, 'symphony_executor')
    const release = await holdRow(middle!.outboxId)
    const leftCall = completeAll(left, [high!, middle!, low!])
    await untilWaiting(db, left)
    // If the left call locked its high row before its low one, the two calls would deadlock.
    const rightCall = completeAll(right, [low!, high!])
    await untilWaiting(db, right)
    await release()
    expect((await leftCall).map(({ verdict }) => verdict)).toEqual(['RECORDED', 'RECORDED', 'RECORDED'])
    expect((await rightCall).map(({ verdict }) => verdict)).toEqual(['ALREADY_RECORDED', 'ALREADY_RECORDED'])
    await Promise.all([left.close(), right.close()])
  })

  test('record the other items if one lease is lost', async () => {
    const items = await leases(10)
    await db.expireLease(items[4]!.outboxId)
    const { values, errors } = await race(db, 'symphony_executor', 8, (connection, index) =>
      completeOutboxAttempts(
        connection,
        WORKER,
        (index % 2 === 0 ? items : items.toReversed()).map((item) => outcomeOf(item, 'RETRYABLE')),
      ),
    )
    expect(errors).toEqual([])
    expect(values.flat().filter(({ verdict }) => verdict === 'RECORDED')).toHaveLength(9)
    expect(values.flat().filter(({ verdict }) => verdict === 'LEASE_LOST')).toHaveLength(8)
    expect(await ledger(db, items[4]!.outboxId)).toEqual([])
  })
})

describe('a completion concurrent with another change of its lease', () => {
  const others = [
    ['its release', (connection: Connection, lease: ClaimedItem) => releaseOutboxLease(connection, lease, WORKER)],
    [
      'a hold by its worker',
      (connection: Connection, lease: ClaimedItem) => holdLeasedOutboxItem(connection, lease, WORKER, 'not this one'),
    ],
  ] as const

  test.for(others)('succeeds, or %s succeeds, never both', async ([, end]) => {
    for (let round = 0; round < 4; round++) {
      const lease = await enqueueAndClaim(db)
      const { values, errors } = await race(
        db,
        'symphony_executor',
        8,
        async (connection, index) => {
          if (index % 2 === 0) await completeOutboxAttempt(connection, WORKER, outcomeOf(lease, 'DISPATCHED'))
          else await end(connection, lease)
          return index % 2 === 0 ? 'completed' : 'other'
        },
        { releaseWhenAllWait: await holdRow(lease.outboxId) },
      )
      expect(values).toHaveLength(1)
      expect(errors.every((error) => error instanceof LeaseLostError)).toBe(true)
      const completed = values[0] === 'completed'
      expect(await ledger(db, lease.outboxId)).toEqual(completed ? ['1 DISPATCHED'] : [])
      // The item is either terminal, or queued without a lease.
      expect((await pendingRow(db, lease.outboxId))?.lease_token).toBe(completed ? undefined : null)
    }
  })

  test('succeeds, or the repair of the expired lease succeeds, never both', async () => {
    for (let round = 0; round < 4; round++) {
      const lease = await enqueueAndClaim(db)
      await db.queryNoRole(
        `UPDATE payment_outbox_pending SET lease_expires_at = clock_timestamp() + interval '2 milliseconds' WHERE outbox_id = $1`,
        [lease.outboxId],
      )
      const { values, errors } = await race<unknown>(db, 'symphony_executor', 8, (connection, index) =>
        index % 2 === 0
          ? completeOutboxAttempt(connection, WORKER, outcomeOf(lease, 'DISPATCHED'))
          : repairExpiredLeases(connection, 1000, 'repair-1'),
      )
      expect(errors.every((error) => error instanceof LeaseLostError)).toBe(true)
      // Repairs the lease now, if every completion came after the expiry and every repair before it.
      await repairExpiredLeases(db.as('symphony_executor'), 1000, 'repair-1')
      const rows = await ledger(db, lease.outboxId)
      const completed = values.some((value) => !Array.isArray(value))
      expect(rows).toEqual([completed ? '1 DISPATCHED' : '1 ZOMBIE_REQUEUE'])
    }
  })

  test('succeeds after a concurrent hold by an operator', async () => {
    const lease = await enqueueAndClaim(db)
    const operator = await openConnection(db, 'symphony_control')
    const worker = await openConnection(db, 'symphony_executor')
    await operator.query('BEGIN')
    await placeOutboxHold(operator, lease.outboxId, 'wait')
    const completion = completeOutboxAttempt(worker, WORKER, outcomeOf(lease, 'DISPATCHED'))
    await untilWaiting(db, worker)
    await operator.query('COMMIT')
    expect(await completion).toMatchObject({ state: 'DISPATCHED' })
    expect((await eventRows(db, lease.outboxId)).map(({ event_type }) => event_type)).toEqual(['HOLD_PLACED'])
    await Promise.all([operator.close(), worker.close()])
  })
})
