import { canonicalHash, type RowKind, type RowText } from './chain.js'

/**
 * Blocks, recomputed from exported text: which rows each covers, in which order, and what its hashes are taken over. The
 * format is described in docs/internals/ledger-chain.md.
 */

/** A place in the order of blocks: by transaction, kind and id. */
export interface Position {
  readonly xid: bigint
  readonly kind: RowKind
  readonly id: string
}

/** What is signed of a block. Its hash covers the rest. */
export interface BlockHead {
  readonly no: bigint
  readonly hash: string
  /** Microseconds since 1970. */
  readonly sealedAt: string
}

/** A block covers the rows after the last one of the block before, up to its own last one. */
export interface Block extends BlockHead {
  readonly rowCount: number
  readonly last: Position
  /** Per row in order: kind (2 bytes), id (16), transaction (8), row hash (32). */
  readonly entries: Buffer
  readonly root: string
  readonly prevHash: string | null
}

/** Where the parts of an entry are: kind, id, transaction, row hash. */
export const ENTRY = Object.freeze({ idAt: 2, xidAt: 18, hashAt: 26, hashBytes: 32, bytes: 58 })

export const KINDS: readonly RowKind[] = Object.freeze(['identity', 'attempt', 'event'])

export function numberOfKind(kind: RowKind): number {
  return KINDS.indexOf(kind) + 1
}

export function kindOfNumber(number: number): RowKind | undefined {
  return KINDS[number - 1]
}

export function positionOf({ xid, kind, id }: Pick<RowText, 'xid' | 'kind' | 'id'>): Position {
  return { xid: BigInt(xid), kind, id }
}

/** Ids are compared as text: in lower case with dashes, that is the order of their bytes. */
export function isAfter(left: Position, right: Position): boolean {
  if (left.xid !== right.xid) return left.xid > right.xid
  if (left.kind !== right.kind) return numberOfKind(left.kind) > numberOfKind(right.kind)
  return left.id > right.id
}

export interface Entry {
  /** Kind and id, as one text to compare by. */
  readonly key: string
  readonly kind: RowKind | undefined
  readonly id: string
  /** Transaction and row hash. */
  readonly content: string
}

export function readEntries(entries: Buffer): Entry[] {
  const read: Entry[] = []
  for (let at = 0; at + ENTRY.bytes <= entries.length; at += ENTRY.bytes) {
    const entry = entries.subarray(at, at + ENTRY.bytes)
    read.push({
      key: entry.toString('hex', 0, ENTRY.xidAt),
      kind: kindOfNumber(entry.readUInt16BE()),
      id: uuidOf(entry.subarray(ENTRY.idAt, ENTRY.xidAt)),
      content: entry.toString('hex', ENTRY.xidAt),
    })
  }
  return read
}

export function blockHash(block: Block): string {
  const { no, prevHash, rowCount, last, root, sealedAt } = block
  return canonicalHash([
    String(no),
    prevHash,
    String(rowCount),
    String(last.xid),
    String(numberOfKind(last.kind)),
    last.id,
    root,
    sealedAt,
  ])
}

function uuidOf(bytes: Buffer): string {
  return bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
}
