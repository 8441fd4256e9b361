import type { Proof, ProofRow } from '../../http/index.js'

/*
 * Compares the rows of one payment with their sealed blocks in the browser. Recomputes the hashes from the bytes that
 * the server sent; docs/internals/ledger-chain.md describes the format. A row is sound if its block has an entry with
 * the row's hash, and the hashes above that entry lead to the root in the head of the block.
 */

/** Defect of a row, in the words that the page shows. */
export type RowDefect =
  | 'it differs from what was sealed'
  | 'its block has no entry of it'
  | 'its block differs from its hash'
  | 'its block is missing'
  | 'a number is missing before it'
  | 'it has another number'
  | 'it is about another payment'
  | 'it is missing'

export interface CheckedRow {
  /** Place of the row: `identity`, `attempt 3`, `event 2`. */
  readonly position: string
  /** Block that covers the row; null without one. */
  readonly block: string | null
  /** Defect; undefined if the row is sound or not sealed yet. */
  readonly defect: RowDefect | undefined
  /**
   * Whether the payload is masked. The block has an entry for the row, but the browser cannot recompute the hash
   * without the payload.
   */
  readonly isMasked: boolean
}

export async function checkProof({ outboxId, rows, blocks }: Proof): Promise<CheckedRow[]> {
  const roots = new Map<string, string | undefined>()
  for (const { no, head, hash } of blocks) {
    const bytes = bytesOf(head)
    const columns = columnsOf(bytes)
    const isSound = (await sha256(bytes)) === hash && integerOf(columns[BLOCK_NO]) === BigInt(no)
    roots.set(no, isSound ? hexOf(columns[ROOT]) : undefined)
  }
  const checked: CheckedRow[] = []
  if (rows[0]?.kind !== 'identity') {
    checked.push({ position: 'identity', block: null, isMasked: false, defect: 'it is missing' })
  }
  const last = { identity: -1n, attempt: 0n, event: 0n }
  for (const row of rows) {
    const isNext = BigInt(row.number) === last[row.kind] + 1n
    last[row.kind] = BigInt(row.number)
    checked.push({
      position: row.kind === 'identity' ? row.kind : `${row.kind} ${row.number}`,
      block: row.block,
      isMasked: row.record === null,
      defect: isNext ? await defectOf(row, outboxId, roots) : 'a number is missing before it',
    })
  }
  return checked
}

export function firstBreak(rows: readonly CheckedRow[]): CheckedRow | undefined {
  return rows.find(({ defect }) => defect !== undefined)
}

export function payloadIn({ rows }: Proof): string | null {
  const attempt = rows.findLast(({ kind }) => kind === 'attempt')
  if (attempt === undefined || attempt.record === null) return attempt?.payload ?? null
  const payload = columnsOf(bytesOf(attempt.record))[PAYLOAD]
  // The first byte is the version of jsonb's binary format.
  return payload === undefined || payload === null ? null : new TextDecoder().decode(payload.subarray(1))
}

async function defectOf(
  row: ProofRow,
  outboxId: string,
  roots: ReadonlyMap<string, string | undefined>,
): Promise<RowDefect | undefined> {
  const record = row.record === null ? undefined : bytesOf(row.record)
  const ownDefect = record && recordDefect(row, outboxId, columnsOf(record))
  if (ownDefect !== undefined) return ownDefect
  if (row.block === null) return undefined
  if (!roots.has(row.block)) return 'its block is missing'
  const root = roots.get(row.block)
  if (root === undefined) return 'its block differs from its hash'
  const entries = row.entries === null ? undefined : bytesOf(row.entries)
  const entry = entries && entryOf(row, hexOf(entries))
  if (entries === undefined || entry === undefined) return 'its block has no entry of it'
  const isSealed = record === undefined || (await sha256(record)) === entry.hash
  if (!isSealed || entry.transaction !== BigInt(row.transaction)) return 'it differs from what was sealed'
  return (await leadsTo(root, entries, row.nodes)) ? undefined : 'its block differs from its hash'
}

/** Compares the record with the id, number and payment stated by the server. */
function recordDefect(
  { kind, id, number }: ProofRow,
  outboxId: string,
  columns: readonly (Uint8Array | null)[],
): RowDefect | undefined {
  const about = columns[kind === 'identity' ? 0 : 1]
  if (hexOf(columns[0]) !== bare(id) || hexOf(about) !== bare(outboxId)) return 'it is about another payment'
  const hasNumber = kind === 'identity' || integerOf(columns[NUMBERS[kind]]) === BigInt(number)
  return hasNumber ? undefined : 'it has another number'
}

/** Finds the entry of the row in its block. An entry is hexadecimal text: kind, id, transaction, hash. */
function entryOf({ kind, id }: ProofRow, entries: string) {
  const key = `${KIND_NUMBERS[kind]}${bare(id)}`
  for (let at = 0; at < entries.length; at += 2 * ENTRY_BYTES) {
    const entry = entries.slice(at, at + 2 * ENTRY_BYTES)
    if (!entry.startsWith(key)) continue
    return { transaction: integerIn(entry.slice(36, 52)), hash: entry.slice(52) }
  }
  return undefined
}

async function leadsTo(root: string, entries: Uint8Array<ArrayBuffer>, nodes: readonly string[]): Promise<boolean> {
  let hash = await sha256(entries)
  for (const node of nodes) {
    const bytes = bytesOf(node)
    const children: readonly string[] = hexOf(bytes).match(/.{64}/g) ?? []
    if (!children.includes(hash)) return false
    hash = await sha256(bytes)
  }
  return hash === root
}

/**
 * Splits PostgreSQL's binary form of a record: the number of columns, then type, length (-1 for null) and bytes of
 * each.
 */
function columnsOf(record: Uint8Array): (Uint8Array | null)[] {
  const view = new DataView(record.buffer, record.byteOffset, record.byteLength)
  const columns: (Uint8Array | null)[] = []
  for (let at = 4; at + 8 <= record.length;) {
    const length = view.getInt32(at + 4)
    at += 8
    columns.push(length < 0 ? null : record.subarray(at, at + length))
    at += Math.max(0, length)
  }
  return columns
}

async function sha256(bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  return hexOf(new Uint8Array(await crypto.subtle.digest('SHA-256', bytes)))
}

function bytesOf(base64: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(base64), (character) => character.charCodeAt(0))
}

function hexOf(bytes: Uint8Array | null | undefined): string {
  return Array.from(bytes ?? [], (byte) => byte.toString(16).padStart(2, '0')).join('')
}

/** Returns the integer in the bytes; 0 without bytes, which no valid row has. */
function integerOf(bytes: Uint8Array | null | undefined): bigint {
  return integerIn(hexOf(bytes))
}

function integerIn(hex: string): bigint {
  return BigInt.asIntN(hex.length * 4, BigInt(`0x0${hex}`))
}

function bare(uuid: string): string {
  return uuid.replaceAll('-', '')
}

/** Number of each kind, as two bytes in hexadecimal. */
const KIND_NUMBERS = { identity: '0001', attempt: '0002', event: '0003' }
const ENTRY_BYTES = 58
/** Positions of columns in the head of a block. */
const BLOCK_NO = 0
const ROOT = 7
/** Positions of columns in a ledger row. */
const NUMBERS = { attempt: 8, event: 3 }
const PAYLOAD = 7
