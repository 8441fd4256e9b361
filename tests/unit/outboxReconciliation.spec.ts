import { randomBytes, randomUUID } from 'node:crypto'
import { describe, expect, onTestFinished, test } from 'vitest'
import { call } from '../../libs/db/call.js'
import { enqueueMessage } from '../../libs/outbox/enqueue.js'
import { approveOutboxProposal, placeOutboxHold, recordOutboxReturn } from '../../libs/outbox/index.js'
import { useTestDatabase } from '../support/database.js'
import { buildInstruction, claimOnly, complete, enqueue, eventRows, ledger } from '../support/outboxItems.js'
import { createPerson, enqueueFailed, enqueueHeld, enqueuePaid } from '../support/outboxPeople.js'
import { failureOf, openConnection, race } from '../support/race.js'
import { findingsOf, finish, reconcileEntries, stageEntries, type TestEntry } from '../support/reconciliation.js'

/** Tests the SQL functions that compare a bank statement with the ledger of one rail. */

const db = await useTestDatabase()
const control = db.as('symphony_control')
const rita = await createPerson(db, 'rita')
const sam = await createPerson(db, 'sam')
const tina = await createPerson(db, 'tina')

const NOTHING = {
  matched: 0,
  paidTwice: 0,
  paidNotRecorded: 0,
  recordedNotPaid: 0,
  amountDiffers: 0,
  reversed: 0,
  unknownEntry: 0,
}
const DAY_MS = 86_400_000
const PAYLOAD = { amount: '10.50', currency: 'EUR', destination: 'account-1' }

function rail(): string {
  return `bank-${randomUUID()}`
}

function daysFromNow(days: number): Date {
  return new Date(Date.now() + days * DAY_MS)
}

async function count(table: string, where = 'true'): Promise<number> {
  const { rows } = await db.queryNoRole<{ n: string }>(`SELECT count(*) AS n FROM ${table} WHERE ${where}`)
  return Number(rows[0]!.n)
}

