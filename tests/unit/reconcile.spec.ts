import { createHash, randomUUID } from 'node:crypto'
import { Readable } from 'node:stream'
import { describe, expect, test } from 'vitest'
import type { JsonObject, JsonValue } from '../../libs/core/index.js'
import type { Queryable } from '../../libs/db/index.js'
import { destroySubjectKey } from '../../libs/protection/db.js'
import { FieldVault } from '../../libs/protection/index.js'
import { loadRail, type RailPayment } from '../../libs/rails/index.js'
import {
  closeReconciliationFinding,
  readFindings,
  readReconciliationRun,
  readReconciliationRuns,
  reconcile,
  type ReconcileOptions,
  type ReconcileTools,
  type Reconciliation,
  type StatementEntry,
} from '../../libs/reconciliation/index.js'
import { useTestDatabase } from '../support/database.js'
import { buildInstruction, claimOnly, complete, type Enqueued } from '../support/outboxItems.js'
import { createPerson, enqueueFailed, enqueueHeld, enqueuePaid } from '../support/outboxPeople.js'
import { buildMasterKey, ProtectionFixture } from '../support/protectionFixture.js'

/** Tests the library function that reads a statement, stages its entries, and lets the database compare. */

const db = await useTestDatabase()
const control = db.as('symphony_control')
const rita = await createPerson(db, 'rita')

const DAY_MS = 86_400_000
const TODAY = new Date().toISOString().slice(0, 10)
const NOTHING = {
  matched: 0,
  paidTwice: 0,
  paidNotRecorded: 0,
  recordedNotPaid: 0,
  amountDiffers: 0,
  reversed: 0,
  unknownEntry: 0,
}

type Line = Partial<Omit<StatementEntry, 'candidates' | 'position'>>

function debit(reference: string | null, given: Line = {}): Line {
  return { reference, bankReference: `B-${randomUUID()}`, amount: '10.50', currency: 'EUR', bookedOn: TODAY, ...given }
}

function textOf(lines: readonly Line[]): string {
  return lines.map((line) => `${JSON.stringify(line)}\n`).join('')
}

function bytesOf(text: string): AsyncIterable<Uint8Array> {
  return Readable.from([Buffer.from(text)])
}

interface Given extends Partial<ReconcileOptions> {
  readonly role?: Queryable
  readonly tools?: Partial<ReconcileTools>
}

/** Reconciles lines of NDJSON as control, with 0 settlement days unless given. */
function run(rail: string, lines: readonly Line[] | string, { role = control, tools, ...options }: Given = {}) {
  const statement = bytesOf(typeof lines === 'string' ? lines : textOf(lines))
  const given = { rail, statement, format: 'ndjson', settlementDays: 0, ...options } as const
  return reconcile(role, given, { vault: new FieldVault(new Map()), ...tools })
}

async function stored(): Promise<Readonly<Record<string, number>>> {
  const counts: Record<string, number> = {}
  for (const table of ['uploads', 'upload_payments', 'runs', 'entries', 'findings']) {
    const { rows } = await db.queryNoRole<{ n: bigint }>(`SELECT count(*) AS n FROM reconciliation_${table}`)
    counts[table] = Number(rows[0]!.n)
  }
  return counts
}

/** Fails if the call stores anything, staged entries included. */
async function storingNothing<T>(work: () => Promise<T>): Promise<T> {
  const before = await stored()
  try {
    return await work()
  } finally {
    expect(await stored()).toEqual(before)
  }
}

function payOn(railType: string): Promise<Enqueued> {
  return enqueuePaid(db, { railType })
}

