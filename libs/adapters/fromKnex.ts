import type { Queryable, Rows } from '../db/index.js'
import { type CutStatement, asTexts, cutAtPlaceholders } from './parameters.js'
import { requireMark, requireMethod } from './requireMethod.js'
import { rowsIn, snakeCased } from './rows.js'

/** `trx` of `knex.transaction`. */
export interface KnexTransaction {
  raw(sql: string, bindings: unknown): PromiseLike<unknown>
  readonly isTransaction?: boolean
  /** Only a transaction has this method; `knex` does not. */
  isCompleted(): boolean
}

export function fromKnex(trx: KnexTransaction): Queryable {
  requireMethod('trx', trx, 'raw', 'a transaction of Knex')
  requireMark('trx', trx.isTransaction === true, 'the trx of knex.transaction', 'the Knex instance')
  return {
    query: async <R>(text: string, given?: readonly unknown[]): Promise<Rows<R>> => {
      const cut = cutAtPlaceholders(text, asTexts(given))
      // Knex numbers its placeholders itself, and treats every unescaped question mark as one.
      const sql = cut.fragments.map((fragment) => fragment.replaceAll('?', String.raw`\?`)).join('?')
      try {
        const rows = rowsIn(await trx.raw(sql, cut.values))
        return { rows: rowsIn<R>(rows.map(snakeCased)) }
      } catch (error) {
        throw withoutStatement(error, cut)
      }
    },
  }
}

/**
 * Removes the statement, which Knex puts before the driver's message. The statement ends with its last placeholder (in
 * Knex's numbering) and the text after it.
 */
function withoutStatement(error: unknown, { fragments, values }: CutStatement): unknown {
  if (!(error instanceof Error)) return error
  const end = `${values.length === 0 ? '' : `$${values.length}`}${fragments.at(-1)} - `
  const at = error.message.indexOf(end)
  if (at !== -1) error.message = error.message.slice(at + end.length)
  return error
}
