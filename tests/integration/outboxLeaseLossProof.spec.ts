import { randomUUID } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { LeaseLostError, type Queryable } from '../../libs/db/index.js'
import {
  beginOutboxDispatch,
  claimOutboxBatch,
  completeOutboxAttempt,
  completeOutboxAttempts,
  holdLeasedOutboxItem,
  recordLateOutcome,
  releaseOutboxLease,
  renewOutboxLease,
  repairExpiredLeases,
  type ClaimedItem,
  type LeaseRef,
} from '../../libs/outbox/index.js'
import { useTestDatabase } from '../support/database.js'
import {
  attemptRows,
  claimOnly,
  complete,
  enqueueAndClaim,
  eventRows,
  ledger,
  makeDueAndClaim,
  pendingRow,
  WORKER,
} from '../support/outboxItems.js'
import { failureOf, openConnection, race, untilWaiting, type Connection } from '../support/race.js'

/** Tests that a worker without a live lease changes nothing. */

const db = await useTestDatabase()

/** Calls that need a live lease. */
const acts: Readonly<Record<string, (role: Queryable, lease: LeaseRef, workerId: string) => Promise<unknown>>> = {
  'complete as DISPATCHED': (role, { outboxId, leaseToken }, workerId) =>
    completeOutboxAttempt(role, workerId, { outboxId, leaseToken, state: 'DISPATCHED' }),
  'complete as FAILED': (role, { outboxId, leaseToken }, workerId) =>
    completeOutboxAttempt(role, workerId, { outboxId, leaseToken, state: 'FAILED' }),
  'complete as RETRYABLE': (role, { outboxId, leaseToken }, workerId) =>
    completeOutboxAttempt(role, workerId, { outboxId, leaseToken, state: 'RETRYABLE' }),
  renew: (role, lease, workerId) => renewOutboxLease(role, lease, workerId, 3600),
  release: (role, lease, workerId) => releaseOutboxLease(role, lease, workerId),
  'begin the dispatch': (role, lease, workerId) => beginOutboxDispatch(role, lease, workerId),
  'hold the leased item': (role, lease, workerId) => holdLeasedOutboxItem(role, lease, workerId, 'not this one'),
}
const names = Object.keys(acts)

interface Loss {
  readonly outboxId: string
  readonly leaseToken: string
  readonly workerId: string
  /** Outcome that this token has recorded, which the error must contain. */
  readonly recorded?: { readonly attemptNo: number; readonly state: string }
}

/** Situations in which a worker has no live lease. */
const losses: Readonly<Record<string, () => Promise<Loss>>> = {
  'a wrong token': async () => ({ ...(await createLease()), leaseToken: randomUUID() }),
  'the token of another item': async () => ({ ...(await createLease()), leaseToken: (await createLease()).leaseToken }),
  'another worker id': async () => ({ ...(await createLease()), workerId: 'another-worker' }),
  'an unknown item': async () => ({ ...(await createLease()), outboxId: randomUUID() }),
  'an expired lease': async () => {
    const lost = await createLease()
    await db.expireLease(lost.outboxId)
    return lost
  },
  'a repaired lease': async () => {
    const lost = await createLease()
    await db.expireLease(lost.outboxId)
    await repairExpiredLeases(db.as('symphony_executor'), 1000, 'repair-1')
    return lost
  },
  'a lease that another worker has taken over': async () => {
    const lost = await createLease()
    await db.expireLease(lost.outboxId)
    await claimOnly(db, lost.railType, { workerId: 'successor' })
    return lost
  },
  'a lease that the same worker has taken over': async () => {
    const lost = await createLease()
    await db.expireLease(lost.outboxId)
    await claimOnly(db, lost.railType)
    return lost
  },
  'a released lease': async () => {
    const lost = await createLease()
    await releaseOutboxLease(db.as('symphony_executor'), lost, WORKER)
    return lost
  },
  'a lease whose item was held by its worker': async () => {
    const lost = await createLease()
    await holdLeasedOutboxItem(db.as('symphony_executor'), lost, WORKER, 'not this one')
    return lost
  },
  'a lease that it has completed': async () => {
    const lost = await createLease()
    await complete(db, lost, { state: 'DISPATCHED' })
    return { ...lost, recorded: { attemptNo: 1, state: 'DISPATCHED' } }
  },
  'a lease whose item another worker has completed': async () => {
    const lost = await createLease()
    await db.expireLease(lost.outboxId)
    await complete(db, await claimOnly(db, lost.railType), { state: 'DISPATCHED' })
    return lost
  },
  'a lease with which it has recorded a retry': async () => {
    const lost = await createLease()
    await complete(db, lost, { state: 'RETRYABLE' })
    return { ...lost, recorded: { attemptNo: 1, state: 'RETRYABLE' } }
  },
  'a recorded retry of an item that was dispatched since': async () => {
    const lost = await createLease()
    await complete(db, lost, { state: 'RETRYABLE' })
    await complete(db, await makeDueAndClaim(db, lost), { state: 'DISPATCHED' })
    return { ...lost, recorded: { attemptNo: 1, state: 'RETRYABLE' } }
  },
}

