import type { CustomTypesConfig } from 'pg'
import { InvalidArgumentError } from '../core/index.js'

/**
 * Parses values on our connections only, independently of parsers that the application has set on the driver.
 *
 * | PostgreSQL | JavaScript | reason |
 * | --- | --- | --- |
 * | int8 | bigint | a number loses digits past 2^53 |
 * | numeric | string | a number loses digits, and the scale is part of the value |
 * | timestamptz | Date | for display. A Date has milliseconds, the server microseconds: compare times in SQL only |
 * | timestamp, date, interval | string | they are no instants: a Date would add this process's time zone |
 * | json, jsonb | parsed | numbers inside lose digits, so money is sent as strings and hashes are computed over `::text` |
 * | all else | string | as the server writes it |
 */
export const valueParsers: CustomTypesConfig = {
  getTypeParser: (oid: number) => PARSERS.get(oid) ?? String,
}

/** Parsers by the fixed OIDs of PostgreSQL's built-in types and of their arrays. */
const PARSERS = new Map<number, (text: string) => unknown>(
  [
    typeParser(16, 1000, (text) => text === 't'), // bool
    typeParser(17, 1001, (text) => Buffer.from(text.slice(2), 'hex')), // bytea, as `\x…`
    typeParser(20, 1016, BigInt), // int8
    typeParser(21, 1005, Number), // int2
    typeParser(23, 1007, Number), // int4
    typeParser(25, 1009, String), // text
    typeParser(26, 1028, Number), // oid
    typeParser(114, 199, JSON.parse), // json
    typeParser(700, 1021, Number), // float4
    typeParser(701, 1022, Number), // float8
    typeParser(1043, 1015, String), // varchar
    typeParser(1082, 1182, String), // date
    typeParser(1114, 1115, String), // timestamp
    typeParser(1184, 1185, parseInstant), // timestamptz
    typeParser(1186, 1187, String), // interval
    typeParser(1700, 1231, String), // numeric
    typeParser(2950, 2951, String), // uuid
    typeParser(3802, 3807, JSON.parse), // jsonb
  ].flat(),
)

type ParserEntry = [oid: number, parse: (text: string) => unknown]

function typeParser(oid: number, arrayOid: number, parse: (text: string) => unknown): ParserEntry[] {
  return [
    [oid, (text) => parse(text)],
    [arrayOid, (text) => parseArray(text, (item) => parse(item))],
  ]
}

/** Parses `2026-02-03 04:05:06.789123+02`, the ISO style that our sessions set. */
function parseInstant(text: string): Date {
  // Rows of one answer often share an instant, such as the time of their claim, so parsed instants are cached. Each row
  // gets its own Date, because a Date can be changed.
  const known = recentInstants.get(text)
  if (known !== undefined) return new Date(known)
  const instant = instantOf(text)
  if (recentInstants.size >= RECENT_MAX) recentInstants.clear()
  recentInstants.set(text, instant.getTime())
  return instant
}

const recentInstants = new Map<string, number>()
const RECENT_MAX = 64

function instantOf(text: string): Date {
  // Fast path for nearly every instant: a four-digit year in UTC.
  if (text.charCodeAt(4) === HYPHEN && text.charCodeAt(0) !== ZERO && text.endsWith('+00')) return plainInstant(text)
  if (text.endsWith('infinity')) return new Date(text.startsWith('-') ? -DATE_MAX_MS : DATE_MAX_MS)
  return new Date(text.replace(' ', 'T').replace(/([+-]\d\d)$/, '$1:00'))
}

function plainInstant(text: string): Date {
  const two = (index: number) => (text.charCodeAt(index) - ZERO) * 10 + text.charCodeAt(index + 1) - ZERO
  // Truncates to milliseconds, as Date does, instead of rounding. The server omits trailing zeros: `.5`, `.12`.
  const digit = (place: number, worth: number) =>
    text.length > place + 3 && text.charCodeAt(19) === POINT ? (text.charCodeAt(place) - ZERO) * worth : 0
  const ms = digit(20, 100) + digit(21, 10) + digit(22, 1)
  return new Date(Date.UTC(two(0) * 100 + two(2), two(5) - 1, two(8), two(11), two(14), two(17), ms))
}

const HYPHEN = 45
const POINT = 46
const ZERO = 48

/** Maximum distance of a Date from 1970. */
const DATE_MAX_MS = 8.64e15

