import type { Queryable, Rows } from '../db/index.js'
import { asTexts } from './asText.js'
import { cutAtPlaceholders } from './placeholders.js'
import { requireMethod } from './requireMethod.js'
import { rowsIn } from './rowsIn.js'
import { snakeCased } from './snakeCased.js'

/** What is needed of Knex: the `trx` of `knex.transaction`. */
export interface KnexTransaction {
  raw(sql: string, bindings: unknown): PromiseLike<unknown>
}

export function fromKnex(trx: KnexTransaction): Queryable {
  requireMethod('trx', trx, 'raw', 'a transaction of Knex')
  return {
    query: async <R>(text: string, given?: readonly unknown[]): Promise<Rows<R>> => {
      const { fragments, values } = cutAtPlaceholders(text, asTexts(given))
      // Knex numbers its placeholders itself, and takes every other question mark for one unless it is escaped.
      const sql = fragments.map((fragment) => fragment.replaceAll('?', String.raw`\?`)).join('?')
      try {
        const rows = rowsIn(await trx.raw(sql, values))
        return { rows: rowsIn<R>(rows.map(snakeCased)) }
      } catch (error) {
        throw withoutStatement(error)
      }
    },
  }
}

/**
 * Knex writes the statement, with all its values, before the message of the driver's error. The stack was taken before that:
 * its first line is the message alone.
 */
function withoutStatement(error: unknown): unknown {
  if (!(error instanceof Error)) return error
  const { message, stack = '' } = error
  for (let at = message.indexOf(SEPARATOR); at !== -1; at = message.indexOf(SEPARATOR, at + 1)) {
    const rest = message.slice(at + SEPARATOR.length)
    if (!stack.includes(`: ${rest}\n`)) continue
    error.message = rest
    return error
  }
  return error
}

const SEPARATOR = ' - '
