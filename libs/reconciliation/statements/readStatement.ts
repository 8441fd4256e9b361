import { InvalidArgumentError, requiredText, requireKnownOptions, requiredObject } from '../../core/index.js'
import { decodeText } from './decodeText.js'
import { readCamt } from './readCamt.js'
import { readCsv } from './readCsv.js'
import { readNdjson } from './readNdjson.js'
import { STATEMENT_FORMATS } from './types.js'
import type { ReadStatementOptions, StatementEntry, StatementSummary } from './types.js'
import { TEXT_LENGTHS } from './values.js'

const OPTIONS = ['format', 'account', 'columns', 'decimal', 'dateFormat', 'referencePattern']
const COLUMNS_REQUIRED = ['reference', 'amount', 'currency', 'date']
const COLUMNS = [...COLUMNS_REQUIRED, 'direction', 'status', 'account', 'bankReference', 'reversal']
const COLUMN_NAME_LENGTH_MAX = 200

/**
 * Reads the entries of a statement in batches, and returns its summary. Memory use does not depend on the size of the
 * file. Throws `STATEMENT_INVALID`, with the position in the file, for an invalid statement.
 */
export async function* readStatement(
  source: AsyncIterable<Uint8Array>,
  options: ReadStatementOptions,
): AsyncGenerator<readonly StatementEntry[], StatementSummary> {
  checkOptions(options)
  const text = decodeText(source)
  if (options.format === 'csv') return yield* readCsv(text, options)
  if (options.format === 'ndjson') return yield* readNdjson(text, options)
  return yield* readCamt(text, options)
}

/** Throws `INVALID_ARGUMENT` for invalid options. */
export function checkOptions(options: ReadStatementOptions): void {
  requireKnownOptions(options, OPTIONS)
  const { format, account, columns, decimal, dateFormat, referencePattern } = options
  if (!STATEMENT_FORMATS.includes(format)) {
    throw new InvalidArgumentError('format', `expected ${STATEMENT_FORMATS.join(', ')}`)
  }
  if (account !== undefined) requiredText('account', account, TEXT_LENGTHS.account)
  if (referencePattern !== undefined && !(referencePattern instanceof RegExp)) {
    throw new InvalidArgumentError('referencePattern', 'expected a regular expression')
  }
  if (format === 'csv') {
    checkColumns(columns)
  } else {
    const given = Object.entries({ columns, decimal, dateFormat }).find(([, value]) => value !== undefined)
    if (given !== undefined) throw new InvalidArgumentError(given[0], 'only for the format csv')
  }
  if (decimal !== undefined && decimal !== '.' && decimal !== ',') {
    throw new InvalidArgumentError('decimal', 'expected "." or ","')
  }
  if (dateFormat !== undefined && !isDateFormat(dateFormat)) {
    throw new InvalidArgumentError('dateFormat', 'expected YYYY, MM and DD in any order, such as DD.MM.YYYY')
  }
}

function checkColumns(columns: ReadStatementOptions['columns']): void {
  if (columns === undefined) {
    throw new InvalidArgumentError('columns', `expected the columns ${COLUMNS_REQUIRED.join(', ')} for the format csv`)
  }
  requireKnownOptions(requiredObject('columns', columns), COLUMNS, 'columns.')
  const given = Object.entries(columns).filter(([, name]) => name !== undefined)
  for (const [field, name] of given) requiredText(`columns.${field}`, name, COLUMN_NAME_LENGTH_MAX)
  const missing = COLUMNS_REQUIRED.find((field) => !given.some(([one]) => one === field))
  if (missing !== undefined) throw new InvalidArgumentError(`columns.${missing}`, 'expected the name of a column')
}

function isDateFormat(format: string): boolean {
  return (
    typeof format === 'string' &&
    format.length <= 20 &&
    ['YYYY', 'MM', 'DD'].every((part) => format.split(part).length === 2) &&
    /^[^A-Za-z0-9]*$/.test(format.replace('YYYY', '').replace('MM', '').replace('DD', ''))
  )
}
