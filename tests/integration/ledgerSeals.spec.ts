import { randomUUID } from 'node:crypto'
import { beforeEach, describe, expect, test } from 'vitest'
import { call } from '../../libs/db/index.js'
import {
  databaseSource,
  exportLedger,
  LedgerSealer,
  openExport,
  readSealingStatus,
  sealLedgerBlock,
  verifyLedger,
  type SealerEvent,
} from '../../libs/ledger/index.js'
import {
  enqueuePaymentOutbox,
  enqueuePaymentOutboxBatch,
  placeOutboxHold,
  resolveOutboxHold,
} from '../../libs/outbox/index.js'
import { alertRules, ALERT_THRESHOLDS, AlertWatch } from '../../libs/observability/index.js'
import { readSystemStatus } from '../../libs/symphony/index.js'
import { closeAfterAll } from '../support/afterAll.js'
import { LedgerFixture } from '../support/ledgerFixture.js'
import { buildInstruction, complete, enqueue, enqueueAndClaim } from '../support/outboxItems.js'
import { POLL_OPTIONS } from '../support/pollOptions.js'
import { failureOf, openConnection, race, untilWaiting } from '../support/race.js'

const fixture = closeAfterAll(await LedgerFixture.open())

/** Seals every row before each test. */
beforeEach(() => fixture.sealAll())

async function blockTotals(): Promise<{ readonly blocks: number; readonly covered: number; readonly rows: number }> {
  const { rows } = await fixture.db.queryNoRole<{ blocks: number; covered: number; rows: number }>(
    `SELECT count(*)::integer AS blocks, COALESCE(sum(row_count), 0)::integer AS covered, (
       (SELECT count(*) FROM payment_outbox_identities) + (SELECT count(*) FROM payment_outbox_attempts)
       + (SELECT count(*) FROM payment_outbox_events))::integer AS rows FROM payment_outbox_blocks`,
  )
  return rows[0]!
}

async function expectSealedOnce(): Promise<void> {
  const { breaks, openRows } = await fixture.verify()
  expect({ breaks, openRows }).toEqual({ breaks: [], openRows: 0 })
  const { covered, rows } = await blockTotals()
  expect(covered).toBe(rows)
}

async function expectSealedAfterAll(): Promise<void> {
  await fixture.sealAll()
  await expectSealedOnce()
}

