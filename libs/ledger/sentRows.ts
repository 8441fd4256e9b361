import { hash } from 'node:crypto'
import { ENTRY, numberOfKind } from './blocks.js'
import { endsItem, type Field, type LedgerRow, type RowKind, type UnsealedColumns } from './chain.js'
import { BOOLEAN, BYTES, CanonicalText, INTEGER, integerAt, TEXT, TIME, UUID, type Form } from './CanonicalText.js'

/**
 * Rows as PostgreSQL sends them: a page of them is one value, the binary forms of records one after another. To make twenty
 * strings of a row takes far longer than to hash it; so the text that is hashed is written from the bytes in one go, and a field
 * becomes a string only when somebody asks for it.
 *
 * A record is the number of its columns, and of each column its type, its length (-1 for null) and its bytes. The binary forms of
 * the types are part of PostgreSQL's protocol, the same in every version that we support.
 */

/** Up to its payload. */
const ITEM_OF_ATTEMPT: readonly Form[] = [UUID, UUID, TEXT, TEXT, INTEGER, TEXT, TEXT, TEXT]

/** Of each kind of row, the forms of the fields that are hashed, in their order. */
const FORMS: Readonly<Record<RowKind, readonly Form[]>> = {
  identity: [UUID, TEXT, TEXT, TEXT, INTEGER, TEXT, BOOLEAN, UUID, BYTES, TIME],
  attempt: [...ITEM_OF_ATTEMPT, INTEGER, TEXT, TIME, TIME, TEXT, TEXT, TEXT, TEXT, INTEGER, TEXT, BYTES, TIME],
  event: [UUID, UUID, TEXT, INTEGER, TEXT, UUID, TEXT, TEXT, TIME],
}

/** Columns after the hashed fields, of attempts alone: `action` and `outcome_unknown`. */
const UNSEALED_COUNT: Readonly<Record<RowKind, number>> = { identity: 0, attempt: 2, event: 0 }

/** Before the fields come the transaction, which is never null, the row's hash and its predecessor's. */
const ROW_HASH = 1
const PREV_HASH = 2
const FIELDS = 3

const NUMBER = { attempt: FIELDS + 8, event: FIELDS + 3 } as const
const SCOPE = FIELDS + 2
const STATE = FIELDS + 9

/** Its type and length. */
const COLUMN_HEAD = 8
const UUID_BYTES = 16
const XID_BYTES = 8

/** The rows of a page, in its order. */
export function rowsOfPage(kind: RowKind, page: Buffer): SentRow[] {
  const rows: SentRow[] = []
  const columns = FIELDS + FORMS[kind].length + UNSEALED_COUNT[kind]
  for (let at = 0; at < page.length;) {
    if (page.readInt32BE(at) !== columns) throw new Error(`expected a record of ${columns} columns`)
    const start = at + 4
    at = start
    for (let column = 0; column < columns; column += 1) at = nextColumn(page, at)
    rows.push(new SentRow(kind, page, start, at))
  }
  return rows
}

export class SentRow implements LedgerRow {
  readonly kind: RowKind
  readonly #page: Buffer
  /** Of its first column. */
  readonly #start: number
  readonly #end: number
  /** What is asked for more than once. */
  #subject: string | undefined
  #rowHash: string | null | undefined
  #number: bigint | undefined

  constructor(kind: RowKind, page: Buffer, start: number, end: number) {
    this.kind = kind
    this.#page = page
    this.#start = start
    this.#end = end
  }

  get id(): string {
    return this.#text(FIELDS, UUID) ?? ''
  }

