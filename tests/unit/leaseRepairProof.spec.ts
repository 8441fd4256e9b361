import { describe, expect, test } from 'vitest'
import {
  enqueuePaymentOutboxBatch,
  pauseOutbox,
  placeOutboxHold,
  repairExpiredLeases,
  resumeOutbox,
  type ClaimedItem,
} from '../../libs/outbox/index.js'
import { useTestDatabase } from '../support/database.js'
import {
  buildInstruction,
  attemptRows,
  claim,
  complete,
  enqueueAndClaim,
  enqueueAndFail,
  eventRows,
  ledger,
  pendingRow,
} from '../support/outboxItems.js'
import { failureOf } from '../support/race.js'

/**
 * Tests that repair returns every expired lease to the queue exactly once, with one ledger row, even if the ledger
 * refuses other rows of the batch.
 */

const db = await useTestDatabase()

const repair = (batchSize = 1000) => repairExpiredLeases(db.as('symphony_executor'), batchSize, 'repair-1')

const buildLease = () => enqueueAndClaim(db, {}, { workerId: 'crashed' })

async function leases(count: number): Promise<ClaimedItem[]> {
  const { railType } = buildInstruction()
  const instructions = Array.from({ length: count }, () => buildInstruction({ railType }))
  await enqueuePaymentOutboxBatch(db.as('symphony_ingest'), instructions)
  return claim(db, railType, { workerId: 'crashed', batchSize: count })
}

async function expireAll(items: readonly { readonly outboxId: string }[]): Promise<void> {
  for (const { outboxId } of items) await db.expireLease(outboxId)
}

/** Runs the body while an insert of several ledger rows raises `many`, and an insert of one row raises `one`. */
async function withLedgerThatRaises<T>(failures: { many: string; one: string }, body: () => Promise<T>): Promise<T> {
  await db.queryNoRole(`
    CREATE FUNCTION raise_for_proof() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
      IF (SELECT count(*) FROM inserted) > 1 THEN
        RAISE EXCEPTION 'planted' USING ERRCODE = '${failures.many}';
      END IF;
      RAISE EXCEPTION 'planted' USING ERRCODE = '${failures.one}';
    END $$;
    CREATE TRIGGER raise_for_proof AFTER INSERT ON payment_outbox_attempts
      REFERENCING NEW TABLE AS inserted FOR EACH STATEMENT EXECUTE FUNCTION raise_for_proof()`)
  try {
    return await body()
  } finally {
    await db.queryNoRole('DROP TRIGGER raise_for_proof ON payment_outbox_attempts; DROP FUNCTION raise_for_proof()')
  }
}