describe('finish_reconciliation', () => {
  test('matches one debit with one DISPATCHED payment of the same amount, in any notation', async () => {
    const { outboxId, railType } = await enqueuePaid(db)
    const run = await reconcileEntries(db, railType, [{ outboxId, amount: '10.5' }])
    expect(run).toMatchObject({ repeated: false, counts: { ...NOTHING, matched: 1 } })
    expect(await findingsOf(db, run.runId)).toEqual([])
  })

  test('reports a payment as paid twice, in one finding, if several debits name it', async () => {
    const { outboxId, railType } = await enqueuePaid(db)
    const run = await reconcileEntries(db, railType, [{ outboxId }, { outboxId }, { outboxId }])
    expect(run.counts).toEqual({ ...NOTHING, paidTwice: 1 })
    const [finding, ...others] = await findingsOf(db, run.runId)
    expect(others).toEqual([])
    expect(finding).toMatchObject({
      kind: 'paid_twice',
      severity: 'critical',
      outboxId,
      detail: {
        payment: { state: 'DISPATCHED', amount: '10.50', currency: 'EUR', railReference: 'paid-1' },
        entries: [{ amount: '10.50' }, { amount: '10.50' }, { amount: '10.50' }],
      },
    })
  })

  test('reports two debits with one bank reference in one file as paid twice', async () => {
    const { outboxId, railType } = await enqueuePaid(db)
    const twice: TestEntry[] = [
      { outboxId, bankReference: 'B-1' },
      { outboxId, bankReference: 'B-1' },
    ]
    expect((await reconcileEntries(db, railType, twice)).counts).toEqual({ ...NOTHING, paidTwice: 1 })
  })

  test('counts an entry only once if a second file repeats it, even without a bank reference', async () => {
    for (const bankReference of ['B-1', null]) {
      const { outboxId, railType } = await enqueuePaid(db)
      const entries = [{ outboxId, bankReference }]
      await reconcileEntries(db, railType, entries)
      const second = await reconcileEntries(db, railType, entries)
      expect(second).toMatchObject({ repeated: false, counts: { ...NOTHING, matched: 1 } })
    }
  })

  test('reports a payment as paid twice if an earlier file already had a debit for it', async () => {
    const { outboxId, railType } = await enqueuePaid(db)
    await reconcileEntries(db, railType, [{ outboxId }])
    const second = await reconcileEntries(db, railType, [{ outboxId }])
    expect(second.counts).toEqual({ ...NOTHING, paidTwice: 1 })
  })

  test('reports a debit as critical if its amount or currency differs or its amount is missing', async () => {
    const railType = rail()
    const paid = [
      await enqueuePaid(db, { railType }),
      await enqueuePaid(db, { railType }),
      await enqueuePaid(db, { railType }),
    ]
    const run = await reconcileEntries(db, railType, [
      { outboxId: paid[0]!.outboxId, amount: '10.51' },
      { outboxId: paid[1]!.outboxId, currency: 'USD' },
      { outboxId: paid[2]!.outboxId, amount: null },
    ])
    expect(run.counts).toEqual({ ...NOTHING, amountDiffers: 3 })
    expect((await findingsOf(db, run.runId)).map(({ severity }) => severity)).toEqual(Array(3).fill('critical'))
  })

  test('reports a debit for a FAILED payment as critical, for a pending one as a warning', async () => {
    const railType = rail()
    const failed = await enqueueFailed(db, { railType, payload: PAYLOAD })
    const pending = await enqueue(db, { railType, payload: PAYLOAD })
    const run = await reconcileEntries(db, railType, [failed, pending])
    expect(run.counts).toEqual({ ...NOTHING, paidNotRecorded: 2 })
    const found = await findingsOf(db, run.runId)
    expect(Object.fromEntries(found.map(({ outboxId, severity }) => [outboxId, severity]))).toEqual({
      [failed.outboxId]: 'critical',
      [pending.outboxId]: 'warning',
    })
    expect(await ledger(db, failed.outboxId)).toEqual(['1 FAILED'])
  })

  test('reports another amount of a FAILED, pending or held payment too, and proposes no decision', async () => {
    const given = { railType: rail(), payload: PAYLOAD }
    const failed = await enqueueFailed(db, given)
    const pending = await enqueue(db, given)
    const held = await enqueueHeld(db, rita, given)
    const run = await reconcileEntries(db, given.railType, [
      { outboxId: failed.outboxId, amount: '99' },
      { outboxId: pending.outboxId, currency: 'USD' },
      { outboxId: held.outboxId, amount: null },
    ])
    expect(run.counts).toEqual({ ...NOTHING, paidNotRecorded: 3, amountDiffers: 3 })
    const found = await findingsOf(db, run.runId)
    const differing = found.filter(({ kind }) => kind === 'amount_differs')
    expect(differing.map(({ severity }) => severity)).toEqual(Array(3).fill('critical'))
    const ofHeld = found.find(({ kind, outboxId }) => kind === 'paid_not_recorded' && outboxId === held.outboxId)
    expect(ofHeld!.detail).toMatchObject({ note: expect.stringContaining('another amount') })
    expect(await count('payment_outbox_proposals', `outbox_id = '${held.outboxId}'`)).toBe(0)
  })

  test('reports a payment again when it has become FAILED since the first report', async () => {
    const item = await enqueue(db, { payload: PAYLOAD })
    const entry = { outboxId: item.outboxId, bankReference: 'B-1' }
    await reconcileEntries(db, item.railType, [entry])
    await complete(db, await claimOnly(db, item.railType), { state: 'FAILED', errorCode: 'REFUSED' })
    const run = await reconcileEntries(db, item.railType, [entry])
    expect(await findingsOf(db, run.runId)).toMatchObject([{ kind: 'paid_not_recorded', severity: 'critical' }])
  })

  test('reports a missing debit of a DISPATCHED payment once, and counts it in every run', async () => {
    const { outboxId, railType } = await enqueuePaid(db)
    const first = await reconcileEntries(db, railType, [])
    expect(first.counts).toEqual({ ...NOTHING, recordedNotPaid: 1 })
    expect(await findingsOf(db, first.runId)).toMatchObject([
      { kind: 'recorded_not_paid', severity: 'critical', outboxId, detail: { entries: [] } },
    ])
    const second = await reconcileEntries(db, railType, [])
    expect(second.counts).toEqual({ ...NOTHING, recordedNotPaid: 1 })
    expect(await findingsOf(db, second.runId)).toEqual([])
  })

  test('reports no missing debit outside the period or within the settlement days', async () => {
    const { railType } = await enqueuePaid(db)
    const runs = [
      { from: daysFromNow(1), to: daysFromNow(2) },
      { from: daysFromNow(-3), to: daysFromNow(-1) },
      { from: daysFromNow(-1), to: daysFromNow(1), settlementDays: 2 },
    ]
    for (const options of runs) {
      expect((await reconcileEntries(db, railType, [], options)).counts).toEqual(NOTHING)
    }
  })

  test('checks payments from where the previous run stopped, so that none is skipped', async () => {
    const { railType } = await enqueuePaid(db)
    const settlementDays = 2
    await reconcileEntries(db, railType, [], { from: daysFromNow(-1), to: daysFromNow(1), settlementDays })
    const later = { from: daysFromNow(3), to: daysFromNow(4), settlementDays }
    expect((await reconcileEntries(db, railType, [], later)).counts).toEqual({ ...NOTHING, recordedNotPaid: 1 })
  })

  test('checks payments from where the previous run stopped, although its period overlaps', async () => {
    const { railType } = await enqueuePaid(db)
    const settlementDays = 2
    await reconcileEntries(db, railType, [], { from: daysFromNow(-1), to: daysFromNow(1), settlementDays })
    const overlapping = { from: daysFromNow(0.5), to: daysFromNow(4), settlementDays }
    expect((await reconcileEntries(db, railType, [], overlapping)).counts).toEqual({ ...NOTHING, recordedNotPaid: 1 })
  })

  test('checks payments that no earlier run checked, because statements were loaded newest first', async () => {
    const { railType } = await enqueuePaid(db)
    const load = async (day: number) => {
      const period = { from: daysFromNow(day - 0.5), to: daysFromNow(day + 0.5), settlementDays: 1 }
      return (await reconcileEntries(db, railType, [], period)).counts
    }
    expect([await load(1), await load(0)]).toEqual([NOTHING, NOTHING])
    expect(await load(2)).toEqual({ ...NOTHING, recordedNotPaid: 1 })
    expect(await load(3)).toEqual(NOTHING)
  })

  test('finds the previous run of the same accounts in any order', async () => {
    const [railType, from] = [rail(), daysFromNow(-1)]
    const to = new Date(from.getTime() + 2 * DAY_MS)
    await reconcileEntries(db, railType, [], { from, to, settlementDays: 2, accounts: ['B', 'A'] })
    const window = [railType, ['B', 'A', 'B'], daysFromNow(2), daysFromNow(3), 0]
    expect(await call(control, 'reconciliation_window', window)).toMatchObject([{ checked_from: from }])
  })

  test('starts at its own period, not where the last run stopped, after a gap of over four days', async () => {
    const { railType } = await enqueuePaid(db)
    await reconcileEntries(db, railType, [], { from: daysFromNow(-1), to: daysFromNow(1), settlementDays: 2 })
    const later = { from: daysFromNow(6), to: daysFromNow(9), settlementDays: 2 }
    expect((await reconcileEntries(db, railType, [], later)).counts).toEqual(NOTHING)
  })

  test('is refused (40001) if its window starts before the time that the caller has annotated', async () => {
    const given = { from: daysFromNow(-2), to: daysFromNow(-1) }
    const late = reconcileEntries(db, rail(), [], { ...given, coveredFrom: daysFromNow(-1.5) })
    expect(await failureOf(late)).toMatchObject({ sqlstate: '40001' })
    await reconcileEntries(db, rail(), [], { ...given, coveredFrom: given.from })
  })

  test('starts where a run with long settlement stopped, despite a run that ended long before', async () => {
    const [railType, accounts] = [rail(), ['A']]
    const end = daysFromNow(-10)
    await reconcileEntries(db, railType, [], { from: daysFromNow(-20), to: end, settlementDays: 8, accounts })
    const short = { from: daysFromNow(-19), to: daysFromNow(-15), settlementDays: 0, accounts }
    await reconcileEntries(db, railType, [], short)
    const window = [railType, accounts, daysFromNow(-10), daysFromNow(-9), 0]
    const stopped = new Date(end.getTime() - 8 * DAY_MS)
    expect(await call(control, 'reconciliation_window', window)).toMatchObject([{ checked_from: stopped }])
  })

  test('stores only count and sum of unknown entries, unless keepUnknown is set', async () => {
    const railType = rail()
    const salaries = [{ amount: '100.00' }, { amount: '2.50' }, { amount: '7', currency: 'USD' }]
    const run = await reconcileEntries(db, railType, salaries)
    expect(run).toMatchObject({ counts: { ...NOTHING, unknownEntry: 3 }, unknownSums: { EUR: '102.5', USD: '7' } })
    expect(await count('reconciliation_entries', `run_id = '${run.runId}'`)).toBe(0)
    expect(await findingsOf(db, run.runId)).toEqual([])
    const kept = await reconcileEntries(db, railType, salaries, { keepUnknown: true })
    expect(await findingsOf(db, kept.runId)).toMatchObject([
      { kind: 'unknown_entry', severity: 'info', outboxId: null, detail: { payment: null } },
      { kind: 'unknown_entry' },
      { kind: 'unknown_entry' },
    ])
  })

  test('records one run of a file with 1,000 accounts, and the same run if it is repeated', async () => {
    const accounts = Array.from({ length: 1_000 }, () => randomBytes(32).toString('hex'))
    const railType = rail()
    const options = { accounts, file: 'a large file' }
    const { runId, repeated } = await reconcileEntries(db, railType, [], options)
    expect(repeated).toBe(false)
    expect(await reconcileEntries(db, railType, [], options)).toMatchObject({ runId, repeated: true })
    expect(await reconcileEntries(db, railType, [], { ...options, accounts: accounts.slice(1) })).toMatchObject({
      repeated: false,
    })
  })

  test('counts payments of other rails separately, and reports no finding about them', async () => {
    const { outboxId } = await enqueuePaid(db)
    const run = await reconcileEntries(db, rail(), [{ outboxId }, { outboxId, kind: 'reversal' }])
    expect(run).toMatchObject({ counts: NOTHING, otherRails: 1 })
    expect(await eventRows(db, outboxId)).toEqual([])
  })

  test('uses the first of up to 20 references that names a payment, and ignores messages', async () => {
    const { outboxId, railType } = await enqueuePaid(db)
    const message = await enqueueMessage(buildInstruction({ railType }), { tx: db.as('symphony_ingest') })
    const unknown = Array.from({ length: 17 }, () => randomUUID())
    const candidates = [...unknown, message.outboxId, outboxId, randomUUID()].join(',')
    expect((await reconcileEntries(db, railType, [{ candidates }])).counts).toEqual({ ...NOTHING, matched: 1 })
    const tooMany = failureOf(reconcileEntries(db, railType, [{ candidates: `${candidates},${randomUUID()}` }]))
    expect(await tooMany).toMatchObject({ sqlstate: '22023', message: expect.stringContaining('p_candidates') })
  })

  test('compares amounts that the caller decrypted, and refuses unreadable ones (P7019)', async () => {
    const item = await enqueuePaid(db, { payload: { amount: { secret: 'x' }, currency: 'EUR' } })
    const entries = [{ outboxId: item.outboxId, amount: '12.00' }]
    const error = await failureOf(reconcileEntries(db, item.railType, entries))
    expect(error).toMatchObject({ code: 'AMOUNT_UNREADABLE', sqlstate: 'P7019' })
    const uploadId = await stageEntries(control, entries)
    const unreadable = await call(control, 'unreadable_reconciliation_payments', [uploadId, item.railType, 10])
    expect(unreadable).toMatchObject([{ outbox_id: item.outboxId, payload: { currency: 'EUR' } }])
    await call(control, 'annotate_reconciliation_payments', [uploadId, [item.outboxId], ['12'], ['EUR'], [true]])
    const run = await finish(control, uploadId, item.railType, { entries: 1 })
    expect(run.counts).toEqual({ ...NOTHING, matched: 1 })
  })

  test('reports no missing debit of a payment from an account outside the statement', async () => {
    const { outboxId, railType } = await enqueuePaid(db)
    const uploadId = await stageEntries(control, [])
    await call(control, 'annotate_reconciliation_payments', [uploadId, [outboxId], [null], [null], [false]])
    expect((await finish(control, uploadId, railType, { entries: 0 })).counts).toEqual(NOTHING)
  })

  test('refuses an upload with fewer entries than the statement, and records nothing (P7018)', async () => {
    const { outboxId, railType } = await enqueuePaid(db)
    const error = await failureOf(reconcileEntries(db, railType, [{ outboxId }], { entries: 2 }))
    expect(error).toMatchObject({ code: 'UPLOAD_INCOMPLETE', sqlstate: 'P7018' })
    expect(await count('reconciliation_runs', `rail_type = '${railType}'`)).toBe(0)
    expect(await count('reconciliation_entries', `outbox_id = '${outboxId}'`)).toBe(0)
  })

  test('refuses a period that ends before it begins (22023)', async () => {
    const error = await failureOf(reconcileEntries(db, rail(), [], { from: daysFromNow(1), to: daysFromNow(0) }))
    expect(error).toMatchObject({ sqlstate: '22023', message: expect.stringContaining('p_period_to') })
  })

  test('deletes the staged entries of its upload', async () => {
    const { outboxId, railType } = await enqueuePaid(db)
    const uploadId = await stageEntries(control, [{ outboxId }])
    expect(await count('reconciliation_uploads', `upload_id = '${uploadId}'`)).toBe(1)
    await finish(control, uploadId, railType, { entries: 1 })
    expect(await count('reconciliation_uploads', `upload_id = '${uploadId}'`)).toBe(0)
  })
})