describe('reconcile()', () => {
  test('compares a statement with the ledger; findings have the payment and the bank entries', async () => {
    const rail = `bank-${randomUUID()}`
    const [paid, twice, missing] = [await payOn(rail), await payOn(rail), await payOn(rail)]
    const failed = await enqueueFailed(db, { railType: rail })
    const lines = [
      debit(paid.outboxId.replaceAll('-', '').toUpperCase()),
      debit(twice.outboxId, { bankReference: 'B-1' }),
      debit(twice.outboxId, { bankReference: 'B-2' }),
      debit(failed.outboxId),
      debit('a salary', { amount: '99.00' }),
    ]
    const result = await run(rail, lines)
    expect(result).toMatchObject({
      repeated: false,
      dryRun: false,
      railType: rail,
      format: 'ndjson',
      fileSha256: createHash('sha256').update(textOf(lines)).digest('hex'),
      accounts: [],
      periodFrom: `${TODAY}T00:00:00.000Z`,
      settlementDays: 0,
      entries: 5,
      counts: {
        ...NOTHING,
        matched: 1,
        paidTwice: 1,
        paidNotRecorded: 1,
        recordedNotPaid: 1,
        unknownEntry: 1,
      },
      unknownSums: { EUR: '99' },
    })
    const byKind = new Map(result.findings.map((finding) => [finding.kind, finding]))
    expect(byKind.size).toBe(3)
    expect(byKind.get('recorded_not_paid')).toMatchObject({ outboxId: missing.outboxId, entries: [], railType: rail })
    expect(byKind.get('paid_twice')).toMatchObject({
      severity: 'critical',
      outboxId: twice.outboxId,
      runId: result.runId,
      payment: { state: 'DISPATCHED', amount: '10.50', instructionId: twice.instructionId },
      entries: [{ bankReference: 'B-1' }, { bankReference: 'B-2' }],
      proposalId: null,
      note: null,
      closed: null,
    })
    expect(await readReconciliationRun(control, result.runId!)).toMatchObject({
      runId: result.runId,
      fileSha256: result.fileSha256,
      entries: 5,
      counts: result.counts,
      otherRails: 0,
    })
  })

  test('returns the earlier run for the same file and options, and a new one for others', async () => {
    const rail = `bank-${randomUUID()}`
    const { outboxId } = await payOn(rail)
    const lines = [debit(outboxId, { amount: '10.51' })]
    const first = await run(rail, lines)
    const again = await storingNothing(() => run(rail, lines))
    expect(again).toEqual({ ...first, repeated: true })
    expect(again.findings).toMatchObject([{ kind: 'amount_differs' }])
    const other = await run(rail, lines, { referencePattern: /RF(\w+)/ })
    expect(other).toMatchObject({ repeated: false, fileSha256: first.fileSha256 })
  })

  test('ignores pending entries, information entries and credits that are no reversals', async () => {
    const rail = `bank-${randomUUID()}`
    const { outboxId } = await payOn(rail)
    const result = await run(
      rail,
      [
        debit(outboxId, { status: 'pending' }),
        debit(outboxId, { status: 'information' }),
        debit(outboxId, { direction: 'credit' }),
      ],
      { from: new Date(Date.now() - DAY_MS), to: new Date(Date.now() + DAY_MS) },
    )
    expect(result).toMatchObject({ entries: 0, counts: { ...NOTHING, recordedNotPaid: 1 } })
  })

  test('records a reversal as a return, and proposes DISPATCHED for a held payment that was paid', async () => {
    const rail = `bank-${randomUUID()}`
    const returned = await payOn(rail)
    const held = await enqueueHeld(db, rita, { railType: rail, payload: PAYLOAD })
    const result = await run(rail, [
      debit(returned.outboxId),
      debit(returned.outboxId, { direction: 'credit', reversal: true, returnCode: 'AC04' }),
      debit(held.outboxId),
    ])
    expect(result.counts).toEqual({ ...NOTHING, matched: 1, paidNotRecorded: 1, reversed: 1 })
    expect(result.findings).toMatchObject(
      expect.arrayContaining([
        expect.objectContaining({ kind: 'reversed', returnEventId: expect.any(String), proposalId: null }),
        expect.objectContaining({ kind: 'paid_not_recorded', proposalId: expect.any(String), returnEventId: null }),
      ]),
    )
  })

  test('stages a long statement in batches of 2,000 entries and counts them all', async () => {
    const { role, calls } = observed()
    const lines = Array.from({ length: 10_001 }, (_, n) => debit(null, { bankReference: `B-${n}`, amount: '1.00' }))
    const result = await run(`bank-${randomUUID()}`, lines, { role })
    expect(result).toMatchObject({ entries: 10_001, counts: { ...NOTHING, unknownEntry: 10_001 } })
    expect(calls.filter((name) => name === 'stage_reconciliation_entries')).toHaveLength(6)
  })

  test('finds the payments that are missing from a statement without entries', async () => {
    const rail = `bank-${randomUUID()}`
    const { outboxId } = await payOn(rail)
    const period = { from: new Date(Date.now() - DAY_MS), to: new Date(Date.now() + DAY_MS) }
    const result = await run(rail, '', period)
    expect(result.counts).toEqual({ ...NOTHING, recordedNotPaid: 1 })
    expect(result.findings).toMatchObject([{ outboxId }])
  })

  test('stores nothing in a dry run and still returns findings', async () => {
    const rail = `bank-${randomUUID()}`
    const { outboxId } = await payOn(rail)
    const result = await storingNothing(() => run(rail, [debit(outboxId, { currency: 'USD' })], { dryRun: true }))
    expect(result).toMatchObject({ runId: null, dryRun: true, counts: { ...NOTHING, amountDiffers: 1 } })
    expect(result.findings).toMatchObject([
      {
        findingId: null,
        runId: null,
        kind: 'amount_differs',
        severity: 'critical',
        outboxId,
        entries: [{ currency: 'USD' }],
      },
    ])
  })
})