describe('an expired outbox lease', () => {
  test('is removed; its item is due in 1 s, and the ledger gets a ZOMBIE_REQUEUE row', async () => {
    const lease = await buildLease()
    await db.queryNoRole(
      `UPDATE payment_outbox_pending SET claimed_at = '2026-01-02T03:04:05.006Z', attempt_count = 0 WHERE outbox_id = $1`,
      [lease.outboxId],
    )
    await expireAll([lease])
    expect(await repair()).toEqual([{ outboxId: lease.outboxId, attemptNo: 1 }])
    expect(await pendingRow(db, lease.outboxId)).toMatchObject({
      claimed_by: null,
      lease_token: null,
      lease_expires_at: null,
      claimed_at: null,
      dispatch_mark: null,
      attempt_count: 1,
      outcome_unknown: true,
      expiry_streak: 1,
      hold_reason: null,
      retry_after_seconds: 1,
    })
    expect(await attemptRows(db, lease.outboxId)).toMatchObject([
      {
        instruction_id: lease.instructionId,
        participant_id: lease.participantId,
        sequence_id: lease.sequenceId,
        idempotency_key: lease.idempotencyKey,
        rail_type: lease.railType,
        payload: lease.payload,
        attempt_no: 1,
        state: 'ZOMBIE_REQUEUE',
        worker_id: 'crashed',
        lease_token: lease.leaseToken,
        claimed_at: new Date('2026-01-02T03:04:05.006Z'),
        error_code: 'LEASE_EXPIRED',
      },
    ])
    expect(await eventRows(db, lease.outboxId)).toEqual([])
  })

  test('is repaired once: a second run repairs nothing, and adds no row to the ledger', async () => {
    const expired = await leases(10)
    await expireAll(expired)
    expect(await repair()).toHaveLength(10)
    expect(await repair()).toEqual([])
    for (const { outboxId } of expired) expect(await ledger(db, outboxId)).toEqual(['1 ZOMBIE_REQUEUE'])
  })

  test('is repaired without a change to live leases', async () => {
    const [expired, live, other] = [await buildLease(), await buildLease(), await buildLease()]
    await expireAll([expired])
    const before = [await pendingRow(db, live.outboxId), await pendingRow(db, other.outboxId)]
    expect(await repair()).toEqual([{ outboxId: expired.outboxId, attemptNo: 1 }])
    expect([await pendingRow(db, live.outboxId), await pendingRow(db, other.outboxId)]).toEqual(before)
    expect(await complete(db, live, { state: 'DISPATCHED' }, 'crashed')).toMatchObject({ attemptNo: 1 })
  })

  test('is repaired even if it expired after the repairing transaction began', async () => {
    const lease = await buildLease()
    await db.as('symphony_executor').transaction(async (tx) => {
      await tx.query('SELECT 1')
      await db.queryNoRole(
        'UPDATE payment_outbox_pending SET lease_expires_at = clock_timestamp() WHERE outbox_id = $1',
        [lease.outboxId],
      )
      expect(await repairExpiredLeases(tx, 100, 'repair-1')).toEqual([{ outboxId: lease.outboxId, attemptNo: 1 }])
    })
  })

  test('is repaired although its item is held, and the hold stays', async () => {
    const lease = await buildLease()
    await placeOutboxHold(db.as('symphony_control'), lease.outboxId, 'wait for the bank')
    const held = await pendingRow(db, lease.outboxId)
    await expireAll([lease])
    expect(await repair()).toHaveLength(1)
    expect(await pendingRow(db, lease.outboxId)).toMatchObject({
      lease_token: null,
      hold_reason: 'wait for the bank',
      held_by: held!.held_by,
      held_at: held!.held_at,
    })
  })

  test('is repaired although its rail is paused', async () => {
    const control = db.as('symphony_control')
    const lease = await buildLease()
    await pauseOutbox(control, 'rail', lease.railType, 'the bank is down')
    await expireAll([lease])
    expect(await claim(db, lease.railType)).toEqual([])
    expect(await repair()).toHaveLength(1)
    await resumeOutbox(control, 'rail', lease.railType, 'the bank is up')
  })
})

