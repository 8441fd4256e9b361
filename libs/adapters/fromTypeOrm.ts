import type { Queryable, Rows } from '../db/index.js'
import { asTexts } from './parameters.js'
import { requireMark, requireMethod } from './requireMethod.js'
import { rowsIn } from './rows.js'

/** Manager of TypeORM's `dataSource.transaction`, or a `QueryRunner` with an open transaction. */
export interface TypeOrmTransaction {
  query(text: string, parameters?: unknown[]): Promise<unknown>
  /** Query runner of a manager. `dataSource.manager` has none. */
  readonly queryRunner?: { readonly isTransactionActive: boolean } | undefined
  readonly isTransactionActive?: boolean
  /** Present only on a `DataSource`. */
  readonly initialize?: never
}

export function fromTypeOrm(manager: TypeOrmTransaction): Queryable {
  requireMethod('manager', manager, 'query', 'the manager of a TypeORM transaction')
  requireOpen(manager)
  return {
    query: async <R>(text: string, values?: readonly unknown[]): Promise<Rows<R>> => {
      requireOpen(manager)
      try {
        return { rows: rowsIn<R>(await manager.query(text, asTexts(values))) }
      } catch (error) {
        throw driverErrorOf(error)
      }
    },
  }
}

/**
 * Throws outside a transaction. Called again before each statement, because a `QueryRunner` outlives its transaction.
 */
function requireOpen(manager: TypeOrmTransaction): void {
  const { isTransactionActive = false } = manager.queryRunner ?? manager
  requireMark(
    'manager',
    isTransactionActive,
    'the manager of dataSource.transaction',
    'a manager outside a transaction',
  )
}

/** Returns the driver's error. TypeORM wraps it in an error that contains the parameters. */
function driverErrorOf(error: unknown): unknown {
  return error instanceof Error && 'driverError' in error && error.driverError instanceof Error
    ? error.driverError
    : error
}
