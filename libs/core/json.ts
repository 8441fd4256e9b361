import { ArgumentRangeError, InvalidArgumentError, type ArgumentName } from './SymphonyError.js'
import { NUMBER_LITERAL_LENGTH_MAX, NUMBER_MAGNITUDE, NUMBER_SCALE_MAX } from './limits.js'

/** A JSON value. Amounts are decimal strings, because a JavaScript number loses digits above 2^53. */
export type JsonValue = string | number | boolean | null | readonly JsonValue[] | JsonObject

export interface JsonObject {
  readonly [key: string]: JsonValue
}

/** Returns true for an object that is neither an array nor null. */
export function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Refuses the key `__proto__`, because code that merges the object later would set a prototype. */
export function rejectPrototypeKey(path: ArgumentName, key: string): void {
  if (key === '__proto__') throw new InvalidArgumentError(path, 'the key __proto__ is refused')
}

/**
 * Writes JSON with sorted keys, so that equal values have equal text: jsonb does not keep the order of keys. Writes a
 * Map as an object and a bigint as a string.
 *
 * @param indent Spaces per level; 0 writes one line without spaces.
 */
export function canonicalJson(value: unknown, indent = 0): string {
  return writeJson(value, indent, '\n')
}

function writeJson(value: unknown, indent: number, lineStart: string): string {
  if (typeof value === 'bigint') return `"${value}"`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null'
  const inner = `${lineStart}${' '.repeat(indent)}`
  const wrap = (open: string, parts: readonly string[], close: string) => {
    if (indent === 0 || parts.length === 0) return `${open}${parts.join(',')}${close}`
    return `${open}${inner}${parts.join(`,${inner}`)}${lineStart}${close}`
  }
  if (Array.isArray(value)) {
    return wrap(
      '[',
      value.map((one) => writeJson(one, indent, inner)),
      ']',
    )
  }
  const entries: [string, unknown][] = value instanceof Map ? [...value] : Object.entries(value)
  const members = entries.filter(([, one]) => one !== undefined).toSorted(([a], [b]) => (a < b ? -1 : 1))
  const colon = indent === 0 ? ':' : ': '
  return wrap(
    '{',
    members.map(([key, one]) => `${JSON.stringify(key)}${colon}${writeJson(one, indent, inner)}`),
    '}',
  )
}

/**
 * Returns the path of a value inside JSON for an error: `payload.items[3].amount`. Shows a key only if it looks like a
 * field name. Any other key may be data, such as a card number, so its position stands for it: `payload[key 2]`.
 */
export function keyPath(parent: string, key: string, position: number): string {
  return FIELD_NAME.test(key) ? `${parent}.${key}` : `${parent}[key ${position + 1}]`
}

export function indexPath(parent: string, index: number): string {
  return `${parent}[${index}]`
}

const FIELD_NAME = /^[A-Za-z_$][\w$-]{0,63}$/

/** Compiled JSON pointer (RFC 6901), such as `/data/0/id`. Returns undefined if the document has no such value. */
export type JsonPointer = (document: JsonValue | undefined) => JsonValue | undefined

export function compileJsonPointer(argument: string, pointer: unknown): JsonPointer {
  if (typeof pointer !== 'string' || !POINTER.test(pointer)) {
    throw new InvalidArgumentError(argument, 'expected a JSON pointer such as /data/id')
  }
  const keys = pointer
    .split('/')
    .slice(1)
    .map((key) => key.replaceAll('~1', '/').replaceAll('~0', '~'))
  return (document) => keys.reduce<JsonValue | undefined>(member, document)
}

/** Reads own members and elements only: `/constructor` and the `length` of a list are not data. */
function member(container: JsonValue | undefined, key: string): JsonValue | undefined {
  if (typeof container !== 'object' || container === null || !Object.hasOwn(container, key)) return undefined
  if (Array.isArray(container) && !INDEX.test(key)) return undefined
  const value: JsonValue | undefined = Reflect.get(container, key)
  return value
}