describe('a file that is reconciled again', () => {
  test('returns the first run with its counts', async () => {
    const { outboxId, railType } = await enqueuePaid(db)
    const first = await reconcileEntries(db, railType, [{ outboxId }, {}], { file: 'A' })
    const second = await reconcileEntries(db, railType, [{ outboxId }, {}], { file: 'A' })
    expect(second).toEqual({ ...first, repeated: true })
    expect(await count('reconciliation_runs', `rail_type = '${railType}'`)).toBe(1)
  })

  test('gives one run if four processes reconcile it at once', async () => {
    const { outboxId, railType } = await enqueuePaid(db)
    const { values, errors } = await race(db, 'symphony_control', 4, (role) =>
      reconcileEntries(db, railType, [{ outboxId }], { role, file: 'B' }),
    )
    expect(errors).toEqual([])
    expect(new Set(values.map(({ runId }) => runId)).size).toBe(1)
    expect(await count('reconciliation_runs', `rail_type = '${railType}'`)).toBe(1)
  })

  test('gives another run for another rail or with other options', async () => {
    const railType = rail()
    await reconcileEntries(db, railType, [], { file: 'C' })
    for (const [other, options] of [
      [rail(), {}],
      [railType, { accounts: ['FR7630006000011234567890189'] }],
      [railType, { settlementDays: 1 }],
      [railType, { from: daysFromNow(-3) }],
      [railType, { to: daysFromNow(3) }],
      [railType, { keepUnknown: true }],
      [railType, { reading: 'other columns' }],
    ] as const) {
      expect((await reconcileEntries(db, other, [], { file: 'C', ...options })).repeated).toBe(false)
    }
  })
})

