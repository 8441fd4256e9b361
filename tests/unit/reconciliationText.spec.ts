import { describe, expect, test } from 'vitest'
import type { ReadStatementOptions, StatementColumns, StatementEntry } from '../../libs/reconciliation/index.js'
import { readAll } from '../support/camtXml.js'

const ID = '018f3e2a-7c4b-7d11-9a55-0123456789ab'
const COMPACT = ID.replaceAll('-', '')
const COLUMNS: StatementColumns = { reference: 'ref', amount: 'amount', currency: 'cur', date: 'day' }

function csv(options: Partial<ReadStatementOptions> = {}): ReadStatementOptions {
  return { format: 'csv', columns: COLUMNS, ...options }
}

function fileOfAmounts(...amounts: readonly string[]): string {
  return `ref;amount;cur;day\n${amounts.map((amount) => `a;${amount};EUR;2026-01-30`).join('\n')}`
}

async function readDay(day: string): Promise<readonly StatementEntry[]> {
  const file = `ref;amount;cur;day\na;1.00;EUR;${day}\n`
  return (await readAll(file, csv({ dateFormat: 'DD.MM.YYYY' }))).entries
}

describe('the CSV reader', () => {
  test('reads quotes, line ends in quotes and a byte order mark, in chunks of any size', async () => {
    const file = `\uFEFFref,"amount",cur,day,note\r\n"order ""7"", ${COMPACT}",12.5,EUR,2026-01-30,"two\r\nlines"\r\n\r\n`
    for (const chunkBytes of [65_536, 5, 1]) {
      const { entries, summary } = await readAll(file, csv(), chunkBytes)
      expect(entries).toEqual([
        {
          account: null,
          bankReference: null,
          reference: `order "7", ${COMPACT}`,
          candidates: [ID],
          amount: '12.5',
          currency: 'EUR',
          direction: 'debit',
          status: 'booked',
          reversal: false,
          bookedOn: '2026-01-30',
          valuedOn: null,
          returnCode: null,
          position: 1,
        },
      ])
      expect(summary).toEqual({
        statementIds: [],
        accounts: [],
        from: new Date('2026-01-30T00:00:00Z'),
        to: new Date('2026-01-31T00:00:00Z'),
      })
    }
  })

  test.each([',', ';', '\t', '|'])('recognises the delimiter %j by the first line', async (delimiter) => {
    const lines = [
      ['ref', 'amount', 'cur', 'day'],
      ['a', '1.00', 'EUR', '2026-01-30'],
    ]
    const { entries } = await readAll(lines.map((line) => line.join(delimiter)).join('\n'), csv())
    expect(entries).toMatchObject([{ reference: 'a', amount: '1.00' }])
  })

  test.each([
    ['.', '1234.5', '1234.5'],
    ['.', '1,234.50', '1234.50'],
    ['.', "1'234'567.00", '1234567.00'],
    ['.', '007', '007'],
    ['.', '1,234', 'refused'],
    ['.', '1234,50', 'refused'],
    ['.', '1,23.00', 'refused'],
    ['.', '', 'refused'],
    [',', '1234,5', '1234.5'],
    [',', '1.234,50', '1234.50'],
    [',', '1 234,50', '1234.50'],
    [',', '1.234', 'refused'],
    [',', '12.50', 'refused'],
  ] as const)('applies the decimal mark %s to the amount %j: %s', async (decimal, written, expected) => {
    const result = await readAll(`ref;amount;cur;day\na;${written};EUR;2026-01-30\n`, csv({ decimal })).then(
      ({ entries }) => entries[0]?.amount,
      ({ message }: Error) => (message.includes('line 2: amount: expected an amount') ? 'refused' : message),
    )
    expect(result).toBe(expected)
  })

  test('reads every entry as a debit if there is no direction column, and refuses mixed signs', async () => {
    for (const amounts of [
      ['1', '2'],
      ['-1', '-2'],
    ]) {
      const { entries } = await readAll(fileOfAmounts(...amounts), csv())
      expect(entries).toMatchObject([
        { direction: 'debit', amount: '1' },
        { direction: 'debit', amount: '2' },
      ])
    }
    await expect(readAll(fileOfAmounts('-1', '2'), csv())).rejects.toMatchObject({
      message: expect.stringContaining('line 3: amount: expected amounts with one sign'),
      remedy: expect.stringContaining('direction=amount'),
    })
    const { entries } = await readAll(fileOfAmounts('-1', '+2'), csv({ columns: { ...COLUMNS, direction: 'amount' } }))
    expect(entries).toMatchObject([
      { direction: 'debit', amount: '1' },
      { direction: 'credit', amount: '2' },
    ])
  })

  test('reads the optional columns, and omits entries of other accounts', async () => {
    const columns = { ...COLUMNS, direction: 'dc', status: 's', account: 'acct', bankReference: 'bank', reversal: 'r' }
    const file = `acct;bank;ref;amount;cur;day;dc;s;r
1;B-1;NOTPROVIDED;1.00;EUR;2026-01-30;D;BOOK;
2;B-2;b;1.00;EUR;2026-01-30;debit;booked;false
1;NONREF;c;1.00;EUR;2026-02-02;CRDT;booked;yes
1;;d;1.00;EUR;;credit;pending;0
`
    const { entries, summary } = await readAll(file, csv({ columns, account: '1' }))
    expect(entries).toMatchObject([
      { account: '1', bankReference: 'B-1', reference: null, direction: 'debit', reversal: false, position: 1 },
      { bankReference: null, direction: 'credit', status: 'booked', reversal: true, position: 3 },
      { bankReference: null, direction: 'credit', status: 'pending', bookedOn: null, position: 4 },
    ])
    expect(summary).toEqual({
      statementIds: [],
      accounts: ['1'],
      from: new Date('2026-01-30T00:00:00Z'),
      to: new Date('2026-02-03T00:00:00Z'),
    })
    await expect(readAll(file.replace('BOOK', 'done'), csv({ columns }))).rejects.toThrow('line 2: status: expected')
    await expect(readAll(file.replace(';D;', ';X;'), csv({ columns }))).rejects.toThrow('line 2: direction: expected')
  })

  test('reads dates in the format of the options, with or without a time', async () => {
    expect(await readDay('30.01.2026')).toMatchObject([{ bookedOn: '2026-01-30' }])
    expect(await readDay('30.01.2026 10:15')).toMatchObject([{ bookedOn: '2026-01-30' }])
    await expect(readDay('30/01/2026')).rejects.toThrow('line 2: date: expected a date from 1970 to 2099 as DD.MM.YYYY')
    await expect(readDay('31.02.2026')).rejects.toThrow('line 2: date: expected a date')
    await expect(readDay('')).rejects.toThrow('line 2: date: expected a date')
  })

  test('uses the account of the options for entries without an account', async () => {
    const { entries, summary } = await readAll('ref;amount;cur;day\na;1;EUR;2026-01-30', csv({ account: 'A-1' }))
    expect(entries).toMatchObject([{ account: 'A-1' }])
    expect(summary.accounts).toEqual(['A-1'])
  })
})