describe('seal_ledger_block', () => {
  test('covers each identity, attempt and event once, in blocks that verify', async () => {
    await fixture.fill()
    const before = await blockTotals()
    const sizes = await fixture.seal(7)
    expect(sizes.slice(0, -1).every((size) => size === 7)).toBe(true)
    expect(sizes.length).toBeGreaterThan(3)
    await expectSealedOnce()
    expect((await blockTotals()).blocks).toBe(before.blocks + sizes.length)
    const { identities, attempts, events } = await fixture.verify()
    expect(Math.min(identities, attempts, events)).toBeGreaterThan(3)
  })

  test('adds no block if no row was written', async () => {
    const before = await blockTotals()
    expect(await fixture.seal()).toEqual([])
    expect(await blockTotals()).toEqual(before)
  })

  test('splits a transaction with more rows than a block over several blocks', async () => {
    const tx = await openConnection(fixture.db, 'symphony_ingest')
    await tx.query('BEGIN')
    for (let count = 0; count < 5; count += 1) await enqueuePaymentOutbox(tx, buildInstruction())
    await tx.query('COMMIT')
    expect(await fixture.seal(2)).toEqual([2, 2, 1])
    await expectSealedOnce()
  })

  test('reads only the rows of its block, not the backlog after them', async () => {
    const pagesForOneBlock = async () => {
      const { rows } = await fixture.db.queryNoRole<{ 'QUERY PLAN': [{ Plan: Record<string, number> }] }>(
        `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) SELECT * FROM outbox_block_entries(
           (SELECT max(last_xid) FROM payment_outbox_blocks), 3::smallint, 'ffffffff-ffff-ffff-ffff-ffffffffffff', 9e18::bigint,
           3::smallint, 'ffffffff-ffff-ffff-ffff-ffffffffffff', 20)`,
      )
      const plan = rows[0]!['QUERY PLAN'][0].Plan
      return plan['Shared Hit Blocks']! + plan['Shared Read Blocks']!
    }
    // Seals a first block, so that the measured call starts after it. The first measurement only loads the catalog
    // caches.
    await enqueue(fixture.db)
    await fixture.sealAll()
    const write = async (transactions: number) => {
      for (let written = 0; written < transactions; written += 1) {
        const items = Array.from({ length: 40 }, () => buildInstruction())
        await enqueuePaymentOutboxBatch(fixture.db.as('symphony_ingest'), items)
      }
    }
    await write(2)
    await pagesForOneBlock()
    const short = await pagesForOneBlock()
    await write(40)
    expect(await pagesForOneBlock()).toBeLessThan(2 * short)
    await expectSealedAfterAll()
  })

  test('fails on a server whose transaction ids are below those of the last block (55000)', async () => {
    const superuser = await openConnection(fixture.db)
    await superuser.query('BEGIN')
    await superuser.query(
      `INSERT INTO payment_outbox_blocks (block_no, format, row_count, last_xid, last_kind, last_id, entries, root, block_hash, sealed_at)
       VALUES (1000000, 1, 1, 9000000000000000, 1, gen_random_uuid(), decode(repeat('00', 58), 'hex'), '', '', now())`,
    )
    expect(await failureOf(call(superuser, 'seal_ledger_block', [10]))).toMatchObject({ sqlstate: '55000' })
    await superuser.query('ROLLBACK')
  })
})

describe('seal_ledger_block with rows that become visible late', () => {
  test('seals no later row while an older transaction is open, and all rows when it has ended', async () => {
    const late = await openConnection(fixture.db, 'symphony_ingest')
    await late.query('BEGIN')
    await enqueuePaymentOutbox(late, buildInstruction())
    await complete(fixture.db, await enqueueAndClaim(fixture.db), { state: 'DISPATCHED', railReference: 'r' })
    // The second item was committed after the first transaction began, so its rows wait until that transaction ends.
    expect(await fixture.seal()).toEqual([])
    await late.query('COMMIT')
    await fixture.sealAll()
    await expectSealedOnce()
  })

  test('seals nothing while an older transaction with writes under a savepoint is open', async () => {
    const late = await openConnection(fixture.db, 'symphony_ingest')
    await late.query('BEGIN')
    await enqueuePaymentOutbox(late, buildInstruction())
    await late.query('SAVEPOINT one')
    await enqueuePaymentOutbox(late, buildInstruction())
    await enqueue(fixture.db)
    expect(await fixture.seal()).toEqual([])
    await late.query('ROLLBACK TO SAVEPOINT one')
    await enqueuePaymentOutbox(late, buildInstruction())
    await late.query('COMMIT')
    await fixture.sealAll()
    await expectSealedOnce()
  })

  test('seals nothing while an older transaction is prepared and neither committed nor rolled back', async () => {
    // Writes an event instead of an item, because an enqueue sends a notification and such a transaction cannot be
    // prepared.
    const { outboxId } = await enqueue(fixture.db)
    await fixture.sealAll()
    const late = await openConnection(fixture.db, 'symphony_control')
    const name = randomUUID()
    await late.query('BEGIN')
    await placeOutboxHold(late, outboxId, 'please wait')
    await late.query(`PREPARE TRANSACTION '${name}'`)
    await late.close()
    await enqueue(fixture.db)
    expect(await fixture.seal()).toEqual([])
    await fixture.db.queryNoRole(`COMMIT PREPARED '${name}'`)
    await fixture.sealAll()
    await expectSealedOnce()
  })

  test('seals event 2 of an item before event 1 if its transaction is older; the ledger verifies', async () => {
    const [held, other] = [await enqueue(fixture.db), await enqueue(fixture.db)]
    const older = await openConnection(fixture.db, 'symphony_control')
    await older.query('BEGIN')
    await placeOutboxHold(older, other.outboxId, 'the older transaction has its number')
    const between = await openConnection(fixture.db, 'symphony_ingest')
    await between.query('BEGIN')
    await enqueuePaymentOutbox(between, buildInstruction())
    await placeOutboxHold(fixture.db.as('symphony_control'), held.outboxId, 'event 1, of the youngest')
    await resolveOutboxHold(older, held.outboxId, 'RETRY', 'event 2, of the oldest')
    await older.query('COMMIT')
    // Event 2 is in a block and event 1 in none, because a transaction between them is still running.
    await expect.poll(() => fixture.seal()).not.toEqual([])
    expect(await fixture.verify()).toMatchObject({ openRows: 1, breakCount: 0 })
    await exportLedger(databaseSource(fixture.auditor), fixture.file('halfway'))
    expect(await verifyLedger((await openExport(fixture.file('halfway'))).source)).toMatchObject({
      openRows: 1,
      breakCount: 0,
    })
    await between.query('COMMIT')
    await fixture.sealAll(1)
    await expectSealedOnce()
  })

  test('leaves no gap after a transaction that is rolled back', async () => {
    const undone = await openConnection(fixture.db, 'symphony_ingest')
    await undone.query('BEGIN')
    await enqueuePaymentOutbox(undone, buildInstruction())
    await enqueue(fixture.db)
    expect(await fixture.seal()).toEqual([])
    await undone.query('ROLLBACK')
    await fixture.sealAll()
    await expectSealedOnce()
  })

  test('never seals rows of its own transaction', async () => {
    const superuser = await openConnection(fixture.db)
    await superuser.query('BEGIN')
    await enqueuePaymentOutbox(superuser, buildInstruction())
    expect(await sealLedgerBlock(superuser, 100)).toBeUndefined()
    await superuser.query('ROLLBACK')
  })
})

