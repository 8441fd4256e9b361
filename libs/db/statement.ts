import { quoteIdentifier } from './Queryable.js'
import { encodeValues } from './values.js'

/** SQL text, its parameters, and the name of its prepared statement. */
export interface Statement {
  readonly text: string
  readonly values?: unknown[]
  readonly name?: string | undefined
}

/** SQL of a caller. The SQL may change the role, so the connection sets the role again afterwards. */
export interface SqlText {
  readonly text: string
  readonly values: readonly unknown[] | undefined
}

/**
 * Call of a deployed SQL function with parameters only. It holds no SQL, so it cannot change the role of its session:
 * PostgreSQL lets no SECURITY DEFINER function set a role.
 */
export interface FunctionCall {
  readonly functionName: string
  readonly values: readonly unknown[]
}

/**
 * Encodes the parameters and names the statement. A text without parameters has no name and may hold several
 * statements.
 */
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

/**
 * Returns text such as `SELECT * FROM "symphony"."renew_lease"($1, $2)`. The spelling is always the same, so that one
 * prepared statement serves all calls.
 */
export function callText(schema: string, functionName: string, parameterCount: number): string {
  const placeholders = Array.from({ length: parameterCount }, (_, index) => `$${index + 1}`).join(', ')
  return `SELECT * FROM ${quoteIdentifier(schema)}.${quoteIdentifier(functionName)}(${placeholders})`
}

/** Maximum number of named texts. Each name costs memory in every session. Symphony itself uses a few dozen texts. */
const NAMES_MAX = 256

/**
 * Assigns names to prepared statements, so that the server parses each repeated statement once per session. Not used
 * behind a transaction pooler, where the next statement may run in another session.
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
   * Renews the names, so that every session prepares its statements again. Needed after a function changed its result
   * type or the statements of a session were discarded. Old names end with their sessions.
   */
  renew(): void {
    this.#generation += 1
    this.#names.clear()
  }
}

/**
 * Returns SQL that formats a time with microseconds. A Date has only milliseconds, and a page that sorts by a displayed
 * time must not lose digits.
 */
export function isoMicros(expression: string): string {
  return `to_char(${expression} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`
}

/** Returns SQL for the microseconds since 1970 as text, for a cursor. */
export function epochMicros(expression: string): string {
  return `(extract(epoch FROM ${expression}) * 1000000)::bigint::text`
}

/**
 * Returns SQL that turns the text of `epochMicros` back into a time. A double, by which PostgreSQL multiplies an
 * interval, holds microseconds exactly until the year 2255.
 */
export function fromEpochMicros(parameter: string): string {
  return `('epoch'::timestamptz + ${parameter}::bigint * interval '1 microsecond')`
}

/** Returns SQL for the smallest UUID version 7 of a moment. Queries by time can then use the index of the ids. */
export function minUuidV7At(time: string): string {
  return `(lpad(to_hex((extract(epoch FROM ${time}) * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid`
}