  get xid(): string {
    return String(this.#page.readBigInt64BE(this.#start + COLUMN_HEAD))
  }

  /** Both halves of it, which are compared more cheaply. */
  get xidHigh(): number {
    return this.#page.readInt32BE(this.#start + COLUMN_HEAD)
  }

  get xidLow(): number {
    return this.#page.readUInt32BE(this.#start + COLUMN_HEAD + 4)
  }

  get prevHash(): string | null {
    return this.#text(PREV_HASH, BYTES)
  }

  get rowHash(): string | null {
    if (this.#rowHash === undefined) this.#rowHash = this.#text(ROW_HASH, BYTES)
    return this.#rowHash
  }

  get fields(): readonly Field[] {
    return FORMS[this.kind].map((form, index) => this.#text(FIELDS + index, form))
  }

  get unsealed(): UnsealedColumns | undefined {
    if (this.kind !== 'attempt') return undefined
    const first = FIELDS + FORMS.attempt.length
    return { action: this.#text(first, TEXT), outcomeUnknown: this.#text(first + 1, BOOLEAN) }
  }

  get subject(): string {
    this.#subject ??=
      this.#text(this.kind === 'identity' ? FIELDS : FIELDS + 1, UUID) ??
      (this.kind === 'event' ? this.#text(SCOPE, TEXT) : null) ??
      ''
    return this.#subject
  }

  get number(): bigint {
    this.#number ??= this.kind === 'identity' ? 0n : this.#integer(NUMBER[this.kind])
    return this.#number
  }

  get ends(): boolean {
    return this.kind === 'attempt' && endsItem(this.#text(STATE, TEXT))
  }

  get bytes(): number {
    return this.#end - this.#start
  }

  contentHash(): string {
    const forms = FORMS[this.kind]
    let at = this.#columnAt(PREV_HASH)
    scratch.start(this.bytes, forms.length + 1)
    if (this.kind !== 'identity') this.#write(at, BYTES)
    for (let index = 0; index < forms.length; index += 1) {
      at = nextColumn(this.#page, at)
      this.#write(at, forms[index]!)
    }
    return hash('sha256', scratch.bytes())
  }

  writeEntry(target: Buffer, at: number): void {
    const page = this.#page
    target.writeUInt16BE(numberOfKind(this.kind), at)
    copyFew(page, this.#columnAt(FIELDS) + COLUMN_HEAD, UUID_BYTES, target, at + ENTRY.idAt)
    copyFew(page, this.#start + COLUMN_HEAD, XID_BYTES, target, at + ENTRY.xidAt)
    const own = this.#columnAt(ROW_HASH)
    const from = own + COLUMN_HEAD
    const length = Math.max(0, page.readInt32BE(own + 4))
    if (length === ENTRY.hashBytes) copyFew(page, from, length, target, at + ENTRY.hashAt)
    // Every entry is as long as every other: a row hash that is none is replaced by its SHA-256.
    else target.set(hash('sha256', page.subarray(from, from + length), 'buffer'), at + ENTRY.hashAt)
  }

  #write(column: number, form: Form): void {
    scratch.addField(this.#page, column + COLUMN_HEAD, this.#page.readInt32BE(column + 4), form)
  }

  #text(column: number, form: Form): Field {
    const at = this.#columnAt(column)
    const length = this.#page.readInt32BE(at + 4)
    if (length < 0) return null
    const from = at + COLUMN_HEAD
    if (form === TEXT) return this.#page.toString('utf8', from, from + length)
    if (form === BYTES) return this.#page.toString('hex', from, from + length)
    scratch.start(length, 1)
    scratch.addText(this.#page, from, length, form)
    return scratch.text()
  }

  #integer(column: number): bigint {
    const at = this.#columnAt(column)
    const length = this.#page.readInt32BE(at + 4)
    return length < 0 ? 0n : BigInt(integerAt(this.#page, at + COLUMN_HEAD, length, INTEGER))
  }

  #columnAt(column: number): number {
    let at = this.#start
    for (let passed = 0; passed < column; passed += 1) at = nextColumn(this.#page, at)
    return at
  }
}

function nextColumn(page: Buffer, at: number): number {
  return at + COLUMN_HEAD + Math.max(0, page.readInt32BE(at + 4))
}

/** Byte by byte: for so few, a call out of JavaScript takes longer. */
function copyFew(from: Buffer, at: number, length: number, to: Buffer, toAt: number): void {
  for (let index = 0; index < length; index += 1) to[toAt + index] = from[at + index]!
}

/** One for all rows: each is hashed before the next is written. */
const scratch = new CanonicalText()
