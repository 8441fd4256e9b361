/** How a value of PostgreSQL's binary protocol becomes the text that is hashed: docs/internals/ledger-chain.md. */
export const TEXT = 0
export const UUID = 1
export const INTEGER = 2
export const BOOLEAN = 3
/** Sent as microseconds since 2000, told as microseconds since 1970. */
export const TIME = 4
/** Told in hexadecimal. */
export const BYTES = 5
export type Form = typeof TEXT | typeof UUID | typeof INTEGER | typeof BOOLEAN | typeof TIME | typeof BYTES

/**
 * The canonical text of one row after another, written byte by byte from what the server sent. Verifying a ledger is writing this
 * text, so it makes no strings and leaves nothing to collect.
 */
export class CanonicalText {
  #buffer = Buffer.allocUnsafe(65_536)
  #at = 0

  /** Begins a text of so many fields, sent as so many bytes. */
  start(bytes: number, fields: number): void {
    // What grows most is a uuid, from 16 bytes to 36; an integer of 4 may have 11 digits. Each has its length before it.
    const atMost = 3 * bytes + FIELD_BYTES_MAX * fields
    if (this.#buffer.length < atMost) this.#buffer = Buffer.allocUnsafe(2 * atMost)
    this.#at = 0
  }

  bytes(): Buffer {
    return this.#buffer.subarray(0, this.#at)
  }

  /** Of forms that have no letters beyond ASCII. */
  text(): string {
    return this.#buffer.toString('latin1', 0, this.#at)
  }

  /** Its length in bytes, a colon, the bytes and a comma. A length of -1 is a null field, which has none. */
  addField(from: Buffer, at: number, length: number, form: Form): void {
    if (length < 0) {
      this.#buffer[this.#at++] = COLON
    } else if (form === INTEGER || form === TIME) {
      const value = integerAt(from, at, length, form)
      this.#addInteger(digitsOf(value))
      this.#buffer[this.#at++] = COLON
      this.#addInteger(value)
    } else {
      this.#addInteger(textLength(from, at, length, form))
      this.#buffer[this.#at++] = COLON
      this.addText(from, at, length, form)
    }
    this.#buffer[this.#at++] = COMMA
  }

  addText(from: Buffer, at: number, length: number, form: Form): void {
    if (form === TEXT) this.#addBytes(from, at, length)
    else if (form === UUID) this.#addUuid(from, at)
    else if (form === BYTES) this.#addHex(from, at, at + length)
    else if (form === BOOLEAN) this.#addAscii(from[at] === 0 ? 'false' : 'true')
    else this.#addInteger(integerAt(from, at, length, form))
  }

  #addInteger(value: number | bigint): void {
    // Past 2^53, or negative: neither happens in a sound ledger.
    if (typeof value === 'bigint' || value < 0) return this.#addAscii(String(value))
    const end = this.#at + digitsOf(value)
    let left = value
    for (let at = end - 1; at >= this.#at; at -= 1) {
      const rest = Math.floor(left / 10)
      this.#buffer[at] = ZERO + (left - rest * 10)
      left = rest
    }
    this.#at = end
  }

  #addAscii(text: string): void {
    for (let index = 0; index < text.length; index += 1) this.#buffer[this.#at++] = text.charCodeAt(index)
  }

  #addBytes(from: Buffer, at: number, length: number): void {
    // A call out of JavaScript takes longer than a short loop in it.
    if (length > LOOP_BYTES_MAX) from.copy(this.#buffer, this.#at, at, at + length)
    else for (let index = 0; index < length; index += 1) this.#buffer[this.#at + index] = from[at + index]!
    this.#at += length
  }

  #addUuid(from: Buffer, at: number): void {
    this.#addHex(from, at, at + 4)
    for (const part of UUID_PARTS) {
      this.#buffer[this.#at++] = HYPHEN
      this.#addHex(from, at + part.from, at + part.to)
    }
  }

  #addHex(from: Buffer, start: number, end: number): void {
    const buffer = this.#buffer
    let to = this.#at
    for (let at = start; at < end; at += 1) {
      const byte = from[at]!
      buffer[to] = HEX_DIGITS[byte >> 4]!
      buffer[to + 1] = HEX_DIGITS[byte & 15]!
      to += 2
    }
    this.#at = to
  }
}

/** In bytes, of the text that a value which is no number becomes. */
function textLength(from: Buffer, at: number, length: number, form: Form): number {
  if (form === UUID) return 36
  if (form === BYTES) return 2 * length
  if (form === BOOLEAN) return from[at] === 0 ? 5 : 4
  return length
}

/** And of a number, its sign included. */
function digitsOf(value: number | bigint): number {
  if (typeof value === 'bigint' || value < 0) return String(value).length
  let digits = 1
  for (let bound = 10; bound <= value; bound *= 10) digits += 1
  return digits
}

export function integerAt(from: Buffer, at: number, length: number, form: Form): number | bigint {
  if (length === 4) return from.readInt32BE(at)
  const high = from.readInt32BE(at)
  const sinceEpoch = form === TIME ? EPOCH_2000_MICROS : 0
  // Between these, a number of JavaScript is exact, also with the distance of the epochs added.
  if (high >= -HIGH_EXACT_MAX && high <= HIGH_EXACT_MAX) {
    return high * 4_294_967_296 + from.readUInt32BE(at + 4) + sinceEpoch
  }
  return from.readBigInt64BE(at) + BigInt(sinceEpoch)
}

const FIELD_BYTES_MAX = 40
const LOOP_BYTES_MAX = 48
/** 2^52 divided by 2^32. */
const HIGH_EXACT_MAX = 1_048_575
const EPOCH_2000_MICROS = 946_684_800_000_000
const HEX_DIGITS = Buffer.from('0123456789abcdef')
const UUID_PARTS = [
  { from: 4, to: 6 },
  { from: 6, to: 8 },
  { from: 8, to: 10 },
  { from: 10, to: 16 },
] as const
const ZERO = 48
const COLON = 58
const COMMA = 44
const HYPHEN = 45
