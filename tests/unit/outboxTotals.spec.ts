import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import {
  cancelOutboxItem,
  claimOutboxBatch,
  completeOutboxAttempts,
  enqueuePaymentOutbox,
  heartbeatOutboxWorker,
  readLatestAttempts,
  readOutboxStatus,
  readRailQueues,
  readThroughput,
  repairExpiredLeases,
  type AttemptOutcome,
  type ClaimedItem,
} from '../../libs/outbox/index.js'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import { buildInstruction, claimOnly, complete, enqueue, enqueueAndClaim, WORKER } from '../support/outboxItems.js'
import { createPerson } from '../support/outboxPeople.js'
import { RandomOutbox } from '../support/outboxRandom.js'
import { closeTransactions, completeOn, openTransaction } from '../support/outboxStream.js'
import { PlanRecorder, scansOf } from '../support/plans.js'
import { race } from '../support/race.js'

/** Each test has its own database, because totals count the whole deployment. */
let db: TestDatabase
beforeEach(async () => {
  db = await createTestDatabase()
})
afterEach(async () => {
  await closeTransactions()
  await db.drop()
})

interface Totals {
  readonly dispatched: number
  readonly retryable: number
  readonly failed: number
  readonly zombie_requeue: number
}

async function totals(): Promise<Totals> {
  const { rows } = await db.queryNoRole<Totals>(
    `SELECT dispatched_total::int AS dispatched, retryable_total::int AS retryable, failed_total::int AS failed,
       zombie_requeue_total::int AS zombie_requeue FROM supervisor_outbox_status`,
  )
  return rows[0]!
}

/** Counts the attempts in the ledger. */
async function counted(): Promise<Totals> {
  const { rows } = await db.queryNoRole<Totals>(
    `SELECT count(*) FILTER (WHERE state = 'DISPATCHED')::int AS dispatched,
       count(*) FILTER (WHERE state = 'RETRYABLE')::int AS retryable,
       count(*) FILTER (WHERE state = 'FAILED')::int AS failed,
       count(*) FILTER (WHERE state = 'ZOMBIE_REQUEUE')::int AS zombie_requeue FROM payment_outbox_attempts`,
  )
  return rows[0]!
}

async function lastHour() {
  const { rows } = await db.queryNoRole(
    `SELECT dispatched_last_hour::int AS dispatched, retryable_last_hour::int AS retryable,
       failed_last_hour::int AS failed FROM supervisor_outbox_status`,
  )
  return rows[0]
}

async function rowCount(table: 'outbox_attempt_tallies' | 'outbox_attempt_totals'): Promise<number> {
  const { rows } = await db.queryNoRole<{ n: number }>(`SELECT count(*)::int AS n FROM ${table}`)
  return rows[0]!.n
}

/** Rolls up the tallies by a call of lease repair. */
const fold = () => repairExpiredLeases(db.as('symphony_executor'), 100, 'repairer')

/** Inserts a tally of this age. */
async function insertTally(age: string, counts: Partial<Totals>): Promise<void> {
  const { dispatched = 0, retryable = 0, failed = 0, zombie_requeue = 0 } = counts
  await db.queryNoRole(`INSERT INTO outbox_attempt_tallies VALUES (clock_timestamp() - $1::interval, $2, $3, $4, $5)`, [
    age,
    dispatched,
    retryable,
    failed,
    zombie_requeue,
  ])
}

test('outbox_throughput counts attempts of unknown outcome, before and after the roll-up', async () => {
  const unknown = async () => {
    const minutes = await readThroughput(db.as('symphony_readonly'))
    return minutes.reduce((sum, { outcomeUnknown }) => sum + outcomeUnknown, 0)
  }
  const before = await unknown()
  await complete(db, await enqueueAndClaim(db), { state: 'RETRYABLE', outcomeUnknown: true })
  await complete(db, await enqueueAndClaim(db), { state: 'RETRYABLE' })
  await complete(db, await enqueueAndClaim(db), { state: 'DISPATCHED', railReference: 'ref' })
  const expired = await enqueueAndClaim(db)
  await db.expireLease(expired.outboxId)
  const unsent = await enqueueAndClaim(db, {}, { marked: true })
  await db.expireLease(unsent.outboxId)
  await fold()
  expect((await unknown()) - before).toBe(2)
  await fold()
  expect((await unknown()) - before).toBe(2)
})

