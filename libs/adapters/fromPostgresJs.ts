import type { Queryable, Rows } from '../db/index.js'
import { asText } from './parameters.js'
import { requireMark, requireMethod } from './requireMethod.js'
import { rowsIn, snakeCased } from './rows.js'
import { withoutParameters } from './serverError.js'

/** `sql` in the callback of `sql.begin` or `sql.savepoint` of postgres.js. */
export interface PostgresJsTransaction {
  /** Only a transaction has this member; `sql` and a reserved connection do not. */
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
 * Wraps JSON text. postgres.js asks the server for parameter types and applies JSON.stringify for json and jsonb, which
 * would turn JSON text into a JSON string.
 */
function asParameter(value: unknown): unknown {
  return typeof value === 'string' && /^[[{]/.test(value) ? new JsonOrText(value) : asText(value)
}

/**
 * Text that postgres.js sends unchanged: as JSON (`toJSON`) for json and jsonb, as text (`toString`) for other types.
 */
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
