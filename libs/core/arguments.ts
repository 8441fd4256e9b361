import { isObject } from './json.js'
import { ArgumentRangeError, InvalidArgumentError, type ArgumentName } from './SymphonyError.js'

export interface Bounds {
  readonly min: number
  readonly max: number
}

/** Returns a whole number within its bounds, or throws an error that names the argument. */
export function boundedInteger(argument: ArgumentName, value: unknown, { min, max }: Bounds): number {
  if (typeof value !== 'number') {
    throw new InvalidArgumentError(argument, `expected a whole number from ${min} to ${max}, got ${kindOf(value)}`)
  }
  // Object.is finds -0, which equals 0 in a comparison but prints and divides differently.
  if (!Number.isInteger(value) || Object.is(value, -0) || value < min || value > max) {
    const got = Object.is(value, -0) ? '-0' : String(value)
    throw new ArgumentRangeError(argument, `expected a whole number from ${min} to ${max}, got ${got}`)
  }
  return value
}

/** Returns the type of a refused value for an error. Errors never show the value. */
export function kindOf(value: unknown): string {
  return value === null ? 'null' : typeof value
}

/**
 * Returns text that is storable, not blank, free of control characters and at most `lengthMax` characters long. Counts
 * UTF-16 units, which are never fewer than PostgreSQL's characters. So PostgreSQL accepts the length of every text that
 * passes here.
 */
export function requiredText(argument: ArgumentName, value: unknown, lengthMax: number): string {
  if (typeof value !== 'string') {
    throw new InvalidArgumentError(argument, `expected text, got ${kindOf(value)}`)
  }
  // Fast path: printable ASCII that starts with a visible character.
  if (value.length <= lengthMax && PLAIN.test(value)) return value
  if (value.length > lengthMax) throw new ArgumentRangeError(argument, `expected at most ${lengthMax} characters`)
  if (value.trim() === '') throw new InvalidArgumentError(argument, 'expected text that is not blank')
  requireStorableText(argument, value)
  if (value.search(CONTROL_CHARACTER) !== -1) {
    throw new InvalidArgumentError(argument, 'expected text without control characters')
  }
  return value
}

const PLAIN = /^[!-~][ -~]*$/

/** Refuses NUL and half a surrogate pair, which PostgreSQL cannot store. The error names the field. */
export function requireStorableText(path: ArgumentName, text: string): void {
  if (text.includes('\0')) throw new InvalidArgumentError(path, 'expected text without NUL (U+0000)')
  if (LONE_SURROGATE.test(text)) {
    throw new InvalidArgumentError(path, 'expected well-formed Unicode, got half of a surrogate pair')
  }
}

/**
 * Control characters except tab and line ends. They can move a terminal's cursor or break a log line, and the ledger
 * would keep them for ever.
 */
export const CONTROL_CHARACTER = /(?![\t\n\r])\p{Cc}/gu

/** Half of a surrogate pair. With the `u` flag a complete pair is one code point, which the pattern does not match. */
const LONE_SURROGATE = /\p{Surrogate}/u

/** Returns an object. Refuses anything else, such as a URL in place of options or a missing argument. */
export function requiredObject<T extends object>(argument: ArgumentName, value: T, expected = 'an object'): T {
  if (isObject(value)) return value
  const got = Array.isArray(value) ? 'an array' : kindOf(value)
  throw new InvalidArgumentError(argument, `expected ${expected}, got ${got}`)
}

/** Returns the options without undefined ones, which would otherwise replace defaults. */
export function definedOptions<T extends object>(given: T): T {
  const defined = { ...given }
  for (const key in defined) if (defined[key] === undefined) Reflect.deleteProperty(defined, key)
  return defined
}

/** Refuses unknown options, and options that are not an object. `place` precedes the name of the option in an error. */
export function requireKnownOptions(given: object, known: readonly string[], place = ''): void {
  requiredObject(place === '' ? 'options' : place.slice(0, -1), given)
  rejectUnknownKeys(given, known, (key) => `${place}${key}`)
}

/**
 * Refuses unknown keys, because a misspelt option would silently keep its default. `name` adds context to the key.
 * Every instruction passes here, so the loop allocates nothing.
 */
export function rejectUnknownKeys(given: object, known: readonly string[], name: (key: string) => string): void {
  for (const key in given) {
    if (known.includes(key) || !Object.hasOwn(given, key)) continue
    const meant = nearestSpelling(key, known)
    throw new InvalidArgumentError(
      name(JSON.stringify(key)),
      meant === undefined ? `unknown; expected one of ${known.join(', ')}` : `unknown; did you mean ${meant}?`,
    )
  }
}

/** Returns the known word with the fewest edits: at most two, and fewer than half the letters of `word`. */
export function nearestSpelling(word: string, known: Iterable<string>): string | undefined {
  let nearest: string | undefined
  let editsOfNearest = Math.min(EDITS_MAX, Math.ceil(word.length / 2) - 1) + 1
  for (const candidate of known) {
    const edits = countEdits(word.toLowerCase(), candidate.toLowerCase())
    if (edits < editsOfNearest) {
      nearest = candidate
      editsOfNearest = edits
    }
  }
  return nearest
}

const EDITS_MAX = 2

/** Counts the letters to insert, delete or replace to turn one word into the other. */
function countEdits(from: string, to: string): number {
  let above = Array.from({ length: to.length + 1 }, (_, column) => column)
  for (let row = 1; row <= from.length; row += 1) {
    const current = [row]
    for (let column = 1; column <= to.length; column += 1) {
      const replaced = (above[column - 1] ?? 0) + (from[row - 1] === to[column - 1] ? 0 : 1)
      current.push(Math.min(replaced, (above[column] ?? 0) + 1, (current[column - 1] ?? 0) + 1))
    }
    above = current
  }
  return above[to.length] ?? 0
}
