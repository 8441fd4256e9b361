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
  /** Per row in order: kind (2 bytes), id (16), first 8 bytes of its leaf. */
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

/** SHA-256 of kind, id, transaction and row hash, each at its fixed length. */
export function leafOf({ kind, id, xid, rowHash }: LedgerRow): Buffer {
  const transaction = Buffer.alloc(8)
  transaction.writeBigInt64BE(BigInt(xid))
  return createHash('sha256')
    .update(kindBytes(kind))
    .update(idBytes(id))
    .update(transaction)
    .update(Buffer.from(rowHash ?? '', 'hex'))
    .digest()
}

export function entryOf({ kind, id }: LedgerRow, leaf: Buffer): Buffer {
  return Buffer.concat([kindBytes(kind), idBytes(id), leaf.subarray(0, LEAF_SHOWN_BYTES)])
}

export interface Entry {
  /** Kind and id, as one text to compare by. */
  readonly key: string
  readonly kind: RowKind | undefined
  readonly id: string
  readonly leafStart: string
}

export function readEntries(entries: Buffer): Entry[] {
  const read: Entry[] = []
  for (let at = 0; at + ENTRY_BYTES <= entries.length; at += ENTRY_BYTES) {
    const entry = entries.subarray(at, at + ENTRY_BYTES)
    read.push({
      key: entry.toString('hex', 0, KEY_BYTES),
      kind: kindOfNumber(entry.readUInt16BE()),
      id: uuidOf(entry.subarray(2, KEY_BYTES)),
      leafStart: entry.toString('hex', KEY_BYTES),
    })
  }
  return read
}

export function blockHash(block: Block): string {
  const { no, prevHash, rowCount, last, entries, root, sealedAt } = block
  return canonicalHash([
    String(no),
    prevHash,
    String(rowCount),
    String(last.xid),
    String(numberOfKind(last.kind)),
    last.id,
    createHash('sha256').update(entries).digest('hex'),
    root,
    sealedAt,
  ])
}

function kindBytes(kind: RowKind): Buffer {
  return Buffer.of(0, numberOfKind(kind))
}

function idBytes(id: string): Buffer {
  return Buffer.from(id.replaceAll('-', ''), 'hex')
}

function uuidOf(bytes: Buffer): string {
  return bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
}

const LEAF_SHOWN_BYTES = 8
const KEY_BYTES = 18
export const ENTRY_BYTES = KEY_BYTES + LEAF_SHOWN_BYTES
