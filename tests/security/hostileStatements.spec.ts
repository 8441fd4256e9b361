import { execFile } from 'node:child_process'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { SymphonyError } from '../../libs/core/index.js'
import type { ReadStatementOptions } from '../../libs/reconciliation/index.js'
import { builtPath } from '../support/builtPath.js'
import { collect, readAll } from '../support/camtXml.js'

/** Size of the files that must be read in constant memory. `npm run security -- --only S5` reads 1 GB. */
const MEGABYTES = Number(process.env['SYMPHONY_TEST_STATEMENT_MB'] ?? 100)
/** Size of valid files: a tenth of MEGABYTES, because they are read to their end. */
const VALID_MEGABYTES = MEGABYTES / 10
const MEMORY_MEBIBYTES_MAX = 200

const CAMT: ReadStatementOptions = { format: 'camt053' }
const CSV: ReadStatementOptions = {
  format: 'csv',
  columns: { reference: 'ref', amount: 'amount', currency: 'cur', date: 'day' },
}
const NDJSON: ReadStatementOptions = { format: 'ndjson' }

const ENTRY =
  '<Ntry><Amt Ccy="EUR">1.00</Amt><CdtDbtInd>DBIT</CdtDbtInd><Sts>BOOK</Sts><BookgDt><Dt>2026-01-30</Dt></BookgDt></Ntry>'
const NAMESPACE = 'urn:iso:std:iso:20022:tech:xsd:camt.053.001.02'
const START = `<Document xmlns="${NAMESPACE}"><BkToCstmrStmt>`
const STATEMENT = `<Stmt><Id>S-1</Id><Acct><Id><IBAN>DE89370400440532013000</IBAN></Id></Acct>`
const END = '</BkToCstmrStmt></Document>'
const VALID = `${START}${STATEMENT}${ENTRY}</Stmt>${END}`

/** Returns the refusal of a statement. */
async function refusal(content: string | Uint8Array, options: ReadStatementOptions): Promise<SymphonyError> {
  const error: unknown = await readAll(content, options).then(
    () => undefined,
    (thrown) => thrown,
  )
  if (error instanceof SymphonyError) return error
  throw new Error('the statement was not refused', { cause: error })
}

interface Hostile {
  readonly content: string | Uint8Array
  readonly options?: ReadStatementOptions
  readonly message: RegExp
}