describe('a reconciliation that fails', () => {
  test('discards the staged entries of a statement that cannot be read to its end', async () => {
    const lines = Array.from({ length: 6_000 }, (_, n) => debit(null, { bankReference: `B-${n}` }))
    const broken = storingNothing(() => run(`bank-${randomUUID()}`, `${textOf(lines)}{"amount":10.5}\n`))
    await expect(broken).rejects.toMatchObject({
      code: 'STATEMENT_INVALID',
      message: expect.stringContaining('line 6001'),
    })
  })

  test('discards the staged entries if its signal aborts', async () => {
    const controller = new AbortController()
    async function* endless(): AsyncGenerator<Uint8Array> {
      for (let n = 0; ; n += 1) {
        yield Buffer.from(textOf([debit(null, { bankReference: `B-${n}` })]))
        if (n === 5_500) controller.abort(new Error('stopped by the operator'))
      }
    }
    const stopped = storingNothing(() => run('bank', '', { statement: endless(), signal: controller.signal }))
    await expect(stopped).rejects.toThrow('stopped by the operator')
  })

  test('closes the statement if its entries cannot be staged', async () => {
    let closed = false
    async function* endless(): AsyncGenerator<Uint8Array> {
      try {
        for (let n = 0; ; n += 1) yield Buffer.from(textOf([debit(null, { bankReference: `B-${n}` })]))
      } finally {
        closed = true
      }
    }
    const role: Queryable = { schema: db.schema, query: () => Promise.reject(new Error('down')) }
    await expect(run('bank', '', { statement: endless(), role })).rejects.toThrow('down')
    expect(closed).toBe(true)
  })

  test('stores nothing if the comparison fails', async () => {
    const role: Queryable = {
      schema: db.schema,
      query: (text, values) =>
        text.includes('finish_reconciliation') ? Promise.reject(new Error('down')) : control.query(text, values),
    }
    const failed = storingNothing(() => run('bank', [debit(null)], { role }))
    await expect(failed).rejects.toThrow('down')
  })

  test.each<[string, object, string]>([
    ['an unknown option', { rails: [] }, '"rails": unknown; did you mean rail?'],
    ['no rail', { rail: '' }, 'rail: expected an id'],
    ['no format', { format: undefined }, 'format: expected camt053'],
    ['a wrong format', { format: 'mt940' }, 'format: expected camt053'],
    ['a path instead of bytes', { statement: 'book.xml' }, 'statement: expected a stream of bytes'],
    ['text instead of bytes', { statement: Readable.from(['x']) }, 'statement: expected a stream of bytes'],
    ['a period that ends before it starts', { from: new Date(), to: new Date(0) }, 'to: expected a time after from'],
    ['a wrong time', { from: new Date('x') }, 'from: expected a valid Date'],
    ['settlement before the payment', { settlementDays: -1 }, 'settlementDays: expected a whole number from 0 to 60'],
    ['no period', {}, 'from: expected a time, because the statement has no period'],
  ])('fails with an error that names the argument: %s', async (_, options, message) => {
    await storingNothing(() => expect(run('bank', '', options)).rejects.toThrow(message))
  })
})

