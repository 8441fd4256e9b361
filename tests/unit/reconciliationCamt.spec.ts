import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { readCamtByDom } from '../support/camtByDom.js'
import { camtXml, readAll, type CamtDetail, type CamtDocument, type CamtEntry } from '../support/camtXml.js'

const ID = '018f3e2a-7c4b-7d11-9a55-0123456789ab'
const COMPACT = ID.replaceAll('-', '')
const OTHER = '018f3e2a-7c4b-7d11-9a55-ba9876543210'
const IBAN = 'DE89370400440532013000'

const DEBIT: CamtEntry = {
  Amt: ['10.00', 'EUR'],
  CdtDbtInd: 'DBIT',
  Sts: 'BOOK',
  BookgDt: '2026-01-30',
  ValDt: '2026-01-31',
  AcctSvcrRef: 'BANK-1',
}

function entryWith(entry: Partial<CamtEntry>): CamtDocument {
  return {
    format: 'camt053',
    version: 8,
    statements: [{ Id: 'S-1', IBAN, entries: [{ ...DEBIT, ...entry }] }],
  }
}

function detailWith(...details: readonly CamtDetail[]): CamtDocument {
  return entryWith({ details })
}

/** Shapes of statements that banks send. */
const SHAPES: Readonly<Record<string, CamtDocument>> = {
  'a batch booking with own references': detailWith(
    { AcctSvcrRef: 'TX-1', EndToEndId: COMPACT, Amt: ['4.00', 'EUR'] },
    { AcctSvcrRef: 'TX-2', EndToEndId: OTHER, Amt: ['6.00', 'EUR'] },
  ),
  'a batch booking without own references': detailWith(
    { EndToEndId: COMPACT, TxAmt: ['4.00', 'EUR'] },
    { InstrId: 'ORDER-7', TxAmt: ['6.00', 'EUR'] },
    { TxId: 'T-3' },
  ),
  'several statements in one file': {
    format: 'camt053',
    version: 4,
    statements: [
      { Id: 'S-1', IBAN, FrToDt: ['2026-01-30T00:00:00Z', '2026-01-31T00:00:00Z'], entries: [DEBIT] },
      { Id: 'S-2', Othr: '4711', balances: ['2026-01-28', '2026-01-29'], entries: [DEBIT, DEBIT] },
      { Id: 'S-3', Othr: '4712', entries: [] },
    ],
  },
  'several currencies': {
    format: 'camt054',
    version: 6,
    statements: [
      {
        Id: 'N-1',
        IBAN,
        entries: [
          { ...DEBIT, Amt: ['1200', 'JPY'] },
          { ...DEBIT, Amt: ['92.00', 'EUR'], details: [{ EndToEndId: COMPACT, InstdAmt: ['100.00', 'USD'] }] },
          { ...DEBIT, details: [{ EndToEndId: OTHER, InstdAmt: ['10.00', 'EUR'], TxAmt: ['9.50', 'EUR'] }] },
          { ...DEBIT, InstdAmt: ['1.250', 'KWD'], details: [{ InstrId: COMPACT }] },
        ],
      },
    ],
  },
  'a missing EndToEndId': {
    format: 'camt053',
    version: 2,
    statements: [
      {
        Id: 'S-1',
        IBAN,
        entries: [
          { ...DEBIT, details: [{ EndToEndId: 'NOTPROVIDED', InstrId: COMPACT }] },
          { ...DEBIT, details: [{ EndToEndId: 'NOTPROVIDED', AcctSvcrRef: COMPACT }] },
          { ...DEBIT, AcctSvcrRef: 'NONREF', details: [{ Ref: ['RF18', COMPACT] }] },
          { ...DEBIT, details: [{ Ustrd: ['Payout', `order 7 ${COMPACT.toUpperCase()}, thank you`, OTHER] }] },
          { ...DEBIT, details: [{}] },
          DEBIT,
        ],
      },
    ],
  },
  'a reversal and a return': {
    format: 'camt053',
    version: 13,
    prefix: 'doc',
    statements: [
      {
        Id: 'S-1',
        IBAN,
        entries: [
          { ...DEBIT, CdtDbtInd: 'CRDT', RvslInd: 'true', details: [{ EndToEndId: COMPACT, Rsn: 'AC04' }] },
          { ...DEBIT, CdtDbtInd: 'CRDT', RvslInd: 'false', details: [{ EndToEndId: COMPACT, Rsn: 'MD07' }] },
          { ...DEBIT, CdtDbtInd: 'CRDT', details: [{ EndToEndId: COMPACT }] },
          { ...DEBIT, details: [{ EndToEndId: COMPACT, CdtDbtInd: 'CRDT' }] },
        ],
      },
    ],
  },
  'pending entries': {
    format: 'camt053',
    version: 11,
    statements: [
      {
        Id: 'S-1',
        IBAN,
        entries: [
          { ...DEBIT, Sts: 'PDNG', BookgDt: '2026-02-05' },
          { ...DEBIT, Sts: 'INFO' },
          { ...DEBIT, Sts: 'FUTR' },
          { ...DEBIT, BookgDt: '2026-01-30T23:59:59+02:00', ValDt: '2026-02-02' },
        ],
      },
    ],
  },
}