const HOSTILE: Readonly<Record<string, Hostile>> = {
  'an entity bomb': {
    content: `<!DOCTYPE a [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>${VALID.replace('S-1', '&b;')}`,
    message: /line 1, column \d+: expected a statement without DOCTYPE/,
  },
  'an external entity': {
    content: `<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]>${VALID.replace('S-1', '&x;')}`,
    message: /expected a statement without DOCTYPE/,
  },
  'an entity without a DOCTYPE': {
    content: VALID.replace('S-1', '&x;'),
    message: /not well-formed XML: "undefined entity/,
  },
  'an HTML page': { content: '<!DOCTYPE html><html></html>', message: /expected a statement without DOCTYPE/ },
  'an HTML page without DOCTYPE': {
    content: '<html></html>',
    message: /line 1, .*expected a camt.053 document, got "html"/,
  },
  'a payment initiation': {
    content: VALID.replaceAll('camt.053.001.02', 'pain.001.001.09'),
    message: /expected camt.053, got pain.001/,
  },
  'a camt.054': { content: VALID.replaceAll('camt.053', 'camt.054'), message: /expected camt.053, got camt.054/ },
  'an unknown version': {
    content: VALID.replaceAll('camt.053.001.02', 'camt.053.001.14'),
    message: /expected version 02 to 13 of camt.053, got 14/,
  },
  'JSON in place of XML': { content: '{"a": 1}', message: /line 1, column 1: expected XML, got JSON/ },
  'an MT940 message': { content: ':20:STARTUMS\r\n', message: /expected XML, got an MT940 message/ },
  'a ZIP archive': {
    content: Buffer.from('PK\u0003\u0004abc'),
    message: /byte 1: expected a statement, got a ZIP archive/,
  },
  'an empty file': { content: '', message: /document must contain a root element/ },
  'a NUL byte': {
    content: VALID.replace('S-1', 'S\0'),
    message: new RegExp(`byte ${VALID.indexOf('S-1') + 2}: expected text, got a NUL byte`),
  },
  'a byte of another encoding': {
    content: Buffer.from(VALID.replace('S-1', 'Ü'), 'latin1'),
    message: new RegExp(`byte ${VALID.indexOf('S-1') + 2}: expected UTF-8`),
  },
  'an unknown encoding': {
    content: `<?xml version="1.0" encoding="EBCDIC-CP-BE"?>${VALID}`,
    message: /byte 1: expected UTF-8, .*got EBCDIC-CP-BE/,
  },
  'UTF-32': { content: Buffer.from([0xff, 0xfe, 0, 0, 0x3c, 0, 0, 0]), message: /got UTF-32/ },
  'deep nesting': {
    content: START + '<a>'.repeat(100_000),
    message: /column \d+: expected at most 64 nested elements/,
  },
  'a repeated statement id': {
    content: `${START}${STATEMENT}</Stmt>${STATEMENT}</Stmt>${END}`,
    message: /expected each statement once/,
  },
  'a repeated amount': {
    content: VALID.replace('<CdtDbtInd>', '<Amt Ccy="EUR">2.00</Amt><CdtDbtInd>'),
    message: /expected <Amt> once/,
  },
  'an amount with a comma': {
    content: VALID.replace('1.00', '1,00'),
    message: /expected a decimal such as 1234.50 in <Amt>/,
  },
  'a negative amount': { content: VALID.replace('1.00', '-1.00'), message: /expected a decimal/ },
  'an amount without a currency': {
    content: VALID.replace('Ccy="EUR"', ''),
    message: /expected a currency such as EUR/,
  },
  'an unknown direction': { content: VALID.replace('DBIT', 'DEBIT'), message: /expected DBIT, CRDT in <CdtDbtInd>/ },
  'an unknown status': { content: VALID.replace('BOOK', 'DONE'), message: /expected BOOK, PDNG, FUTR, INFO in <Sts>/ },
  'an entry without a status': {
    content: VALID.replace('<Sts>BOOK</Sts>', ''),
    message: /expected <Sts> in the entry/,
  },
  'a day that does not exist': { content: VALID.replace('2026-01-30', '2026-02-30'), message: /expected a date/ },
  'a status after the transactions': {
    content: VALID.replace('<Sts>BOOK</Sts>', '').replace(
      '</Ntry>',
      '<NtryDtls><TxDtls/></NtryDtls><Sts>BOOK</Sts></Ntry>',
    ),
    message: /expected the fields of an entry before its <NtryDtls>/,
  },
  'an account after the entries': {
    content: VALID.replace('</Ntry>', '</Ntry><Acct><Id><Othr><Id>2</Id></Othr></Id></Acct>').replace(
      /<Acct>.*?<\/Acct>/,
      '',
    ),
    message: /expected <Acct> before the entries/,
  },
  'a document with the name of a property': {
    content: VALID.replaceAll('BkToCstmrStmt', 'constructor'),
    message: /expected <BkToCstmrStmt>, got "constructor"/,
  },
  'statements of another namespace': {
    content: VALID.replace('<Stmt>', '<Stmt xmlns="urn:other">'),
    message: /expected one namespace for all elements, got another one for "Stmt"/,
  },
  'a long account': {
    content: VALID.replace(/DE\d+/, 'X'.repeat(65)),
    message: /expected at most 64 characters in <IBAN>/,
  },
  'a long reference': {
    content: VALID.replace('</Ntry>', `<AcctSvcrRef>${'x'.repeat(100)}</AcctSvcrRef></Ntry>`),
    message: /expected at most 99 characters in <AcctSvcrRef>/,
  },
  'XML in place of CSV': { content: VALID, options: CSV, message: /expected CSV, got XML/ },
  'CSV without a named column': {
    content: 'ref;amount;cur\n',
    options: CSV,
    message: /line 1: date: expected a column "day"/,
  },
  'CSV with a column twice': { content: 'ref,amount,amount,cur,day\n', options: CSV, message: /got several/ },
  'CSV with an open quote': {
    content: 'ref,amount,cur,day\n"a,1,EUR,2026-01-01\n',
    options: CSV,
    message: /line \d+: expected a closing quote/,
  },
  'CSV with a missing field': {
    content: 'ref,amount,cur,day\na,1,EUR\n',
    options: CSV,
    message: /line 2: expected 4 fields/,
  },
  'CSV with a bad amount': {
    content: 'ref,amount,cur,day\na,1,EUR,2026-01-01\na,1e3,EUR,2026-01-01\n',
    options: CSV,
    message: /line 3: amount: expected an amount/,
  },
  'CSV in Windows-1252': {
    content: Buffer.from('ref,amount,cur,day\nÜ,1,EUR,2026-01-01\n', 'latin1'),
    options: CSV,
    message: /byte \d+: expected UTF-8/,
  },
  'an empty CSV file': { content: '\n', options: CSV, message: /line 1: expected a first line/ },
  'NDJSON that is no object': { content: '{}\n[]\n', options: NDJSON, message: /line 2: entry: expected an object/ },
  'NDJSON that ends early': { content: '{}\n{"amount": "1', options: NDJSON, message: /line 2: .*not JSON/ },
  'NDJSON with an amount as number': {
    content: '{"amount": 1.5}',
    options: NDJSON,
    message: /line 1: entry.amount: expected text/,
  },
  'NDJSON with a misspelt field': { content: '{"refrence": "a"}', options: NDJSON, message: /did you mean reference/ },
  'NDJSON with a repeated key': {
    content: '{"amount": "1", "amount": "2"}',
    options: NDJSON,
    message: /same key twice/,
  },
}