test('readLatestAttempts separates unknown outcomes from retries with the same error code', async () => {
  for (const outcomeUnknown of [true, false]) {
    const lease = await enqueueAndClaim(db, { railType: 'errors-rail' })
    await complete(db, lease, { state: 'RETRYABLE', errorCode: 'RAIL_TIMEOUT', outcomeUnknown })
  }
  const { errors } = await readLatestAttempts(db.as('symphony_readonly'))
  const ofRail = errors.filter(({ railType }) => railType === 'errors-rail')
  expect(ofRail.map(({ errorCode, outcomeUnknown, count }) => [errorCode, outcomeUnknown, count])).toEqual([
    ['RAIL_TIMEOUT', false, 1],
    ['RAIL_TIMEOUT', true, 1],
  ])
})

test('the status counts payments and messages separately, before and after the roll-up', async () => {
  const lease = async (isMessage: boolean) => {
    const instruction = buildInstruction()
    await enqueuePaymentOutbox(db.as('symphony_ingest'), instruction, { isMessage })
    return claimOnly(db, instruction.railType)
  }
  const paid = { state: 'DISPATCHED', railReference: 'ref' } as const
  // Completes payments and messages in one call of the fast path, then in one of the slow path.
  await completeAll([await lease(false), await lease(true), await lease(true)], [paid, paid, paid])
  await completeAll([await lease(false), await lease(true)], [paid, { state: 'FAILED' }])
  await complete(db, await lease(true), { state: 'RETRYABLE', retryDelaySeconds: 3600 })
  const expired = await lease(true)
  await db.expireLease(expired.outboxId)
  const unsent = await enqueue(db)
  await cancelOutboxItem(db.as('symphony_ingest'), unsent.outboxId, 'not needed')
  const payment = { dispatched: 2, failed: 1, cancelled: 1, failedRecently: 0, retryable: 0, requeued: 0 }
  const message = { dispatched: 2, failed: 1, cancelled: 0, failedRecently: 1, retryable: 1, retryableRecently: 1 }
  expect((await readOutboxStatus(db.as('symphony_readonly'))).kinds).toMatchObject({
    payment: { ...payment, pending: 0, expired: 0 },
    message: { ...message, pending: 2, expired: 1, leased: 0, requeued: 0 },
  })
  await fold()
  await fold()
  const status = await readOutboxStatus(db.as('symphony_readonly'))
  expect(status.kinds).toMatchObject({ payment, message: { ...message, requeued: 1, unknown: 1 } })
  expect(status).toMatchObject({ dispatchedTotal: 4n, failedTotal: 2n, cancelledTotal: 1n, pendingCount: 2n })
})

async function completeAll(
  leases: readonly ClaimedItem[],
  outcomes: readonly Pick<AttemptOutcome, 'state' | 'railReference'>[],
): Promise<void> {
  const entries = leases.map((lease, index) => ({ ...lease, ...outcomes[index]! }))
  await completeOutboxAttempts(db.as('symphony_executor'), WORKER, entries)
}

