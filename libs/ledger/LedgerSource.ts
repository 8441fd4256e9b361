import type { Queryable } from '../db/index.js'
import type { Block, Position } from './blocks.js'
import { countRows, findReconciliationBreaks, readBlockPage, readNextXid, type ReconciliationBreak } from './db.js'
import { type Format, FORMATS, NEWEST_FORMAT } from './formats.js'
import type { LedgerRow } from './LedgerRow.js'
import { RowStream } from './RowStream.js'

/**
 * Source of ledger rows: the database or an export. The verifier reads only through this interface, so both give the
 * same result. Rows are streamed.
 */
export interface LedgerSource {
  /** Returns the number of rows now, for a progress bar. Later rows are not included. */
  count(): Promise<number>
  /** Returns the blocks after a number, in order. */
  blocks(afterNo: bigint): AsyncIterable<Block>
  /**
   * Returns rows in the order of blocks, with the columns of a format. Each call must start where the previous call
   * ended.
   */
  rowsBetween(after: Position | null, last: Position, format: Format): AsyncIterable<readonly LedgerRow[]>
  /** Returns rows after the last block, in any order. Call it after all calls of `rowsBetween`. */
  openRows(after: Position | null): AsyncIterable<readonly LedgerRow[]>
  /**
   * Returns the differences between the tables of reconciliation and the sealed events. An export has no such tables.
   */
  reconciliationBreaks?(): Promise<readonly ReconciliationBreak[]>
  /** Returns the next transaction number. Each existing row has a lower one. */
  nextXid(): Promise<bigint>
}

/**
 * Reads the ledger of a database as symphony_auditor, in pages, so that memory use does not depend on its size. For a
 * consistent view of a busy ledger, pass a transaction with a snapshot.
 */
export function databaseSource(role: Queryable): LedgerSource {
  return new DatabaseSource(role)
}

class DatabaseSource implements LedgerSource {
  readonly #role: Queryable
  /** Blocks of the last page. Rows are read ahead up to the last of these blocks, if all of them have one format. */
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

  reconciliationBreaks(): Promise<readonly ReconciliationBreak[]> {
    return findReconciliationBreaks(this.#role)
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
    if (this.#sealed?.isAt(after) !== true || this.#sealed.format !== format)
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
