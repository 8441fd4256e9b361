import { ArgumentRangeError, InvalidArgumentError } from './SymphonyError.js'
import { requireStorableText } from './arguments.js'
import { indexPath, keyPath, readJsonNumber, rejectPrototypeKey, type JsonValue } from './json.js'
import { JSON_TEXT_BYTES_MAX, PAYLOAD_DEPTH_MAX } from './limits.js'

export interface StrictJsonOptions {
  /** Name of the text in errors. @default 'body' */
  readonly argument?: string
  /** Maximum depth of nesting. A payload inside an envelope needs more. @default PAYLOAD_DEPTH_MAX */
  readonly depthMax?: number
  /** Maximum number of bytes. @default JSON_TEXT_BYTES_MAX */
  readonly bytesMax?: number
}

export class JsonSyntaxError extends InvalidArgumentError {}

/**
 * Parses JSON text, but refuses input that JSON.parse would change silently: repeated keys, digits that a double cannot
 * hold, a `__proto__` key, invalid UTF-8. Errors name the path and, unlike errors of JSON.parse, never quote the
 * content.
 */
export function parseStrictJson(text: string | Uint8Array, options: StrictJsonOptions = {}): JsonValue {
  const { argument = 'body', depthMax = PAYLOAD_DEPTH_MAX, bytesMax = JSON_TEXT_BYTES_MAX } = options
  const bytes = typeof text === 'string' ? Buffer.byteLength(text) : text.byteLength
  if (bytes > bytesMax) throw new ArgumentRangeError(argument, `expected at most ${bytesMax} bytes of JSON text`)
  return new StrictJsonReader(argument, typeof text === 'string' ? text : decodeUtf8(argument, text), depthMax).read()
}

class StrictJsonReader {
  readonly #argument: string
  readonly #text: string
  readonly #depthMax: number
  #offset = 0
  #depth = 0

  constructor(argument: string, text: string, depthMax: number) {
    this.#argument = argument
    this.#text = text
    this.#depthMax = depthMax
  }

  read(): JsonValue {
    const value = this.#value(this.#argument)
    this.#skipSpace()
    if (this.#offset < this.#text.length) throw this.#unexpected('the end of the text')
    return value
  }

  #value(path: string): JsonValue {
    this.#skipSpace()
    const character = this.#text[this.#offset]
    if (character === '{') return this.#nested(path, () => this.#object(path))
    if (character === '[') return this.#nested(path, () => this.#array(path))
    if (character === '"') return this.#string(path)
    return this.#literalOrNumber(path)
  }

  #nested<Container>(path: string, read: () => Container): Container {
    if (this.#depth === this.#depthMax) {
      if (!this.#closesEveryBracket()) throw new JsonSyntaxError(this.#argument, 'not JSON: a bracket is never closed')
      throw new ArgumentRangeError(path, `expected a depth of at most ${this.#depthMax}`)
    }
    this.#depth += 1
    this.#offset += 1
    const container = read()
    this.#depth -= 1
    return container
  }

  #object(path: string): JsonValue {
    const object: Record<string, JsonValue> = {}
    for (let position = 0; !this.#closes('}', position); position += 1) {
      this.#skipSpace()
      if (this.#text[this.#offset] !== '"') throw this.#unexpected('a key in double quotes')
      const key = this.#string(`${path}[key ${position + 1}]`)
      const place = keyPath(path, key, position)
      rejectPrototypeKey(place, key)
      if (Object.hasOwn(object, key))
        throw new InvalidArgumentError(place, 'expected each key once, got the same key twice')
      this.#skipSpace()
      if (this.#text[this.#offset] !== ':') throw this.#unexpected('":"')
      this.#offset += 1
      object[key] = this.#value(place)
    }
    return object
  }

  #array(path: string): JsonValue {
    const array: JsonValue[] = []
    while (!this.#closes(']', array.length)) array.push(this.#value(indexPath(path, array.length)))
    return array
  }

  /**
   * Consumes the closing bracket or, after the first member, the comma before the next one. Returns true for the
   * bracket.
   */
  #closes(bracket: '}' | ']', membersRead: number): boolean {
    this.#skipSpace()
    const character = this.#text[this.#offset]
    if (character === bracket) {
      this.#offset += 1
      return true
    }
    if (membersRead > 0) {
      if (character !== ',') throw this.#unexpected(`"," or "${bracket}"`)
      this.#offset += 1
    }
    return false
  }

  /**
   * Returns whether every bracket is closed. Text with an unclosed bracket is not JSON; other text is only too deep.
   * Takes one pass without recursion.
   */
  #closesEveryBracket(): boolean {
    let open = this.#depth
    for (let offset = this.#offset; offset < this.#text.length; offset += 1) {
      const character = this.#text[offset]
      if (character === '"') offset = this.#endOfString(offset)
      else if (character === '[' || character === '{') open += 1
      else if (character === ']' || character === '}') open -= 1
    }
    return open <= 0
  }

  /** Returns the offset of the closing quote, or an offset past the text. */
  #endOfString(start: number): number {
    let end = start + 1
    while (end < this.#text.length && this.#text[end] !== '"') end += this.#text[end] === '\\' ? 2 : 1
    return end
  }

  #string(path: string): string {
    const start = this.#offset
    const end = this.#endOfString(start)
    if (end >= this.#text.length) throw this.#unexpected('a closing double quote')
    this.#offset = end + 1
    const text = unescape(this.#text.slice(start, end + 1))
    if (text === undefined) throw new JsonSyntaxError(path, 'expected valid escapes and no control characters')
    requireStorableText(path, text)
    return text
  }

  #literalOrNumber(path: string): JsonValue {
    TOKEN.lastIndex = this.#offset
    const token = TOKEN.exec(this.#text)?.[0]
    if (token === undefined) throw this.#unexpected('a JSON value')
    this.#offset += token.length
    if (token === 'true') return true
    if (token === 'false') return false
    if (token === 'null') return null
    return readJsonNumber(path, token)
  }

  /**
   * Skips white space by character codes. A regular expression took most of the time that a list of small values needs.
   */
  #skipSpace(): void {
    let code = this.#text.charCodeAt(this.#offset)
    while (code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09) {
      this.#offset += 1
      code = this.#text.charCodeAt(this.#offset)
    }
  }

  #unexpected(expected: string): JsonSyntaxError {
    return new JsonSyntaxError(this.#argument, `not JSON: expected ${expected} at offset ${this.#offset}`)
  }
}

const TOKEN = /true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y

/** Decodes the escapes of one string with JSON.parse. Drops its error message, which quotes the text. */
function unescape(quoted: string): string | undefined {
  try {
    return String(JSON.parse(quoted))
  } catch {
    return undefined
  }
}

function decodeUtf8(argument: string, bytes: Uint8Array): string {
  try {
    // Keeps a byte order mark, which is then refused as a character that is not JSON (RFC 8259, section 8.1).
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    throw new InvalidArgumentError(argument, 'expected UTF-8')
  }
}