describe('the attempt totals of supervisor_outbox_status', () => {
  test.for([31, 32])(
    'equal the ledger after random operations, before and after the roll-up (seed %i)',
    async (seed) => {
      const people = [await createPerson(db, 'olga'), await createPerson(db, 'pavel')] as const
      const outbox = new RandomOutbox(db, seed, {
        ingest: () => db.as('symphony_ingest'),
        executor: () => db.as('symphony_executor'),
        people: [() => people[0].control, () => people[1].control],
      })
      await outbox.run(100)
      const expected = await counted()
      for (const count of Object.values(expected)) expect(count).toBeGreaterThan(0)
      expect(await totals()).toEqual(expected)
      await fold()
      expect(await rowCount('outbox_attempt_tallies')).toBe(0)
      expect(await totals()).toEqual(expected)
      await fold()
      expect(await totals()).toEqual(expected)
    },
  )

  test('count the recorded state, not the requested one', async () => {
    const held = await enqueueAndClaim(db)
    // FAILED while the outcome is unknown is recorded as RETRYABLE.
    await complete(db, held, { state: 'FAILED', outcomeUnknown: true })
    expect(await totals()).toEqual({ dispatched: 0, retryable: 1, failed: 0, zombie_requeue: 0 })
  })

  test('do not count a completion that was rolled back', async () => {
    const lease = await enqueueAndClaim(db)
    const completer = await openTransaction(db, 'symphony_executor')
    await completeOn(completer, lease)
    await completer.query('ROLLBACK')
    await fold()
    expect(await totals()).toEqual({ dispatched: 0, retryable: 0, failed: 0, zombie_requeue: 0 })
  })

  test('include dlq_depth, the number of FAILED items', async () => {
    for (const state of ['FAILED', 'DISPATCHED', 'FAILED'] as const) {
      await complete(db, await enqueueAndClaim(db), { state })
    }
    const { rows } = await db.queryNoRole('SELECT dlq_depth FROM supervisor_outbox_status')
    expect(rows).toEqual([{ dlq_depth: 2n }])
  })
})

