import { createHash } from 'node:crypto'
import { canonicalHash, type LedgerRow, type RowKind } from './chain.js'

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

export const KINDS: readonly RowKind[] = Object.freeze(['identity', 'attempt', 'event'])

export function numberOfKind(kind: RowKind): number {
  return KINDS.indexOf(kind) + 1
}

export function kindOfNumber(number: number): RowKind | undefined {
  return KINDS[number - 1]
}

export function positionOf({ xid, kind, id }: LedgerRow): Position {
  return { xid: BigInt(xid), kind, id }
}

/** Ids are compared as text: in lower case with dashes, that is the order of their bytes. */
export function isAfter(left: Position, right: Position): boolean {
  if (left.xid !== right.xid) return left.xid > right.xid
  if (left.kind !== right.kind) return numberOfKind(left.kind) > numberOfKind(right.kind)
  return left.id > right.id
}

/** What a block keeps of a row. A row hash that is none is replaced by its SHA-256: every entry is as long as every other. */
export function entryOf({ kind, id, xid, rowHash }: LedgerRow): Buffer {
  const transaction = Buffer.alloc(8)
  transaction.writeBigInt64BE(BigInt(xid))
  const hash = Buffer.from(rowHash ?? '', 'hex')
  return Buffer.concat([
    Buffer.of(0, numberOfKind(kind)),
    Buffer.from(id.replaceAll('-', ''), 'hex'),
    transaction,
    hash.length === HASH_BYTES ? hash : createHash('sha256').update(hash).digest(),
  ])
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
  for (let at = 0; at + ENTRY_BYTES <= entries.length; at += ENTRY_BYTES) {
    const entry = entries.subarray(at, at + ENTRY_BYTES)
    read.push({
      key: entry.toString('hex', 0, KEY_BYTES),
      kind: kindOfNumber(entry.readUInt16BE()),
      id: uuidOf(entry.subarray(2, KEY_BYTES)),
      content: entry.toString('hex', KEY_BYTES),
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

const HASH_BYTES = 32
const KEY_BYTES = 18
const ENTRY_BYTES = KEY_BYTES + 8 + HASH_BYTES