describe('a dry run of a reconciliation', () => {
  test('returns counts and findings, and stores nothing', async () => {
    const railType = rail()
    const paid = await enqueuePaid(db, { railType, payload: PAYLOAD })
    const held = await enqueueHeld(db, rita, { railType, payload: PAYLOAD })
    const entries = [paid, { outboxId: paid.outboxId, kind: 'reversal' } as const, held, {}]
    await enqueuePaid(db, { railType })
    const run = await reconcileEntries(db, railType, entries, { dryRun: true, keepUnknown: true })
    expect(run).toMatchObject({
      runId: null,
      counts: { ...NOTHING, matched: 1, paidNotRecorded: 1, recordedNotPaid: 1, reversed: 1, unknownEntry: 1 },
    })
    expect(run.findings!.map(({ kind }) => kind).toSorted()).toEqual([
      'paid_not_recorded',
      'recorded_not_paid',
      'reversed',
      'unknown_entry',
    ])
    expect(run.findings!.map(({ severity }) => severity)).toEqual(['critical', 'warning', 'warning', 'info'])
    for (const table of ['reconciliation_entries', 'reconciliation_findings']) {
      expect(await count(table, `outbox_id IN ('${paid.outboxId}', '${held.outboxId}')`)).toBe(0)
    }
    expect(await count('payment_outbox_proposals', `outbox_id = '${held.outboxId}'`)).toBe(0)
    expect(await eventRows(db, paid.outboxId)).toEqual([])
    expect(await count('reconciliation_uploads', `outbox_id = '${paid.outboxId}'`)).toBe(0)
    expect((await reconcileEntries(db, railType, entries)).counts).toEqual(run.counts)
  })
})

