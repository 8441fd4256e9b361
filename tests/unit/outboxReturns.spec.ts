import { randomUUID } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { auditDatabase } from '../../libs/ledger/auditor.js'
import { databaseSource, exportLedger, openLedger } from '../../libs/ledger/index.js'
import {
  claimOutboxBatch,
  enqueuePaymentOutbox,
  readItemViews,
  readOutboxStatus,
  recordOutboxReturn,
  searchItems,
  type PaymentReturn,
} from '../../libs/outbox/index.js'
import { useTestDatabase } from '../support/database.js'
import { buildInstruction, complete, enqueue, enqueueAndClaim, eventRows, ledger } from '../support/outboxItems.js'
import { createPerson, enqueueFailed, enqueueHeld, enqueuePaid } from '../support/outboxPeople.js'
import { failureOf, openConnection, race } from '../support/race.js'

/**
 * Tests returns: a rail can return the money of a payment that it accepted. The payment stays DISPATCHED, and each
 * return is a later event.
 */

const db = await useTestDatabase()
const olga = await createPerson(db, 'olga')

function record(outboxId: string, given: Partial<PaymentReturn> = {}, role = olga.control) {
  return recordOutboxReturn(role, {
    outboxId,
    amount: '10.50',
    currency: 'EUR',
    code: 'AC04',
    reference: 'RT-1',
    ...given,
  })
}

async function returnsOf(outboxId: string) {
  const rows = await eventRows(db, outboxId)
  return rows.filter(({ event_type }) => event_type === 'RETURN_RECORDED')
}