describe('a rail that lists its payments', () => {
  const period = { from: new Date(Date.now() - DAY_MS), to: new Date(Date.now() + DAY_MS) }

  function listing(payments: readonly RailPayment[], given: object = {}): Given {
    const rail = loadRail({
      type: 'listed',
      onUnknown: 'hold',
      dispatch: () => ({ outcome: 'unknown', code: 'X' }),
      listPayments: async function* listPayments() {
        yield* payments
      },
      ...given,
    })
    return { statement: undefined, format: undefined, tools: { rail }, ...period } as object
  }

  test('needs no statement: its listed payments and reversals are compared in a run of format rail', async () => {
    const rail = `listed-${randomUUID()}`
    const { outboxId } = await payOn(rail)
    const entry = { reference: outboxId, amount: '10.50', currency: 'EUR', bookedOn: TODAY }
    const payments = [
      { ...entry, bankReference: 'P-1' },
      { ...entry, bankReference: 'P-2', reversal: true, returnCode: 'AC04' },
    ]
    const result = await run(rail, '', listing(payments))
    expect(result).toMatchObject({ format: 'rail', counts: { ...NOTHING, matched: 1, reversed: 1 } })
    expect(result.findings).toMatchObject([{ kind: 'reversed', returnEventId: expect.any(String) }])
  })

  test('has one run per period, even without payments', async () => {
    const rail = `listed-${randomUUID()}`
    const first = await run(rail, '', listing([]))
    const again = await run(rail, '', listing([]))
    const later = await run(rail, '', { ...listing([]), to: new Date(period.to.getTime() + DAY_MS) })
    expect(again).toMatchObject({ runId: first.runId, repeated: true })
    expect(later).toMatchObject({ repeated: false })
    expect(later.runId).not.toBe(first.runId)
  })

  test('is refused if it lists an invalid payment (STATEMENT_INVALID)', async () => {
    const invalid = { reference: null, bankReference: 'P-1', amount: '1,50', currency: 'EUR', bookedOn: TODAY }
    await storingNothing(() =>
      expect(run('bank', '', listing([invalid]))).rejects.toMatchObject({ code: 'STATEMENT_INVALID' }),
    )
  })

  test('is refused without `to`; a rail that has no listPayments is refused without a statement', async () => {
    await expect(run('bank', '', { ...listing([]), to: undefined } as object)).rejects.toThrow(
      'from: expected from and to',
    )
    await expect(run('bank', '', { ...listing([]), tools: {} })).rejects.toThrow(
      'statement: expected a statement, because the rail bank has no listPayments',
    )
  })

  test('provides the default of settlementDays', async () => {
    const rail = `listed-${randomUUID()}`
    const slow = listing([], { settlementDays: 3 })
    expect(await run(rail, '', { ...slow, settlementDays: undefined } as object)).toMatchObject({ settlementDays: 3 })
    expect(await run(rail, '', { ...slow, settlementDays: 2 })).toMatchObject({ settlementDays: 2 })
  })
})

const PAYLOAD = { amount: '10.50', currency: 'EUR', destination: 'account-1' }

function encryptingRail() {
  const type = `vault-${randomUUID()}`
  const fields = { '/amount': 'encrypted', '/currency': 'encrypted' } as const
  return { type, fixture: new ProtectionFixture(db, [buildMasterKey('k1')], { type, fields }) }
}

/** Pays an amount that is encrypted in the database. */
async function encrypted(amount: string, given: JsonObject = {}) {
  const { type, fixture } = encryptingRail()
  const instruction = buildInstruction({ railType: type, payload: { ...PAYLOAD, amount, ...given } })
  const { outboxId } = await fixture.enqueue(instruction)
  await fixture.relay()
  return { type, outboxId, fixture, participantId: instruction.participantId }
}