describe('a hostile bank statement', () => {
  test.each(Object.entries(HOSTILE))(
    'is refused, and the error names the line or byte: %s',
    async (_name, { content, options, message }) => {
      const error = await refusal(content, options ?? CAMT)
      expect(error.code).toBe('STATEMENT_INVALID')
      expect(error.message).toMatch(message)
      expect(error.message).toMatch(/^statement, (?:line|byte) \d+/)
      expect(error.remedy).toMatch(/^[A-Z].*\.$/)
    },
  )

  test('is refused if it ends anywhere before its root element is closed', async () => {
    expect((await readAll(VALID, CAMT)).entries).toHaveLength(1)
    for (let end = 0; end < VALID.length; end += 1) {
      expect((await refusal(VALID.slice(0, end), CAMT)).code).toBe('STATEMENT_INVALID')
    }
  })

  test('is either read or refused (STATEMENT_INVALID) after random changes', async () => {
    const files = [
      [VALID, CAMT],
      ['ref,amount,cur,day\n"a ""b""",1.00,EUR,2026-01-01\n', CSV],
      ['{"reference": "a", "amount": "1.00"}\n', NDJSON],
    ] as const
    const property = fc.asyncProperty(
      fc.constantFrom(...files),
      fc.array(fc.tuple(fc.nat(), fc.nat(255)), { minLength: 1, maxLength: 5 }),
      async ([content, options], changes) => {
        const bytes = Buffer.from(content)
        for (const [place, byte] of changes) bytes[place % bytes.length] = byte
        const code = await readAll(bytes, options, 50).then(
          () => 'read',
          (error: unknown) => (error instanceof SymphonyError ? error.code : String(error)),
        )
        return code === 'read' || code === 'STATEMENT_INVALID'
      },
    )
    expect(await fc.check(property, { numRuns: 1_000 })).toMatchObject({ failed: false, counterexample: null })
  })

  test('is refused if it has more currencies or statements than allowed', async () => {
    await expect(collect(manyCurrencies(), CAMT)).rejects.toThrow('expected at most 300 currencies in one file')
    await expect(collect(manyStatements(), CAMT)).rejects.toThrow('expected at most 1000 statements in one file')
  })

  test('is refused even if its source stream never ends, and the stream is closed', async () => {
    let isClosed = false
    async function* file(): AsyncGenerator<Uint8Array> {
      try {
        for (;;) yield Buffer.from('{"a": 1}')
      } finally {
        isClosed = true
      }
    }
    for (const options of [CAMT, CSV, NDJSON]) {
      isClosed = false
      await expect(collect(file(), options)).rejects.toMatchObject({ code: 'STATEMENT_INVALID' })
      expect([options.format, isClosed]).toEqual([options.format, true])
    }
  })
})

async function* manyCurrencies(): AsyncGenerator<Uint8Array> {
  yield Buffer.from(START + STATEMENT)
  for (let n = 0; n < 1_000_000; n += 1) {
    const letters = [n / 676, n / 26, n].map((place) => String.fromCodePoint(65 + (Math.floor(place) % 26)))
    yield Buffer.from(ENTRY.replace('EUR', letters.join('')))
  }
}

async function* manyStatements(): AsyncGenerator<Uint8Array> {
  yield Buffer.from(START)
  for (let n = 0; n < 1_000_000; n += 1) yield Buffer.from(`<Stmt><Id>S-${n}</Id></Stmt>`)
}