describe('the roll-up of attempt tallies', () => {
  test('loses nothing while eight connections roll up and complete', async () => {
    const items = 240
    for (let enqueued = 0; enqueued < items; enqueued++) await enqueue(db, { railType: 'busy' })
    const { errors } = await race(db, 'symphony_executor', 8, async (connection, index) => {
      for (let round = 0; round < 15; round++) {
        if (index % 2 === 0) {
          await repairExpiredLeases(connection, 10, `repairer-${index}`)
          continue
        }
        const leases = await claimOutboxBatch(connection, 4, `worker-${index}`, 600, { rails: ['busy'] })
        const outcomes = leases.map(({ outboxId, leaseToken }) => ({
          outboxId,
          leaseToken,
          state: round % 3 === 0 ? ('FAILED' as const) : ('DISPATCHED' as const),
        }))
        if (outcomes.length > 0) await completeOutboxAttempts(connection, `worker-${index}`, outcomes)
      }
    })
    expect(errors).toEqual([])
    const expected = await counted()
    expect(expected.dispatched + expected.failed).toBe(items)
    expect(await totals()).toEqual(expected)
    await fold()
    expect(await totals()).toEqual(expected)
  })

  test('is skipped while another transaction runs it, and counts nothing twice', async () => {
    await complete(db, await enqueueAndClaim(db), { state: 'DISPATCHED' })
    const first = await openTransaction(db, 'symphony_executor')
    await repairExpiredLeases(first, 1, 'first')
    const second = await openTransaction(db, 'symphony_executor')
    await second.query(`SET LOCAL lock_timeout = '1s'`)
    await repairExpiredLeases(second, 1, 'second')
    await second.query('COMMIT')
    expect(await totals()).toMatchObject({ dispatched: 1 })
    await first.query('COMMIT')
    expect(await totals()).toMatchObject({ dispatched: 1 })
    expect(await rowCount('outbox_attempt_tallies')).toBe(0)
  })

  test('runs again after a rollback', async () => {
    await complete(db, await enqueueAndClaim(db), { state: 'DISPATCHED' })
    const first = await openTransaction(db, 'symphony_executor')
    await repairExpiredLeases(first, 1, 'first')
    await first.query('ROLLBACK')
    expect(await totals()).toMatchObject({ dispatched: 1 })
    await fold()
    expect(await totals()).toMatchObject({ dispatched: 1 })
    expect(await rowCount('outbox_attempt_tallies')).toBe(0)
  })

  test('does not block a completion, and leaves uncommitted tallies for the next roll-up', async () => {
    const lease = await enqueueAndClaim(db)
    const completer = await openTransaction(db, 'symphony_executor')
    await completer.query(`SET LOCAL lock_timeout = '1s'`)
    const folder = await openTransaction(db, 'symphony_executor')
    await insertTally('0', { dispatched: 1 })
    await repairExpiredLeases(folder, 1, 'folder')
    await completeOn(completer, lease)
    await folder.query('COMMIT')
    expect(await totals()).toMatchObject({ dispatched: 1 })
    await fold()
    await completer.query('COMMIT')
    expect(await totals()).toMatchObject({ dispatched: 2 })
    await fold()
    expect(await totals()).toMatchObject({ dispatched: 2 })
  })

  test('processes at most 10,000 tallies per call', async () => {
    await db.queryNoRole(
      'INSERT INTO outbox_attempt_tallies SELECT clock_timestamp(), 1, 0, 0, 0 FROM generate_series(1, 10001)',
    )
    await fold()
    expect(await rowCount('outbox_attempt_tallies')).toBe(1)
    expect(await totals()).toMatchObject({ dispatched: 10_001 })
    await fold()
    expect(await rowCount('outbox_attempt_tallies')).toBe(0)
    expect(await totals()).toMatchObject({ dispatched: 10_001 })
  })

  test('writes one row per minute', async () => {
    await db.queryNoRole(
      `INSERT INTO outbox_attempt_tallies
       SELECT date_trunc('minute', now(), 'UTC') - make_interval(mins => m, secs => -s), 1, 0, 0, 0
       FROM unnest(ARRAY[5, 6]) AS m, unnest(ARRAY[0, 59]) AS s`,
    )
    await fold()
    expect(await rowCount('outbox_attempt_totals')).toBe(2)
    expect(await totals()).toMatchObject({ dispatched: 4 })
  })

  test('merges minutes older than two hours into one row and keeps younger ones', async () => {
    await insertTally('2 hours 2 minutes', { dispatched: 1, retryable: 2, failed: 3, zombie_requeue: 4 })
    await insertTally('5 days', { dispatched: 10, retryable: 20, failed: 30, zombie_requeue: 40 })
    await insertTally('1 hour 58 minutes', { dispatched: 100 })
    await fold()
    const minutes = async () => {
      const { rows } = await db.queryNoRole(
        `SELECT minute = '-infinity' AS ageless, dispatched::int, retryable::int, failed::int, zombie_requeue::int
         FROM outbox_attempt_totals ORDER BY minute`,
      )
      return rows
    }
    expect(await minutes()).toEqual([
      { ageless: true, dispatched: 11, retryable: 22, failed: 33, zombie_requeue: 44 },
      { ageless: false, dispatched: 100, retryable: 0, failed: 0, zombie_requeue: 0 },
    ])
    // Moves the totals back by one hour.
    await db.queryNoRole(
      `UPDATE outbox_attempt_totals SET minute = minute - interval '1 hour' WHERE minute > '-infinity'`,
    )
    await fold()
    expect(await minutes()).toEqual([{ ageless: true, dispatched: 111, retryable: 22, failed: 33, zombie_requeue: 44 }])
    expect(await totals()).toEqual({ dispatched: 111, retryable: 22, failed: 33, zombie_requeue: 44 })
  })
})

test('the totals of the last hour exclude older tallies, before and after the roll-up', async () => {
  await insertTally('58 minutes', { dispatched: 1, retryable: 2, failed: 3 })
  await insertTally('62 minutes', { dispatched: 10, retryable: 20, failed: 30 })
  await insertTally('3 hours', { dispatched: 100, retryable: 200, failed: 300 })
  expect(await lastHour()).toEqual({ dispatched: 1, retryable: 2, failed: 3 })
  await fold()
  expect(await lastHour()).toEqual({ dispatched: 1, retryable: 2, failed: 3 })
  expect(await totals()).toMatchObject({ dispatched: 111, retryable: 222, failed: 333 })
})

