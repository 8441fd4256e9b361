import type { Block, Position } from './blocks.js'
import type { LedgerRow, Link } from './chain.js'

/** Chains by what they are about: items with their attempts, and events of items or scopes. */
export interface ChainSubjects {
  readonly items: ReadonlySet<string>
  readonly events: ReadonlySet<string>
}

/**
 * Where the ledger is read from: the database itself, or an export of it. The verifier asks nothing else, so that what it
 * says about a file is what it would have said about the database. Everything is streamed, rows some at a time.
 */
export interface LedgerSource {
  /** Rows and blocks there are, for a progress bar; an estimate is enough. */
  count(): Promise<number>
  /** By number, those after the given one. */
  blocks(afterNo: bigint): AsyncIterable<Block>
  /** In the order of blocks. Asked for in ascending, adjoining ranges. */
  rowsBetween(after: Position | null, last: Position): AsyncIterable<readonly LedgerRow[]>
  /** Rows after the last block, in any order. Asked for after all ranges. */
  openRows(after: Position | null): AsyncIterable<readonly LedgerRow[]>
  /**
   * Every row of the given chains, or of all, as a link; those of one chain together and in order: an identity before its
   * attempts, events apart.
   */
  links(of?: ChainSubjects): AsyncIterable<Link>
}