describe('a reversal on a statement', () => {
  test('records a return of the payment, only once if two files have it', async () => {
    const { outboxId, railType } = await enqueuePaid(db)
    const entries: TestEntry[] = [
      { outboxId, bankReference: 'B-1' },
      { outboxId, kind: 'reversal', bankReference: 'R-1', amount: '4.00', returnCode: 'AC04', bookedOn: '2026-02-03' },
    ]
    const run = await reconcileEntries(db, railType, entries)
    expect(run.counts).toEqual({ ...NOTHING, matched: 1, reversed: 1 })
    const [event] = await eventRows(db, outboxId)
    expect(event).toMatchObject({
      event_type: 'RETURN_RECORDED',
      detail: { amount: '4.00', code: 'AC04', reference: 'R-1', occurred_at: '2026-02-03T00:00:00.000000Z' },
    })
    expect(await findingsOf(db, run.runId)).toMatchObject([
      { kind: 'reversed', severity: 'warning', outboxId, detail: { returnEventId: event!.event_id } },
    ])
    const second = await reconcileEntries(db, railType, entries)
    expect(second.counts).toEqual({ ...NOTHING, matched: 1, reversed: 1 })
    expect(await eventRows(db, outboxId)).toHaveLength(1)
    expect(await findingsOf(db, second.runId)).toEqual([])
  })

  test('records a return of an amount that the statement writes with five decimals', async () => {
    const { outboxId, railType } = await enqueuePaid(db)
    await reconcileEntries(db, railType, [{ outboxId }, { outboxId, kind: 'reversal', amount: '4.50000' }])
    expect(await eventRows(db, outboxId)).toMatchObject([{ event_type: 'RETURN_RECORDED', detail: { amount: '4.5' } }])
  })

  test('is recorded even if it repeats a bank reference, unless the returns exceed the payment', async () => {
    const { outboxId, railType } = await enqueuePaid(db)
    const part: TestEntry = { outboxId, kind: 'reversal', bankReference: 'R-1', amount: '5.00' }
    const run = await reconcileEntries(db, railType, [{ outboxId }, part, part, part])
    expect(run.counts).toMatchObject({ reversed: 3 })
    expect((await eventRows(db, outboxId)).map(({ detail }) => detail['reference'])).toEqual(['R-1', 'R-1 #2'])
    const notes = (await findingsOf(db, run.runId)).map(({ detail }) => detail.note)
    expect(notes.filter((note) => note !== undefined)).toEqual([expect.stringContaining('RETURN_EXCEEDS_PAYMENT')])
  })

  test.for([
    ['the bank paid twice', (outboxId: string): TestEntry[] => [{ outboxId }, { outboxId }], 'paid twice'],
    ['the bank paid another amount', (outboxId: string): TestEntry[] => [{ outboxId, amount: '99' }], 'another amount'],
  ] as const)('records no return if %s, because the reversal may correct that', async ([, debits, note]) => {
    const { outboxId, railType } = await enqueuePaid(db)
    const run = await reconcileEntries(db, railType, [...debits(outboxId), { outboxId, kind: 'reversal' }])
    expect(await eventRows(db, outboxId)).toEqual([])
    const reversed = (await findingsOf(db, run.runId)).find(({ kind }) => kind === 'reversed')
    expect(reversed!.detail.note).toContain(note)
  })

  test('records no return of an encrypted payment if a finding says that its amount differs', async () => {
    const { outboxId, railType } = await enqueuePaid(db, { payload: { amount: { secret: 'x' }, currency: 'EUR' } })
    const uploadId = await stageEntries(control, [{ outboxId, amount: '1000' }])
    await call(control, 'annotate_reconciliation_payments', [uploadId, [outboxId], ['100'], ['EUR'], [true]])
    await finish(control, uploadId, railType, { entries: 1 })
    const run = await reconcileEntries(db, railType, [{ outboxId, kind: 'reversal', amount: '1000' }])
    expect(await eventRows(db, outboxId)).toEqual([])
    expect((await findingsOf(db, run.runId))[0]!.detail.note).toContain('another amount')
  })

  test('records no return if its entry is a debit', async () => {
    const { outboxId, railType } = await enqueuePaid(db)
    const run = await reconcileEntries(db, railType, [{ outboxId, kind: 'debit_reversal' }], { to: daysFromNow(-0.5) })
    expect(run.counts).toEqual({ ...NOTHING, reversed: 1 })
    expect(await eventRows(db, outboxId)).toEqual([])
  })

  test('records no return of a payment that is not DISPATCHED or whose return is already recorded', async () => {
    const railType = rail()
    const failed = await enqueueFailed(db, { railType, payload: PAYLOAD })
    const pending = await enqueue(db, { railType, payload: PAYLOAD })
    const returned = await enqueuePaid(db)
    await recordOutboxReturn(control, {
      outboxId: returned.outboxId,
      amount: '10.50',
      currency: 'EUR',
      code: 'AC04',
      reference: 'R-1',
    })
    const kind = 'reversal'
    const run = await reconcileEntries(db, railType, [
      { outboxId: failed.outboxId, kind },
      { outboxId: pending.outboxId, kind },
    ])
    const again = { outboxId: returned.outboxId, kind, bankReference: 'R-1', amount: '1' } as const
    const known = await reconcileEntries(db, returned.railType, [{ outboxId: returned.outboxId }, again])
    const notes = [...(await findingsOf(db, run.runId)), ...(await findingsOf(db, known.runId))].map(
      ({ detail }) => detail.note,
    )
    expect(notes).toEqual([
      expect.stringContaining('ALREADY_TERMINAL'),
      expect.stringContaining('HELD'),
      expect.stringContaining('IDEMPOTENCY_CONFLICT'),
    ])
  })
})

