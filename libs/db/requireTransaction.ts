import { InvalidArgumentError } from '../core/index.js'
import { unwrapSchema, type Queryable } from './Queryable.js'

/**
 * A client with an open transaction. The type refuses a `pg.Pool`, which runs each statement in a transaction of its own;
 * `requireTransaction` refuses more at run time.
 */
export type TransactionClient = Queryable & {
  /** Present on a `pg.Pool` only. */
  readonly totalCount?: never
}

/**
 * Refuses a `tx` that is known not to be a transaction, by properties that the caller's library keeps on it: no statement is
 * sent. A statement outside the caller's transaction would commit a payment that the caller then rolls back.
 */
export function requireTransaction(tx: TransactionClient): void {
  if (typeof property(tx, 'query') !== 'function') {
    refuse(
      'an object without query()',
      'pass a pg client after BEGIN, or wrap the transaction with symphony-pg/adapters',
    )
  }
  const client = unwrapSchema(tx)
  if (typeof property(client, 'totalCount') === 'number' && typeof property(client, 'connect') === 'function') {
    refuse('a pg.Pool', 'call pool.connect(), run BEGIN on that client and pass the client')
  }
  if (isIdle(client)) refuse('a pg client outside a transaction', 'run BEGIN on the client before you pass it')
  if (typeof property(client, 'createQueryBuilder') === 'function') {
    refuse('an object of TypeORM', 'pass fromTypeOrm(manager) of symphony-pg/adapters')
  }
}

/**
 * True if the server reported no transaction (`I`) and the client has sent nothing since. A BEGIN that is not awaited clears
 * `readyForQuery` at once, so a client inside BEGIN is never taken for idle. A client without these properties is not idle.
 */
function isIdle(client: Queryable): boolean {
  if (property(client, 'readyForQuery') !== true) return false
  const status = property(client, 'getTransactionStatus')
  return typeof status === 'function' && Reflect.apply(status, client, []) === 'I'
}

function property(value: unknown, name: string): unknown {
  return value === null || value === undefined ? undefined : Reflect.get(Object(value), name)
}

function refuse(got: string, remedy: string): never {
  throw new InvalidArgumentError('tx', `expected a client with an open transaction, got ${got}; ${remedy}`)
}
