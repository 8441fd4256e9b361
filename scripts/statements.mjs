// Writes a bank statement with planted errors, and the findings that a reconciliation must report: `npm run statements
// -- --help`.
import { once } from 'node:events'
import { randomInt } from 'node:crypto'
import { createWriteStream } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { parseArgs } from 'node:util'
import { readLedgerPayments } from '../bench/ledgerPayments.mjs'
import { ensureBuilt } from './build.mjs'

const USAGE = `npm run statements -- [options]

  --payments N      number of payments (default 1000)
  --errors LIST     planted errors, such as paidTwice=3,recordedNotPaid=2. Kinds: paidTwice, paidNotRecorded,
                    recordedNotPaid, amountDiffers, reversed, unknownEntry
  --format F        camt053 (default), camt054, csv or ndjson
  --seed S          the same seed writes the same file (default: random; it is printed)
  --settlement-days N   days that the bank may take to book a payment (default 1)
  --out FILE        statement (default: statement.xml, .csv or .ndjson). The expected findings are in FILE.expected.json
  --database URL    takes the last N payments of the rail from this ledger, instead of inventing payments
  --rail R          rail of the payments; required with --database
  --schema S        schema of the ledger (default symphony)`

ensureBuilt()
const { buildStatementPayments, generateStatement, PLANTED_KINDS } =
  await import('../dist/libs/cli/commands/statements/generateStatement.js')
const { STATEMENT_FORMATS } = await import('../dist/libs/reconciliation/index.js')

try {
  await main()
} catch (error) {
  if (!(error instanceof RangeError || error.code?.startsWith('ERR_PARSE_ARGS'))) throw error
  process.stderr.write(`${error.message}\n\n${USAGE}\n`)
  process.exitCode = 2
}

async function main() {
  const given = parseArgs({
    options: Object.fromEntries(
      [...USAGE.matchAll(/^ {2}--([a-z-]+)/gm)]
        .map(([, name]) => [name, { type: 'string' }])
        .concat([['help', { type: 'boolean' }]]),
    ),
  }).values
  if (given.help) return print(USAGE)
  const format = oneOf('--format', given.format ?? 'camt053', STATEMENT_FORMATS)
  const count = wholeNumber('--payments', given.payments ?? '1000')
  const settlementDays = wholeNumber('--settlement-days', given['settlement-days'] ?? '1')
  const errors = readErrors(given.errors)
  const seed = given.seed ?? String(randomInt(2 ** 31))
  print(`statements: seed ${seed}`)
  const payments =
    given.database === undefined
      ? buildStatementPayments(count, errors.paidNotRecorded ?? 0, seed)
      : await readPayments(given, count)
  const statement = generateStatement({ payments, errors, format, seed, settlementDays })
  const out = given.out ?? `statement.${format.startsWith('camt') ? 'xml' : format}`
  await writeText(out, statement.text())
  const { counts, findings, entries } = statement
  const expected = { seed, format, settlementDays, entries, counts, findings }
  await writeFile(`${out}.expected.json`, `${JSON.stringify(expected, null, 2)}\n`)
  print(`${out}: ${entries} entries of ${payments.length} payments`)
  print(JSON.stringify({ seed, counts }))
}

async function writeText(file, parts) {
  const stream = createWriteStream(file)
  for (const part of parts) if (!stream.write(part)) await once(stream, 'drain')
  stream.end()
  await once(stream, 'finish')
}

async function readPayments({ database: url, rail, schema = 'symphony' }, count) {
  if (rail === undefined) throw new RangeError('--rail: expected the rail of the payments, because --database is given')
  const { openDatabase } = await import('../dist/libs/db/index.js')
  const database = openDatabase({ url, schema, applicationName: 'symphony statements' })
  try {
    return await readLedgerPayments(database.as('symphony_auditor'), rail, count)
  } finally {
    await database.close()
  }
}

function readErrors(text = '') {
  const errors = {}
  for (const part of text.split(',').filter((each) => each !== '')) {
    const [kind, number] = part.split('=')
    errors[oneOf('--errors', kind, PLANTED_KINDS)] = wholeNumber(`--errors ${kind}`, number)
  }
  return errors
}

function oneOf(name, value, allowed) {
  if (!allowed.includes(value)) throw new RangeError(`${name}: expected one of ${allowed.join(', ')}, got "${value}"`)
  return value
}

function wholeNumber(name, text) {
  if (!/^\d{1,9}$/.test(text ?? '')) throw new RangeError(`${name}: expected a whole number, got "${text}"`)
  return Number(text)
}

function print(line) {
  process.stdout.write(`${line}\n`)
}
