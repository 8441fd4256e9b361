import { types as driverTypes, type CustomTypesConfig } from 'pg'
import { InvalidArgumentError } from '../core/index.js'

/**
 * How values cross the wire, for our connections only: the driver's global parsers belong to the host application.
 *
 * | PostgreSQL | here | why |
 * | --- | --- | --- |
 * | int8 | bigint | a number loses digits past 2^53 |
 * | numeric | string | the same, and the scale is part of the value |
 * | timestamptz | Date | for display. A Date has milliseconds, the server microseconds: compare times in SQL only |
 * | timestamp, date, interval | string | the driver would read them in the time zone of this process |
 * | json, jsonb | parsed | numbers inside lose digits like any JSON number: money travels as strings, hashes over `::text` |
 */
export const valueParsers: CustomTypesConfig = {
  getTypeParser: ((oid: number, format?: 'text' | 'binary') =>
    PARSERS.get(oid) ?? driverTypes.getTypeParser(oid, format)) as typeof driverTypes.getTypeParser,
}

const asIs = (text: string) => text

const arrayOf =
  <T>(parse: (text: string) => T) =>
  (text: string): T[] =>
    driverTypes.arrayParser(text, parse)

/** By the fixed OIDs of PostgreSQL's built-in types. */
const PARSERS = new Map<number, (text: string) => unknown>([
  [20, BigInt], // int8
  [1016, arrayOf(BigInt)], // int8[]
  [1231, arrayOf(asIs)], // numeric[]: the driver makes these floats
  [1114, asIs], // timestamp
  [1115, arrayOf(asIs)], // timestamp[]
  [1082, asIs], // date
  [1182, arrayOf(asIs)], // date[]
  [1186, asIs], // interval
  [1187, arrayOf(asIs)], // interval[]
])

/**
 * Makes parameters ready for the driver, or refuses them before anything is sent. The driver would turn `undefined`
 * into NULL; and a value it cannot serialise (a bigint inside an object, a cycle) would be found only while binding,
 * where it leaves the connection believing in a prepared statement that the server has just closed.
 */
export function encodeValues(values: readonly unknown[]): unknown[] {
  return values.map((value, index) => encodeValue(`values[${index}]`, value))
}

function encodeValue(argument: string, value: unknown): unknown {
  if (value === undefined)
    throw new InvalidArgumentError(argument, 'expected a value, got undefined: say null for NULL')
  if (typeof value === 'function' || typeof value === 'symbol') {
    throw new InvalidArgumentError(argument, `expected a value PostgreSQL can store, got a ${typeof value}`)
  }
  if (value === null || typeof value !== 'object' || ArrayBuffer.isView(value)) return value
  if (value instanceof Date) {
    if (Number.isNaN(value.getTime())) throw new InvalidArgumentError(argument, 'expected a date, got an invalid one')
    return value.toISOString()
  }
  if (Array.isArray(value)) return value.map((item, index) => encodeValue(`${argument}[${index}]`, item))
  return encodeJson(argument, value)
}

function encodeJson(argument: string, value: object): string {
  try {
    return JSON.stringify(value)
  } catch (error) {
    // The error's text names the property at which a cycle closes, never a value.
    throw new InvalidArgumentError(argument, `expected JSON, got ${error instanceof Error ? error.message : 'neither'}`)
  }
}
