import type { Queryable, Rows } from '../db/index.js'
import { asTexts, cutAtPlaceholders } from './parameters.js'
import { requireMark, requireMethod } from './requireMethod.js'
import { rowsIn } from './rows.js'
import { withoutParameters } from './serverError.js'

/** `tx` of Drizzle's `db.transaction`, with any driver. */
export interface DrizzleTransaction {
  execute(query: unknown): PromiseLike<unknown>
  /** Only a transaction has this method; `db` does not. */
  rollback(): unknown
}

/** Drizzle's `sql`, which builds its queries. */
export interface DrizzleSql {
  (strings: TemplateStringsArray, ...parameters: unknown[]): unknown
  param(value: unknown): unknown
}

export function fromDrizzle(tx: DrizzleTransaction, sql: DrizzleSql): Queryable {
  requireMethod('tx', tx, 'execute', 'a transaction of Drizzle')
  requireMark('tx', typeof tx.rollback === 'function', 'the tx of db.transaction', 'the db of Drizzle')
  requireMethod('sql', sql, 'param', 'the sql of drizzle-orm')
  return {
    query: async <R>(text: string, given?: readonly unknown[]): Promise<Rows<R>> => {
      const { fragments, values } = cutAtPlaceholders(text, asTexts(given))
      const strings = Object.assign(fragments, { raw: fragments })
      const query = sql(strings, ...values.map((value) => sql.param(value)))
      try {
        // node-postgres returns a result object, postgres.js the rows.
        return { rows: rowsIn<R>(await tx.execute(query)) }
      } catch (error) {
        throw withoutParameters(causeOf(error))
      }
    },
  }
}

/** Returns the driver's error. Drizzle wraps it in an error whose message contains the parameters. */
function causeOf(error: unknown): unknown {
  return error instanceof Error && 'params' in error && error.cause instanceof Error ? error.cause : error
}
