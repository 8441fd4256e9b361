import { hash } from 'node:crypto'
import { ENTRY, numberOfKind, type Position } from './blocks.js'
import type { Format, RowKind } from './formats.js'
import { columnText, FIRST_COLUMN_AT, integerOf, uuidOf } from './record.js'

/**
 * A row of the ledger: the bytes that are hashed, and the transaction that wrote it. It lies in a page of rows and makes nothing of
 * its bytes until asked: verification hashes millions of them.
 */
export class LedgerRow implements Position {
  readonly kind: RowKind
  readonly #page: Buffer
  /** Place in the page of the transaction (8 bytes). The length of the record (4) and the record follow. */
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

  /** A row that did not come in a page. */
  static of(kind: RowKind, xid: bigint, record: Buffer, format: Format): LedgerRow {
    const prefix = Buffer.alloc(PREFIX_BYTES)
    prefix.writeBigInt64BE(xid)
    prefix.writeInt32BE(record.length, XID_BYTES)
    return new LedgerRow(kind, Buffer.concat([prefix, record]), 0, format)
  }

  /** Place in the page of the next row. */
  get end(): number {
    return this.#end
  }

  /** In bytes. */
  get size(): number {
    return this.#end - this.#at
  }

  get record(): Buffer {
    return this.#page.subarray(this.#at + PREFIX_BYTES, this.#end)
  }

  get xid(): bigint {
    return this.#page.readBigInt64BE(this.#at)
  }

  /** Both halves of it, which are compared more cheaply. */
  get xidHigh(): number {
    return this.#page.readInt32BE(this.#at)
  }

  get xidLow(): number {
    return this.#page.readUInt32BE(this.#at + 4)
  }

  get id(): string {
    return uuidOf(this.record.subarray(FIRST_COLUMN_AT, FIRST_COLUMN_AT + UUID_BYTES))
  }

  /** The item that the row is about, or the scope of an event that is about none. */
  get subject(): string {
    return this.field('outbox_id') ?? this.field('scope') ?? ''
  }

  /** 0 for an identity, otherwise the number of the attempt or event. */
  get number(): bigint {
    return this.kind === 'identity' ? 0n : integerOf(this.field(this.kind === 'attempt' ? 'attempt_no' : 'event_no'))
  }

  /** Whether it is an attempt that ends its item. */
  get ends(): boolean {
    if (this.kind !== 'attempt') return false
    const state = this.field('state')
    return state === 'DISPATCHED' || state === 'FAILED'
  }

  /** A column as text: times are microseconds since 1970, hashes hexadecimal, a lease token only its SHA-256. */
  field(name: string): string | null {
    const column = this.#format[this.kind].indexOf(name)
    return column === -1 ? null : columnText(this.record, column)
  }

  /** Writes the entry that a block has of it. */
  writeEntry(target: Buffer, at: number): void {
    const from = this.#at + PREFIX_BYTES
    target[at] = 0
    target[at + 1] = numberOfKind(this.kind)
    copyFew(this.#page, from + FIRST_COLUMN_AT, UUID_BYTES, target, at + ENTRY.idAt)
    copyFew(this.#page, this.#at, XID_BYTES, target, at + ENTRY.xidAt)
    target.write(hash('sha256', this.#page.subarray(from, this.#end), 'binary'), at + ENTRY.hashAt, 'binary')
  }
}

/** Byte by byte: for so few, a call out of JavaScript takes longer. */
function copyFew(from: Buffer, at: number, length: number, to: Buffer, toAt: number): void {
  for (let index = 0; index < length; index += 1) to[toAt + index] = from[at + index]!
}

const XID_BYTES = 8
/** The transaction, and the length of the record. */
const PREFIX_BYTES = 12
const UUID_BYTES = 16
