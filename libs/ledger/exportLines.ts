import { readHead, type Block } from './blocks.js'
import { KINDS, type Format, type RowKind } from './formats.js'
import { LedgerRow } from './LedgerRow.js'

/** Lines of an export. Readers accept only the exact bytes that an export writes, so that every change is noticed. */

export function writeRow({ kind, xid, record }: Pick<LedgerRow, 'kind' | 'xid' | 'record'>): string {
  return JSON.stringify({ kind, xid: String(xid), record: record.toString('base64') })
}

export function readRow(line: string, format: Format): LedgerRow | undefined {
  const { kind, xid, record } = parse(line)
  if (!isKind(kind) || !isDecimal(xid) || typeof record !== 'string') return undefined
  const row = LedgerRow.of(kind, BigInt(xid), Buffer.from(record, 'base64'), format)
  return writeRow(row) === line && row.record.length >= RECORD_BYTES_MIN ? row : undefined
}

/** Size of a record that contains only an id. */
const RECORD_BYTES_MIN = 28

export function writeBlock({ no, head, hash, entries }: Pick<Block, 'no' | 'head' | 'hash' | 'entries'>): string {
  return JSON.stringify({ no: String(no), head: head.toString('base64'), hash, entries: entries.toString('base64') })
}

export function readBlock(line: string): Block | undefined {
  const { head, hash, entries } = parse(line)
  if (typeof head !== 'string' || !isHash(hash) || typeof entries !== 'string') return undefined
  const block = { ...readHead(Buffer.from(head, 'base64')), hash, entries: Buffer.from(entries, 'base64') }
  return writeBlock(block) === line ? block : undefined
}

/** Block without its entries, which its root covers. */
export type Head = Omit<Block, 'entries'>

export function writeHead({ no, head, hash }: Pick<Head, 'no' | 'head' | 'hash'>): string {
  return JSON.stringify({ no: String(no), head: head.toString('base64'), hash })
}

export function readHeadLine(line: string): Head | undefined {
  const { head, hash } = parse(line)
  if (typeof head !== 'string' || !isHash(hash)) return undefined
  const block = { ...readHead(Buffer.from(head, 'base64')), hash }
  return writeHead(block) === line ? block : undefined
}

function parse(line: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(line)
    return typeof value === 'object' && value !== null ? { ...value } : {}
  } catch {
    return {}
  }
}

function isKind(value: unknown): value is RowKind {
  return KINDS.some((kind) => kind === value)
}

function isDecimal(value: unknown): value is string {
  return typeof value === 'string' && /^-?\d{1,19}$/.test(value)
}

function isHash(value: unknown): value is string {
  return typeof value === 'string' && /^(?:[0-9a-f]{2})*$/.test(value)
}
