import { findReferences, freeTextPattern, isReference } from './references.js'
import { quoteName, statementError } from './statementError.js'
import type { ReadStatementOptions, StatementColumns, StatementEntry } from './types.js'
import { AMOUNT, clean, CURRENCY, normalizeAccount, TEXT_LENGTHS, toDate } from './values.js'

/** Accepted words for a direction, status or reversal, in lower case. */
const DIRECTIONS: Readonly<Record<string, StatementEntry['direction']>> = {
  debit: 'debit',
  dbit: 'debit',
  dr: 'debit',
  d: 'debit',
  credit: 'credit',
  crdt: 'credit',
  cr: 'credit',
  c: 'credit',
}
const STATUSES: Readonly<Record<string, StatementEntry['status']>> = {
  booked: 'booked',
  book: 'booked',
  pending: 'pending',
  pdng: 'pending',
  information: 'information',
  info: 'information',
}
const REVERSALS: Readonly<Record<string, boolean>> = {
  true: true,
  yes: true,
  '1': true,
  false: false,
  no: false,
  '0': false,
  '': false,
}

const DEFAULT_DATE_FORMAT = 'YYYY-MM-DD'

export class CsvEntries {
  readonly #columns: StatementColumns
  readonly #indexes: Readonly<Record<string, number>>
  readonly #width: number
  readonly #account: string | null
  readonly #amount: RegExp
  readonly #date: DatePattern
  readonly #decimal: string
  readonly #pattern: RegExp
  /** Sign of the first amount. In a file without a direction, all amounts must have this sign. */
  #isNegative: boolean | undefined

  constructor(header: readonly string[], options: ReadStatementOptions) {
    const { columns, decimal = '.', dateFormat = DEFAULT_DATE_FORMAT, account, referencePattern } = options
    if (columns === undefined) throw new Error('columns are required')
    this.#columns = columns
    const named = Object.entries(columns).filter(([, name]) => name !== undefined)
    this.#indexes = Object.fromEntries(named.map(([field, name]) => [field, findColumn(header, field, name)]))
    this.#width = header.length
    this.#account = account === undefined ? null : normalizeAccount(account)
    this.#decimal = decimal
    this.#amount = amountPattern(decimal)
    this.#date = datePattern(dateFormat)
    this.#pattern = freeTextPattern(referencePattern)
  }

  read(record: readonly string[], line: number, position: number): StatementEntry {
    const cell = new Cells(record, this.#indexes, line)
    if (record.length !== this.#width) {
      throw statementError(
        `expected ${this.#width} fields as in the first line, got ${record.length}`,
        { line },
        'Check that the file is complete, and that fields with the delimiter are in quotes.',
      )
    }
    const { amount, direction } = this.#readAmount(cell)
    const status = cell.word('status', STATUSES) ?? 'booked'
    const shown = cell.text('reference', TEXT_LENGTHS.reference)
    const reference = isReference(shown) ? shown : null
    const bankReference = cell.text('bankReference', TEXT_LENGTHS.reference)
    const account = cell.text('account', TEXT_LENGTHS.account)
    return {
      account: account === null ? this.#account : normalizeAccount(account),
      bankReference: isReference(bankReference) ? bankReference : null,
      reference,
      // Searches the whole field, because the shown reference may be cut.
      candidates: findReferences(cell.raw('reference').trim(), this.#pattern),
      amount,
      currency: this.#readCurrency(cell),
      direction,
      status,
      reversal: cell.word('reversal', REVERSALS) ?? false,
      bookedOn: this.#readDate(cell, status),
      valuedOn: null,
      returnCode: null,
      position,
    }
  }

  #readAmount(cell: Cells): Pick<StatementEntry, 'direction'> & { readonly amount: string } {
    const [, sign = '', whole = '', fraction] = this.#amount.exec(cell.raw('amount').trim()) ?? []
    const digits = whole.replaceAll(/\D/g, '')
    // An amount with a separator and no fraction, such as 1.234, is ambiguous. It means 1234, or the file has another
    // decimal mark than the option says.
    const isAmbiguous = fraction === undefined && /[.,]/.test(whole)
    const amount = fraction === undefined ? digits : `${digits}.${fraction}`
    if (isAmbiguous || !AMOUNT.test(amount)) {
      throw cell.error(
        'amount',
        `expected an amount with the decimal mark "${this.#decimal}"`,
        'Set the option decimal to the decimal mark of the file.',
      )
    }
    return { amount, direction: this.#readDirection(cell, sign === '-') }
  }

  #readDirection(cell: Cells, isNegative: boolean): StatementEntry['direction'] {
    const { direction, amount } = this.#columns
    if (direction === amount) return isNegative ? 'debit' : 'credit'
    if (direction !== undefined) {
      const word = cell.word('direction', DIRECTIONS)
      if (word === undefined) throw cell.error('direction', 'expected debit or credit')
      return word
    }
    this.#isNegative ??= isNegative
    if (this.#isNegative !== isNegative) {
      throw cell.error(
        'amount',
        'expected amounts with one sign, got both signs and no column with the direction',
        `Name the direction: direction=${amount} if a negative amount is a debit, else the column that says debit or credit.`,
      )
    }
    return 'debit'
  }

  #readCurrency(cell: Cells): string {
    const currency = cell.raw('currency').trim()
    if (!CURRENCY.test(currency)) throw cell.error('currency', 'expected a currency such as EUR')
    return currency
  }

