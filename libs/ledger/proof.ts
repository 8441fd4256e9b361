import { hash } from 'node:crypto'
import type { Queryable } from '../db/index.js'
import { CHILDREN, ENTRY, levelsOf, NODE_BYTES, numberOfKind, type Block } from './blocks.js'
import { readBlockNumbersOf, readBlockPage, readItemRows, readReconciliationEvents } from './db.js'
import { KINDS, type RowKind } from './formats.js'
import type { LedgerRow } from './LedgerRow.js'

/** Path of hashes from a row to the root of its block. Each step contains the hash of the previous step. */
export interface RowProof {
  readonly block: Omit<Block, 'entries'>
  /** Up to four entries, among them that of the row; undefined if the block has no entry of the row. */
  readonly entries: Buffer | undefined
  /** Up to four hashes per level, from bottom to top. The hash of the last level is the root. */
  readonly nodes: readonly Buffer[]
}

export interface ProvenRow {
  readonly row: LedgerRow
  /** Proof; undefined while no block covers the row. */
  readonly proof: RowProof | undefined
}

/** Row of an item, by kind and number. The identity has the number 0. */
export interface ItemPosition {
  readonly kind: RowKind
  readonly number: bigint
}

/** First row to read, and the number of rows. */
export interface ProofRange {
  readonly from: ItemPosition
  readonly limit: number
}

/**
 * Reads rows of one item with their proofs, for a browser that recomputes the hashes. The order is identity, attempts,
 * events, each by number. Reads as symphony_auditor.
 */
export async function readItemProof(
  role: Queryable,
  outboxId: string,
  { from, limit }: ProofRange,
): Promise<ProvenRow[]> {
  const rows: LedgerRow[] = []
  for (const kind of KINDS.slice(KINDS.indexOf(from.kind))) {
    const number = kind === from.kind ? from.number : 0n
    if (rows.length < limit) rows.push(...(await readItemRows(role, kind, outboxId, number, limit - rows.length)))
  }
  return proveRows(role, rows)
}

/** Reads the events of reconciliation with their proofs, in the order of blocks, as symphony_auditor. */
export async function* readReconciliationProofs(role: Queryable): AsyncGenerator<ProvenRow> {
  for (let after: LedgerRow | null = null; ;) {
    const rows: readonly LedgerRow[] = await readReconciliationEvents(role, after, EVENTS_PER_PAGE)
    yield* await proveRows(role, rows)
    after = rows.at(-1) ?? null
    if (after === null || rows.length < EVENTS_PER_PAGE) return
  }
}

const EVENTS_PER_PAGE = 500

/** Returns whether the proof leads from the row to this root. */
export function isProven(
  row: LedgerRow,
  { entries, nodes }: Pick<RowProof, 'entries' | 'nodes'>,
  root: string,
): boolean {
  const entry = Buffer.alloc(ENTRY.bytes)
  row.writeEntry(entry, 0)
  if (entries === undefined || !hasPart(entries, entry)) return false
  let top = hash('sha256', entries)
  for (const group of nodes) {
    if (!hasPart(group, Buffer.from(top, 'hex'))) return false
    top = hash('sha256', group)
  }
  return top === root
}

/** Returns whether one of the equally long parts of a group is the given part. */
function hasPart(group: Buffer, part: Buffer): boolean {
  for (let at = 0; at < group.length; at += part.length) {
    if (group.subarray(at, at + part.length).equals(part)) return true
  }
  return false
}

/** Builds the proofs of rows. Keeps one block in memory at a time, because a block may have 100,000 entries. */
async function proveRows(role: Queryable, rows: readonly LedgerRow[]): Promise<ProvenRow[]> {
  const numbers = await readBlockNumbersOf(role, rows)
  const proofs = new Map<LedgerRow, RowProof>()
  for (const no of new Set(numbers)) {
    const [block] = no === undefined ? [] : await readBlockPage(role, no - 1n, 1)
    if (block === undefined) continue
    const levels = levelsOf(block.entries)
    for (const [index, row] of rows.entries()) if (numbers[index] === no) proofs.set(row, proofOf(row, block, levels))
  }
  return rows.map((row) => ({ row, proof: proofs.get(row) }))
}

function proofOf(row: LedgerRow, { entries, ...block }: Block, levels: readonly Buffer[]): RowProof {
  let index = indexOf(row, entries)
  if (index === undefined) return { block, entries: undefined, nodes: [] }
  index = Math.floor(index / CHILDREN)
  const leaf = groupOf(entries, index, ENTRY.bytes)
  const nodes: Buffer[] = []
  for (const level of levels.slice(0, -1)) {
    index = Math.floor(index / CHILDREN)
    nodes.push(groupOf(level, index, NODE_BYTES))
  }
  return { block, entries: leaf, nodes }
}

/** Returns a copy of a group of four children. A view would keep the whole block in memory. */
function groupOf(level: Buffer, group: number, width: number): Buffer {
  return Buffer.from(level.subarray(group * CHILDREN * width, (group + 1) * CHILDREN * width))
}

function indexOf(row: LedgerRow, entries: Buffer): number | undefined {
  const key = Buffer.alloc(ENTRY.xidAt)
  key.writeUInt16BE(numberOfKind(row.kind))
  key.write(row.id.replaceAll('-', ''), ENTRY.idAt, 'hex')
  for (let at = 0; at < entries.length; at += ENTRY.bytes) {
    if (entries.compare(key, 0, ENTRY.xidAt, at, at + ENTRY.xidAt) === 0) return at / ENTRY.bytes
  }
  return undefined
}
