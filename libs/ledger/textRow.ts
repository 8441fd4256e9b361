import { hash } from 'node:crypto'
import { ENTRY, numberOfKind } from './blocks.js'
import { canonicalHash, endsItem, numberOf, subjectOf, type LedgerRow, type RowText } from './chain.js'

/** A row that was read as text, such as from an export. */
export function textRow(text: RowText): LedgerRow {
  const { kind, fields, prevHash } = text
  return {
    ...text,
    subject: subjectOf(text),
    number: numberOf(text),
    ends: kind === 'attempt' && endsItem(fields[9]),
    contentHash: () => canonicalHash(kind === 'identity' ? fields : [prevHash, ...fields]),
    writeEntry: (target, at) => writeEntry(text, target, at),
  }
}

function writeEntry({ kind, id, xid, rowHash }: RowText, target: Buffer, at: number): void {
  target.writeUInt16BE(numberOfKind(kind), at)
  target.write(id.replaceAll('-', ''), at + ENTRY.idAt, 'hex')
  target.writeBigInt64BE(BigInt(xid), at + ENTRY.xidAt)
  const own = Buffer.from(rowHash ?? '', 'hex')
  // Every entry is as long as every other: a row hash that is none is replaced by its SHA-256.
  target.set(own.length === ENTRY.hashBytes ? own : hash('sha256', own, 'buffer'), at + ENTRY.hashAt)
}