  #readDate(cell: Cells, status: StatementEntry['status']): string | null {
    const text = cell.raw('date').trim()
    if (text === '' && status !== 'booked') return null
    const { year, month, day } = this.#date.pattern.exec(text)?.groups ?? {}
    const date = year && month && day ? toDate(year, month, day) : undefined
    if (date === undefined) {
      throw cell.error(
        'date',
        `expected a date from 1970 to 2099 as ${this.#date.format}`,
        'Set the option dateFormat, for example to DD.MM.YYYY.',
      )
    }
    return date
  }
}

/** Fields of one record, by the keys of the option `columns`. */
class Cells {
  readonly #record: readonly string[]
  readonly #indexes: Readonly<Record<string, number>>
  readonly #line: number

  constructor(record: readonly string[], indexes: Readonly<Record<string, number>>, line: number) {
    this.#record = record
    this.#indexes = indexes
    this.#line = line
  }

  raw(field: keyof StatementColumns): string {
    const index = this.#indexes[field]
    return index === undefined ? '' : (this.#record[index] ?? '')
  }

  text(field: keyof StatementColumns, lengthMax: number): string | null {
    return clean(this.raw(field), lengthMax)
  }

  /** Returns the meaning of a word; undefined if the column is not mapped. */
  word<Meaning>(field: keyof StatementColumns, words: Readonly<Record<string, Meaning>>): Meaning | undefined {
    if (this.#indexes[field] === undefined) return undefined
    const word = this.raw(field).trim().toLowerCase()
    if (Object.hasOwn(words, word)) return words[word]
    throw this.error(field, `expected one of ${Object.keys(words).filter(Boolean).join(', ')}`)
  }

  error(field: keyof StatementColumns, problem: string, remedy = 'Correct the file, or the option columns.'): Error {
    return statementError(`${field}: ${problem}`, { line: this.#line }, remedy)
  }
}

function findColumn(header: readonly string[], field: string, name: string): number {
  const names = header.map((one) => one.trim())
  const index = names.indexOf(name)
  if (index !== -1 && names.lastIndexOf(name) === index) return index
  const problem =
    index === -1 ? `expected a column ${quoteName(name)}` : `expected one column ${quoteName(name)}, got several`
  throw statementError(
    `${field}: ${problem}`,
    { line: 1 },
    `Name one of the columns of the first line: ${names.slice(0, 30).map(quoteName).join(', ')}.`,
  )
}

/** Returns a pattern for sign, whole digits with or without groups of three, and fraction. */
function amountPattern(decimal: '.' | ','): RegExp {
  const mark = decimal === '.' ? '\\.' : ','
  const group = decimal === '.' ? "[,'’ \u00A0\u202F]" : "[.'’ \u00A0\u202F]"
  return new RegExp(`^([+-]?)(\\d{1,3}(?:${group}\\d{3})+|\\d+)(?:${mark}(\\d+))?$`)
}

interface DatePattern {
  readonly format: string
  readonly pattern: RegExp
}

/** Returns a pattern for dates, optionally followed by a time. `readStatement` has checked the format. */
function datePattern(format: string): DatePattern {
  const source = format
    .replaceAll(/[^A-Z]/g, (character) => `\\u{${character.codePointAt(0)?.toString(16)}}`)
    .replace('YYYY', '(?<year>\\d{4})')
    .replace('MM', '(?<month>\\d{2})')
    .replace('DD', '(?<day>\\d{2})')
  return { format, pattern: new RegExp(`^${source}(?:[T ].*)?$`, 'u') }
}