const INDEX = /^(?:0|[1-9]\d*)$/
const POINTER = /^(?:\/(?:[^~/]|~[01])*){1,32}$/

/**
 * Returns the text that jsonb prints for this number. jsonb stores a number as `numeric`, exact and expanded, so a
 * short literal with a large exponent would take kilobytes. `requireBounds` therefore counts digits as `numeric` does.
 */
export function printJsonNumber(path: ArgumentName, value: number): string {
  if (!Number.isFinite(value)) throw new ArgumentRangeError(path, 'expected a finite number, got NaN or an infinity')
  if (Object.is(value, -0)) throw new ArgumentRangeError(path, 'expected a number, got negative zero')
  const literal = String(value)
  // Fast path: a safe integer has at most 16 digits.
  if (Number.isSafeInteger(value)) return literal
  const decimal = readDecimal(literal)
  requireBounds(path, decimal)
  return literal.includes('e') ? expand(decimal) : literal
}

/** Parses a JSON number, or throws if a JavaScript number cannot hold the same value. */
export function readJsonNumber(path: string, literal: string): number {
  // Fast path: a double holds each whole number of up to 15 digits.
  if (literal.length <= 15 && WHOLE_NUMBER.test(literal)) return Number(literal)
  if (literal.length > NUMBER_LITERAL_LENGTH_MAX) {
    throw new ArgumentRangeError(path, `expected a number of at most ${NUMBER_LITERAL_LENGTH_MAX} characters`)
  }
  const decimal = readDecimal(literal)
  requireBounds(path, decimal)
  const value = Number(literal)
  if (Object.is(value, -0)) throw new ArgumentRangeError(path, 'expected a number, got negative zero')
  if (!sameValue(decimal, readDecimal(String(value)))) {
    throw new ArgumentRangeError(path, 'this number would lose digits; send it as a decimal string')
  }
  return value
}

const WHOLE_NUMBER = /^(?:0|-?[1-9]\d*)$/

/** Decimal number ±digits × 10^exponent, without zeros at either end of `digits`. Zero has no digits. */
interface Decimal {
  readonly negative: boolean
  readonly digits: string
  readonly exponent: number
  /** Digits after the point as written, with trailing zeros: the result of `scale(numeric)`. */
  readonly scale: number
  readonly writtenExponent: number
}

function readDecimal(literal: string): Decimal {
  const parts = DECIMAL.exec(literal)
  if (parts === null) throw new InvalidArgumentError('literal', 'expected a JSON number')
  const [, sign, whole = '', fraction = '', exponentText = '0'] = parts
  const writtenExponent = Number(exponentText)
  const significant = (whole + fraction).replace(/^0+/, '')
  const digits = significant.replace(/0+$/, '')
  return {
    negative: sign === '-',
    digits,
    exponent: digits === '' ? 0 : writtenExponent - fraction.length + (significant.length - digits.length),
    scale: Math.max(0, fraction.length - writtenExponent),
    writtenExponent,
  }
}

const DECIMAL = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/

function requireBounds(path: ArgumentName, decimal: Decimal): void {
  if (decimal.digits.length + decimal.exponent > NUMBER_MAGNITUDE || decimal.writtenExponent > NUMBER_MAGNITUDE) {
    throw new ArgumentRangeError(path, `expected a number smaller than 10^${NUMBER_MAGNITUDE}`)
  }
  if (decimal.scale > NUMBER_SCALE_MAX) {
    throw new ArgumentRangeError(path, `expected at most ${NUMBER_SCALE_MAX} digits after the decimal point`)
  }
}

function sameValue(left: Decimal, right: Decimal): boolean {
  return left.negative === right.negative && left.digits === right.digits && left.exponent === right.exponent
}

/**
 * Writes a number such as `1e-7` without its exponent. Among the numbers that `requireBounds` accepts, JavaScript prints
 * only small fractions with an exponent, so the result starts with `0.`.
 */
function expand({ negative, digits, scale }: Decimal): string {
  return `${negative ? '-' : ''}0.${digits.padStart(scale, '0')}`
}