interface Generated {
  readonly options: ReadStatementOptions
  readonly start?: string
  readonly repeated: string
  readonly end?: string
}

interface Report {
  readonly entries: number
  readonly code?: string
  readonly message?: string
  readonly maxMebibytes: number
}

/** Reads a generated file in a process with a small heap. A reader that keeps the file would crash. */
async function readInProcess(generated: Generated, megabytes: number): Promise<Report> {
  const program = fileURLToPath(new URL('../support/statementProcess.mjs', import.meta.url))
  const module = pathToFileURL(builtPath('libs/reconciliation/index.js')).href
  const file = JSON.stringify({ ...generated, module, bytes: megabytes * 1_000_000 })
  const words = ['--max-old-space-size=64', program, file]
  const { stdout } = await promisify(execFile)(process.execPath, words)
  return JSON.parse(stdout)
}

const OPEN_ENTRY = `${START}${STATEMENT}<Ntry><Amt Ccy="EUR">1.00</Amt>`

describe('a bank statement in one long line', () => {
  test.each<readonly [name: string, generated: Generated]>([
    ['text of a read element', { options: CAMT, start: `${OPEN_ENTRY}<AcctSvcrRef>`, repeated: 'x' }],
    ['text of a skipped element', { options: CAMT, start: `${OPEN_ENTRY}<AddtlNtryInf>`, repeated: 'x' }],
    ['CDATA sections', { options: CAMT, start: `${OPEN_ENTRY}<AcctSvcrRef>`, repeated: '<![CDATA[x]]>' }],
    ['one attribute', { options: CAMT, start: '<Document xmlns="', repeated: 'x' }],
    ['many attributes', { options: CAMT, start: '<Document', repeated: ' x="x"' }],
    ['a name of a tag', { options: CAMT, start: '<', repeated: 'x' }],
    ['a comment', { options: CAMT, start: '<!--', repeated: 'x' }],
    ['a document type', { options: CAMT, start: '<!DOCTYPE a [', repeated: '<!ENTITY a "a">' }],
    ['a processing instruction', { options: CAMT, start: '<?x ', repeated: 'x' }],
    ['a name of an entity', { options: CAMT, start: `${OPEN_ENTRY}&`, repeated: 'x' }],
    ['blanks before XML', { options: CAMT, repeated: ' ' }],
    ['a field of CSV', { options: CSV, start: 'ref,amount,cur,day\n', repeated: 'x' }],
    ['a quoted field of CSV', { options: CSV, start: 'ref,amount,cur,day\n"', repeated: 'x\n' }],
    ['a first line of CSV', { options: CSV, repeated: 'x,' }],
    ['a line of NDJSON', { options: NDJSON, start: '{"reference": "', repeated: 'x' }],
  ])('is refused in constant memory: %s', async (_name, generated) => {
    const { code, message, maxMebibytes } = await readInProcess(generated, MEGABYTES)
    expect([code, message]).toEqual(['STATEMENT_INVALID', expect.stringMatching(/^statement, (?:line|byte) \d+/)])
    expect(maxMebibytes).toBeLessThan(MEMORY_MEBIBYTES_MAX)
  })

  test('is read in constant memory if it has many valid entries', async () => {
    const generated = { options: CAMT, start: START + STATEMENT, repeated: ENTRY, end: `</Stmt>${END}` }
    const { entries, code, maxMebibytes } = await readInProcess(generated, VALID_MEGABYTES)
    process.stdout.write(`statements: ${entries} entries, ${maxMebibytes} MiB\n`)
    expect(code).toBeUndefined()
    expect(entries).toBeGreaterThanOrEqual(Math.floor((VALID_MEGABYTES * 1_000_000) / ENTRY.length))
    expect(maxMebibytes).toBeLessThan(MEMORY_MEBIBYTES_MAX)
  })

  test('is read in constant memory if one entry has many transactions', async () => {
    const repeated = '<TxDtls><Refs><EndToEndId>0123456789abcdef0123456789abcdef</EndToEndId></Refs></TxDtls>'
    const start = `${START}${STATEMENT}${ENTRY.replace('</Ntry>', '<NtryDtls>')}`
    const generated = { options: CAMT, start, repeated, end: `</NtryDtls></Ntry></Stmt>${END}` }
    const { code, maxMebibytes } = await readInProcess(generated, VALID_MEGABYTES)
    expect(code).toBeUndefined()
    expect(maxMebibytes).toBeLessThan(MEMORY_MEBIBYTES_MAX)
  })
})
