import { types } from 'node:util'
import { ArgumentRangeError, InvalidArgumentError, type ArgumentName } from './SymphonyError.js'
import { requireStorableText } from './arguments.js'
import { indexPath, keyPath, printJsonNumber, rejectPrototypeKey } from './json.js'
import { PAYLOAD_BYTES_MAX, PAYLOAD_DEPTH_MAX } from './limits.js'

/**
 * Encodes a JavaScript value as the JSON text of a payload. Refuses a value that is not JSON and names its path.
 *
 * One pass checks and writes the value, and reads each property once. So the checked value is the value that is sent.
 * JSON.stringify is not used on objects: it would call toJSON and getters, and silently drop `undefined`. The text is
 * spelled as jsonb prints it (except for the order of keys), so its length is the length that the database measures.
 */
export function encodePayload(payload: unknown, argument: ArgumentName = 'payload'): string {
  if (!isPlainObject(payload)) {
    throw new InvalidArgumentError(argument, `expected a plain object, got ${describe(payload)}`)
  }
  return new PayloadWriter(argument).write(payload)
}

class PayloadWriter {
  readonly #argument: ArgumentName
  readonly #ancestors: object[] = []
  /** Keys and indexes on the path to the current value. */
  readonly #keys: (string | number)[] = []
  /** Names the path of the current value. One shared closure, because only an error needs a path. */
  readonly #place = () => this.#spellPath()
  #text = ''

  constructor(argument: ArgumentName) {
    this.#argument = argument
  }

  write(payload: unknown): string {
    this.#value(payload)
    if (Buffer.byteLength(this.#text) > PAYLOAD_BYTES_MAX) throw tooLarge(this.#argument)
    return this.#text
  }

  #value(value: unknown): void {
    if (value === null || typeof value === 'boolean') this.#append(String(value))
    else if (typeof value === 'string') this.#string(value)
    else if (typeof value === 'number') this.#append(printJsonNumber(this.#place, value))
    else if (isPlainArray(value)) this.#nested(value)
    else if (isPlainObject(value)) this.#nested(value)
    else throw new InvalidArgumentError(this.#place, `expected a JSON value, got ${describe(value)}`)
  }

  #nested(container: object): void {
    if (this.#ancestors.includes(container)) {
      throw new InvalidArgumentError(this.#place, 'expected a tree, got an object that contains itself')
    }
    if (this.#ancestors.length === PAYLOAD_DEPTH_MAX) {
      throw new ArgumentRangeError(this.#place, `expected a depth of at most ${PAYLOAD_DEPTH_MAX}`)
    }
    this.#ancestors.push(container)
    if (isPlainArray(container)) this.#array(container)
    else this.#object(container)
    this.#ancestors.pop()
  }

  #object(object: object): void {
    const depth = this.#keys.length
    let separator = '{'
    for (const key of Reflect.ownKeys(object)) {
      if (typeof key === 'symbol') {
        throw new InvalidArgumentError(this.#place, 'expected text keys, got a symbol key')
      }
      this.#keys[depth] = key
      rejectPrototypeKey(this.#place, key)
      this.#append(separator)
      this.#string(key)
      this.#append(': ')
      this.#value(ownValue(this.#place, object, key))
      this.#keys.length = depth
      separator = ', '
    }
    this.#append(separator === '{' ? '{}' : '}')
  }

  #array(array: readonly unknown[]): void {
    // Refuses a too long array before its keys are listed: each element takes at least one byte.
    if (array.length > PAYLOAD_BYTES_MAX) throw tooLarge(this.#argument)
    const depth = this.#keys.length
    this.#append('[')
    for (let index = 0; index < array.length; index += 1) {
      if (index > 0) this.#append(', ')
      this.#keys[depth] = index
      this.#value(ownValue(this.#place, array, String(index)))
      this.#keys.length = depth
    }
    this.#append(']')
    if (Reflect.ownKeys(array).length !== array.length + LENGTH_KEY_COUNT) {
      throw new InvalidArgumentError(this.#place, 'expected an array of elements only, got one with further properties')
    }
  }

  #string(text: string): void {
    if (text.length > PAYLOAD_BYTES_MAX) throw tooLarge(this.#argument)
    requireStorableText(this.#place, text)
    // JSON.stringify escapes the same characters as jsonb's output function, in the same spelling.
    this.#append(JSON.stringify(text))
  }

  /**
   * Appends text and checks its length at once, because a small object with shared references can expand exponentially.
   * Each character is at least one byte.
   */
  #append(chunk: string): void {
    this.#text += chunk
    if (this.#text.length > PAYLOAD_BYTES_MAX) throw tooLarge(this.#argument)
  }

  #spellPath(): string {
    let path = typeof this.#argument === 'string' ? this.#argument : this.#argument()
    for (const [depth, key] of this.#keys.entries()) {
      const container = this.#ancestors[depth]!
      path =
        typeof key === 'number' ? indexPath(path, key) : keyPath(path, key, Reflect.ownKeys(container).indexOf(key))
    }
    return path
  }
}

/** Number of own keys of an array besides its elements: `length`. */
const LENGTH_KEY_COUNT = 1

/**
 * Reads a property through its descriptor, so that no getter runs and a hole is not filled from a polluted prototype.
 */
function ownValue(path: ArgumentName, container: object, key: string): unknown {
  const property = Object.getOwnPropertyDescriptor(container, key)
  if (property === undefined) throw new InvalidArgumentError(path, 'expected a value, got a hole in an array')
  if (!('value' in property)) throw new InvalidArgumentError(path, 'expected a plain value, got a getter or setter')
  if (!property.enumerable) throw new InvalidArgumentError(path, 'expected an enumerable property')
  return property.value
}

function isPlainObject(value: unknown): value is object {
  if (typeof value !== 'object' || value === null || types.isProxy(value)) return false
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}

function isPlainArray(value: unknown): value is readonly unknown[] {
  return !types.isProxy(value) && Array.isArray(value) && Object.getPrototypeOf(value) === Array.prototype
}

/** Returns the kind of a value for an error, never its content. */
function describe(value: unknown): string {
  if (value === null) return 'null'
  if (typeof value !== 'object') return typeof value
  // A proxy runs its owner's code at every access, and may return another value each time.
  if (types.isProxy(value)) return 'a proxy'
  if (Array.isArray(value)) return 'an array'
  return 'an instance of a class'
}

function tooLarge(argument: ArgumentName): ArgumentRangeError {
  return new ArgumentRangeError(argument, `expected at most ${PAYLOAD_BYTES_MAX} bytes of JSON text`)
}