describe('record_outbox_return', () => {
  test('appends one event with actor, amount and reference; the payment stays DISPATCHED', async () => {
    const { outboxId } = await enqueuePaid(db)
    const recorded = await record(outboxId, { occurredAt: new Date('2026-01-31T12:00:00Z') })
    expect(recorded).toEqual({ eventId: expect.any(String), created: true, returnedTotal: '10.50' })
    expect(await eventRows(db, outboxId)).toMatchObject([
      {
        event_id: recorded.eventId,
        event_type: 'RETURN_RECORDED',
        actor: olga.name,
        attempt_id: expect.any(String),
        detail: {
          amount: '10.50',
          currency: 'EUR',
          code: 'AC04',
          reference: 'RT-1',
          occurred_at: '2026-01-31T12:00:00.000000Z',
          returned_total: '10.50',
          bounded: true,
        },
      },
    ])
    expect(await ledger(db, outboxId)).toEqual(['1 DISPATCHED'])
    expect(await readItemViews(db.as('symphony_readonly'), [outboxId])).toMatchObject([
      { state: 'DISPATCHED', returned: true, returnedAmount: '10.50', replaces: null },
    ])
  })

  test('returns the first event for a repeat with another time or 2.50 instead of 2.5', async () => {
    const { outboxId } = await enqueuePaid(db)
    const first = await record(outboxId, { amount: '2.5', occurredAt: new Date('2026-01-31T12:00:00Z') })
    expect(await record(outboxId, { amount: '2.50', occurredAt: new Date('2026-02-01T12:00:00Z') })).toEqual({
      ...first,
      created: false,
    })
    expect(await returnsOf(outboxId)).toHaveLength(1)
  })

  test('refuses a known reference with another amount, currency or code (P7004)', async () => {
    const { outboxId } = await enqueuePaid(db)
    const { eventId } = await record(outboxId, { amount: '2.50' })
    for (const changed of [{ amount: '2.51' }, { currency: 'CHF' }, { code: 'MD06' }]) {
      await expect(record(outboxId, { amount: '2.50', ...changed })).rejects.toMatchObject({
        code: 'IDEMPOTENCY_CONFLICT',
        sqlstate: 'P7004',
        detail: expect.stringContaining(eventId),
      })
    }
    expect(await returnsOf(outboxId)).toHaveLength(1)
  })

  test('adds partial returns up to the amount of the payment and refuses more (P7015)', async () => {
    const { outboxId } = await enqueuePaid(db)
    expect(await record(outboxId, { amount: '4', reference: 'RT-1' })).toMatchObject({ returnedTotal: '4' })
    const error = await failureOf(record(outboxId, { amount: '6.51', reference: 'RT-2' }))
    expect(error).toMatchObject({ code: 'RETURN_EXCEEDS_PAYMENT', sqlstate: 'P7015' })
    expect(JSON.parse(String(Reflect.get(Object(error), 'detail')))).toEqual({
      paid: '10.50',
      returned: '4',
      asked: '6.51',
    })
    expect(await record(outboxId, { amount: '6.50', reference: 'RT-2' })).toMatchObject({ returnedTotal: '10.50' })
    await expect(record(outboxId, { amount: '0.01', reference: 'RT-3' })).rejects.toMatchObject({ sqlstate: 'P7015' })
    // A repeat of a recorded return adds nothing, so it is accepted even at the full amount.
    expect(await record(outboxId, { amount: '4', reference: 'RT-1' })).toMatchObject({
      created: false,
      returnedTotal: '10.50',
    })
  })

  test('records two of eight racing returns of half the payment, and refuses the others (P7015)', async () => {
    const { outboxId } = await enqueuePaid(db)
    const lock = await openConnection(db)
    await lock.query('BEGIN')
    await lock.query('SELECT FROM payment_outbox_identities WHERE outbox_id = $1 FOR UPDATE', [outboxId])
    const { values, errors } = await race(
      db,
      'symphony_executor',
      8,
      (connection, index) =>
        recordOutboxReturn(connection, {
          outboxId,
          amount: '5.25',
          currency: 'EUR',
          code: 'AC04',
          reference: `RT-${index}`,
        }),
      { releaseWhenAllWait: () => lock.query('COMMIT') },
    )
    await lock.close()
    expect(values).toHaveLength(2)
    expect(errors).toHaveLength(6)
    for (const error of errors) expect(error).toMatchObject({ sqlstate: 'P7015' })
    expect((await returnsOf(outboxId)).map(({ detail }) => detail['returned_total'])).toEqual(['5.25', '10.50'])
  })

  test('refuses another currency than the payment’s (22023)', async () => {
    const { outboxId } = await enqueuePaid(db)
    await expect(record(outboxId, { currency: 'CHF' })).rejects.toMatchObject({
      sqlstate: '22023',
      message: expect.stringContaining('p_currency'),
    })
  })

  test.each([
    ['an encrypted amount', { amount: 'symphony.sealed.v1.abc', currency: 'EUR' }],
    ['no amount', { amountMinor: '1050', currency: 'EUR' }],
    ['an encrypted currency', { amount: '10.50', currency: 'symphony.sealed.v1.abc' }],
    ['an amount with a sign', { amount: '-10.50', currency: 'EUR' }],
    ['an amount as a number', { amount: 10.5, currency: 'EUR' }],
  ])('does not limit the sum of returns if the payload has %s', async (_, payload) => {
    const { outboxId } = await enqueuePaid(db, { payload })
    await record(outboxId, { amount: '500', reference: 'RT-1' })
    await record(outboxId, { amount: '500', reference: 'RT-2' })
    expect((await returnsOf(outboxId)).map(({ detail }) => [detail['bounded'], detail['returned_total']])).toEqual([
      [false, '500'],
      [false, '1000'],
    ])
    // All returns of one payment must have the same currency, because they are added up.
    await expect(record(outboxId, { currency: 'CHF', reference: 'RT-3' })).rejects.toMatchObject({ sqlstate: '22023' })
  })

  test('refuses a payment without an outcome (P7006), a FAILED one (P7001) and a message (22023)', async () => {
    const pending = [await enqueue(db), await enqueueAndClaim(db), await enqueueHeld(db, olga)]
    for (const { outboxId } of pending) {
      await expect(record(outboxId)).rejects.toMatchObject({ code: 'HELD', sqlstate: 'P7006' })
    }
    await expect(record((await enqueueFailed(db)).outboxId)).rejects.toMatchObject({ sqlstate: 'P7001' })
    const topic = `topic-${randomUUID()}`
    const message = buildInstruction({ railType: topic })
    const { outboxId } = await enqueuePaymentOutbox(db.as('symphony_ingest'), message, { isMessage: true })
    const [lease] = await claimOutboxBatch(db.as('symphony_executor'), 1, 'worker-1', 60, { rails: [topic] })
    await complete(db, lease!, { state: 'DISPATCHED' })
    for (const id of [outboxId, randomUUID()]) {
      await expect(record(id)).rejects.toMatchObject({ sqlstate: '22023' })
    }
  })

  test('refuses a REPEATABLE READ or SERIALIZABLE transaction (40001)', async () => {
    const { outboxId } = await enqueuePaid(db)
    for (const level of ['REPEATABLE READ', 'SERIALIZABLE']) {
      const connection = await openConnection(db, 'symphony_control')
      await connection.query(`BEGIN ISOLATION LEVEL ${level}`)
      const call = recordOutboxReturn(connection, {
        outboxId,
        amount: '1',
        currency: 'EUR',
        code: 'AC04',
        reference: 'RT-1',
      })
      await expect(call).rejects.toMatchObject({ sqlstate: '40001' })
      await connection.close()
    }
    expect(await returnsOf(outboxId)).toEqual([])
  })

  test('is refused to applications and readers (42501)', async () => {
    const { outboxId } = await enqueuePaid(db)
    for (const role of ['ingest', 'readonly', 'auditor', 'auth'] as const) {
      await expect(record(outboxId, {}, db.as(`symphony_${role}`))).rejects.toMatchObject({ sqlstate: '42501' })
    }
    expect(await record(outboxId, {}, db.as('symphony_executor'))).toMatchObject({ created: true })
  })
})

