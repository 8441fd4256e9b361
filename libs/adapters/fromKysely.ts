import { randomUUID } from 'node:crypto'
import type { Queryable, Rows } from '../db/index.js'
import { asTexts } from './parameters.js'
import { requireMark, requireMethod } from './requireMethod.js'
import { rowsIn } from './rows.js'

/** `trx` of Kysely's `db.transaction().execute`, or a controlled transaction. */
export interface KyselyTransaction {
  /** Always true on a transaction. The type on the Kysely instance is `boolean`. */
  readonly isTransaction: true
  withoutPlugins(): { executeQuery(query: unknown): Promise<unknown> }
}

export function fromKysely(trx: KyselyTransaction): Queryable {
  requireMethod('trx', trx, 'withoutPlugins', 'a transaction of Kysely')
  requireMark('trx', trx.isTransaction, 'the trx of db.transaction().execute', 'the Kysely instance')
  // CamelCasePlugin would rename the columns that Symphony reads by name.
  const executor = trx.withoutPlugins()
  return {
    query: async <R>(text: string, values?: readonly unknown[]): Promise<Rows<R>> => {
      return { rows: rowsIn<R>(await executor.executeQuery(rawQuery(text, asTexts(values)))) }
    },
  }
}

/** Returns a `CompiledQuery` like that of Kysely's `CompiledQuery.raw`. */
function rawQuery(sql: string, parameters: readonly unknown[]): object {
  const query = { kind: 'RawNode', sqlFragments: [sql], parameters: [] }
  return { sql, parameters, query, queryId: { queryId: randomUUID() } }
}
