import { kindOfNumber, numberOfKind, type Block } from './blocks.js'
import { FIELD_COUNT, type LedgerRow, type RowText, type UnsealedColumns } from './chain.js'
import { textRow } from './textRow.js'

/**
 * The lines of an export. Read as strictly as they are written: a line must be, to the byte, what we would write for what it
 * says, so that no byte of it can change unnoticed.
 */
export function writeRow({ kind, id, xid, prevHash, rowHash, fields, unsealed }: RowText): string {
  return JSON.stringify({ kind, id, xid, prevHash, rowHash, fields, unsealed })
}

export function readRow(line: string): LedgerRow | undefined {
  const row = parse(line)
  if (row === undefined || !isRow(row) || writeRow(row) !== line) return undefined
  return textRow(row)
}

export function writeBlock({ no, rowCount, last, entries, root, prevHash, hash, sealedAt }: Block): string {
  return JSON.stringify({
    no: String(no),
    rowCount,
    last: { xid: String(last.xid), kind: numberOfKind(last.kind), id: last.id },
    entries: entries.toString('base64'),
    root,
    prevHash,
    hash,
    sealedAt,
  })
}

export function readBlock(line: string): Block | undefined {
  const block = readBlockFields(parse(line) ?? {})
  return block !== undefined && writeBlock(block) === line ? block : undefined
}

function readBlockFields(read: Record<string, unknown>): Block | undefined {
  const { no, rowCount, last, entries, root, prevHash, hash, sealedAt } = read
  if (!isDecimal(no) || typeof rowCount !== 'number' || typeof entries !== 'string' || !isDecimal(sealedAt))
    return undefined
  if (!isHash(root) || !isHash(hash) || !(prevHash === null || isHash(prevHash))) return undefined
  if (typeof last !== 'object' || last === null || !('xid' in last) || !('kind' in last) || !('id' in last))
    return undefined
  const kind = typeof last.kind === 'number' ? kindOfNumber(last.kind) : undefined
  if (!isDecimal(last.xid) || kind === undefined || typeof last.id !== 'string') return undefined
  return {
    no: BigInt(no),
    rowCount,
    last: { xid: BigInt(last.xid), kind, id: last.id },
    entries: Buffer.from(entries, 'base64'),
    root,
    prevHash,
    hash,
    sealedAt,
  }
}

function isRow(row: Record<string, unknown>): row is Record<string, unknown> & RowText {
  const { kind, id, xid, prevHash, rowHash, fields } = row
  if (kind !== 'identity' && kind !== 'attempt' && kind !== 'event') return false
  if (typeof id !== 'string' || !isDecimal(xid) || !Array.isArray(fields)) return false
  if (!(prevHash === null || isHash(prevHash)) || !(rowHash === null || isHash(rowHash))) return false
  if (!fields.every((field) => field === null || typeof field === 'string')) return false
  if (kind === 'attempt' ? !isUnsealed(row['unsealed']) : 'unsealed' in row) return false
  const number = kind === 'identity' ? '0' : fields[kind === 'attempt' ? 8 : 3]
  return fields.length === FIELD_COUNT[kind] && isDecimal(number)
}

function isUnsealed(value: unknown): value is UnsealedColumns {
  if (typeof value !== 'object' || value === null || Object.keys(value).join() !== 'action,outcomeUnknown') return false
  return Object.values(value).every((field) => typeof field === 'string')
}

function parse(line: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(line)
    return typeof value === 'object' && value !== null ? { ...value } : undefined
  } catch {
    return undefined
  }
}

function isDecimal(value: unknown): value is string {
  return typeof value === 'string' && /^-?\d{1,19}$/.test(value)
}

function isHash(value: unknown): value is string {
  return typeof value === 'string' && /^(?:[0-9a-f]{2})*$/.test(value)
}

/** A block without its entries, which its root stands for. */
export interface Head {
  readonly no: string
  readonly rowCount: number
  readonly last: { readonly xid: string; readonly kind: number; readonly id: string }
  readonly root: string
  readonly prevHash: string | null
  readonly hash: string
  readonly sealedAt: string
}

export function writeHead({ no, rowCount, last, root, prevHash, hash, sealedAt }: Block): string {
  const place = { xid: String(last.xid), kind: numberOfKind(last.kind), id: last.id }
  return JSON.stringify({ no: String(no), rowCount, last: place, root, prevHash, hash, sealedAt })
}

export function readHead(line: string): Head | undefined {
  // The same shape but for the entries; what is left is compared to the byte.
  const block = readBlockFields({ ...parse(line), entries: '' })
  if (block === undefined || writeHead(block) !== line) return undefined
  const { no, rowCount, last, root, prevHash, hash, sealedAt } = block
  const place = { xid: String(last.xid), kind: numberOfKind(last.kind), id: last.id }
  return { no: String(no), rowCount, last: place, root, prevHash, hash, sealedAt }
}

/** What a block's hash is taken over. */
export function headFields({ no, prevHash, rowCount, last, root, sealedAt }: Head): (string | null)[] {
  return [no, prevHash, String(rowCount), last.xid, String(last.kind), last.id, root, sealedAt]
}