describe('concurrent sealers', () => {
  test('seal each row once and raise no error', async () => {
    for (let count = 0; count < 12; count += 1) await enqueue(fixture.db)
    const { values, errors } = await race(fixture.db, 'symphony_executor', 4, async (sealer) => {
      for (let round = 0; round < 20; round += 1) await sealLedgerBlock(sealer, 1)
    })
    expect({ runs: values.length, errors }).toEqual({ runs: 4, errors: [] })
    await fixture.sealAll()
    await expectSealedOnce()
  })

  test('do not wait for another sealer that has locked the last block, and neither do writers', async () => {
    await enqueue(fixture.db)
    await fixture.sealAll()
    await enqueue(fixture.db)
    const busy = await openConnection(fixture.db, 'symphony_executor')
    await busy.query('BEGIN')
    await expect.poll(() => sealLedgerBlock(busy, 1)).toMatchObject({ rowCount: 1 })
    expect(await fixture.seal()).toEqual([])
    await complete(fixture.db, await enqueueAndClaim(fixture.db), { state: 'RETRYABLE' })
    await busy.query('COMMIT')
    await fixture.sealAll()
    await expectSealedOnce()
  })

  test('write the first block of a ledger only once', async () => {
    const other = await fixture.beside()
    try {
      await enqueue(other.db)
      const [first, second] = [
        await openConnection(other.db, 'symphony_executor'),
        await openConnection(other.db, 'symphony_executor'),
      ]
      await first.query('BEGIN')
      await expect.poll(() => sealLedgerBlock(first, 100)).toEqual({ blockNo: 1n, rowCount: 1 })
      const waiting = sealLedgerBlock(second, 100)
      await untilWaiting(other.db, second)
      await first.query('COMMIT')
      expect(await waiting).toBeUndefined()
      expect(await other.verify()).toMatchObject({ blocks: 1, openRows: 0, breakCount: 0 })
    } finally {
      await other.close()
    }
  })
})

