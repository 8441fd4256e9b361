import { hash } from 'node:crypto'
import { KINDS, type RowKind } from './formats.js'
import { columnText, integerOf, uuidOf } from './record.js'

/** Blocks of the ledger: rows, order and hashes. docs/internals/ledger-chain.md describes the format. */

/** Position in the order of blocks: transaction, then kind, then id. */
export interface Position {
  readonly xid: bigint
  readonly kind: RowKind | undefined
  readonly id: string
}

/** Parts of a block that a checkpoint signs. The hash covers the other parts. */
export interface BlockHead {
  readonly no: bigint
  readonly hash: string
  /** Microseconds since 1970. */
  readonly sealedAt: string
}

/** Block: the rows after the previous block up to and including `last`. */
export interface Block extends BlockHead {
  readonly format: number
  readonly prevHash: string | null
  readonly rowCount: number
  readonly last: Position
  /** Root of the hash tree over the entries. */
  readonly root: string
  /** Record whose SHA-256 is the hash: all fields above except `hash` itself. */
  readonly head: Buffer
  /** Entries, one per row in order: kind (2 bytes), id (16), transaction (8), SHA-256 of the row (32). */
  readonly entries: Buffer
}

/** Columns of a head, in the order of the hash. */
export const HEAD_COLUMNS = Object.freeze([
  'block_no',
  'format',
  'prev_hash',
  'row_count',
  'last_xid',
  'last_kind',
  'last_id',
  'root',
  'sealed_at',
])

export function readHead(head: Buffer): Omit<Block, 'hash' | 'entries'> {
  const text = (column: number) => columnText(head, column) ?? ''
  return {
    no: integerOf(text(0)),
    format: Number(text(1)),
    prevHash: columnText(head, 2),
    rowCount: Number(text(3)),
    last: { xid: integerOf(text(4)), kind: kindOfNumber(Number(text(5))), id: text(6) },
    root: text(7),
    sealedAt: text(8),
    head,
  }
}

/** Offsets of the parts of an entry. */
export const ENTRY = Object.freeze({ idAt: 2, xidAt: 18, hashAt: 26, bytes: 58 })

export function numberOfKind(kind: RowKind | undefined): number {
  return kind === undefined ? 0 : KINDS.indexOf(kind) + 1
}

function kindOfNumber(number: number): RowKind | undefined {
  return KINDS[number - 1]
}

/** Compares positions. Lower-case UUIDs have the same order as text and as bytes. */
export function isAfter(left: Position, right: Position): boolean {
  if (left.xid !== right.xid) return left.xid > right.xid
  if (left.kind !== right.kind) return numberOfKind(left.kind) > numberOfKind(right.kind)
  return left.id > right.id
}

interface Entry {
  /** Kind and id in one text, for comparison. */
  readonly key: string
  readonly kind: RowKind | undefined
  readonly id: string
  /** Transaction and hash. */
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

export function blockHash({ head }: Pick<Block, 'head'>): string {
  return hash('sha256', head)
}

/**
 * Returns the root of the hash tree. A leaf is the SHA-256 of up to four entries. A node is the SHA-256 of up to four
 * leaves or nodes.
 */
export function rootOf(entries: Buffer): string {
  return levelsOf(entries).at(-1)!.toString('hex')
}

/** Returns the levels of the tree above the entries, the root last. */
export function levelsOf(entries: Buffer): Buffer[] {
  const levels: Buffer[] = []
  for (let [below, width] = [entries, CHILDREN * ENTRY.bytes]; ; width = CHILDREN * NODE_BYTES) {
    const level = Buffer.allocUnsafe(NODE_BYTES * Math.max(1, Math.ceil(below.length / width)))
    for (let at = 0, from = 0; at < level.length; at += NODE_BYTES, from += width) {
      level.write(hash('sha256', below.subarray(from, from + width), 'binary'), at, 'binary')
    }
    levels.push(level)
    if (level.length === NODE_BYTES) return levels
    below = level
  }
}

export const CHILDREN = 4
export const NODE_BYTES = 32
