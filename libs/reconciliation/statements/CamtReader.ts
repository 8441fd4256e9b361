import type { SaxesParser, SaxesTagPlain } from 'saxes'
import { SymphonyError } from '../../core/index.js'
import { CamtFields, joinDetail, type CamtAmount } from './CamtEntry.js'
import { CamtPeriod } from './CamtPeriod.js'
import type { EntryCollector } from './EntryCollector.js'
import { CANDIDATES_MAX, findOutboxIds, freeTextPattern, isReference, toOutboxId } from './references.js'
import { quoteName, statementError, type StatementPosition } from './statementError.js'
import type { ReadStatementOptions, StatementEntry } from './types.js'
import { AMOUNT, clean, CURRENCY, normalizeAccount, parseDate, parseInstant, TEXT_LENGTHS } from './values.js'

/** Versions of camt.053 and camt.054 that this reader supports. Each has its own namespace. */
const VERSION = { min: 2, max: 13 }

const DEPTH_MAX = 64

/** Maximum number of characters between two tags, to bound memory. */
const CHARACTERS_WITHOUT_EVENT_MAX = 262_144

/** Maximum length of the text in an element. */
const TEXT_MAX = 10_000

/** Maximum length of one reference. ISO 20022 allows 35 characters. */
const REFERENCE_PART_MAX = 99

/** Element that the reader supports. All other elements are skipped with their content. */
interface Known {
  readonly children?: ReadonlyMap<string, Known>
  readonly open?: (reader: CamtReader) => void
  readonly text?: (reader: CamtReader, value: string, tag: SaxesTagPlain) => void
  readonly close?: (reader: CamtReader) => void
}

interface Statement {
  id: string | null
  account: string | null
  /** Whether the statement belongs to the requested account; undefined before its first entry. */
  isWanted: boolean | undefined
  readonly period: CamtPeriod
}

interface OpenEntry {
  readonly fields: CamtFields
  /** Number of transactions opened so far. */
  details: number
  /**
   * Last transaction, added when the next one opens or the entry ends. Only then is it known whether it is the only
   * transaction, which inherits more fields of its entry.
   */
  waiting: CamtFields | undefined
}

/** Reads camt.053 and camt.054 from chunks of text, and adds the entries to a collector. */
export class CamtReader {
  readonly #parser: SaxesParser
  readonly #collector: EntryCollector
  readonly #format: 'camt053' | 'camt054'
  readonly #account: string | undefined
  readonly #pattern: RegExp
  readonly #path: (Known | undefined)[] = []
  #namespace = ''
  #prefix = ''
  /** Attribute that declares the namespace of the document. */
  #declaration = ''
  #text = ''
  #events = 0
  #charactersWithoutEvent = 0
  #statement: Statement | undefined
  #entry: OpenEntry | undefined
  #detail: CamtFields | undefined