test('an outcome topic gets one RETURNED message per return, with its code and money', async () => {
  const outcomeTopic = `topic-${randomUUID()}`
  const { outboxId } = await enqueuePaid(db, { outcomeTopic })
  await record(outboxId, { amount: '4', reference: 'RT-1' })
  await record(outboxId, { amount: '4', reference: 'RT-1' })
  await record(outboxId, { amount: '6.50', code: 'MD06', reference: 'RT-2' })
  const { rows } = await db.queryNoRole<{ payload: object }>(
    'SELECT payload FROM payment_outbox_pending WHERE rail_type = $1 ORDER BY sequence_id',
    [outcomeTopic],
  )
  expect(rows.map(({ payload }) => payload)).toMatchObject([
    { outboxId, outcomeNo: 1, state: 'DISPATCHED', railReference: 'paid-1' },
    {
      outcomeNo: 2,
      state: 'RETURNED',
      errorCode: 'AC04',
      returned: { amount: '4', currency: 'EUR', reference: 'RT-1' },
    },
    { outcomeNo: 3, state: 'RETURNED', errorCode: 'MD06', returned: { amount: '6.50', reference: 'RT-2' } },
  ])
})

describe('the TypeScript library', () => {
  test('refuses an amount that its currency does not allow, and an unknown currency', async () => {
    for (const [amount, currency] of [
      ['10.501', 'EUR'],
      ['1.5', 'JPY'],
      ['0', 'EUR'],
      ['1e2', 'EUR'],
      ['1', 'XXX'],
    ] as const) {
      await expect(record(randomUUID(), { amount, currency })).rejects.toMatchObject({
        code: expect.stringMatching(/^(?:INVALID_ARGUMENT|ARGUMENT_OUT_OF_RANGE)$/),
      })
    }
  })

  test('finds returned payments by search, with filters and pages', async () => {
    const readonly = db.as('symphony_readonly')
    const railType = `rail-${randomUUID()}`
    const paid = []
    for (let n = 0; n < 3; n += 1) paid.push(await enqueuePaid(db, { railType }))
    const [first, second, third] = paid
    await record(first!.outboxId, { amount: '1', reference: 'RT-1' })
    await record(third!.outboxId, { amount: '1', reference: 'RT-1' })
    // A second return of the same payment does not list it twice.
    await record(third!.outboxId, { amount: '1', reference: 'RT-2' })
    const search = { returned: true, railType, limit: 1 }
    const page = await searchItems(readonly, search)
    expect(page.ids).toEqual([third!.outboxId])
    expect((await searchItems(readonly, { ...search, before: page.next! })).ids).toEqual([first!.outboxId])
    expect((await searchItems(readonly, { ...search, limit: 10, participants: [second!.participantId] })).ids).toEqual(
      [],
    )
    expect((await searchItems(readonly, { ...search, limit: 10, state: 'DISPATCHED' })).ids).toHaveLength(2)
    const later = new Date(Date.now() + 3_600_000)
    expect((await searchItems(readonly, { ...search, limit: 10, since: later })).ids).toEqual([])
    await expect(searchItems(readonly, { ...search, state: 'FAILED' })).rejects.toMatchObject({ argument: 'returned' })
  })
})

