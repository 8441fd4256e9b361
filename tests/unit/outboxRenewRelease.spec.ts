import { randomUUID } from 'node:crypto'
import { describe, expect, onTestFinished, test } from 'vitest'
import { LeaseLostError } from '../../libs/db/index.js'
import {
  placeOutboxHold,
  releaseOutboxLease,
  releaseOutboxLeases,
  renewOutboxLease,
  renewOutboxLeases,
} from '../../libs/outbox/index.js'
import { useTestDatabase } from '../support/database.js'
import {
  claim,
  claimOnly,
  complete,
  enqueue,
  enqueueAndClaim,
  enqueueAndFail,
  eventRows,
  ledger,
  pendingRow,
  WORKER,
} from '../support/outboxItems.js'
import { failureOf, openConnection, type Connection } from '../support/race.js'

const db = await useTestDatabase()

const executor = () => db.as('symphony_executor')

/** Locks an item's row until the caller ends the transaction. */
async function lockRow({ outboxId }: { readonly outboxId: string }): Promise<Connection> {
  const holder = await openConnection(db)
  onTestFinished(() => holder.close())
  await holder.query('BEGIN')
  await holder.query('SELECT FROM payment_outbox_pending WHERE outbox_id = $1 FOR UPDATE', [outboxId])
  return holder
}

/** Opens a connection whose statements fail after 50 ms of waiting for a lock. */
async function impatientExecutor(): Promise<Connection> {
  const connection = await openConnection(db, 'symphony_executor')
  onTestFinished(() => connection.close())
  await connection.query('SET lock_timeout = 50')
  return connection
}

describe('renewing an outbox lease', () => {
  test('changes only the expiry of a live lease', async () => {
    const lease = await enqueueAndClaim(db, {}, { leaseSeconds: 60 })
    const before = await pendingRow(db, lease.outboxId)
    const until = await renewOutboxLease(executor(), lease, WORKER, 3600)
    expect(until.getTime()).toBeGreaterThanOrEqual(lease.claimedAt.getTime() + 3_600_000)
    expect(await pendingRow(db, lease.outboxId)).toEqual({ ...before, lease_expires_at: until })
    expect(await ledger(db, lease.outboxId)).toEqual([])
  })

  test('never shortens a lease', async () => {
    const lease = await enqueueAndClaim(db, {}, { leaseSeconds: 3600 })
    expect(await renewOutboxLease(executor(), lease, WORKER, 1)).toEqual(lease.leaseExpiresAt)
    expect((await pendingRow(db, lease.outboxId))!.lease_expires_at).toEqual(lease.leaseExpiresAt)
  })

  test('extends from the time of the call, not from the start of its transaction', async () => {
    const lease = await enqueueAndClaim(db, {}, { leaseSeconds: 60 })
    let midway: string | undefined
    await executor().transaction(async (tx) => {
      await tx.query('SELECT 1')
      // Sets an expiry later than one hour after the transaction's start, and earlier than one hour after the renewal.
      const { rows } = await db.queryNoRole<{ until: string }>(
        `UPDATE payment_outbox_pending SET lease_expires_at = clock_timestamp() + interval '1 hour'
         WHERE outbox_id = $1 RETURNING lease_expires_at::text AS until`,
        [lease.outboxId],
      )
      midway = rows[0]!.until
      await renewOutboxLease(tx, lease, WORKER, 3600)
    })
    const { rows } = await db.queryNoRole(
      'SELECT lease_expires_at > $2::timestamptz AS later FROM payment_outbox_pending WHERE outbox_id = $1',
      [lease.outboxId, midway],
    )
    expect(rows).toEqual([{ later: true }])
  })

  test('is refused for an expired lease (LEASE_LOST)', async () => {
    const lease = await enqueueAndClaim(db)
    await db.expireLease(lease.outboxId)
    const before = await pendingRow(db, lease.outboxId)
    const refusal = await failureOf(renewOutboxLease(executor(), lease, WORKER, 3600))
    expect(refusal).toBeInstanceOf(LeaseLostError)
    expect(await pendingRow(db, lease.outboxId)).toEqual(before)
    expect(await claim(db, lease.railType, { workerId: 'successor' })).toHaveLength(1)
  })

  test('works while the item is held', async () => {
    const lease = await enqueueAndClaim(db, {}, { leaseSeconds: 60 })
    await placeOutboxHold(db.as('symphony_control'), lease.outboxId, 'wait')
    const until = await renewOutboxLease(executor(), lease, WORKER, 3600)
    expect(until.getTime()).toBeGreaterThan(lease.leaseExpiresAt.getTime())
  })

  test('returns for each of many leases whether it was renewed, in the given order', async () => {
    const [live, expired, ended, foreign] = [
      await enqueueAndClaim(db),
      await enqueueAndClaim(db),
      await enqueueAndClaim(db),
      await enqueueAndClaim(db, {}, { workerId: 'other-worker' }),
    ]
    await db.expireLease(expired.outboxId)
    await complete(db, ended, { state: 'DISPATCHED' })
    const unknown = { outboxId: randomUUID(), leaseToken: randomUUID() }
    const renewals = await renewOutboxLeases(executor(), [unknown, foreign, ended, expired, live], WORKER, 3600)
    const after = await pendingRow(db, live.outboxId)
    expect(renewals).toEqual([
      { outboxId: unknown.outboxId, renewed: false, leaseExpiresAt: null },
      { outboxId: foreign.outboxId, renewed: false, leaseExpiresAt: null },
      { outboxId: ended.outboxId, renewed: false, leaseExpiresAt: null },
      { outboxId: expired.outboxId, renewed: false, leaseExpiresAt: null },
      { outboxId: live.outboxId, renewed: true, leaseExpiresAt: after!.lease_expires_at },
    ])
    expect(after!.lease_expires_at!.getTime()).toBeGreaterThan(live.leaseExpiresAt.getTime())
    expect((await pendingRow(db, foreign.outboxId))!.lease_expires_at).toEqual(foreign.leaseExpiresAt)
  })

  test('answers null for a locked item of many leases, and waits for a single one', async () => {
    const [locked, free] = [await enqueueAndClaim(db), await enqueueAndClaim(db)]
    const holder = await lockRow(locked)
    const impatient = await impatientExecutor()
    const twice = [locked, free, free]
    const renewals = await renewOutboxLeases(impatient, twice, WORKER, 3600)
    expect(renewals).toMatchObject([
      { outboxId: locked.outboxId, renewed: null, leaseExpiresAt: null },
      { outboxId: free.outboxId, renewed: true },
      { outboxId: free.outboxId, renewed: false },
    ])
    expect(await failureOf(renewOutboxLease(impatient, locked, WORKER, 3600))).toMatchObject({
      code: 'LOCK_NOT_AVAILABLE',
    })
    await holder.query('ROLLBACK')
    expect(await renewOutboxLeases(impatient, [locked], WORKER, 3600)).toMatchObject([{ renewed: true }])
  })
})