describe('a held payment that the bank paid', () => {
  test('gets a proposal that two people must approve, neither of them the actor of the run', async () => {
    const held = await enqueueHeld(db, rita, { payload: PAYLOAD })
    const entry = { outboxId: held.outboxId, bankReference: 'B-77' }
    const run = await reconcileEntries(db, held.railType, [entry], { role: rita.control })
    expect(run.counts).toEqual({ ...NOTHING, paidNotRecorded: 1 })
    const [finding] = await findingsOf(db, run.runId)
    expect(finding).toMatchObject({ severity: 'warning', detail: { payment: { state: 'HELD' } } })
    const proposalId = finding!.detail.proposalId!
    expect(await failureOf(approveOutboxProposal(rita.control, proposalId))).toMatchObject({ sqlstate: 'P7007' })
    expect(await approveOutboxProposal(sam.control, proposalId)).toMatchObject({ applied: false })
    expect(await ledger(db, held.outboxId)).toEqual([])
    expect(await failureOf(approveOutboxProposal(sam.control, proposalId))).toMatchObject({
      sqlstate: 'P7007',
      message: expect.stringContaining('second approver'),
    })
    expect(await failureOf(approveOutboxProposal(rita.control, proposalId))).toMatchObject({ sqlstate: 'P7007' })
    expect(await approveOutboxProposal(tina.control, proposalId)).toMatchObject({ applied: true })
    expect(await ledger(db, held.outboxId)).toEqual(['1 DISPATCHED'])
    expect((await eventRows(db, held.outboxId)).map(({ event_type }) => event_type)).toEqual([
      'HOLD_PLACED',
      'DECISION_PROPOSED',
      'DECISION_APPROVED',
      'HOLD_RESOLVED',
    ])
  })

  test('gets a proposal without amount and texts of the entry, because every reader sees proposals', async () => {
    const railType = rail()
    const entries: TestEntry[] = []
    for (const bankReference of ['B-77', null]) {
      const { outboxId } = await enqueueHeld(db, rita, { railType, payload: PAYLOAD })
      entries.push({ outboxId, bankReference, reference: 'Rent of Jane Doe', bookedOn: '2026-02-03' })
    }
    const { runId } = await reconcileEntries(db, railType, entries)
    const { rows } = await db.queryNoRole(
      `SELECT reason, rail_reference FROM payment_outbox_proposals JOIN payment_outbox_identities USING (outbox_id)
       WHERE rail_type = $1 ORDER BY outbox_id`,
      [railType],
    )
    const reasonOf = (n: number) =>
      `The bank booked a debit on 2026-02-03. Reconciliation run ${runId}, entry ${n} of the statement.`
    expect(rows).toEqual([
      { reason: reasonOf(1), rail_reference: 'B-77' },
      { reason: reasonOf(2), rail_reference: entries[1]!.outboxId },
    ])
  })

  test('keeps an open proposal, and the finding names the existing proposal', async () => {
    const held = await enqueueHeld(db, rita, { payload: PAYLOAD })
    const { proposal_id: open } = (
      await call<{ proposal_id: string }>(rita.control, 'resolve_outbox_hold', [held.outboxId, 'FAILED', 'no', null])
    )[0]!
    const run = await reconcileEntries(db, held.railType, [held])
    const [finding] = await findingsOf(db, run.runId)
    expect(finding!.detail.note).toContain('has proposed FAILED already')
    expect(open).toEqual(expect.any(String))
  })

  test('gets no proposal while a worker has leased it', async () => {
    const item = await enqueue(db, { payload: PAYLOAD })
    await claimOnly(db, item.railType)
    await placeOutboxHold(rita.control, item.outboxId, 'wait')
    const run = await reconcileEntries(db, item.railType, [item])
    const [finding] = await findingsOf(db, run.runId)
    expect(finding!.detail.note).toContain('has leased it')
  })
})