function balance(type: string, date: string): string {
  return `<Bal><Tp><CdOrPrtry><Cd>${type}</Cd></CdOrPrtry></Tp><Dt><Dt>${date}</Dt></Dt></Bal>`
}

async function readPeriod(balances: string): Promise<readonly (string | undefined)[]> {
  const xml = camtXml(entryWith({})).replace('<Ntry>', `${balances}<Ntry>`)
  const { summary } = await readAll(xml, { format: 'camt053' })
  return [summary.from?.toISOString(), summary.to?.toISOString()]
}

describe('the camt reader', () => {
  test.each(Object.entries(SHAPES))(
    'reads %s like a second parser, however the file is split into chunks',
    async (_name, document) => {
      const xml = camtXml(document)
      const expected = readCamtByDom(xml)
      expect(expected.entries.length).toBeGreaterThan(0)
      for (const chunkBytes of [65_536, 1_000, 7, 1]) {
        expect(await readAll(xml, { format: document.format }, chunkBytes)).toEqual(expected)
      }
    },
  )

  test.each([2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13])('reads version %i of camt.053 and camt.054', async (version) => {
    for (const format of ['camt053', 'camt054'] as const) {
      const xml = camtXml({ ...entryWith({ details: [{ EndToEndId: COMPACT }] }), format, version })
      const { entries } = await readAll(xml, { format })
      expect(entries).toEqual(readCamtByDom(xml).entries)
      expect(entries).toMatchObject([{ status: 'booked', candidates: [ID] }])
    }
  })

  test('returns every field of an entry and of the summary', async () => {
    const xml = camtXml({
      format: 'camt053',
      version: 8,
      statements: [
        {
          Id: 'S-1',
          IBAN: 'de89 3704 0044 0532 0130 00',
          FrToDt: ['2026-01-30T00:00:00+01:00', '2026-01-30T23:59:59+01:00'],
          entries: [{ ...DEBIT, details: [{ EndToEndId: COMPACT, Rsn: 'AC04' }] }],
        },
      ],
    })
    expect(await readAll(xml, { format: 'camt053' })).toEqual({
      entries: [
        {
          account: IBAN,
          bankReference: `BANK-1/${COMPACT}`,
          reference: COMPACT,
          candidates: [ID],
          amount: '10.00',
          currency: 'EUR',
          direction: 'debit',
          status: 'booked',
          reversal: false,
          bookedOn: '2026-01-30',
          valuedOn: '2026-01-31',
          returnCode: 'AC04',
          position: 1,
        },
      ],
      summary: {
        statementIds: ['S-1'],
        accounts: [IBAN],
        from: new Date('2026-01-29T23:00:00Z'),
        to: new Date('2026-01-30T23:00:00Z'),
      },
    })
  })

  test('uses the entry’s amount for a single transaction without an amount, and null for several', async () => {
    const several = await readAll(camtXml(detailWith({ EndToEndId: COMPACT }, { EndToEndId: OTHER })), {
      format: 'camt053',
    })
    expect(several.entries.map(({ amount, currency }) => [amount, currency])).toEqual([
      [null, null],
      [null, null],
    ])
    const one = await readAll(camtXml(detailWith({ EndToEndId: COMPACT })), { format: 'camt053' })
    expect(one.entries).toMatchObject([{ amount: '10.00', currency: 'EUR' }])
  })

  test('returns the booked amount, or the instructed amount if that is in another currency', async () => {
    const { entries } = await readAll(camtXml(SHAPES['several currencies']!), { format: 'camt054' })
    expect(entries.map(({ amount, currency }) => `${amount} ${currency}`)).toEqual([
      '1200 JPY',
      '100.00 USD',
      '9.50 EUR',
      '1.250 KWD',
    ])
  })

  test('returns the same bank reference for the same transaction, and a unique one otherwise', async () => {
    const alone = { ...DEBIT, AcctSvcrRef: 'TX-1', details: [{ EndToEndId: COMPACT, AcctSvcrRef: 'TX-1' }] }
    const batch = detailWith({ EndToEndId: COMPACT, AcctSvcrRef: 'TX-1' }, { EndToEndId: OTHER, AcctSvcrRef: 'BANK-1' })
    const [first, second] = (await readAll(camtXml(batch), { format: 'camt053' })).entries
    const [notified] = (await readAll(camtXml(entryWith(alone)), { format: 'camt053' })).entries
    expect(notified?.bankReference).toBe(first?.bankReference)
    expect(second?.bankReference).not.toBe(first?.bankReference)
    const { entries } = await readAll(camtXml(SHAPES['a batch booking without own references']!), { format: 'camt053' })
    expect(entries.map(({ bankReference }) => bankReference)).toEqual([
      `BANK-1/${COMPACT}`,
      'BANK-1/ORDER-7',
      'BANK-1/T-3',
    ])
  })

  test('marks a credit with RvslInd or a return reason as a reversal, and no other credit', async () => {
    const { entries } = await readAll(camtXml(SHAPES['a reversal and a return']!), { format: 'camt053' })
    expect(entries.map(({ direction, reversal, returnCode }) => [direction, reversal, returnCode])).toEqual([
      ['credit', true, 'AC04'],
      ['credit', true, 'MD07'],
      ['credit', false, null],
      ['credit', false, null],
    ])
  })

  test('finds references in free text by the referencePattern option', async () => {
    const xml = camtXml(detailWith({ Ustrd: [`KREF+${COMPACT} ${OTHER}`] }))
    const read = async (referencePattern?: RegExp) =>
      (await readAll(xml, { format: 'camt053', ...(referencePattern && { referencePattern }) })).entries[0]?.candidates
    expect(await read()).toEqual([ID, OTHER])
    expect(await read(/KREF\+([0-9a-f]{32})/)).toEqual([ID])
  })

  test('reads only statements of the given account; positions count the entries of the whole file', async () => {
    const { entries, summary } = await readAll(camtXml(SHAPES['several statements in one file']!), {
      format: 'camt053',
      account: '4711',
    })
    expect(entries.map(({ account, position }) => [account, position])).toEqual([
      ['4711', 2],
      ['4711', 3],
    ])
    expect(summary).toEqual({
      statementIds: ['S-2'],
      accounts: ['4711'],
      from: new Date('2026-01-28T00:00:00Z'),
      to: new Date('2026-01-30T00:00:00Z'),
    })
  })

  test('starts the period at the opening balance, or on the day after the previous closing balance', async () => {
    const friday = ['2026-01-30T00:00:00.000Z', '2026-01-31T00:00:00.000Z']
    expect(await readPeriod(balance('PRCD', '2026-01-29') + balance('CLBD', '2026-01-30'))).toEqual(friday)
    expect(await readPeriod(balance('OPBD', '2026-01-30') + balance('CLBD', '2026-01-30'))).toEqual(friday)
  })

  test('ends the period at the closing balance, although a forward balance is later', async () => {
    const days = [balance('PRCD', '2026-01-29'), balance('CLBD', '2026-01-30'), balance('FWAV', '2026-02-03')]
    expect(await readPeriod(days.join(''))).toEqual(['2026-01-30T00:00:00.000Z', '2026-01-31T00:00:00.000Z'])
  })

  test('reads Latin encodings, UTF-16 and a byte order mark', async () => {
    const xml = camtXml(detailWith({ Ustrd: ['Zahlung Müller'] }))
    const { entries } = await readAll(xml, { format: 'camt053' })
    const declared = (name: string) => xml.replace('UTF-8', name)
    const files = [
      Buffer.from(`\uFEFF${xml}`),
      Buffer.from(declared('ISO-8859-1'), 'latin1'),
      Buffer.from(declared('windows-1252'), 'latin1'),
      Buffer.from(`\uFEFF${declared('UTF-16')}`, 'utf16le'),
      Buffer.from(`\uFEFF${declared('UTF-16')}`, 'utf16le').swap16(),
      Buffer.from(declared('UTF-16'), 'utf16le'),
    ]
    for (const file of files) {
      for (const chunkBytes of [65_536, 3]) {
        expect((await readAll(file, { format: 'camt053' }, chunkBytes)).entries).toEqual(entries)
      }
    }
  })

  test('reads random statements like a second parser', async () => {
    await fc.assert(
      fc.asyncProperty(randomDocument(), fc.integer({ min: 1, max: 3_000 }), async (document, chunkBytes) => {
        const xml = camtXml(document)
        expect(await readAll(xml, { format: document.format }, chunkBytes)).toEqual(readCamtByDom(xml))
      }),
      { numRuns: 100 },
    )
  })
})