async function createLease(): Promise<ClaimedItem & { readonly workerId: string }> {
  return { ...(await enqueueAndClaim(db)), workerId: WORKER }
}

/** Returns the pending row, the attempts and the events of the item. */
async function traces(outboxId: string) {
  return [await pendingRow(db, outboxId), await attemptRows(db, outboxId), await eventRows(db, outboxId)]
}

describe.for(Object.entries(losses))('a worker without a live lease (but with %s)', ([, lose]) => {
  test.for(names)('cannot %s (P7002); the error says whether its token recorded an outcome', async (name) => {
    const lost = await lose()
    const before = await traces(lost.outboxId)
    const refusal = await failureOf(acts[name]!(db.as('symphony_executor'), lost, lost.workerId))
    expect(refusal).toBeInstanceOf(LeaseLostError)
    expect(refusal).toMatchObject({
      sqlstate: 'P7002',
      recorded: lost.recorded,
      detail: detailOf(lost),
    })
    expect(await traces(lost.outboxId)).toEqual(before)
  })

  test('gets LEASE_LOST from a batch, or ALREADY_RECORDED if its token recorded an outcome', async () => {
    const { outboxId, leaseToken, workerId, recorded } = await lose()
    const before = await traces(outboxId)
    const verdicts = await completeOutboxAttempts(db.as('symphony_executor'), workerId, [
      { outboxId, leaseToken, state: 'FAILED' },
    ])
    expect(verdicts).toEqual([
      recorded === undefined
        ? { outboxId, verdict: 'LEASE_LOST' }
        : { outboxId, verdict: 'ALREADY_RECORDED', ...recorded, contradicted: false },
    ])
    expect(await traces(outboxId)).toEqual(before)
  })
})

test.for(names)('a worker with a live lease can %s', async (name) => {
  const held = await createLease()
  const before = await traces(held.outboxId)
  await acts[name]!(db.as('symphony_executor'), held, WORKER)
  expect(await traces(held.outboxId)).not.toEqual(before)
})

describe.for(names)('a call whose lease expires (%s)', (name) => {
  const act = acts[name]!

  test('fails in a transaction that began while the lease was live', async () => {
    const held = await createLease()
    const old = await openConnection(db, 'symphony_executor')
    await old.query('BEGIN')
    await old.query('SELECT 1')
    // The lease was live when the transaction began and expires now.
    await expireNow(held.outboxId)
    const before = await traces(held.outboxId)
    expect(await failureOf(act(old, held, WORKER))).toBeInstanceOf(LeaseLostError)
    await old.query('ROLLBACK')
    expect(await traces(held.outboxId)).toEqual(before)
    await old.close()
  })

  test('fails if the lease expires while the call waits for the row lock', async () => {
    const held = await createLease()
    const waiting = await openConnection(db, 'symphony_executor')
    const holder = await openConnection(db)
    await lock(holder, held.outboxId)
    const call = failureOf(act(waiting, held, WORKER))
    await untilWaiting(db, waiting)
    // The lease expires after the call began and before the lock is released.
    await expireNow(held.outboxId, holder)
    await holder.query('COMMIT')
    expect(await call).toBeInstanceOf(LeaseLostError)
    expect(await pendingRow(db, held.outboxId)).toMatchObject({ lease_token: held.leaseToken })
    expect(await ledger(db, held.outboxId)).toEqual([])
    await Promise.all([waiting.close(), holder.close()])
  })

  test('fails while another worker takes over the item', async () => {
    const held = await createLease()
    await db.expireLease(held.outboxId)
    const waiting = await openConnection(db, 'symphony_executor')
    const successor = await openConnection(db, 'symphony_executor')
    await successor.query('BEGIN')
    const [taken] = await claimOutboxBatch(successor, 1, 'successor', 600, { rails: [held.railType] })
    const call = failureOf(act(waiting, held, WORKER))
    // The fast path of DISPATCHED looks only for a live lease, so it does not wait for the row lock.
    if (name !== 'complete as DISPATCHED') await untilWaiting(db, waiting)
    await successor.query('COMMIT')
    const refusal = await call
    expect(refusal).toBeInstanceOf(LeaseLostError)
    expect(refusal).toMatchObject({ recorded: undefined })
    expect(await pendingRow(db, held.outboxId)).toMatchObject({
      claimed_by: 'successor',
      lease_token: taken!.leaseToken,
    })
    expect(await ledger(db, held.outboxId)).toEqual(['1 ZOMBIE_REQUEUE'])
    await Promise.all([waiting.close(), successor.close()])
  })
})