describe('close_reconciliation_finding', () => {
  test('closes a finding once, and adds an event to the payment, with the finding and the reason', async () => {
    const { outboxId, railType } = await enqueuePaid(db)
    const run = await reconcileEntries(db, railType, [{ outboxId }, { outboxId }])
    const { findingId } = (await findingsOf(db, run.runId))[0]!
    const { errors } = await race(db, 'symphony_control', 2, (role) =>
      call(role, 'close_reconciliation_finding', [findingId, 'the bank sent it back']),
    )
    expect(errors).toMatchObject([{ sqlstate: 'P7006' }])
    const events = await eventRows(db, outboxId)
    expect(events).toMatchObject([
      {
        event_type: 'FINDING_CLOSED',
        detail: { finding_id: findingId, kind: 'paid_twice', reason: 'the bank sent it back' },
      },
    ])
    expect(await count('reconciliation_closings', `finding_id = '${findingId}'`)).toBe(1)
  })

  test('refuses an unknown finding id (22023)', async () => {
    const error = await failureOf(call(control, 'close_reconciliation_finding', [randomUUID(), 'mistaken']))
    expect(error).toMatchObject({ sqlstate: '22023', message: expect.stringContaining('p_finding_id') })
  })

  test('adds the event to the scope of the finding if the finding has no payment', async () => {
    const run = await reconcileEntries(db, rail(), [{}], { keepUnknown: true })
    const { findingId } = (await findingsOf(db, run.runId))[0]!
    await call(rita.control, 'close_reconciliation_finding', [findingId, 'a salary'])
    expect(await count('payment_outbox_events', `scope = 'finding:${findingId}' AND actor = '${rita.name}'`)).toBe(1)
  })
})

