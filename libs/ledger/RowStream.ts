import { setImmediate } from 'node:timers/promises'
import type { Queryable } from '../db/index.js'
import { isAfter, type Position } from './blocks.js'
import { readRowPage } from './db.js'
import { KINDS, type Format, type RowKind } from './formats.js'
import type { LedgerRow } from './LedgerRow.js'

/**
 * Reads rows in the order of blocks, one page ahead per kind. The server reads the next page while this process hashes.
 */
export class RowStream {
  readonly #kinds: readonly KindStream[]
  /**
   * Position up to which all rows were returned; null at the start of the ledger. Undefined while `upTo` runs, and
   * after a run of `upTo` that did not reach its end.
   */
  #at: Position | null | undefined

  readonly format: Format

  constructor(role: Queryable, after: Position | null, format: Format) {
    this.format = format
    this.#kinds = KINDS.map((kind) => new KindStream(role, kind, after, format))
    this.#at = after
  }

  isAt(position: Position | null): boolean {
    if (position === null || this.#at === null || this.#at === undefined) return position === this.#at
    return !isAfter(position, this.#at) && !isAfter(this.#at, position)
  }

  /**
   * Returns the next rows up to `last`, or all rows if `last` is null.
   * @param horizon position after `last` up to which rows may be read ahead
   */
  async *upTo(last: Position | null, horizon = last ?? undefined): AsyncGenerator<readonly LedgerRow[]> {
    const before = this.#at
    this.#at = undefined
    // A forged block may end before it starts. Such a block has no rows.
    if (last !== null && before !== null && before !== undefined && !isAfter(last, before)) return
    const bound = last === null || horizon === undefined || isAfter(last, horizon) ? last : horizon
    try {
      for (;;) {
        for (const kind of this.#kinds) await kind.fill(bound)
        // Waits one turn of the event loop, in which the driver sends the queries of the next pages. Otherwise the
        // server would be idle while the caller hashes these rows.
        await setImmediate()
        const rows = this.#merge(last)
        if (rows.length === 0) break
        yield rows
      }
      this.#at = last
    } finally {
      // The caller stopped early, for example after an error. Waits for the running statements of the transaction.
      if (this.#at === undefined) await Promise.allSettled(this.#kinds.map((kind) => kind.stop()))
    }
  }

  /** Merges the loaded rows of all kinds up to `last`. Stops when a kind has no loaded row left. */
  #merge(last: Position | null): LedgerRow[] {
    const rows: LedgerRow[] = []
    const end = last === null ? undefined : { last, high: Number(last.xid >> 32n), low: Number(last.xid & 0xffffffffn) }
    for (;;) {
      let next: KindStream | undefined
      for (const kind of this.#kinds) {
        // Among rows of one transaction, the order of KINDS decides.
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
  /** Position after which the next page begins. */
  #after: Position | null
  #rows: readonly LedgerRow[] = []
  #taken = 0
  #ahead: Promise<readonly LedgerRow[]> | undefined
  /** Bound that the last page reached, null for the end of the table; undefined if more rows may follow. */
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

  /** Loads a row if there is one up to the bound, and starts to read the next page. */
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
    // `fill()` throws the error if it awaits this page.
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

/** Compares rows of different kinds by transaction number. */
function isBefore(left: LedgerRow, right: LedgerRow): boolean {
  return left.xidHigh === right.xidHigh ? left.xidLow < right.xidLow : left.xidHigh < right.xidHigh
}

function isBeyond(row: LedgerRow, { last, high, low }: { last: Position; high: number; low: number }): boolean {
  if (row.xidHigh !== high) return row.xidHigh > high
  if (row.xidLow !== low) return row.xidLow > low
  return isAfter(row, last)
}

/**
 * Returns the number of rows that fill about one page, estimated from the sizes of these rows. A payload may have 64
 * KiB.
 */
function pageRows(rows: readonly LedgerRow[]): number {
  const bytes = rows.reduce((sum, row) => sum + row.size, 0)
  return Math.min(PAGE_ROWS_MAX, Math.max(PAGE_ROWS_MIN, Math.floor((PAGE_BYTES * rows.length) / bytes)))
}

const FIRST_PAGE_ROWS = 200
const PAGE_ROWS_MIN = 50
const PAGE_ROWS_MAX = 4_000
/**
 * Size of a page. A page fits into the socket's buffer, so that the server reads the next page while this process
 * hashes.
 */
const PAGE_BYTES = 524_288
