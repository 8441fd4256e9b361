import type { Queryable, Rows } from '../db/index.js'
import { asText } from './parameters.js'
import { requireMark, requireMethod } from './requireMethod.js'
import { rowsIn, snakeCased } from './rows.js'
import { withoutParameters } from './serverError.js'

/** The `sql` that `sql.begin` or `sql.savepoint` of postgres.js gives its callback. */
export interface PostgresJsTransaction {
  /** Absent on `sql` itself and on a reserved connection. */
  readonly savepoint: unknown
  unsafe(query: string, parameters?: unknown[]): PromiseLike<readonly unknown[]>
}

export function fromPostgresJs(sql: PostgresJsTransaction): Queryable {
  requireMethod('sql', sql, 'unsafe', 'the sql of a postgres.js transaction')
  requireMark('sql', typeof sql.savepoint === 'function', 'the sql of sql.begin', 'the sql outside sql.begin')
  return {
    query: async <R>(text: string, values: readonly unknown[] = []): Promise<Rows<R>> => {
      try {
        const rows = await sql.unsafe(text, values.map(asParameter))
        return { rows: rowsIn<R>(rows.map(snakeCased)) }
      } catch (error) {
        throw withoutParameters(error)
      }
    },
  }
}

/**
 * postgres.js asks the server for the type of each parameter and writes the value as that type. For json and jsonb this means
 * JSON.stringify, and a text that is JSON already would become a JSON string.
 */
function asParameter(value: unknown): unknown {
  return typeof value === 'string' && /^[[{]/.test(value) ? new JsonOrText(value) : asText(value)
}

/** Is itself as text, and what it says as JSON. */
class JsonOrText {
  readonly #text: string

  constructor(text: string) {
    this.#text = text
  }

  toString(): string {
    return this.#text
  }

  toJSON(): unknown {
    return JSON.parse(this.#text)
  }
}
