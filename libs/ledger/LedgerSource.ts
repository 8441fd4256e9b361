import type { Queryable } from '../db/index.js'
import type { Block, Position } from './blocks.js'
import { countRows, readBlockPage, readNextXid } from './db.js'
import { type Format, FORMATS, NEWEST_FORMAT } from './formats.js'
import type { LedgerRow } from './LedgerRow.js'
import { RowStream } from './RowStream.js'

/**
 * Where the ledger is read from: the database itself, or an export of it. The verifier asks nothing else, so that its verdict about
 * a file is its verdict about the database. Everything is streamed, rows some at a time.
 */
export interface LedgerSource {
  /** Rows and blocks there are, for a progress bar; an estimate is enough. */
  count(): Promise<number>
  /** By number, those after the given one. */
  blocks(afterNo: bigint): AsyncIterable<Block>
  /** In the order of blocks, with the columns of a format. Asked for in ascending, adjoining ranges. */
  rowsBetween(after: Position | null, last: Position, format: Format): AsyncIterable<readonly LedgerRow[]>
  /** Rows after the last block, in any order. Asked for after all ranges. */
  openRows(after: Position | null): AsyncIterable<readonly LedgerRow[]>
  /** The number of the next transaction: no row can have been written by it or by a later one. */
  nextXid(): Promise<bigint>
}

/**
 * The ledger in its database, page by page, so that one of any size is read in the same memory. Reads as symphony_auditor. It
 * promises nothing about what is written meanwhile: for one moment of a busy ledger, give it a transaction with a snapshot.
 */
export function databaseSource(role: Queryable): LedgerSource {
  return new DatabaseSource(role)
}

class DatabaseSource implements LedgerSource {
  readonly #role: Queryable
  /** The blocks that are known: rows of one format are read ahead up to its last block, because sealed rows can be read. */
  #known: readonly Block[] = []
  #sealed: RowStream | undefined

  constructor(role: Queryable) {
    this.#role = role
  }

  count(): Promise<number> {
    return countRows(this.#role)
  }

  nextXid(): Promise<bigint> {
    return readNextXid(this.#role)
  }

  async *blocks(afterNo: bigint): AsyncGenerator<Block> {
    for (let after = afterNo; ;) {
      const page = await readBlockPage(this.#role, after, BLOCKS_PER_PAGE)
      const last = page.at(-1)
      this.#known = page
      yield* page
      if (last === undefined || page.length < BLOCKS_PER_PAGE) return
      after = last.no
    }
  }

  rowsBetween(after: Position | null, last: Position, format: Format): AsyncGenerator<readonly LedgerRow[]> {
    if (this.#sealed?.standsAt(after) !== true || this.#sealed.format !== format)
      this.#sealed = new RowStream(this.#role, after, format)
    return this.#sealed.upTo(last, this.#horizonOf(format))
  }

  openRows(after: Position | null): AsyncGenerator<readonly LedgerRow[]> {
    return new RowStream(this.#role, after, NEWEST_FORMAT).upTo(null)
  }

  #horizonOf(format: Format): Position | undefined {
    const isOne = this.#known.every((block) => FORMATS.get(block.format) === format)
    return isOne ? this.#known.at(-1)?.last : undefined
  }
}

const BLOCKS_PER_PAGE = 10