describe('a batch of expired outbox leases', () => {
  test('is repaired up to the batch size, the earliest expiry first', async () => {
    const expired = await leases(5)
    for (const [index, { outboxId }] of expired.entries()) {
      await db.queryNoRole(
        `UPDATE payment_outbox_pending SET lease_expires_at = clock_timestamp() - make_interval(mins => $2) WHERE outbox_id = $1`,
        [outboxId, index + 1],
      )
    }
    const oldestFirst = expired.map(({ outboxId }) => outboxId).toReversed()
    for (const [from, to] of [
      [0, 2],
      [2, 4],
      [4, 5],
    ] as const) {
      const repaired = (await repair(2)).map(({ outboxId }) => outboxId)
      expect(new Set(repaired)).toEqual(new Set(oldestFirst.slice(from, to)))
    }
    expect(await repair(2)).toEqual([])
  })

  test('is repaired completely; an item at the retry ceiling is held', async () => {
    const full = await enqueueAndFail(db, 19)
    await claim(db, full.railType)
    const expired = await leases(99)
    await expireAll([full, ...expired])
    const repaired = await repair(100)
    expect(repaired).toHaveLength(100)
    expect(new Map(repaired.map(({ outboxId, attemptNo }) => [outboxId, attemptNo])).get(full.outboxId)).toBe(20)
    expect(await pendingRow(db, full.outboxId)).toMatchObject({
      hold_reason: 'RETRY_CEILING',
      attempt_count: 20,
      lease_token: null,
    })
    for (const { outboxId } of expired) {
      expect(await pendingRow(db, outboxId)).toMatchObject({ hold_reason: null, attempt_count: 1, lease_token: null })
    }
    expect(await repair()).toEqual([])
  })

  test('is repaired except an item that the ledger refuses, which a later run repairs', async () => {
    const bad = await buildLease()
    const good = await leases(19)
    await expireAll([bad, ...good])
    await db.queryNoRole(
      `ALTER TABLE payment_outbox_attempts ADD CONSTRAINT refuses_one CHECK (outbox_id <> '${bad.outboxId}') NOT VALID`,
    )
    try {
      const repaired = await repair()
      expect(repaired.map(({ outboxId }) => outboxId).toSorted()).toEqual(
        good.map(({ outboxId }) => outboxId).toSorted(),
      )
      expect(await pendingRow(db, bad.outboxId)).toMatchObject({ lease_token: bad.leaseToken, outcome_unknown: false })
      expect(await ledger(db, bad.outboxId)).toEqual([])
      for (const { outboxId } of good) expect(await ledger(db, outboxId)).toEqual(['1 ZOMBIE_REQUEUE'])
      expect(await repair()).toEqual([])
    } finally {
      await db.queryNoRole('ALTER TABLE payment_outbox_attempts DROP CONSTRAINT refuses_one')
    }
    expect(await repair()).toEqual([{ outboxId: bad.outboxId, attemptNo: 1 }])
  })

  test('is repaired except refused items, even if the ledger refuses as many as the batch size', async () => {
    const bad = [await buildLease(), await buildLease()]
    const good = await leases(3)
    await expireAll([...bad, ...good])
    const ids = bad.map(({ outboxId }) => `'${outboxId}'`).join(', ')
    await db.queryNoRole(
      `ALTER TABLE payment_outbox_attempts ADD CONSTRAINT refuses_some CHECK (outbox_id NOT IN (${ids})) NOT VALID`,
    )
    try {
      // The batch size counts repaired leases only. A caller therefore continues after a full batch.
      expect(await repair(2)).toHaveLength(2)
      expect(await repair(2)).toHaveLength(1)
      expect(await repair(2)).toEqual([])
      for (const { outboxId } of good) expect(await ledger(db, outboxId)).toEqual(['1 ZOMBIE_REQUEUE'])
      for (const { outboxId, leaseToken } of bad) {
        expect(await pendingRow(db, outboxId)).toMatchObject({ lease_token: leaseToken })
      }
    } finally {
      await db.queryNoRole('ALTER TABLE payment_outbox_attempts DROP CONSTRAINT refuses_some')
    }
    expect(await repair()).toHaveLength(2)
  })

  test('is repaired except a row that another transaction locks, without waiting', async () => {
    const [locked, free] = [await buildLease(), await buildLease()]
    await expireAll([locked, free])
    const holder = await db.connect()
    await holder.query('BEGIN')
    await holder.query('SELECT 1 FROM payment_outbox_pending WHERE outbox_id = $1 FOR UPDATE', [locked.outboxId])
    expect(await repair()).toEqual([{ outboxId: free.outboxId, attemptNo: 1 }])
    await holder.query('COMMIT')
    expect(await repair()).toEqual([{ outboxId: locked.outboxId, attemptNo: 1 }])
  })
})

describe('an error of the ledger insert during lease repair', () => {
  test.for([
    ['several rows', '40001', { many: '40001', one: '22000' }],
    ['several rows', '40P01', { many: '40P01', one: '22000' }],
    ['one row', '40001', { many: '22000', one: '40001' }],
    ['one row', '40P01', { many: '22000', one: '40P01' }],
  ] as const)(
    'is raised if it is transient, and nothing is repaired: insert of %s (%s)',
    async ([, sqlstate, failures]) => {
      const expired = await leases(3)
      await expireAll(expired)
      await withLedgerThatRaises(failures, async () => {
        expect(await failureOf(repair())).toMatchObject({ sqlstate, disposition: 'retry' })
      })
      for (const { outboxId, leaseToken } of expired) {
        expect(await ledger(db, outboxId)).toEqual([])
        expect(await pendingRow(db, outboxId)).toMatchObject({ lease_token: leaseToken })
      }
      expect(await repair()).toHaveLength(3)
    },
  )

  test('is not raised if it is permanent; the items stay leased', async () => {
    const expired = await leases(3)
    await expireAll(expired)
    await withLedgerThatRaises({ many: '22000', one: '22000' }, async () => {
      expect(await repair()).toEqual([])
    })
    expect(await repair()).toHaveLength(3)
  })
})

test.for([
  ['no batch size', [null, 'repair-1']],
  ['a batch size of 0', [0, 'repair-1']],
  ['a batch size of 1001', [1001, 'repair-1']],
  ['no worker', [1, null]],
  ['a blank worker', [1, ' ']],
] as const)('repair_expired_leases refuses %s (INVALID_PARAMETER)', async ([, values]) => {
  const executor = db.as('symphony_executor')
  const call = executor.query(
    `SELECT * FROM "${db.schema.replaceAll('"', '""')}".repair_expired_leases($1, $2)`,
    values,
  )
  expect(await failureOf(call)).toMatchObject({ code: 'INVALID_PARAMETER' })
})