const count = (itemsMin: number) => db.queryNoRole('SELECT count_outbox_queue($1)', [itemsMin])
const changeStored = (sql: string) => db.queryNoRole(`UPDATE outbox_queue_counts SET ${sql}`)
const readonly = () => db.as('symphony_readonly')
const status = () => readOutboxStatus(readonly())
/** Returns the counts without the ages, which grow between two reads. */
const countsOf = (all: object) => Object.entries(all).filter(([, value]) => typeof value === 'bigint')

async function storedParts(): Promise<number | null> {
  const { rows } = await db.queryNoRole<{ n: number | null }>(
    'SELECT jsonb_array_length(parts) AS n FROM outbox_queue_counts',
  )
  return rows[0]!.n
}

describe('stored counts of the queue', () => {
  test('are equal to the exact counts, and the status reads them instead of the items', async () => {
    await enqueueAndClaim(db)
    for (const hold of [null, 'RETRY_CEILING', 'REVIEW']) {
      const { outboxId } = await enqueue(db)
      await db.queryNoRole(
        `UPDATE payment_outbox_pending SET hold_reason = $2, held_by = 'ann', held_at = now()
         WHERE $2::text IS NOT NULL AND outbox_id = $1`,
        [outboxId, hold],
      )
    }
    const exact = await status()
    const exactRails = await readRailQueues(readonly())
    await count(4)
    const stored = await status()
    const storedRails = await readRailQueues(readonly())
    expect(storedRails.map(({ oldestDueAgeSeconds: _age, ...counts }) => counts)).toEqual(
      exactRails.map(({ oldestDueAgeSeconds: _age, ...counts }) => counts),
    )
    expect(stored.countsAgeSeconds).toBeGreaterThan(0)
    expect(countsOf(stored)).toEqual(countsOf(exact))
    expect(countsOf(stored.kinds.payment)).toEqual(countsOf(exact.kinds.payment))
    expect(exact).toMatchObject({ pendingCount: 4n, leasedCount: 1n, heldCount: 2n, countsAgeSeconds: 0 })
    const recorder = await PlanRecorder.open(db, 'symphony_readonly')
    for (const view of ['supervisor_outbox_status', 'outbox_queue_status']) {
      const execution = await recorder.run(`SELECT * FROM ${db.qualify(view)}`)
      expect(scansOf(execution, 'payment_outbox_pending').filter(({ loops }) => loops > 0)).toEqual([])
    }
    await recorder.close()
  })

  test('are not written at a heartbeat while the queue is small', async () => {
    await enqueue(db)
    await heartbeatOutboxWorker(db.as('symphony_executor'), WORKER)
    expect(await storedParts()).toBeNull()
    await count(2)
    expect(await storedParts()).toBeNull()
  })

  test('are renewed only when due; if they are too old, the status counts the items itself', async () => {
    await enqueue(db)
    await count(1)
    await enqueue(db)
    await count(1)
    expect((await status()).pendingCount).toBe(1n)
    await changeStored(`counted_at = counted_at - interval '6 seconds'`)
    await count(1)
    expect((await status()).pendingCount).toBe(2n)
    await enqueue(db)
    await changeStored(`counted_at = now() - 2 * count_again_after - interval '11 seconds'`)
    expect(await status()).toMatchObject({ pendingCount: 3n, countsAgeSeconds: 0 })
    // Imitates a server whose clock was set back.
    await changeStored(`counted_at = now() + interval '1 hour'`)
    expect((await status()).pendingCount).toBe(3n)
    await count(1)
    expect((await status()).countsAgeSeconds).toBeGreaterThan(0)
  })
})