describe('a lease renewal', () => {
  test.for([
    ['repair', (role: Queryable) => repairExpiredLeases(role, 1000, 'repair-1')],
    ['a claim', (role: Queryable, rail: string) => claimOutboxBatch(role, 10, 'successor', 600, { rails: [rail] })],
  ] as const)('protects its lease from %s, even before the renewal commits', async ([, take]) => {
    const held = await createLease()
    await db.expireLease(held.outboxId)
    // Imitates a renewal just before the expiry, in a transaction that is still open.
    const renewing = await openConnection(db)
    await renewing.query('BEGIN')
    await renewing.query(
      `UPDATE payment_outbox_pending SET lease_expires_at = clock_timestamp() + interval '1 hour' WHERE outbox_id = $1`,
      [held.outboxId],
    )
    await take(db.as('symphony_executor'), held.railType)
    await renewing.query('COMMIT')
    await take(db.as('symphony_executor'), held.railType)
    expect(await complete(db, held, { state: 'DISPATCHED' })).toMatchObject({ attemptNo: 1 })
    await renewing.close()
  })

  test('succeeds, or a concurrent repair of the same lease succeeds, never both', async () => {
    for (let round = 0; round < 10; round++) {
      const held = await createLease()
      // The lease expires while the calls run.
      await db.queryNoRole(
        `UPDATE payment_outbox_pending SET lease_expires_at = clock_timestamp() + interval '2 milliseconds' WHERE outbox_id = $1`,
        [held.outboxId],
      )
      const { values, errors } = await race<unknown>(db, 'symphony_executor', 6, (connection, index) =>
        index % 2 === 0
          ? renewOutboxLease(connection, held, WORKER, 600)
          : repairExpiredLeases(connection, 1000, 'repair-1'),
      )
      const renewed = values.some((value) => value instanceof Date)
      expect(errors.every((error) => error instanceof LeaseLostError)).toBe(true)
      const pending = await pendingRow(db, held.outboxId)
      const repaired = (await ledger(db, held.outboxId)).length === 1
      expect(pending!.lease_token).toBe(repaired ? null : held.leaseToken)
      // A renewed lease lasts ten minutes, so no repair takes it within this test.
      expect(renewed && repaired).toBe(false)
    }
  })
})