/** Returns the control role, and the names of the functions that it calls. */
function observed(): { readonly role: Queryable; readonly calls: readonly string[] } {
  const calls: string[] = []
  const query: Queryable['query'] = (text, values) => {
    calls.push(/"(\w+)"\(/.exec(text)?.[1] ?? text)
    return control.query(text, values)
  }
  return { role: { schema: db.schema, query }, calls }
}

describe('amounts that the database cannot read, in a reconciliation', () => {
  test('are refused without the master keys, and nothing is stored (VAULT_KEYS_MISSING)', async () => {
    const { type, outboxId } = await encrypted('10.50')
    const refused = storingNothing(() => run(type, [debit(outboxId)]))
    await expect(refused).rejects.toMatchObject({
      code: 'VAULT_KEYS_MISSING',
      message: expect.stringContaining(type),
      remedy: expect.stringContaining('--vault-keys'),
    })
  })

  test.each([
    ['10.50', { matched: 1 }],
    ['10.05', { amountDiffers: 1 }],
  ])('are decrypted with the master keys and compared: %s', async (amount, counts) => {
    const { type, outboxId, fixture } = await encrypted(amount)
    const result = await run(type, [debit(outboxId)], { tools: { vault: fixture.vault } })
    expect(result.counts).toEqual({ ...NOTHING, ...counts })
  })

  test.each([
    ['FAILED', { state: 'FAILED', errorCode: 'REFUSED' }],
    ['held', { state: 'RETRYABLE', outcomeUnknown: true, holdReason: 'no answer' }],
  ] as const)('are compared for a %s payment too, and refused without the keys', async (_, outcome) => {
    const { type, fixture } = encryptingRail()
    const { outboxId } = await fixture.enqueue(buildInstruction({ railType: type, payload: PAYLOAD }))
    await complete(db, await claimOnly(db, type), outcome)
    const refused = storingNothing(() => run(type, [debit(outboxId, { amount: '10.05' })]))
    await expect(refused).rejects.toMatchObject({ code: 'VAULT_KEYS_MISSING' })
    const { counts } = await run(type, [debit(outboxId, { amount: '10.05' })], { tools: { vault: fixture.vault } })
    expect(counts).toEqual({ ...NOTHING, paidNotRecorded: 1, amountDiffers: 1 })
  })

  test('are decrypted with a single read of all data keys', async () => {
    const { type, outboxId, fixture } = await encrypted('10.50')
    const second = await fixture.enqueue(buildInstruction({ railType: type, payload: PAYLOAD }))
    await fixture.relay()
    const { role, calls } = observed()
    const lines = [debit(outboxId), debit(second.outboxId)]
    const result = await run(type, lines, { role, tools: { vault: fixture.vault } })
    expect(result.counts).toEqual({ ...NOTHING, matched: 2 })
    expect(calls.filter((name) => name === 'read_subject_keys')).toHaveLength(1)
  })

  test('are refused if they are neither encrypted nor an amount (AMOUNT_UNREADABLE)', async () => {
    const { outboxId, railType } = await enqueuePaid(db, { payload: { ...PAYLOAD, amount: 'much' } })
    const refused = storingNothing(() => run(railType, [debit(outboxId)]))
    await expect(refused).rejects.toMatchObject({ code: 'AMOUNT_UNREADABLE' })
  })

  test('are not compared if the currency of a FAILED payment is no code of three capitals', async () => {
    const payload = { ...PAYLOAD, currency: 'eur' }
    const { outboxId, railType } = await enqueueFailed(db, { payload })
    const { counts } = await run(railType, [debit(outboxId)])
    expect(counts).toEqual({ ...NOTHING, paidNotRecorded: 1 })
  })

  test('let no decision be proposed about a held payment', async () => {
    const railType = `unreadable-${randomUUID()}`
    const { outboxId } = await enqueueHeld(db, rita, { railType, payload: { ...PAYLOAD, currency: 'eur' } })
    const { counts, findings } = await run(railType, [debit(outboxId)], { dryRun: true })
    expect(counts).toEqual({ ...NOTHING, paidNotRecorded: 1 })
    expect(findings).toMatchObject([{ proposalId: null, note: expect.stringContaining('cannot be read') }])
  })

  test('count as matched, without a comparison, once the key of their subject is destroyed', async () => {
    const { type, outboxId, fixture, participantId } = await encrypted('10.50')
    await destroySubjectKey(control, participantId, 'erasure request')
    const result = await run(type, [debit(outboxId)], { tools: { vault: fixture.vault } })
    expect(result.counts).toEqual({ ...NOTHING, matched: 1 })
  })
})

function accountOf(payload: object): string {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- some tests declare a field of another type
  return Reflect.get(payload, 'from') as string
}

function payFrom(railType: string, from: string): Promise<Enqueued> {
  return enqueuePaid(db, { railType, payload: { ...PAYLOAD, from } })
}

describe('accountOf, which a rail may declare,', () => {
  test('limits recorded_not_paid findings to payments of the statement’s account', async () => {
    const rail = `bank-${randomUUID()}`
    const [here, elsewhere] = [await payFrom(rail, 'DE02 1234'), await payFrom(rail, 'DE02 9999')]
    const options = { from: new Date(Date.now() - DAY_MS), to: new Date(Date.now() + DAY_MS), account: 'de021234' }
    const lines = [debit(null, { account: 'DE021234' })]
    const result = await run(rail, lines, { ...options, tools: { rail: { accountOf } } })
    expect(result.findings.map(({ outboxId }) => outboxId)).toEqual([here.outboxId])
    expect(result.counts).toEqual({ ...NOTHING, recordedNotPaid: 1, unknownEntry: 1 })
    const unlimited = await run(rail, [...lines, debit(null)], options)
    expect(unlimited.findings.map(({ outboxId }) => outboxId)).toEqual([elsewhere.outboxId])
  })

  const here = { account: 'DE021234' }
  const ofElsewhere = { from: 'DE02 9999' }

  test('hides no unreadable amount of another account that the statement names (AMOUNT_UNREADABLE)', async () => {
    const { outboxId, railType } = await enqueuePaid(db, { payload: { ...PAYLOAD, ...ofElsewhere, amount: 'much' } })
    const lines = [debit(outboxId, { ...here, amount: '999999.00' })]
    const refused = storingNothing(() => run(railType, lines, { tools: { rail: { accountOf } } }))
    await expect(refused).rejects.toMatchObject({ code: 'AMOUNT_UNREADABLE' })
  })

  test('leaves a payment of another account matched once the key of its amount is destroyed', async () => {
    const { type, outboxId, fixture, participantId } = await encrypted('10.50', ofElsewhere)
    await destroySubjectKey(control, participantId, 'erasure request')
    const tools = { rail: { accountOf }, vault: fixture.vault }
    expect((await run(type, [debit(outboxId, here)], { tools })).counts).toEqual({ ...NOTHING, matched: 1 })
  })
})

/** Reconciles a later statement of an account, and calls the function before each comparison. */
async function runLater(rail: string, before: (values: readonly unknown[]) => Promise<readonly unknown[]>) {
  let comparisons = 0
  const query: Queryable['query'] = async (text, values = []) => {
    if (!text.includes('finish_reconciliation')) return control.query(text, values)
    comparisons += 1
    return control.query(text, await before(values))
  }
  const period = { from: new Date(Date.now() + DAY_MS), to: new Date(Date.now() + 3 * DAY_MS) }
  const given = { ...period, tools: { rail: { accountOf } }, role: { schema: db.schema, query } }
  const result = run(rail, [debit(null, { account: 'DE021234' })], given)
  return { result: await result.catch((error: unknown) => error), comparisons }
}

describe('a run that commits between annotation and comparison', () => {
  test('makes the run repeat its annotation, so that no payment of another account seems missing', async () => {
    const rail = `bank-${randomUUID()}`
    await payFrom(rail, 'DE02 9999')
    const period = { from: new Date(Date.now() - 3 * DAY_MS), to: new Date(Date.now() + DAY_MS / 2) }
    const earlier = { ...period, settlementDays: 1, tools: { rail: { accountOf } } }
    const { result, comparisons } = await runLater(rail, async (values) => {
      await run(rail, [debit(null, { account: 'DE021234' })], earlier)
      return values
    })
    expect(result).toMatchObject({ counts: { ...NOTHING, unknownEntry: 1 } })
    expect(comparisons).toBe(2)
  })

  test('ends the run after five comparisons, and nothing is stored (SERIALIZATION_FAILURE)', async () => {
    const later = new Date(Date.now() + 2 * DAY_MS)
    const { result, comparisons } = await storingNothing(() =>
      runLater(`bank-${randomUUID()}`, async (values) => [...values.slice(0, -1), later]),
    )
    expect(result).toMatchObject({ code: 'SERIALIZATION_FAILURE', remedy: expect.stringContaining('reconcile again') })
    expect(comparisons).toBe(5)
  })
})

/** Pays from an encrypted account, and returns a function that reconciles a statement without this payment. */
async function payFromEncrypted(from: JsonValue, read: (from: never) => string = (value) => value) {
  const type = `vault-${randomUUID()}`
  const fields = { '/from': 'encrypted' } as const
  const declared = { type, fields, accountOf: ({ from: given }: { from: never }) => read(given) }
  const fixture = new ProtectionFixture(db, [buildMasterKey('k1')], declared)
  const instruction = buildInstruction({ railType: type, payload: { ...PAYLOAD, from } })
  await fixture.enqueue(instruction)
  await fixture.relay()
  const period = { from: new Date(Date.now() - DAY_MS), to: new Date(Date.now() + DAY_MS) }
  const rail = fixture.rail.rails.get(type)
  return {
    vault: fixture.vault,
    erase: () => destroySubjectKey(control, instruction.participantId, 'erasure request'),
    reconcileWith: async (vault: ReconcileTools['vault']) => {
      const { counts } = await run(type, [debit(null, { account: 'DE021234' })], { ...period, tools: { rail, vault } })
      return counts
    },
  }
}

describe('a payment whose paying account is encrypted', () => {
  const ACCOUNTS = [
    ['is the field', 'DE02 1234', (from: string) => from],
    ['is made from the field', 'de02-1234', (from: string) => from.toUpperCase().slice(-9).replace('-', '')],
    ['is inside the field', { iban: 'DE02 1234' }, (from: { readonly iban: string }) => from.iban],
  ] as const
  const missing = { ...NOTHING, recordedNotPaid: 1, unknownEntry: 1 }

  test.each(ACCOUNTS)('refuses the run without keys if the account %s (VAULT_KEYS_MISSING)', async (_, from, read) => {
    const { reconcileWith, vault } = await payFromEncrypted(from, read)
    const refused = storingNothing(() => reconcileWith(new FieldVault(new Map())))
    await expect(refused).rejects.toMatchObject({
      code: 'VAULT_KEYS_MISSING',
      message: expect.stringContaining('paying accounts'),
    })
    expect(await reconcileWith(vault)).toEqual(missing)
  })

  test.each(ACCOUNTS)('stays expected after its key was destroyed if the account %s', async (_, from, read) => {
    const { reconcileWith, vault, erase } = await payFromEncrypted(from, read)
    await erase()
    expect(await reconcileWith(vault)).toEqual(missing)
  })

  test('stays expected if a ciphertext is damaged', async () => {
    const { reconcileWith } = await payFromEncrypted('DE02 1234')
    const vault = { decrypter: () => async () => ({ ok: false, reason: 'FIELD_UNREADABLE' }) as const }
    expect(await reconcileWith(vault)).toEqual(missing)
  })

  test('is not expected if accountOf names another account without the encrypted field', async () => {
    const { reconcileWith } = await payFromEncrypted('DE02 1234', () => 'DE02 9999')
    expect(await reconcileWith(new FieldVault(new Map()))).toEqual({ ...NOTHING, unknownEntry: 1 })
  })
})

describe('readFindings and readReconciliationRuns', () => {
  test('return pages, newest first, with filters; a closed finding shows its actor and reason', async () => {
    const rail = `bank-${randomUUID()}`
    const ids: string[] = []
    const results: Reconciliation[] = []
    for (const amount of ['1.00', '2.00', '3.00']) {
      const { outboxId } = await payOn(rail)
      ids.unshift(outboxId)
      results.unshift(await run(rail, [debit(outboxId, { amount })]))
    }
    const first = await readFindings(control, { railType: rail, limit: 2 })
    expect(first.items.map(({ outboxId }) => outboxId)).toEqual(ids.slice(0, 2))
    const rest = await readFindings(control, { railType: rail, limit: 2, before: first.next! })
    expect(rest).toMatchObject({ items: [{ outboxId: ids[2], kind: 'amount_differs' }], next: null })
    const runs = await readReconciliationRuns(control, { railType: rail })
    expect(runs.items.map(({ runId }) => runId)).toEqual(results.map(({ runId }) => runId))

    const findingId = first.items[0]!.findingId!
    await closeReconciliationFinding(rita.control, findingId, 'refunded, OPS-812')
    const search = { runId: results[0]!.runId!, kind: 'amount_differs', severity: 'critical' } as const
    expect(await readFindings(control, { ...search, state: 'open' })).toEqual({ items: [], next: null })
    expect(await readFindings(control, { ...search, state: 'closed' })).toMatchObject({
      items: [{ findingId, closed: { by: rita.name, reason: 'refunded, OPS-812', at: expect.stringMatching(/^2/) } }],
    })
    expect(await readFindings(control, { ...search, severity: 'info' })).toEqual({ items: [], next: null })
  })

  test.each<[object, string]>([
    [{ kind: 'lost' }, 'kind: expected one of paid_twice'],
    [{ state: 'all' }, 'state: expected one of open, closed'],
    [{ severity: 'high' }, 'severity: expected one of critical'],
    [{ limit: 0 }, 'limit: expected a whole number'],
  ])('refuse an invalid value of a filter: %j', async (search, message) => {
    await expect(readFindings(control, search)).rejects.toThrow(message)
  })
})