describe('LedgerSealer', () => {
  test('seals blocks until one is not full, and reports the number of blocks and rows', async () => {
    for (let count = 0; count < 3; count += 1) await enqueue(fixture.db)
    const events: SealerEvent[] = []
    const sealer = new LedgerSealer(fixture.db.as('symphony_executor'), { rowsMax: 2 }, (event) => events.push(event))
    expect(await sealer.runOnce()).toEqual({ blocks: 2, rows: 3, more: false })
    expect(await sealer.runOnce()).toEqual({ blocks: 0, rows: 0, more: false })
    expect(events).toEqual([{ type: 'ledger.sealed', blocks: 2, rows: 3 }])
  })

  test('seals from start to stop; stop may be called before start and twice', async () => {
    const sealer = new LedgerSealer(fixture.db.as('symphony_executor'), { intervalMs: 100 })
    await sealer.stop()
    await sealer.start()
    await enqueue(fixture.db)
    await expect.poll(async () => (await fixture.verify()).openRows).toBe(0)
    await sealer.stop()
    await sealer.stop()
    await enqueue(fixture.db)
    expect((await fixture.verify()).openRows).toBe(1)
  })

  test('reports a failure as ledger.fault', async () => {
    const events: SealerEvent[] = []
    const sealer = new LedgerSealer(fixture.db.as('symphony_readonly'), { intervalMs: 100 }, (event) =>
      events.push(event),
    )
    await sealer.start()
    await expect.poll(() => events[0]).toMatchObject({ type: 'ledger.fault', during: 'sealing the ledger' })
    await sealer.stop()
  })

  test.each([
    [{ intervalMs: 99 }, /intervalMs/],
    [{ intervalMs: 3_600_001 }, /intervalMs/],
    [{ rowsMax: 0 }, /rowsMax/],
    [{ rowsMax: 100_001 }, /rowsMax/],
  ])('refuses the options %j', (options, message) => {
    expect(() => new LedgerSealer(fixture.db.as('symphony_executor'), options)).toThrow(message)
  })
})

const readonly = () => fixture.db.as('symphony_readonly')

describe('readSealingStatus', () => {
  test('returns the age 0 while every row is in a block', async () => {
    await expect
      .poll(() => readSealingStatus(readonly()), POLL_OPTIONS)
      .toEqual({ unsealedAgeSeconds: 0, blocker: undefined })
  })

  test('names the session with the oldest transaction; SymphonySealingHeldBack names it too', async () => {
    const holder = await fixture.db.connect()
    try {
      await holder.query(`SET application_name = 'long report'`)
      await holder.query('BEGIN')
      const { rows } = await holder.query<{ pid: number }>('SELECT pg_backend_pid() AS pid, pg_current_xact_id()')
      const { pid } = rows[0]!
      await enqueue(fixture.db)
      // A transaction of another test on this server may be the oldest one for a while.
      await expect
        .poll(() => readSealingStatus(readonly()), POLL_OPTIONS)
        .toMatchObject({
          unsealedAgeSeconds: expect.any(Number),
          blocker: { pid, user: 'postgres', application: 'long report', prepared: null },
        })
      const watch = new AlertWatch(alertRules({ ...ALERT_THRESHOLDS, alertSealingSeconds: 0 }))
      const evaluate = async () => watch.evaluate(await readSystemStatus(fixture.db.database))
      await expect.poll(evaluate, POLL_OPTIONS).toContainEqual(
        expect.objectContaining({
          name: 'SymphonySealingHeldBack',
          detail: expect.stringContaining(`session ${pid} of user postgres (long report, database`),
        }),
      )
    } finally {
      await holder.query('ROLLBACK')
      await holder.end()
    }
    await fixture.sealAll()
  })

  test('names no blocking session if the rows only wait for a worker to seal them', async () => {
    await enqueue(fixture.db)
    await expect
      .poll(() => readSealingStatus(readonly()), POLL_OPTIONS)
      .toEqual({ unsealedAgeSeconds: expect.toSatisfy((age: number) => age > 0), blocker: undefined })
  })
})
