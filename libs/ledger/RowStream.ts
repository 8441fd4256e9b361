import type { Queryable } from '../db/index.js'
import { isAfter, type Position } from './blocks.js'
import { readRowPage } from './db.js'
import { KINDS, type Format, type RowKind } from './formats.js'
import type { LedgerRow } from './LedgerRow.js'

/**
 * The rows of the ledger in the order of blocks, a page of each kind ahead: the server reads the next one while this one is
 * hashed here.
 */
export class RowStream {
  readonly #kinds: readonly KindStream[]
  /** Up to here rows were handed out; null before the first; undefined when nobody can tell. */
  #at: Position | null | undefined

  readonly format: Format

  constructor(role: Queryable, after: Position | null, format: Format) {
    this.format = format
    this.#kinds = KINDS.map((kind) => new KindStream(role, kind, after, format))
    this.#at = after
  }

  standsAt(position: Position | null): boolean {
    if (position === null || this.#at === null || this.#at === undefined) return position === this.#at
    return !isAfter(position, this.#at) && !isAfter(this.#at, position)
  }

  /**
   * Those that have not been handed out, up to a row, or all.
   * @param horizon how far may be read ahead, if that is further
   */
  async *upTo(last: Position | null, horizon = last ?? undefined): AsyncGenerator<readonly LedgerRow[]> {
    const before = this.#at
    this.#at = undefined
    // A block that says it ends before it begins has no rows; where the next one begins, it says itself.
    if (last !== null && before !== null && before !== undefined && !isAfter(last, before)) return
    const bound = last === null || horizon === undefined || isAfter(last, horizon) ? last : horizon
    try {
      for (;;) {
        for (const kind of this.#kinds) await kind.fill(bound)
        const rows = this.#merge(last)
        if (rows.length === 0) break
        yield rows
      }
      this.#at = last
    } finally {
      // Whoever stops in the middle, as at an error, leaves no statement under way behind a transaction's back.
      if (this.#at === undefined) await Promise.allSettled(this.#kinds.map((kind) => kind.stop()))
    }
  }

  /** What of the rows at hand is certainly next, up to the last one asked for. */
  #merge(last: Position | null): LedgerRow[] {
    const rows: LedgerRow[] = []
    const end = last === null ? undefined : { last, high: Number(last.xid >> 32n), low: Number(last.xid & 0xffffffffn) }
    for (;;) {
      let next: KindStream | undefined
      for (const kind of this.#kinds) {
        // Of two with the same number, the kind that comes first in a block comes first here.
        if (kind.head !== undefined && (next?.head === undefined || isBefore(kind.head, next.head))) next = kind
      }
      if (next?.head === undefined) return rows
      if (end !== undefined && isBeyond(next.head, end)) return rows
      rows.push(next.take())
      if (next.head === undefined && !next.isAtEnd) return rows
    }
  }
}

class KindStream {
  readonly #role: Queryable
  readonly #kind: RowKind
  readonly #format: Format
  /** Where the next page begins. */
  #after: Position | null
  #rows: readonly LedgerRow[] = []
  #taken = 0
  #ahead: Promise<readonly LedgerRow[]> | undefined
  /** How far it has been read to the end: to here there is nothing more. Null is to the very end. */
  #endedAt: Position | null | undefined
  #bound: Position | null = null
  #limit = FIRST_PAGE_ROWS
  head: LedgerRow | undefined

  constructor(role: Queryable, kind: RowKind, after: Position | null, format: Format) {
    this.#role = role
    this.#kind = kind
    this.#format = format
    this.#after = after
  }

  /** Sees to it that there is a row at hand, if there is one up to the bound, and that the page after it is on its way. */
  async fill(bound: Position | null): Promise<void> {
    this.#bound = bound
    for (;;) {
      if (!this.isAtEnd) this.#readAhead()
      if (this.head !== undefined || this.#ahead === undefined) return
      this.#rows = await this.#ahead
      this.#ahead = undefined
      this.#taken = 0
      this.#showHead()
    }
  }

  get isAtEnd(): boolean {
    if (this.#ahead !== undefined || this.#endedAt === undefined) return false
    return this.#endedAt === null || (this.#bound !== null && !isAfter(this.#bound, this.#endedAt))
  }

  take(): LedgerRow {
    const taken = this.head!
    this.#taken += 1
    this.#showHead()
    return taken
  }

  async stop(): Promise<void> {
    await this.#ahead
  }

  #showHead(): void {
    this.head = this.#rows[this.#taken]
  }

  #readAhead(): void {
    if (this.#ahead !== undefined) return
    this.#ahead = this.#read()
    // Told to whoever waits for it, if anybody ever does.
    this.#ahead.catch(() => {})
  }

  async #read(): Promise<readonly LedgerRow[]> {
    const [bound, limit] = [this.#bound, this.#limit]
    const rows = await readRowPage(this.#role, this.#kind, this.#format, this.#after, bound, limit)
    const last = rows.at(-1)
    if (last !== undefined) {
      this.#after = last
      this.#limit = pageRows(rows)
    }
    this.#endedAt = rows.length < limit ? bound : undefined
    return rows
  }
}

/** Of another kind: by the transaction alone. */
function isBefore(left: LedgerRow, right: LedgerRow): boolean {
  return left.xidHigh === right.xidHigh ? left.xidLow < right.xidLow : left.xidHigh < right.xidHigh
}

function isBeyond(row: LedgerRow, { last, high, low }: { last: Position; high: number; low: number }): boolean {
  if (row.xidHigh !== high) return row.xidHigh > high
  if (row.xidLow !== low) return row.xidLow > low
  return isAfter(row, last)
}

/** As many rows as are about a page, if they go on as these: a payload may have 64 KiB. */
function pageRows(rows: readonly LedgerRow[]): number {
  const bytes = rows.reduce((sum, row) => sum + row.size, 0)
  return Math.min(PAGE_ROWS_MAX, Math.max(PAGE_ROWS_MIN, Math.floor((PAGE_BYTES * rows.length) / bytes)))
}

const FIRST_PAGE_ROWS = 200
const PAGE_ROWS_MIN = 50
const PAGE_ROWS_MAX = 4_000
/** No more than a socket takes: the server then goes on to the next page while this one is hashed. */
const PAGE_BYTES = 524_288