/**
 * Encodes parameters for the driver, or refuses them before anything is sent. The driver would turn `undefined` into
 * NULL. A value that it cannot serialise (a bigint inside an object, a cycle) would fail only during binding. The
 * driver would then assume that the server has a prepared statement which the server does not have.
 */
export function encodeValues(values: readonly unknown[]): unknown[] {
  return values.map((value, index) => encodeValue(`values[${index}]`, value))
}

function encodeValue(argument: string, value: unknown): unknown {
  if (value === undefined)
    throw new InvalidArgumentError(argument, 'expected a value, got undefined; pass null for NULL')
  if (typeof value === 'function' || typeof value === 'symbol') {
    throw new InvalidArgumentError(argument, `expected a value PostgreSQL can store, got a ${typeof value}`)
  }
  if (value === null || typeof value !== 'object' || ArrayBuffer.isView(value)) return value
  if (value instanceof Date) {
    if (Number.isNaN(value.getTime())) throw new InvalidArgumentError(argument, 'expected a date, got an invalid one')
    return value.toISOString()
  }
  if (Array.isArray(value)) return encodeArray(argument, value)
  return encodeJson(argument, value)
}

/** Encodes an array in PostgreSQL's text form, in one pass: a batch has a dozen arrays of up to 1000 items. */
function encodeArray(argument: string, items: readonly unknown[]): string {
  let text = '{'
  for (let index = 0; index < items.length; index += 1) {
    if (index > 0) text += ','
    const item = items[index]
    if (typeof item === 'string') text += quoteItem(item)
    else if (item === null) text += 'NULL'
    else if (typeof item === 'number' || typeof item === 'bigint' || typeof item === 'boolean') text += String(item)
    else text += encodeItem(`${argument}[${index}]`, item)
  }
  return `${text}}`
}

function encodeItem(argument: string, item: unknown): string {
  if (ArrayBuffer.isView(item)) {
    return quoteItem(`\\x${Buffer.from(item.buffer, item.byteOffset, item.byteLength).toString('hex')}`)
  }
  const encoded = encodeValue(argument, item)
  return Array.isArray(item) ? String(encoded) : quoteItem(String(encoded))
}

function quoteItem(text: string): string {
  if (!NEEDS_ESCAPE.test(text)) return `"${text}"`
  // JSON escapes `"` and `\` as an array does, in one native call. Other escapes of JSON would be wrong in an array.
  if (!ESCAPED_BY_JSON_ALONE.test(text)) return JSON.stringify(text)
  return `"${text.replaceAll(/["\\]/g, String.raw`\$&`)}"`
}

const NEEDS_ESCAPE = /["\\]/
// oxlint-disable-next-line no-control-regex -- the expression searches for control characters
const ESCAPED_BY_JSON_ALONE = /[\u0000-\u001f\ud800-\udfff]/

function encodeJson(argument: string, value: object): string {
  try {
    return JSON.stringify(value)
  } catch (error) {
    // The error's text names the property of a cycle, never a value.
    throw new InvalidArgumentError(
      argument,
      `expected JSON, got ${error instanceof Error ? error.message : 'an unserialisable value'}`,
    )
  }
}

/** Content of an array: items, NULLs, or arrays for more dimensions. */
type ArrayItems<T> = (T | null | ArrayItems<T>)[]

/** Parses PostgreSQL's text form of an array: `{1,NULL,"a,b"}`. Ignores explicit lower bounds (`[0:1]={…}`). */
export function parseArray<T>(text: string, parseItem: (text: string) => T): ArrayItems<T> {
  const outermost: ArrayItems<T> = []
  const open: ArrayItems<T>[] = [outermost]
  for (const [token, quoted] of text.slice(text.indexOf('{')).matchAll(TOKEN)) {
    if (token === '{') {
      const inner: ArrayItems<T> = []
      open.at(-1)?.push(inner)
      open.push(inner)
    } else if (token === '}') {
      open.pop()
    } else if (quoted !== undefined) {
      open.at(-1)?.push(parseItem(quoted.replaceAll(/\\(.)/gs, '$1')))
    } else {
      open.at(-1)?.push(token === 'NULL' ? null : parseItem(token))
    }
  }
  const [items] = outermost
  return Array.isArray(items) ? items : []
}

/** Brace, quoted item (its group is without the quotes), or bare item. */
const TOKEN = /[{}]|"((?:[^"\\]|\\.)*)"|[^{},"]+/gs
