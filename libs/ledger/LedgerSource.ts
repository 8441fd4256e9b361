import type { Block, Position } from './blocks.js'
import type { LedgerRow, RowKind } from './chain.js'

/** A row seen only as a link of the chain that it belongs to. */
export interface Link {
  readonly kind: RowKind
  /** An item, or the scope of an event. */
  readonly subject: string
  /** 0 for an identity. */
  readonly number: bigint
  readonly prevHash: string | null
  readonly rowHash: string | null
  /** Whether it is an attempt that ends its item. */
  readonly ends: boolean
}

/**
 * Where the ledger is read from: the database itself, or an export of it. The verifier asks nothing else, so that what it
 * says about a file is what it would have said about the database. Everything is streamed.
 */
export interface LedgerSource {
  /** Rows and blocks there are, for a progress bar; an estimate is enough. */
  count(): Promise<number>
  /** By number, those after the given one. */
  blocks(afterNo: bigint): AsyncIterable<Block>
  /** In the order of blocks. Asked for in ascending, adjoining ranges. */
  rowsBetween(after: Position | null, last: Position): AsyncIterable<LedgerRow>
  /** Rows after the last block, in any order. Asked for after all ranges. */
  openRows(after: Position | null): AsyncIterable<LedgerRow>
  /** Every row as a link; those of one chain together and in order: an identity before its attempts, events apart. */
  links(): AsyncIterable<Link>
}