describe('the stored record of a reconciliation run', () => {
  test('equals the detail of its event under any bytea_output; its digests match its rows', async () => {
    const { outboxId, railType } = await enqueuePaid(db)
    const run = await reconcileEntries(db, railType, [{ outboxId }, { outboxId }])
    const session = await openConnection(db)
    onTestFinished(() => session.close())
    await session.query(`SET bytea_output = 'escape'`)
    const { rows } = await session.query(
      `SELECT e.detail = describe_reconciliation_run(r) AS same, e.actor = r.actor AS same_actor,
         e.scope, d.entries_sha256 = r.entries_sha256 AND d.findings_sha256 = r.findings_sha256 AS same_digests
       FROM reconciliation_runs r JOIN payment_outbox_events e ON e.event_id = r.event_id
       CROSS JOIN LATERAL reconciliation_digests(r.run_id) d WHERE r.run_id = $1`,
      [run.runId],
    )
    expect(rows).toEqual([{ same: true, same_actor: true, scope: `reconciliation:${railType}`, same_digests: true }])
  })

  test.for(['reconciliation_runs', 'reconciliation_entries', 'reconciliation_findings', 'reconciliation_closings'])(
    'cannot be deleted or truncated, not even by a superuser: %s (P0001)',
    async (table) => {
      for (const statement of [`DELETE FROM ${table}`, `TRUNCATE ${table}`]) {
        expect(await failureOf(db.queryNoRole(statement))).toMatchObject({ code: 'P0001' })
      }
    },
  )
})

describe('stage_reconciliation_entries', () => {
  test('stores nothing twice if a batch is repeated', async () => {
    const { outboxId } = await enqueuePaid(db)
    const uploadId = await stageEntries(control, [{ outboxId }])
    const batch = [['payout'], [null], ['B-1'], [null], [null], ['1'], ['EUR'], [null], [null], [null], [1]]
    await call(control, 'stage_reconciliation_entries', [...batch, uploadId])
    expect(await count('reconciliation_uploads', `upload_id = '${uploadId}'`)).toBe(1)
    expect(await call(control, 'discard_reconciliation_upload', [uploadId])).toEqual([
      { discard_reconciliation_upload: 1n },
    ])
  })

  test('refuses the id of an upload older than a day (22023); lease repair deletes such uploads', async () => {
    const old = '01890000-0000-7000-8000-000000000000'
    const batch = [['payout'], [null], ['B-1'], [null], [null], ['1'], ['EUR'], [null], [null], [null], [1]]
    const error = await failureOf(call(control, 'stage_reconciliation_entries', [...batch, old]))
    expect(error).toMatchObject({ sqlstate: '22023', message: expect.stringContaining('p_upload_id') })
    await db.queryNoRole(
      `INSERT INTO reconciliation_uploads (upload_id, position, entry_key, kind) VALUES ($1, 1, '\\x00', 'payout')`,
      [old],
    )
    await call(db.as('symphony_executor'), 'repair_expired_leases', [1, 'worker-1'])
    expect(await count('reconciliation_uploads', `upload_id = '${old}'`)).toBe(0)
  })

  test.for([
    [1, 'p_entry_kinds', ['credit']],
    [2, 'p_accounts', ['']],
    [3, 'p_bank_references', ['a\u0007b']],
    [4, 'p_shown_references', ['x'.repeat(201)]],
    [5, 'p_candidates', ['not-an-id']],
    [6, 'p_entry_amounts', ['-1']],
    [6, 'p_entry_amounts', ['NaN']],
    [7, 'p_entry_currencies', ['euro']],
    [8, 'p_booked_on', ['infinity']],
    [9, 'p_valued_on', ['1800-01-01']],
    [10, 'p_return_codes', ['x'.repeat(36)]],
    [11, 'p_positions', [0]],
    [2, 'p_accounts', []],
  ] as const)('refuses argument %i, %s: %j (22023)', async ([n, name, value]) => {
    const valid: unknown[] = [['payout'], [null], ['B-1'], [null], [null], ['1'], ['EUR'], [null], [null], [null], [1]]
    const error = await failureOf(call(control, 'stage_reconciliation_entries', valid.with(n - 1, value)))
    expect(error).toMatchObject({ sqlstate: '22023', message: expect.stringContaining(name) })
  })
})