describe('a worker that lost its lease', () => {
  test('records no outcome, even if the next holder completes at the same time', async () => {
    for (let round = 0; round < 5; round++) {
      const lost = await createLease()
      await db.expireLease(lost.outboxId)
      const successor = await claimOnly(db, lost.railType, { workerId: 'successor' })
      const { values, errors } = await race(db, 'symphony_executor', 16, (connection, index) => {
        const [{ outboxId, leaseToken }, workerId, state] =
          index % 2 === 0 ? ([lost, WORKER, 'FAILED'] as const) : ([successor, 'successor', 'DISPATCHED'] as const)
        return completeOutboxAttempt(connection, workerId, { outboxId, leaseToken, state })
      })
      expect(values).toEqual([{ attemptNo: 2, state: 'DISPATCHED', held: false }])
      expect(errors.every((error) => error instanceof LeaseLostError)).toBe(true)
      // The lost lease recorded nothing. Of the eight calls of the next holder, one succeeds and seven get its recorded
      // state.
      expect(errors.filter((error) => error instanceof LeaseLostError && error.recorded !== undefined)).toHaveLength(7)
      expect(await ledger(db, lost.outboxId)).toEqual(['1 ZOMBIE_REQUEUE', '2 DISPATCHED'])
    }
  })

  test('records one event for 32 concurrent reports of the same late outcome', async () => {
    const lost = await createLease()
    await db.expireLease(lost.outboxId)
    await claimOnly(db, lost.railType, { workerId: 'successor' })
    const { values, errors } = await race(db, 'symphony_executor', 32, (connection) =>
      recordLateOutcome(connection, WORKER, {
        outboxId: lost.outboxId,
        leaseToken: lost.leaseToken,
        state: 'DISPATCHED',
        railReference: 'ref-1',
      }),
    )
    expect(errors).toEqual([])
    expect(new Set(values.map(({ eventId }) => eventId)).size).toBe(1)
    expect(await eventRows(db, lost.outboxId)).toHaveLength(1)
  })

  test('records TERMINAL_BLOCKED if the next holder commits FAILED before the late success', async () => {
    const lost = await createLease()
    await db.expireLease(lost.outboxId)
    const next = await claimOnly(db, lost.railType, { workerId: 'successor' })
    const successor = await openConnection(db, 'symphony_executor')
    const late = await openConnection(db, 'symphony_executor')
    await successor.query('BEGIN')
    const { outboxId, leaseToken } = next
    await completeOutboxAttempt(successor, 'successor', {
      outboxId,
      leaseToken,
      state: 'FAILED',
      outcomeUnknown: false,
    })
    const word = recordLateOutcome(late, WORKER, {
      outboxId,
      leaseToken: lost.leaseToken,
      state: 'DISPATCHED',
      railReference: 'ref-1',
    })
    await untilWaiting(db, late)
    await successor.query('COMMIT')
    expect(await word).toMatchObject({ eventType: 'TERMINAL_BLOCKED' })
    expect(await ledger(db, outboxId)).toEqual(['1 ZOMBIE_REQUEUE', '2 FAILED'])
    await Promise.all([successor.close(), late.close()])
  })

  test('reports a late success; a later FAILED by the next holder becomes RETRYABLE with a hold', async () => {
    const lost = await createLease()
    await db.expireLease(lost.outboxId)
    const next = await claimOnly(db, lost.railType, { workerId: 'successor' })
    const successor = await openConnection(db, 'symphony_executor')
    const late = await openConnection(db, 'symphony_executor')
    await late.query('BEGIN')
    await recordLateOutcome(late, WORKER, { outboxId: lost.outboxId, leaseToken: lost.leaseToken, state: 'DISPATCHED' })
    const { outboxId, leaseToken } = next
    const completion = completeOutboxAttempt(successor, 'successor', {
      outboxId,
      leaseToken,
      state: 'FAILED',
      outcomeUnknown: false,
    })
    await untilWaiting(db, successor)
    await late.query('COMMIT')
    expect(await completion).toEqual({ attemptNo: 2, state: 'RETRYABLE', held: true })
    await Promise.all([successor.close(), late.close()])
  })
})

function detailOf({ recorded }: Loss): string {
  return recorded === undefined
    ? '{"recorded" : false}'
    : `{"recorded" : true, "attempt_no" : ${recorded.attemptNo}, "state" : "${recorded.state}"}`
}

/** Sets the expiry of the lease to now. */
async function expireNow(outboxId: string, by?: Connection): Promise<void> {
  const text = 'UPDATE payment_outbox_pending SET lease_expires_at = clock_timestamp() WHERE outbox_id = $1'
  await (by === undefined ? db.queryNoRole(text, [outboxId]) : by.query(text, [outboxId]))
}

async function lock(holder: Connection, outboxId: string): Promise<void> {
  await holder.query('BEGIN')
  await holder.query('SELECT 1 FROM payment_outbox_pending WHERE outbox_id = $1 FOR UPDATE', [outboxId])
}