test('the status counts a returned payment once, however many returns it has', async () => {
  const total = async () => (await readOutboxStatus(db.as('symphony_readonly'))).returnedTotal
  const before = await total()
  const { outboxId } = await enqueuePaid(db)
  await record(outboxId, { amount: '1', reference: 'RT-1' })
  await record(outboxId, { amount: '1', reference: 'RT-1' })
  await record(outboxId, { amount: '2', reference: 'RT-2' })
  expect((await total()) - before).toBe(1n)
  // Rolls the tallies up into the totals, as lease repair does.
  await db.queryNoRole('SELECT roll_up_outbox_tallies()')
  expect((await total()) - before).toBe(1n)
})

/** Returns the verdicts on I11 of an audit of the database and of an audit of its export. */
async function auditedReturns() {
  const auditor = db.as('symphony_auditor')
  await using ledgerOfExport = await openLedger({ exportFolder: await exportTo(randomUUID()) })
  const reports = [await auditDatabase(auditor), await ledgerOfExport.audit()]
  return reports.map(({ invariants }) => invariants.find(({ id }) => id === 'I11'))
}

async function exportTo(name: string): Promise<string> {
  const folder = join(exports, name)
  await exportLedger(databaseSource(db.as('symphony_auditor')), folder)
  return folder
}

const exports = await mkdtemp(join(tmpdir(), 'symphony-returns-'))
afterAll(() => rm(exports, { recursive: true, force: true }))

describe('invariant I11 of the audit (returns)', () => {
  test('holds for recorded returns', async () => {
    await record((await enqueuePaid(db)).outboxId)
    const holds = { ok: true, found: [] }
    expect(await auditedReturns()).toMatchObject([holds, holds])
  })

  test('reports a return of more than the payment, and a return of an undispatched payment', async () => {
    const paid = await enqueuePaid(db)
    const failed = await enqueueFailed(db)
    for (const { outboxId } of [paid, failed]) {
      await db.queryNoRole(
        `INSERT INTO payment_outbox_events (event_id, outbox_id, event_no, event_type, actor, detail)
         VALUES (gen_random_uuid(), $1, 1, 'RETURN_RECORDED', 'mallory', '{"amount": "10.51", "currency": "EUR"}')`,
        [outboxId],
      )
    }
    const both = [paid.outboxId, failed.outboxId].toSorted()
    const verdicts = await auditedReturns()
    expect(verdicts.map((verdict) => verdict?.found.toSorted())).toEqual([both, both])
  })
})

test('two payments can have returns with the same reference', async () => {
  const one = await enqueuePaid(db)
  const other = await enqueuePaid(db)
  expect(await record(one.outboxId)).toMatchObject({ created: true })
  expect(await record(other.outboxId)).toMatchObject({ created: true })
})
