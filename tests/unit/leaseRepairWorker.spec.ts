import { beforeEach, describe, expect, test } from 'vitest'
import { enqueuePaymentOutboxBatch, type ClaimedItem } from '../../libs/outbox/index.js'
import { LeaseRepairWorker, type LeaseRepairOptions, type RepairEvent } from '../../libs/repair/index.js'
import { useTestDatabase } from '../support/database.js'
import { buildInstruction, claim, enqueueAndFail, ledger, pendingRow } from '../support/outboxItems.js'
import { POLL_OPTIONS } from '../support/pollOptions.js'

/** Tests that the worker reports repaired and unrepaired leases, and nothing if none has expired. */

const db = await useTestDatabase()

let events: RepairEvent[] = []
beforeEach(() => {
  events = []
})

function repairWorker(options: LeaseRepairOptions = {}): LeaseRepairWorker {
  return new LeaseRepairWorker(db.as('symphony_executor'), { workerId: 'repairer', ...options }, (event) =>
    events.push(event),
  )
}

async function expiredLeases(count: number): Promise<ClaimedItem[]> {
  const { railType } = buildInstruction()
  const instructions = Array.from({ length: count }, () => buildInstruction({ railType }))
  await enqueuePaymentOutboxBatch(db.as('symphony_ingest'), instructions)
  const items = await claim(db, railType, { workerId: 'crashed', batchSize: count })
  await db.queryNoRole(
    `UPDATE payment_outbox_pending SET claimed_at = now() - interval '2 minutes', lease_expires_at = now() - interval '1 minute'
     WHERE rail_type = $1`,
    [railType],
  )
  return items
}

const idsOf = (items: readonly ClaimedItem[]) => items.map(({ outboxId }) => outboxId).toSorted()

/** Runs the body with a ledger that refuses rows of these items. */
async function refusing<T>(items: readonly { readonly outboxId: string }[], body: () => Promise<T>): Promise<T> {
  const ids = items.map(({ outboxId }) => `'${outboxId}'`).join(', ')
  await db.queryNoRole(
    `ALTER TABLE payment_outbox_attempts ADD CONSTRAINT refuses_some CHECK (outbox_id NOT IN (${ids})) NOT VALID`,
  )
  try {
    return await body()
  } finally {
    await db.queryNoRole('ALTER TABLE payment_outbox_attempts DROP CONSTRAINT refuses_some')
  }
}

describe('LeaseRepairWorker', () => {
  test('reports no event when no lease has expired', async () => {
    expect(await repairWorker().runOnce()).toEqual({
      expiredLeasesDetected: 0,
      leasesRepaired: 0,
      outboxIds: [],
      holdsPlaced: {},
      leasesUnrepaired: 0,
      unrepaired: [],
    })
    expect(events).toEqual([])
  })

  test('repairs every batch of a run, and reports the run once', async () => {
    const items = await expiredLeases(7)
    const counts = await repairWorker({ batchSize: 3 }).runOnce()
    expect(counts).toMatchObject({ expiredLeasesDetected: 7, leasesRepaired: 7, leasesUnrepaired: 0 })
    expect([...counts.outboxIds].toSorted()).toEqual(idsOf(items))
    expect(events).toEqual([{ type: 'repair.repaired', ...withoutFailures(counts) }])
    for (const { outboxId } of items) expect(await ledger(db, outboxId)).toEqual(['1 ZOMBIE_REQUEUE'])
  })

  test('names the first 100 items of a run, and counts all items', async () => {
    await expiredLeases(120)
    const { leasesRepaired, outboxIds } = await repairWorker({ batchSize: 50 }).runOnce()
    expect({ leasesRepaired, ids: new Set(outboxIds).size, named: outboxIds.length }).toEqual({
      leasesRepaired: 120,
      ids: 100,
      named: 100,
    })
  })

  test('reports a lease that it cannot repair, with attempt number and SQLSTATE', async () => {
    const [bad, ...good] = await expiredLeases(3)
    const counts = await refusing([bad!], () => repairWorker().runOnce())
    expect(counts).toMatchObject({
      expiredLeasesDetected: 3,
      leasesRepaired: 2,
      leasesUnrepaired: 1,
      unrepaired: [{ outboxId: bad!.outboxId, attemptNo: 1, sqlstate: '23514' }],
    })
    expect([...counts.outboxIds].toSorted()).toEqual(idsOf(good))
    expect(events.map(({ type }) => type)).toEqual(['repair.repaired', 'repair.unrepaired'])
    expect(await pendingRow(db, bad!.outboxId)).toMatchObject({ lease_token: bad!.leaseToken })
    // The constraint is gone, so the next run repairs the lease.
    expect(await repairWorker().runOnce()).toMatchObject({ leasesRepaired: 1, leasesUnrepaired: 0 })
  })

  test('reports only repair.unrepaired if it can repair no lease', async () => {
    const [bad] = await expiredLeases(1)
    await refusing([bad!], () => repairWorker().runOnce())
    expect(events).toEqual([
      {
        type: 'repair.unrepaired',
        leasesUnrepaired: 1,
        unrepaired: [{ outboxId: bad!.outboxId, attemptNo: 1, sqlstate: '23514' }],
      },
    ])
    await repairWorker().runOnce()
  })

  test('counts an unrepairable lease once, although each batch of a run skips it', async () => {
    const bad = await expiredLeases(2)
    await expiredLeases(5)
    const counts = await refusing(bad, () => repairWorker({ batchSize: 2 }).runOnce())
    expect(counts).toMatchObject({ leasesRepaired: 5, leasesUnrepaired: 2, expiredLeasesDetected: 7 })
    await repairWorker().runOnce()
  })

  test('reports attempt number 3 for an unrepairable lease of an item with two attempts', async () => {
    const { outboxId } = await enqueueAndFail(db, 2)
    await db.queryNoRole(
      `UPDATE payment_outbox_pending SET claimed_by = 'crashed', lease_token = gen_random_uuid(),
         claimed_at = now() - interval '2 minutes', lease_expires_at = now() - interval '1 minute' WHERE outbox_id = $1`,
      [outboxId],
    )
    const { unrepaired } = await refusing([{ outboxId }], () => repairWorker().runOnce())
    expect(unrepaired).toMatchObject([{ outboxId, attemptNo: 3 }])
    await repairWorker().runOnce()
  })

  test('repairs at each interval until it is stopped', async () => {
    const worker = repairWorker({ intervalMs: 100 })
    await worker.start()
    const first = await expiredLeases(1)
    await expect.poll(() => ledger(db, first[0]!.outboxId), POLL_OPTIONS).toEqual(['1 ZOMBIE_REQUEUE'])
    const second = await expiredLeases(1)
    await expect.poll(() => ledger(db, second[0]!.outboxId), POLL_OPTIONS).toEqual(['1 ZOMBIE_REQUEUE'])
    await worker.stop()
    const third = await expiredLeases(1)
    expect(await ledger(db, third[0]!.outboxId)).toEqual([])
    expect(events.map(({ type }) => type)).toEqual(['repair.repaired', 'repair.repaired'])
    await repairWorker().runOnce()
  })
})

function withoutFailures({ expiredLeasesDetected, leasesRepaired, outboxIds, holdsPlaced }: RunCounts) {
  return { expiredLeasesDetected, leasesRepaired, outboxIds, holdsPlaced }
}

type RunCounts = Awaited<ReturnType<LeaseRepairWorker['runOnce']>>
