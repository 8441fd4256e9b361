import {
  ArgumentRangeError,
  InvalidArgumentError,
  isObject,
  parseStrictJson,
  rejectUnknownKeys,
} from '../../core/index.js'
import type { JsonObject, JsonValue } from '../../core/index.js'
import { EntryCollector } from './EntryCollector.js'
import { CANDIDATES_MAX, findReferences, freeTextPattern, isReference, toOutboxId } from './references.js'
import { statementError } from './statementError.js'
import type { ReadStatementOptions, StatementEntry, StatementSummary } from './types.js'
import { AMOUNT, clean, CURRENCY, normalizeAccount, parseDate, TEXT_LENGTHS } from './values.js'

const LINE_LENGTH_MAX = 65_536

const FIELDS = [
  'account',
  'bankReference',
  'reference',
  'candidates',
  'amount',
  'currency',
  'direction',
  'status',
  'reversal',
  'bookedOn',
  'valuedOn',
  'returnCode',
  'position',
]

/**
 * Reads one JSON object per line, with the fields of `StatementEntry`. By default an entry is a booked debit and other
 * fields are null.
 */
export async function* readNdjson(
  text: AsyncIterable<string>,
  options: ReadStatementOptions,
): AsyncGenerator<readonly StatementEntry[], StatementSummary> {
  const collector = new EntryCollector()
  const pattern = freeTextPattern(options.referencePattern)
  const wanted = options.account === undefined ? undefined : normalizeAccount(options.account)
  for await (const { line, content } of splitLines(text)) {
    const position = collector.nextPosition()
    const entry = readLine(content, line, pattern, position)
    const account = entry.account === null ? (wanted ?? null) : normalizeAccount(entry.account)
    if (wanted !== undefined && account !== null && account !== wanted) continue
    const at = { position: { line } }
    collector.addAccount(account, at)
    if (entry.status === 'booked' && entry.bookedOn !== null) collector.addDay(entry.bookedOn)
    collector.add({ ...entry, account }, at)
    if (collector.isFull) yield collector.take()
  }
  yield collector.take()
  return collector.summary()
}

interface Line {
  readonly line: number
  readonly content: string
}

/** Yields the lines that are not blank. */
async function* splitLines(text: AsyncIterable<string>): AsyncGenerator<Line> {
  let rest = ''
  let line = 1
  for await (const chunk of text) {
    let start = 0
    for (let end = chunk.indexOf('\n'); end !== -1; end = chunk.indexOf('\n', start)) {
      const content = rest + chunk.slice(start, end)
      rest = ''
      start = end + 1
      if (content.trim() !== '') yield { line, content: requireBounded(content, line) }
      line += 1
    }
    rest = requireBounded(rest + chunk.slice(start), line)
  }
  if (rest.trim() !== '') yield { line, content: rest }
}

function requireBounded(content: string, line: number): string {
  if (content.length > LINE_LENGTH_MAX) {
    throw statementError(`expected at most ${LINE_LENGTH_MAX} characters`, { line }, 'Write one JSON object per line.')
  }
  return content
}

function readLine(content: string, line: number, pattern: RegExp, position: number): StatementEntry {
  try {
    const value = parseStrictJson(content, { argument: 'entry', bytesMax: LINE_LENGTH_MAX * 3, depthMax: 2 })
    if (!isObject(value)) throw new InvalidArgumentError('entry', 'expected an object')
    rejectUnknownKeys(value, FIELDS, (key) => `entry.${key}`)
    return readEntry(value, pattern, position)
  } catch (error) {
    if (!(error instanceof InvalidArgumentError || error instanceof ArgumentRangeError)) throw error
    throw statementError(
      error.message,
      { line },
      'Write one JSON object per line, with the fields of StatementEntry (docs/operate/reconcile.md).',
    )
  }
}

function readEntry(value: JsonObject, pattern: RegExp, position: number): StatementEntry {
  const shown = shortText(value, 'reference', TEXT_LENGTHS.reference)
  const reference = isReference(shown) ? shown : null
  const bankReference = shortText(value, 'bankReference', TEXT_LENGTHS.reference)
  return {
    account: shortText(value, 'account', TEXT_LENGTHS.account),
    bankReference: isReference(bankReference) ? bankReference : null,
    reference,
    candidates: readCandidates(value['candidates'], reference, pattern),
    amount: matching(value, 'amount', AMOUNT, 'a decimal string such as "1234.50"'),
    currency: matching(value, 'currency', CURRENCY, 'a currency such as "EUR"'),
    direction: oneOf(value, 'direction', ['debit', 'credit']),
    status: oneOf(value, 'status', ['booked', 'pending', 'information']),
    reversal: oneOf(value, 'reversal', [false, true]),
    bookedOn: date(value, 'bookedOn'),
    valuedOn: date(value, 'valuedOn'),
    returnCode: shortText(value, 'returnCode', TEXT_LENGTHS.returnCode),
    position,
  }
}

function readCandidates(given: JsonValue | undefined, reference: string | null, pattern: RegExp): readonly string[] {
  if (given === undefined || given === null) {
    return reference === null ? [] : findReferences(reference, pattern)
  }
  const ids = Array.isArray(given) ? given.map((one) => (typeof one === 'string' ? toOutboxId(one) : undefined)) : []
  const found = ids.filter((id) => id !== undefined)
  if (!Array.isArray(given) || found.length < given.length || found.length > CANDIDATES_MAX) {
    throw new InvalidArgumentError('entry.candidates', `expected a list of at most ${CANDIDATES_MAX} outbox ids`)
  }
  return [...new Set(found)]
}

function optionalText(value: JsonObject, field: string): string | null {
  const given = value[field] ?? null
  if (given !== null && typeof given !== 'string') throw new InvalidArgumentError(`entry.${field}`, 'expected text')
  return given
}

function shortText(value: JsonObject, field: string, lengthMax: number): string | null {
  const given = optionalText(value, field)
  const cleaned = given === null ? null : clean(given, lengthMax + 1)
  if (cleaned !== null && cleaned.length > lengthMax) {
    throw new ArgumentRangeError(`entry.${field}`, `expected at most ${lengthMax} characters`)
  }
  return cleaned
}

function matching(value: JsonObject, field: string, pattern: RegExp, expected: string): string | null {
  const given = optionalText(value, field)
  if (given !== null && !pattern.test(given)) throw new InvalidArgumentError(`entry.${field}`, `expected ${expected}`)
  return given
}

function date(value: JsonObject, field: string): string | null {
  const given = optionalText(value, field)
  const parsed = given === null ? null : parseDate(given)
  if (parsed === undefined) throw new InvalidArgumentError(`entry.${field}`, 'expected a date such as "2026-01-31"')
  return parsed
}

/** Returns one of the choices, by default the first. */
function oneOf<Choice extends string | boolean>(
  value: JsonObject,
  field: string,
  choices: readonly [Choice, ...Choice[]],
): Choice {
  const given = value[field] ?? choices[0]
  const choice = choices.find((one) => one === given)
  if (choice === undefined) throw new InvalidArgumentError(`entry.${field}`, `expected ${choices.join(' or ')}`)
  return choice
}
