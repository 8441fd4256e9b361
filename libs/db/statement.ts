import { quoteIdentifier } from './Queryable.js'
import { encodeValues } from './values.js'

/** A text, its parameters, and the name under which the session keeps it prepared. */
export interface Statement {
  readonly text: string
  readonly values?: unknown[]
  readonly name?: string | undefined
}

/** SQL of a caller. It may do anything, so its connection is told its role again. */
export interface SqlText {
  readonly text: string
  readonly values: readonly unknown[] | undefined
}

/**
 * A call of one of our functions, with nothing but parameters. It holds no SQL, so it cannot change the role of its session:
 * PostgreSQL lets no SECURITY DEFINER function set a role.
 */
export interface FunctionCall {
  readonly functionName: string
  readonly values: readonly unknown[]
}

/** Encodes the parameters and names the statement. A text without parameters has no name and may hold several statements. */
export function prepareStatement(
  request: SqlText | FunctionCall,
  schema: string,
  names: StatementNames | undefined,
): Statement {
  if ('text' in request && request.values === undefined) return { text: request.text }
  const values = encodeValues(request.values ?? [])
  const text = 'text' in request ? request.text : callText(schema, request.functionName, values.length)
  return { text, values, name: names?.nameFor(text) }
}

/** `SELECT * FROM "symphony"."renew_lease"($1, $2)`: one spelling, so that one prepared statement serves all calls. */
export function callText(schema: string, functionName: string, parameterCount: number): string {
  const placeholders = Array.from({ length: parameterCount }, (_, index) => `$${index + 1}`).join(', ')
  return `SELECT * FROM ${quoteIdentifier(schema)}.${quoteIdentifier(functionName)}(${placeholders})`
}

/** Texts beyond this many stay unnamed: each name costs memory in every session, and ours are a fixed few dozen. */
const NAMES_MAX = 256

/**
 * Names under which repeated statements stay prepared in every session of a pool, so that the server parses each once.
 * Never used behind a transaction pooler, where the next statement may meet another session.
 */
export class StatementNames {
  #generation = 1
  readonly #names = new Map<string, string>()

  nameFor(text: string): string | undefined {
    const known = this.#names.get(text)
    if (known !== undefined || this.#names.size >= NAMES_MAX) return known
    const name = `s${this.#generation}_${this.#names.size + 1}`
    this.#names.set(text, name)
    return name
  }

  /**
   * After a function changed its result type, or somebody discarded the statements of a session, the prepared ones are
   * of no use. New names make every session prepare anew; the old ones die with their sessions.
   */
  renew(): void {
    this.#generation += 1
    this.#names.clear()
  }
}

/**
 * Times as text, for those who show them: a Date has milliseconds, the server microseconds, and a page that sorts by what it
 * shows must not lose them.
 */
export function isoMicros(expression: string): string {
  return `to_char(${expression} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`
}

/** Microseconds since 1970 as text: what a cursor holds of a time. */
export function epochMicros(expression: string): string {
  return `(extract(epoch FROM ${expression}) * 1000000)::bigint::text`
}

/** The time that `epochMicros` gave; to the microsecond, because a double holds so many exactly until the year 2255. */
export function fromEpochMicros(parameter: string): string {
  return `('epoch'::timestamptz + ${parameter}::bigint * interval '1 microsecond')`
}

/** The smallest UUID version 7 of that moment: rows keyed by such ids are found by time without an index on a time. */
export function minUuidV7At(time: string): string {
  return `(lpad(to_hex((extract(epoch FROM ${time}) * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid`
}