describe('the NDJSON reader', () => {
  test('reads all fields of an entry; absent direction and status mean a booked debit', async () => {
    const entry = {
      account: 'A-1',
      bankReference: 'B-1',
      reference: COMPACT,
      candidates: [ID],
      amount: '12.50',
      currency: 'EUR',
      direction: 'credit',
      status: 'information',
      reversal: true,
      bookedOn: '2026-01-30',
      valuedOn: '2026-01-31',
      returnCode: 'AC04',
      position: 7,
    }
    const file = `${JSON.stringify(entry)}\n\n${JSON.stringify({ reference: `order ${ID}` })}`
    for (const chunkBytes of [65_536, 3]) {
      const { entries } = await readAll(file, { format: 'ndjson' }, chunkBytes)
      expect(entries).toEqual([
        { ...entry, position: 1 },
        {
          account: null,
          bankReference: null,
          reference: `order ${ID}`,
          candidates: [ID],
          amount: null,
          currency: null,
          direction: 'debit',
          status: 'booked',
          reversal: false,
          bookedOn: null,
          valuedOn: null,
          returnCode: null,
          position: 2,
        },
      ])
    }
  })

  test('omits entries of other accounts, and their dates from the period', async () => {
    const lines = ['1', '2', null].map((account, index) => ({ account, bookedOn: `2026-01-0${index + 1}` }))
    const { entries, summary } = await readAll(lines.map((line) => JSON.stringify(line)).join('\n'), {
      format: 'ndjson',
      account: '2',
    })
    expect(entries.map(({ account, position }) => [account, position])).toEqual([
      ['2', 2],
      ['2', 3],
    ])
    expect(summary).toMatchObject({ accounts: ['2'], from: new Date('2026-01-02'), to: new Date('2026-01-04') })
  })
})

test.each([
  ['csv', 'acct;ref;amount;cur;day\nde89 3704;a;1;EUR;2026-01-30\n;b;1;EUR;2026-01-30'],
  ['ndjson', '{"account":"de89 3704"}\n{"account":null}'],
] as const)('an account in a %s file is one account in any spelling', async (format, file) => {
  const columns = { ...COLUMNS, account: 'acct' }
  for (const account of ['DE893704', 'de 8937 04']) {
    const { entries, summary } = await readAll(file, format === 'csv' ? csv({ columns, account }) : { format, account })
    expect(entries.map((entry) => entry.account)).toEqual(['DE893704', 'DE893704'])
    expect(summary.accounts).toEqual(['DE893704'])
  }
})

describe('readStatement', () => {
  test.each<readonly [name: string, options: object, message: string]>([
    ['an unknown format', { format: 'mt940' }, 'format: expected camt053, camt054, csv, ndjson'],
    ['a misspelt option', { format: 'ndjson', acount: '1' }, 'did you mean account?'],
    ['CSV without columns', { format: 'csv' }, 'columns: expected the columns reference, amount, currency, date'],
    ['CSV without a required column', { format: 'csv', columns: { ...COLUMNS, date: undefined } }, 'columns.date'],
    ['an unknown column', { format: 'csv', columns: { ...COLUMNS, when: 'x' } }, 'columns."when": unknown'],
    ['columns of another format', { format: 'camt053', columns: COLUMNS }, 'columns: only for the format csv'],
    ['a wrong decimal mark', { ...csv(), decimal: ';' }, 'decimal: expected "." or ","'],
    ['a wrong date format', csv({ dateFormat: 'DD.MM.YY' }), 'dateFormat: expected YYYY, MM and DD'],
    ['a pattern that is text', { format: 'ndjson', referencePattern: 'x' }, 'referencePattern: expected a regular'],
  ])('refuses %s before it reads', async (_name, options, message) => {
    const reading: Promise<unknown> = Reflect.apply(readAll, undefined, ['', options])
    await expect(reading).rejects.toMatchObject({ code: 'INVALID_ARGUMENT', message: expect.stringContaining(message) })
  })
})
