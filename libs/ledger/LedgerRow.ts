import { hash } from 'node:crypto'
import { ENTRY, numberOfKind, type Position } from './blocks.js'
import type { Format, RowKind } from './formats.js'
import { columnText, FIRST_COLUMN_AT, integerOf, uuidOf } from './record.js'

/**
 * Row of the ledger: the hashed bytes and the transaction that wrote them. Points into a page of rows and decodes
 * fields on request, because verification hashes millions of rows.
 */
export class LedgerRow implements Position {
  readonly kind: RowKind
  readonly #page: Buffer
  /** Offset of the row in the page. Layout: transaction number (8 bytes), length of the record (4 bytes), record. */
  readonly #at: number
  readonly #end: number
  readonly #format: Format

  constructor(kind: RowKind, page: Buffer, at: number, format: Format) {
    this.kind = kind
    this.#page = page
    this.#at = at
    this.#end = at + PREFIX_BYTES + page.readInt32BE(at + XID_BYTES)
    this.#format = format
  }

  /** Creates a row that is not part of a page. */
  static of(kind: RowKind, xid: bigint, record: Buffer, format: Format): LedgerRow {
    const prefix = Buffer.alloc(PREFIX_BYTES)
    prefix.writeBigInt64BE(xid)
    prefix.writeInt32BE(record.length, XID_BYTES)
    return new LedgerRow(kind, Buffer.concat([prefix, record]), 0, format)
  }

  /** Offset of the next row in the page. */
  get end(): number {
    return this.#end
  }

  get size(): number {
    return this.#end - this.#at
  }

  get record(): Buffer {
    return this.#page.subarray(this.#at + PREFIX_BYTES, this.#end)
  }

  get xid(): bigint {
    return this.#page.readBigInt64BE(this.#at)
  }

  /** Upper half of the transaction number. Comparing two halves is cheaper than comparing a bigint. */
  get xidHigh(): number {
    return this.#page.readInt32BE(this.#at)
  }

  get xidLow(): number {
    return this.#page.readUInt32BE(this.#at + 4)
  }

  get id(): string {
    return uuidOf(this.record.subarray(FIRST_COLUMN_AT, FIRST_COLUMN_AT + UUID_BYTES))
  }

  /** Item of the row, or the scope of an event without an item. */
  get subject(): string {
    return this.field('outbox_id') ?? this.field('scope') ?? ''
  }

  /** Number of the attempt or event; 0 for an identity. */
  get number(): bigint {
    return this.kind === 'identity' ? 0n : integerOf(this.field(this.kind === 'attempt' ? 'attempt_no' : 'event_no'))
  }

  /** Whether the row is a terminal attempt. */
  get ends(): boolean {
    if (this.kind !== 'attempt') return false
    const state = this.field('state')
    return state === 'DISPATCHED' || state === 'FAILED'
  }

  /**
   * Returns a column as text: times in microseconds since 1970, hashes in hexadecimal, a lease token as its SHA-256.
   */
  field(name: string): string | null {
    const column = this.#format[this.kind].indexOf(name)
    return column === -1 ? null : columnText(this.record, column)
  }

  writeEntry(target: Buffer, at: number): void {
    const from = this.#at + PREFIX_BYTES
    target[at] = 0
    target[at + 1] = numberOfKind(this.kind)
    copyFew(this.#page, from + FIRST_COLUMN_AT, UUID_BYTES, target, at + ENTRY.idAt)
    copyFew(this.#page, this.#at, XID_BYTES, target, at + ENTRY.xidAt)
    target.write(hash('sha256', this.#page.subarray(from, this.#end), 'binary'), at + ENTRY.hashAt, 'binary')
  }
}

/** Copies byte by byte, which is faster than a native call for a few bytes. */
function copyFew(from: Buffer, at: number, length: number, to: Buffer, toAt: number): void {
  for (let index = 0; index < length; index += 1) to[toAt + index] = from[at + index]!
}

const XID_BYTES = 8
/** Bytes before the record: the transaction number and the length of the record. */
const PREFIX_BYTES = 12
const UUID_BYTES = 16