/** Returns random statements with any mix of present and absent fields. */
function randomDocument(): fc.Arbitrary<CamtDocument> {
  const id = fc.uuid().chain((uuid) => fc.constantFrom(uuid, uuid.replaceAll('-', ''), uuid.toUpperCase()))
  const reference = fc.oneof(id, fc.constantFrom('NOTPROVIDED', 'NONREF', 'RF18 5390', 'a & b < c', 'Ä€😀'))
  const money = fc.tuple(
    fc
      .tuple(fc.nat(10 ** 9), fc.constantFrom('', '.5', '.25', '.125'))
      .map(([whole, fraction]) => `${whole}${fraction}`),
    fc.constantFrom('EUR', 'USD', 'JPY', 'KWD'),
  )
  const date = fc
    .date({ min: new Date('2020-01-01'), max: new Date('2030-01-01'), noInvalidDate: true })
    .chain((day) => fc.constantFrom(day.toISOString().slice(0, 10), day.toISOString()))
  const text = fc.array(fc.oneof(reference, fc.constantFrom('Payout', 'order 7:')), { minLength: 1, maxLength: 3 })
  const detail: fc.Arbitrary<CamtDetail> = fc.record(
    {
      AcctSvcrRef: reference,
      InstrId: reference,
      EndToEndId: reference,
      TxId: reference,
      Amt: money,
      CdtDbtInd: fc.constantFrom('DBIT', 'CRDT'),
      InstdAmt: money,
      TxAmt: money,
      Ustrd: fc.array(
        text.map((words) => words.join(' ')),
        { maxLength: 3 },
      ),
      Ref: fc.array(reference, { maxLength: 2 }),
      Rsn: fc.constantFrom('AC04', 'MD07'),
    },
    { requiredKeys: [] },
  )
  const entry: fc.Arbitrary<CamtEntry> = fc.record(
    {
      Amt: money,
      CdtDbtInd: fc.constantFrom('DBIT', 'CRDT'),
      RvslInd: fc.constantFrom('true', 'false'),
      Sts: fc.constantFrom('BOOK', 'PDNG', 'INFO', 'FUTR'),
      BookgDt: date,
      ValDt: date,
      AcctSvcrRef: reference,
      InstdAmt: money,
      details: fc.array(detail, { maxLength: 4 }),
    },
    { requiredKeys: ['Amt', 'CdtDbtInd', 'Sts'] },
  )
  const entries = fc.array(entry, { maxLength: 5 })
  return fc.record(
    {
      format: fc.constantFrom('camt053', 'camt054'),
      version: fc.integer({ min: 2, max: 13 }),
      prefix: fc.constantFrom('n', 'camt'),
      statements: fc
        .array(
          fc.record(
            {
              IBAN: fc.constantFrom(IBAN, 'GB33BUKB20201555555555'),
              Othr: fc.constantFrom('4711', '4712'),
              balances: fc.array(
                date.map((one) => one.slice(0, 10)),
                { maxLength: 2 },
              ),
              entries,
            },
            { requiredKeys: ['entries'] },
          ),
          { maxLength: 3 },
        )
        .map((statements) => statements.map((one, index) => ({ ...one, Id: `S-${index}` }))),
    },
    { requiredKeys: ['format', 'version', 'statements'] },
  )
}
