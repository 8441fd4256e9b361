import { pipeline } from 'node:stream'
import { hasCode } from '../../core/index.js'
import { CsvEntries } from './CsvEntries.js'
import { EntryCollector } from './EntryCollector.js'
import { statementError } from './statementError.js'
import type { ReadStatementOptions, StatementEntry, StatementSummary } from './types.js'
import { normalizeAccount } from './values.js'

/** Maximum length of a record, quoted line ends included. */
const RECORD_LENGTH_MAX = 65_536

interface CsvRecord {
  readonly record: readonly string[]
  readonly info: { readonly lines: number }
}

/** Reads a CSV file whose first line names the columns. The delimiter is the most frequent one in that line. */
export async function* readCsv(
  text: AsyncIterable<string>,
  options: ReadStatementOptions,
): AsyncGenerator<readonly StatementEntry[], StatementSummary> {
  const collector = new EntryCollector()
  const wanted = options.account === undefined ? undefined : normalizeAccount(options.account)
  let entries: CsvEntries | undefined
  for await (const { record, info } of readRecords(text)) {
    if (entries === undefined) {
      entries = new CsvEntries(record, options)
      continue
    }
    const position = collector.nextPosition()
    const entry = entries.read(record, info.lines, position)
    if (wanted !== undefined && entry.account !== null && entry.account !== wanted) continue
    const at = { position: { line: info.lines } }
    collector.addAccount(entry.account, at)
    if (entry.status === 'booked' && entry.bookedOn !== null) collector.addDay(entry.bookedOn)
    collector.add(entry, at)
    if (collector.isFull) yield collector.take()
  }
  if (entries === undefined) {
    throw statementError('expected a first line with the names of the columns', { line: 1 }, 'Give the CSV file.')
  }
  yield collector.take()
  return collector.summary()
}

async function* readRecords(text: AsyncIterable<string>): AsyncGenerator<CsvRecord> {
  // Imports the parser here, because most processes read no statement.
  const { parse } = await import('csv-parse')
  const chunks = text[Symbol.asyncIterator]()
  try {
    const head = await readFirstLine(chunks)
    const parser = parse({
      delimiter: findDelimiter(head),
      info: true,
      max_record_size: RECORD_LENGTH_MAX,
      relax_column_count: true,
      skip_empty_lines: true,
    })
    // The callback ignores an error of the pipeline, because the iteration over `records` throws it.
    const records: AsyncIterable<CsvRecord> = pipeline(encode(head, chunks), parser, () => {})
    try {
      yield* records
    } catch (error) {
      throw toStatementError(error, parser.info.lines)
    }
  } finally {
    await chunks.return?.()
  }
}

async function* encode(head: string, chunks: AsyncIterator<string>): AsyncGenerator<Buffer> {
  yield Buffer.from(head)
  for await (const chunk of { [Symbol.asyncIterator]: () => chunks }) yield Buffer.from(chunk)
}

/** Reads chunks until the text contains a complete first line. */
async function readFirstLine(chunks: AsyncIterator<string>): Promise<string> {
  let head = ''
  while (!/[\r\n]/.test(head.trimStart())) {
    const { done, value } = await chunks.next()
    if (done === true) break
    head += value
    if (head.length > RECORD_LENGTH_MAX && !/[\r\n]/.test(head)) throw tooLong(1)
  }
  if (head.trimStart().startsWith('<')) {
    throw statementError('expected CSV, got XML', { line: 1 }, 'Read it with the format camt053 or camt054.')
  }
  return head
}

/** Returns the most frequent delimiter of the first line, outside quotes. */
function findDelimiter(head: string): string {
  const line = head.trimStart().split(/[\r\n]/, 1)[0] ?? ''
  const unquoted = line.replaceAll(/"[^"]*"/g, '')
  const counts = [',', ';', '\t', '|'].map((delimiter) => ({ delimiter, count: unquoted.split(delimiter).length }))
  return counts.reduce((most, one) => (one.count > most.count ? one : most)).delimiter
}

function tooLong(line: number): Error {
  return statementError(
    `expected records of at most ${RECORD_LENGTH_MAX} characters`,
    { line },
    'Check that this is the CSV file, and that no quote is left open.',
  )
}

/**
 * Replaces a known error of the parser by one with the line number only: the parser's message contains text of the
 * file.
 */
function toStatementError(error: unknown, line: number): unknown {
  if (hasCode(error, 'CSV_MAX_RECORD_SIZE')) return tooLong(line)
  const problem = [...PROBLEMS].find(([code]) => hasCode(error, code))?.[1]
  return problem === undefined
    ? error
    : statementError(problem, { line }, 'Put a field with quotes into quotes, and double the quotes in it.')
}

const PROBLEMS = new Map([
  ['CSV_INVALID_CLOSING_QUOTE', 'expected a delimiter after a closing quote'],
  ['INVALID_OPENING_QUOTE', 'expected a quote only at the start of a field'],
  ['CSV_QUOTE_NOT_CLOSED', 'expected a closing quote before the end of the file'],
  ['CSV_NON_TRIMABLE_CHAR_AFTER_CLOSING_QUOTE', 'expected a delimiter after a closing quote'],
])
