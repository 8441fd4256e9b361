/**
 * Returns a column of a record as text; null if it is null or missing.
 *
 * The record has PostgreSQL's binary form (`record_send`): the number of columns, then per column its type, its length
 * (-1 for null) and its bytes. The hashes of the ledger cover this form, which is the same in every supported version.
 */
export function columnText(record: Buffer, column: number): string | null {
  let at = 4
  for (let passed = 0; passed < column; passed += 1) {
    if (at + COLUMN_HEAD > record.length) return null
    at += COLUMN_HEAD + Math.max(0, record.readInt32BE(at + 4))
  }
  if (at + COLUMN_HEAD > record.length) return null
  const start = at + COLUMN_HEAD
  const length = record.readInt32BE(at + 4)
  return length < 0 ? null : textOf(record.readInt32BE(at), record.subarray(start, start + length))
}

/** Offset of the first column's bytes. The first column of a ledger row is its id. */
export const FIRST_COLUMN_AT = 12
/** Size of a column's type and length. */
const COLUMN_HEAD = 8

/** Formats a value. Times are microseconds since 1970. Bytes, and values of unexpected length, are hexadecimal. */
function textOf(type: number, bytes: Buffer): string {
  if (bytes.length !== (LENGTHS.get(type) ?? bytes.length)) return bytes.toString('hex')
  switch (type) {
    case 25: // text
      return bytes.toString('utf8')
    case 3802: // jsonb, after a version byte
      return bytes.toString('utf8', 1)
    case 2950:
      return uuidOf(bytes)
    case 16:
      return bytes[0] === 0 ? 'false' : 'true'
    case 21:
      return String(bytes.readInt16BE())
    case 23:
      return String(bytes.readInt32BE())
    case 20:
      return String(bytes.readBigInt64BE())
    case 1184: // timestamptz, sent as microseconds since 2000
      return String(bytes.readBigInt64BE() + EPOCH_2000_MICROS)
    default:
      return bytes.toString('hex')
  }
}

/** Lengths of the fixed-length types. */
const LENGTHS: ReadonlyMap<number, number> = new Map([
  [16, 1],
  [21, 2],
  [23, 4],
  [20, 8],
  [1184, 8],
  [2950, 16],
])

/** Returns a whole number; 0 for any other text, which a forged record may contain. */
export function integerOf(text: string | null): bigint {
  return text !== null && /^-?\d{1,19}$/.test(text) ? BigInt(text) : 0n
}

export function uuidOf(bytes: Buffer): string {
  return bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})/, '$1-$2-$3-$4-')
}

const EPOCH_2000_MICROS = 946_684_800_000_000n
