import type { Block, Position } from './blocks.js'
import type { Format } from './formats.js'
import type { LedgerRow } from './LedgerRow.js'

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
