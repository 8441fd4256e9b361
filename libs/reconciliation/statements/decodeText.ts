import { TextDecoder } from 'node:util'
import { InvalidArgumentError } from '../../core/index.js'
import { statementError } from './statementError.js'

/** Maximum number of bytes decoded at once. Longer chunks are divided. */
const CHUNK_BYTES = 65_536

/** Number of bytes searched for the declared encoding. */
const HEAD_BYTES = 1_024

/** Names of encodings in XML declarations and in TextDecoder. */
const ENCODINGS: Readonly<Record<string, string>> = {
  'utf-8': 'utf-8',
  utf8: 'utf-8',
  'us-ascii': 'utf-8',
  ascii: 'utf-8',
  'iso-8859-1': 'windows-1252',
  latin1: 'windows-1252',
  'windows-1252': 'windows-1252',
  cp1252: 'windows-1252',
  'iso-8859-15': 'iso-8859-15',
}

/** First bytes of file types that people often upload by mistake. */
const SIGNATURES: readonly (readonly [start: string, name: string])[] = [
  ['PK\u0003\u0004', 'a ZIP archive'],
  ['\u001F\u008B', 'a gzip file'],
  ['%PDF', 'a PDF'],
]

/**
 * Decodes the bytes of a statement into chunks of text. The encoding comes from the byte order mark, else the XML
 * declaration, else it is UTF-8. Refuses NUL and bytes that are invalid in the encoding.
 */
export async function* decodeText(source: AsyncIterable<Uint8Array>): AsyncGenerator<string, void> {
  const chunks = divide(source)
  try {
    const head = await readHead(chunks)
    const { label, skip } = detectEncoding(head)
    const decoder = new ByteDecoder(label, skip)
    yield decoder.decode(head.subarray(skip))
    for await (const chunk of chunks) yield decoder.decode(chunk)
    yield decoder.end()
  } finally {
    // Closes the source even if an error occurred before the loop.
    await chunks.return()
  }
}

async function* divide(source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array, void> {
  for await (const chunk of source) {
    if (!(chunk instanceof Uint8Array)) throw new InvalidArgumentError('statement', 'expected a stream of bytes')
    for (let start = 0; start < chunk.length; start += CHUNK_BYTES) yield chunk.subarray(start, start + CHUNK_BYTES)
  }
}

async function readHead(chunks: AsyncGenerator<Uint8Array, void>): Promise<Uint8Array> {
  let head = Buffer.alloc(0)
  while (head.length < HEAD_BYTES) {
    const { done, value } = await chunks.next()
    if (done === true) break
    head = Buffer.concat([head, value])
  }
  return head
}

interface Encoding {
  readonly label: string
  /** Length of the byte order mark. */
  readonly skip: number
}

function detectEncoding(head: Uint8Array): Encoding {
  const start = Buffer.from(head.subarray(0, HEAD_BYTES)).toString('latin1')
  const found = SIGNATURES.find(([bytes]) => start.startsWith(bytes))
  if (found !== undefined) {
    throw statementError(`expected a statement, got ${found[1]}`, { byte: 1 }, 'Extract the statement and read that.')
  }
  if (start.startsWith('\u00EF\u00BB\u00BF')) return { label: 'utf-8', skip: 3 }
  if (start.startsWith('\u00FF\u00FE\0\0') || start.startsWith('\0\0\u00FE\u00FF')) throw encodingError('UTF-32')
  if (start.startsWith('\u00FF\u00FE')) return { label: 'utf-16le', skip: 2 }
  if (start.startsWith('\u00FE\u00FF')) return { label: 'utf-16be', skip: 2 }
  if (start.startsWith('<\0')) return { label: 'utf-16le', skip: 0 }
  if (start.startsWith('\0<')) return { label: 'utf-16be', skip: 0 }
  const declared = DECLARATION.exec(start)?.[1] ?? 'utf-8'
  const label = ENCODINGS[declared.toLowerCase()]
  if (label === undefined) throw encodingError(declared)
  return { label, skip: 0 }
}

const DECLARATION = /^\s*<\?xml\s[^>]*?\bencoding\s*=\s*["']([A-Za-z][\w.-]{0,39})["']/

function encodingError(name: string): Error {
  return statementError(
    `expected UTF-8, UTF-16, ISO-8859-1, ISO-8859-15 or Windows-1252, got ${name}`,
    { byte: 1 },
    'Convert the file to UTF-8, for example with iconv, and change its XML declaration.',
  )
}

/** Decodes chunks of bytes, and reports the position of an invalid byte. */
class ByteDecoder {
  readonly #label: string
  readonly #decoder: TextDecoder
  /** Number of bytes before the current chunk. */
  #offset: number
  /** Last bytes of the previous chunk, in which an invalid sequence may start. */
  #tail: Uint8Array = new Uint8Array(0)

  constructor(label: string, offset: number) {
    this.#label = label
    this.#decoder = new TextDecoder(label, { fatal: true, ignoreBOM: true })
    this.#offset = offset
  }

  decode(bytes: Uint8Array): string {
    let text: string
    try {
      text = this.#decoder.decode(bytes, { stream: true })
    } catch {
      throw this.#invalid(this.#offset - this.#tail.length + findInvalid(this.#label, this.#tail, bytes))
    }
    const nul = text.indexOf('\0')
    if (nul !== -1) {
      const before = this.#label.startsWith('utf-16') ? nul * 2 : bytes.indexOf(0)
      throw statementError(
        'expected text, got a NUL byte',
        { byte: this.#offset + before + 1 },
        'Check that this is the statement and that the transfer was complete; download it again.',
      )
    }
    this.#offset += bytes.length
    this.#tail = bytes.slice(-TAIL_BYTES)
    return text
  }

  end(): string {
    try {
      return this.#decoder.decode()
    } catch {
      throw this.#invalid(this.#offset)
    }
  }

  #invalid(byte: number): Error {
    return statementError(
      `expected ${this.#label.toUpperCase()}, got a byte sequence that is none`,
      { byte },
      'Convert the file to UTF-8, for example with iconv -f WINDOWS-1252 -t UTF-8.',
    )
  }
}

const TAIL_BYTES = 3

/** Finds the first byte that makes the sequence invalid, by bisection. */
function findInvalid(label: string, tail: Uint8Array, bytes: Uint8Array): number {
  // Starts at a whole character: skips bytes of the form 10xxxxxx, which continue a character in UTF-8.
  const start = label === 'utf-8' ? tail.findIndex((byte) => (byte & 0xc0) !== 0x80) : tail.length
  const skipped = start === -1 ? tail.length : start
  const all = Buffer.concat([tail.subarray(skipped), bytes])
  let valid = 0
  let invalid = all.length
  while (invalid - valid > 1) {
    const middle = (valid + invalid) >> 1
    try {
      new TextDecoder(label, { fatal: true }).decode(all.subarray(0, middle), { stream: true })
      valid = middle
    } catch {
      invalid = middle
    }
  }
  return skipped + invalid
}