describe('releasing an outbox lease', () => {
  test('makes the item claimable at once and records no attempt', async () => {
    const item = await enqueue(db)
    const before = await pendingRow(db, item.outboxId)
    await releaseOutboxLease(executor(), await claimOnly(db, item.railType), WORKER)
    expect(await pendingRow(db, item.outboxId)).toEqual(before)
    expect(await ledger(db, item.outboxId)).toEqual([])
    expect(await eventRows(db, item.outboxId)).toEqual([])
    expect(await claimOnly(db, item.railType)).toMatchObject({ outboxId: item.outboxId, attemptCount: 0 })
  })

  test('keeps attempt count, unknown outcome and expiry streak', async () => {
    const item = await enqueueAndFail(db, 2)
    await claimOnly(db, item.railType)
    await db.expireLease(item.outboxId)
    const lease = await claimOnly(db, item.railType)
    expect(lease).toMatchObject({ attemptCount: 3, outcomeUnknown: true, expiryStreak: 1 })
    await releaseOutboxLease(executor(), lease, WORKER)
    expect(await claimOnly(db, item.railType)).toMatchObject({
      attemptCount: 3,
      outcomeUnknown: true,
      expiryStreak: 1,
      takenOver: false,
    })
    expect(await ledger(db, item.outboxId)).toHaveLength(3)
  })

  test('is refused if it is repeated (LEASE_LOST)', async () => {
    const lease = await enqueueAndClaim(db)
    await releaseOutboxLease(executor(), lease, WORKER)
    const refusal = await failureOf(releaseOutboxLease(executor(), lease, WORKER))
    expect(refusal).toBeInstanceOf(LeaseLostError)
    expect(refusal).toMatchObject({ detail: '{"recorded" : false}' })
  })

  test('invalidates the token, even if the same worker claims again', async () => {
    const lease = await enqueueAndClaim(db)
    await releaseOutboxLease(executor(), lease, WORKER)
    const again = await claimOnly(db, lease.railType)
    expect(await failureOf(complete(db, lease, { state: 'DISPATCHED' }))).toBeInstanceOf(LeaseLostError)
    expect(await complete(db, again, { state: 'DISPATCHED' })).toMatchObject({ attemptNo: 1 })
  })

  test('works while the item is held, and keeps the hold', async () => {
    const lease = await enqueueAndClaim(db)
    await placeOutboxHold(db.as('symphony_control'), lease.outboxId, 'wait')
    await releaseOutboxLease(executor(), lease, WORKER)
    expect(await pendingRow(db, lease.outboxId)).toMatchObject({ lease_token: null, hold_reason: 'wait' })
    expect(await claim(db, lease.railType)).toEqual([])
  })

  test('returns for each of many leases whether it was released, in the given order', async () => {
    const [live, expired, foreign] = [
      await enqueueAndClaim(db),
      await enqueueAndClaim(db),
      await enqueueAndClaim(db, {}, { workerId: 'other-worker' }),
    ]
    await db.expireLease(expired.outboxId)
    const unknown = { outboxId: randomUUID(), leaseToken: randomUUID() }
    expect(await releaseOutboxLeases(executor(), [unknown, foreign, expired, live], WORKER)).toEqual([
      { outboxId: unknown.outboxId, released: false },
      { outboxId: foreign.outboxId, released: false },
      { outboxId: expired.outboxId, released: false },
      { outboxId: live.outboxId, released: true },
    ])
    expect(await pendingRow(db, foreign.outboxId)).toMatchObject({ lease_token: foreign.leaseToken })
    expect(await pendingRow(db, expired.outboxId)).toMatchObject({ lease_token: expired.leaseToken })
  })

  test('answers null for a locked item of many leases, and waits for a single one', async () => {
    const [locked, free] = [await enqueueAndClaim(db), await enqueueAndClaim(db)]
    const holder = await lockRow(locked)
    const impatient = await impatientExecutor()
    expect(await releaseOutboxLeases(impatient, [locked, free], WORKER)).toEqual([
      { outboxId: locked.outboxId, released: null },
      { outboxId: free.outboxId, released: true },
    ])
    expect(await failureOf(releaseOutboxLease(impatient, locked, WORKER))).toMatchObject({ code: 'LOCK_NOT_AVAILABLE' })
    await holder.query('ROLLBACK')
    expect(await releaseOutboxLeases(impatient, [locked], WORKER)).toMatchObject([{ released: true }])
  })
})
