import type { Queryable, Rows } from '../db/index.js'
import { asTexts } from './asText.js'
import { requireMethod } from './requireMethod.js'
import { rowsIn } from './rowsIn.js'

/** What is needed of TypeORM: the manager of `dataSource.transaction`, or a `QueryRunner` with an open transaction. */
export interface TypeOrmTransaction {
  query(text: string, parameters?: unknown[]): Promise<unknown>
}

export function fromTypeOrm(manager: TypeOrmTransaction): Queryable {
  requireMethod('manager', manager, 'query', 'the manager of a TypeORM transaction')
  return {
    query: async <R>(text: string, values?: readonly unknown[]): Promise<Rows<R>> => {
      try {
        return { rows: rowsIn<R>(await manager.query(text, asTexts(values))) }
      } catch (error) {
        throw driverErrorOf(error)
      }
    },
  }
}

/** TypeORM keeps the parameters in the error that it throws, and what the driver threw beside them. */
function driverErrorOf(error: unknown): unknown {
  return error instanceof Error && 'driverError' in error && error.driverError instanceof Error
    ? error.driverError
    : error
}