  constructor(
    parser: SaxesParser,
    collector: EntryCollector,
    { format, account, referencePattern }: ReadStatementOptions,
  ) {
    this.#parser = parser
    this.#collector = collector
    this.#format = format === 'camt054' ? 'camt054' : 'camt053'
    this.#account = account === undefined ? undefined : normalizeAccount(account)
    this.#pattern = freeTextPattern(referencePattern)
    // Registers at most six handlers: with more, V8 stores the parser as a dictionary, and each character takes five
    // times as long.
    parser.on('opentag', (tag) => this.#openTag(tag))
    parser.on('closetag', (tag) => this.#closeTag(tag))
    parser.on('text', (text) => this.#addText(text))
    parser.on('cdata', (text) => this.#addText(text))
    parser.on('doctype', () => {
      throw this.error(
        'expected a statement without DOCTYPE',
        'Check that this is a statement and not a web page. Symphony never reads document types or entities.',
      )
    })
  }

  write(chunk: string): void {
    const eventsBefore = this.#events
    this.#parse(() => this.#parser.write(chunk))
    this.#charactersWithoutEvent = this.#events === eventsBefore ? this.#charactersWithoutEvent + chunk.length : 0
    if (this.#charactersWithoutEvent > CHARACTERS_WITHOUT_EVENT_MAX) {
      throw this.error(
        `expected a tag within ${CHARACTERS_WITHOUT_EVENT_MAX} characters`,
        'Check that this is the statement; download it again.',
      )
    }
  }

  close(): void {
    this.#parse(() => this.#parser.close())
  }

  /** Converts the parser's errors, which are plain `Error`s. */
  #parse(step: () => void): void {
    try {
      step()
    } catch (error) {
      if (error instanceof SymphonyError || !(error instanceof Error)) throw error
      throw this.error(
        `not well-formed XML: ${quoteName(error.message.replace(/^\d+:\d+: /, ''))}`,
        'Check that the file is complete; download it again.',
      )
    }
  }

  error(problem: string, remedy = 'Ask the bank for a file that follows the ISO 20022 schema.'): Error {
    return statementError(problem, this.position, remedy)
  }

  get position(): StatementPosition {
    return { line: this.#parser.line, column: Math.max(1, this.#parser.column) }
  }

  #openTag(tag: SaxesTagPlain): void {
    this.#events += 1
    const depth = this.#path.length
    if (depth === DEPTH_MAX) throw this.error(`expected at most ${DEPTH_MAX} nested elements`)
    const known = depth === 0 ? this.#openDocument(tag) : this.#findKnown(tag, this.#path[depth - 1]?.children)
    if (known === undefined && depth === 1) {
      throw this.error(`expected <${DOCUMENT_CHILD[this.#format]}>, got ${quoteName(tag.name)}`)
    }
    this.#path.push(known)
    if (known?.text !== undefined) this.#text = ''
    known?.open?.(this)
  }

  #closeTag(tag: SaxesTagPlain): void {
    this.#events += 1
    const known = this.#path.pop()
    if (known?.text !== undefined) {
      const value = this.#text.trim()
      this.#text = ''
      if (value !== '') known.text(this, value, tag)
    }
    known?.close?.(this)
  }

  #addText(text: string): void {
    this.#events += 1
    if (this.#path.at(-1)?.text === undefined) return
    if (this.#text.length + text.length > TEXT_MAX) {
      throw this.error(`expected at most ${TEXT_MAX} characters in an element`)
    }
    this.#text += text
  }

  /**
   * Returns the supported child element with this name. Refuses another prefix or namespace than that of the document.
   * The parser could resolve namespaces itself, but would take twice as long.
   */
  #findKnown(tag: SaxesTagPlain, children: Known['children']): Known | undefined {
    if (children === undefined) return undefined
    const { name, attributes } = tag
    const colon = name.indexOf(':')
    const known = children.get(colon === -1 ? name : name.slice(colon + 1))
    if (known === undefined) return undefined
    const prefix = colon === -1 ? '' : name.slice(0, colon)
    const declared = attributes[this.#declaration]
    if (prefix !== this.#prefix || (declared !== undefined && declared.trim() !== this.#namespace)) {
      throw this.error(`expected one namespace for all elements, got another one for ${quoteName(name)}`)
    }
    return known
  }

  /** Refuses a root element of another message type or an unsupported version. */
  #openDocument({ name, attributes }: SaxesTagPlain): Known {
    const [, prefix = '', local = ''] = /^(?:([^:]*):)?(.*)$/s.exec(name) ?? []
    this.#prefix = prefix
    this.#declaration = prefix === '' ? 'xmlns' : `xmlns:${prefix}`
    const uri = (attributes[this.#declaration] ?? '').trim()
    const expected = MESSAGE_NAMES[this.#format]
    const [, message, version = ''] =
      /^urn:iso:std:iso:20022:tech:xsd:([a-z]{4}\.\d{3})\.\d{3}\.(\d{2})$/.exec(uri) ?? []
    if (local !== 'Document' || message === undefined) {
      throw this.error(
        `expected a ${expected} document, got ${quoteName(local)}${uri === '' ? '' : ` of the namespace ${quoteName(uri)}`}`,
        `Give the ${expected} file of the bank.`,
      )
    }
    if (message !== expected) {
      const format = Object.entries(MESSAGE_NAMES).find(([, one]) => one === message)?.[0]
      throw this.error(
        `expected ${expected}, got ${message}`,
        format === undefined ? `Give the ${expected} file of the bank.` : `Read it with the format ${format}.`,
      )
    }
    if (Number(version) < VERSION.min || Number(version) > VERSION.max) {
      throw this.error(
        `expected version 02 to ${VERSION.max} of ${expected}, got ${version}`,
        'Ask the bank for one of these versions, or use a newer release of Symphony.',
      )
    }
    this.#namespace = uri
    return DOCUMENTS[this.#format]
  }

  openStatement(): void {
    this.#statement = { id: null, account: null, isWanted: undefined, period: new CamtPeriod() }
  }

  /** Adds the statement to the summary, unless it belongs to another account. */
  closeStatement(): void {
    const statement = this.statement
    if (this.#decideWanted(statement)) {
      if (statement.id !== null) this.#collector.addStatementId(statement.id, this)
      this.#collector.addAccount(statement.account, this)
      const period = statement.period.resolve()
      if (period !== undefined && period.from >= period.to) throw this.error('expected <FrDtTm> before <ToDtTm>')
      if (period !== undefined) this.#collector.addPeriod(period.from, period.to)
    }
    this.#statement = undefined
  }

  #decideWanted(statement: Statement): boolean {
    statement.isWanted ??= this.#account === undefined || statement.account === this.#account
    return statement.isWanted
  }

  get statement(): Statement {
    if (this.#statement === undefined) throw new Error('no statement is open')
    return this.#statement
  }

  setAccount(account: string, tag: SaxesTagPlain): void {
    const { statement } = this
    this.#requireFirst(statement.account, tag)
    if (statement.isWanted !== undefined) throw this.error('expected <Acct> before the entries')
    statement.account = normalizeAccount(this.#bounded(account, TEXT_LENGTHS.account, tag))
  }

  setStatementId(id: string, tag: SaxesTagPlain): void {
    this.#requireFirst(this.statement.id, tag)
    this.statement.id = this.#bounded(id, TEXT_LENGTHS.statementId, tag)
  }

  openEntry(): void {
    this.#decideWanted(this.statement)
    this.#entry = { fields: new CamtFields(), details: 0, waiting: undefined }
  }

  openDetail(): void {
    const entry = this.#openedEntry()
    if (entry.waiting !== undefined) this.#addEntry(entry, entry.waiting, false)
    entry.waiting = undefined
    entry.details += 1
    this.#detail = new CamtFields()
  }

  closeDetail(): void {
    this.#openedEntry().waiting = this.#detail
    this.#detail = undefined
  }

  closeEntry(): void {
    const entry = this.#openedEntry()
    if (entry.details === 0) this.#addEntry(entry, entry.fields, true)
    else if (entry.waiting !== undefined) this.#addEntry(entry, entry.waiting, entry.details === 1)
    this.#entry = undefined
  }

  #openedEntry(): OpenEntry {
    if (this.#entry === undefined) throw new Error('no entry is open')
    return this.#entry
  }

  #addEntry({ fields }: OpenEntry, detail: CamtFields, isOnlyDetail: boolean): void {
    const { statement } = this
    const position = this.#collector.nextPosition()
    const direction = detail.direction ?? fields.direction
    const { status } = fields
    if (direction === null) throw this.error('expected <CdtDbtInd> in the entry')
    if (status === null) throw this.error('expected <Sts> in the entry')
    const date = fields.bookedOn ?? fields.valuedOn
    if (status === 'booked' && date !== null) statement.period.addBooking(date)
    if (statement.isWanted !== true) return
    const parts = { account: statement.account, direction, status, position, entry: fields, detail, isOnlyDetail }
    this.#collector.add(joinDetail(parts), this)
  }

  /** Fields of the open transaction, else of the open entry. */
  get fields(): CamtFields {
    if (this.#detail !== undefined) return this.#detail
    const { fields, details } = this.#openedEntry()
    // The ISO schema puts the fields of an entry before its transactions. If a field came later, the transactions that
    // were already read would lack it.
    if (details > 0) throw this.error('expected the fields of an entry before its <NtryDtls>')
    return fields
  }

  /** Refuses a repeated field, because reader and bank could use different values. */
  #requireFirst(before: unknown, tag: SaxesTagPlain): void {
    if (before !== null) throw this.error(`expected <${tag.name}> once`)
  }

  #bounded(value: string, lengthMax: number, tag: SaxesTagPlain): string {
    const text = clean(value, lengthMax + 1)
    if (text === null || text.length > lengthMax) {
      throw this.error(`expected at most ${lengthMax} characters in <${tag.name}>`)
    }
    return text
  }

  setField<Name extends keyof CamtFields>(name: Name, value: CamtFields[Name], tag: SaxesTagPlain): void {
    const { fields } = this
    this.#requireFirst(fields[name], tag)
    fields[name] = value
  }

  setReference(name: ReferenceName, value: string, tag: SaxesTagPlain): void {
    if (isReference(value)) this.setField(name, this.#bounded(value, REFERENCE_PART_MAX, tag), tag)
  }

  readAmount(value: string, tag: SaxesTagPlain): CamtAmount {
    const currency = tag.attributes['Ccy'] ?? ''
    if (!AMOUNT.test(value)) throw this.error(`expected a decimal such as 1234.50 in <${tag.name}>`)
    if (!CURRENCY.test(currency))
      throw this.error(`expected a currency such as EUR in the attribute Ccy of <${tag.name}>`)
    return { amount: value, currency }
  }

  readDate(value: string, tag: SaxesTagPlain): string {
    const date = parseDate(value)
    if (date === undefined) throw this.error(`expected a date from 1970 to 2099 such as 2026-01-31 in <${tag.name}>`)
    return date
  }

  readInstant(value: string, tag: SaxesTagPlain): number {
    const instant = parseInstant(value)
    if (instant === undefined) throw this.error(`expected a time such as 2026-01-31T00:00:00Z in <${tag.name}>`)
    return instant
  }

  readCode<Meaning>(codes: Readonly<Record<string, Meaning>>, value: string, tag: SaxesTagPlain): Meaning {
    const meaning = Object.hasOwn(codes, value) ? codes[value] : undefined
    if (meaning === undefined) throw this.error(`expected ${Object.keys(codes).join(', ')} in <${tag.name}>`)
    return meaning
  }

  /** Adds a structured creditor reference. All are searched for outbox ids; only the first is shown. */
  addCreditorReference(value: string): void {
    if (!isReference(value)) return
    const { fields } = this
    fields.creditorReference ??= clean(value, TEXT_LENGTHS.reference)
    const id = toOutboxId(value)
    if (id !== undefined) fields.structuredIds = this.#addIds(fields.structuredIds, [id])
  }

  addFreeText(value: string): void {
    if (!isReference(value)) return
    const { fields } = this
    fields.freeText ??= clean(value, TEXT_LENGTHS.reference)
    const found = findOutboxIds(value, this.#pattern)
    if (found.length > 0) fields.freeTextIds = this.#addIds(fields.freeTextIds, found)
  }

  #addIds(ids: readonly string[], more: readonly string[]): readonly string[] {
    const all = [...new Set([...ids, ...more])]
    if (all.length > CANDIDATES_MAX) {
      throw this.error(
        `expected at most ${CANDIDATES_MAX} outbox ids in one entry`,
        'Ask the bank for a file with the transactions of each batch booking.',
      )
    }
    return all
  }
}

type ReferenceName = 'servicerReference' | 'endToEndId' | 'instructionId' | 'transactionId'

const MESSAGE_NAMES = { camt053: 'camt.053', camt054: 'camt.054' } as const
const DOCUMENT_CHILD = { camt053: 'BkToCstmrStmt', camt054: 'BkToCstmrDbtCdtNtfctn' } as const

const DIRECTIONS = { DBIT: 'debit', CRDT: 'credit' } as const
const INDICATORS = { true: true, '1': true, false: false, '0': false } as const
/** Meanings of the ISO codes. FUTR marks an entry that the bank will book on a later day. */
const STATUSES: Readonly<Record<string, StatementEntry['status']>> = {
  BOOK: 'booked',
  PDNG: 'pending',
  FUTR: 'pending',
  INFO: 'information',
}

type ReadText = NonNullable<Known['text']>

/** Returns a map of elements by name. A plain object would also have inherited names such as `constructor`. */
function named(children: Readonly<Record<string, Known>>): ReadonlyMap<string, Known> {
  return new Map(Object.entries(children))
}

/** Returns an element with text only. */
function leaf(text: ReadText): Known {
  return { text }
}

function reference(name: ReferenceName): Known {
  return leaf((reader, value, tag) => reader.setReference(name, value, tag))
}

function amount(name: 'amount' | 'transactionAmount' | 'instructedAmount'): Known {
  return leaf((reader, value, tag) => reader.setField(name, reader.readAmount(value, tag), tag))
}

function dateOrTime(name: 'bookedOn' | 'valuedOn'): Known {
  const date = leaf((reader, value, tag) => reader.setField(name, reader.readDate(value, tag), tag))
  return { children: named({ Dt: date, DtTm: date }) }
}

const STATUS = leaf((reader, value, tag) => reader.setField('status', reader.readCode(STATUSES, value, tag), tag))
const DIRECTION = leaf((reader, value, tag) =>
  reader.setField('direction', reader.readCode(DIRECTIONS, value, tag), tag),
)
const AMOUNT_DETAILS: Known = {
  children: named({
    InstdAmt: { children: named({ Amt: amount('instructedAmount') }) },
    TxAmt: { children: named({ Amt: amount('transactionAmount') }) },
  }),
}
const RETURN_CODE = leaf((reader, value, tag) =>
  reader.setField('returnCode', clean(value, TEXT_LENGTHS.returnCode), tag),
)

const DETAIL: Known = {
  open: (reader) => reader.openDetail(),
  close: (reader) => reader.closeDetail(),
  children: named({
    Refs: {
      children: named({
        AcctSvcrRef: reference('servicerReference'),
        InstrId: reference('instructionId'),
        EndToEndId: reference('endToEndId'),
        TxId: reference('transactionId'),
      }),
    },
    Amt: amount('amount'),
    CdtDbtInd: DIRECTION,
    AmtDtls: AMOUNT_DETAILS,
    RmtInf: {
      children: named({
        Ustrd: leaf((reader, value) => reader.addFreeText(value)),
        Strd: {
          children: named({
            CdtrRefInf: { children: named({ Ref: leaf((reader, value) => reader.addCreditorReference(value)) }) },
          }),
        },
      }),
    },
    RtrInf: { children: named({ Rsn: { children: named({ Cd: RETURN_CODE, Prtry: RETURN_CODE }) } }) },
  }),
}

const ENTRY: Known = {
  open: (reader) => reader.openEntry(),
  close: (reader) => reader.closeEntry(),
  children: named({
    Amt: amount('amount'),
    CdtDbtInd: DIRECTION,
    RvslInd: leaf((reader, value, tag) => reader.setField('reversal', reader.readCode(INDICATORS, value, tag), tag)),
    // Old versions have text here, newer ones a child with a code.
    Sts: { ...STATUS, children: named({ Cd: STATUS, Prtry: STATUS }) },
    BookgDt: dateOrTime('bookedOn'),
    ValDt: dateOrTime('valuedOn'),
    AcctSvcrRef: reference('servicerReference'),
    AmtDtls: AMOUNT_DETAILS,
    NtryDtls: { children: named({ TxDtls: DETAIL }) },
  }),
}

const ACCOUNT_ID = leaf((reader, value, tag) => reader.setAccount(value, tag))
const BALANCE_DATE = leaf((reader, value, tag) => reader.statement.period.setBalanceDate(reader.readDate(value, tag)))

const STATEMENT: Known = {
  open: (reader) => reader.openStatement(),
  close: (reader) => reader.closeStatement(),
  children: named({
    Id: leaf((reader, value, tag) => reader.setStatementId(value, tag)),
    FrToDt: {
      children: named({
        FrDtTm: leaf((reader, value, tag) => reader.statement.period.setFrom(reader.readInstant(value, tag))),
        ToDtTm: leaf((reader, value, tag) => reader.statement.period.setTo(reader.readInstant(value, tag))),
      }),
    },
    Acct: {
      children: named({
        Id: {
          children: named({
            IBAN: ACCOUNT_ID,
            Othr: { children: named({ Id: ACCOUNT_ID }) },
          }),
        },
      }),
    },
    Bal: {
      close: (reader) => reader.statement.period.closeBalance(),
      children: named({
        Tp: {
          children: named({
            CdOrPrtry: {
              children: named({ Cd: leaf((reader, value) => reader.statement.period.setBalanceType(value)) }),
            },
          }),
        },
        Dt: { children: named({ Dt: BALANCE_DATE, DtTm: BALANCE_DATE }) },
      }),
    },
    Ntry: ENTRY,
  }),
}

const DOCUMENTS: Readonly<Record<'camt053' | 'camt054', Known>> = {
  camt053: { children: named({ BkToCstmrStmt: { children: named({ Stmt: STATEMENT }) } }) },
  camt054: { children: named({ BkToCstmrDbtCdtNtfctn: { children: named({ Ntfctn: STATEMENT }) } }) },
}
