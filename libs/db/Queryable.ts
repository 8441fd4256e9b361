import { InvalidArgumentError } from '../core/index.js'

export const DEFAULT_SCHEMA = 'symphony'

export interface Rows<R> {
  readonly rows: R[]
}

/**
 * Minimal interface for running a parameterised query. A `pg` client or pool satisfies it, and so do
 * `database.as(role)` and the handle of a transaction. Wrappers of database functions need nothing more, so they run in
 * our transactions and in the caller's own.
 */
export interface Queryable {
  query<R>(text: string, values?: readonly unknown[]): Promise<Rows<R>>
  /** Schema of the deployment. A `pg` client has none: see `withSchema`. */
  readonly schema?: string
}

/** Returns the same client for a deployment in another schema. */
export function withSchema(queryable: Queryable, schema: string): Queryable & { readonly schema: string } {
  const wrapper: Queryable & { readonly schema: string } = {
    schema,
    query: (text, values) => queryable.query(text, values),
  }
  WRAPPED.set(wrapper, unwrapSchema(queryable))
  return wrapper
}

/** Returns the client behind `withSchema`, or the queryable itself. */
function unwrapSchema(queryable: Queryable): Queryable {
  return WRAPPED.get(queryable) ?? queryable
}

const WRAPPED = new WeakMap<Queryable, Queryable>()

/** Returns the full quoted name of a deployed object, such as `"My Schema"."claim_outbox_batch"`. */
export function qualify(queryable: Queryable, objectName: string): string {
  return `${quoteIdentifier(queryable.schema ?? DEFAULT_SCHEMA)}.${quoteIdentifier(objectName)}`
}

/** Quotes every name, so that no name is read as a keyword, is folded to lower case, or ends the identifier early. */
export function quoteIdentifier(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}

/** Handle for the callback of a transaction, unusable after its end. */
export type Transaction = Queryable & { readonly schema: string }

export type TransactionCallback<T> = (tx: Transaction) => Promise<T>

/** Transaction in one role. It can run parts of its work in another role. */
export interface RoleTransaction extends Transaction {
  /**
   * Runs the callback inside this transaction in another role of the login. Afterwards the transaction is always in its
   * own role again. If the callback throws, its changes are rolled back. While the callback runs, this handle refuses
   * queries, because they would run in the wrong role.
   */
  asRole<T>(role: string, callback: TransactionCallback<T>): Promise<T>
}

export type RoleTransactionCallback<T> = (tx: RoleTransaction) => Promise<T>

/** Database in one role: the first argument of the wrappers of database functions. */
export interface RoleHandle extends Queryable {
  readonly role: string
  readonly schema: string
  transaction<T>(callback: RoleTransactionCallback<T>): Promise<T>
}

export interface PoolUsage {
  /** Role of the connections; `all` if one pool serves every role through a pooler. */
  readonly role: string
  readonly inUse: number
  readonly idle: number
  readonly waiting: number
}

/**
 * Client with an open transaction. The type refuses only a `pg.Pool`, which runs each statement in its own transaction.
 * `requireTransaction` detects some other objects without a transaction at run time.
 */
export type Tx = Queryable & {
  /** Property of a `pg.Pool` only. */
  readonly totalCount?: never
}

/**
 * Refuses a `tx` that is known not to be a transaction. It reads properties that the caller's library keeps on the
 * client, and sends no statement. A statement outside the caller's transaction would commit a payment that the caller
 * then rolls back.
 */
export function requireTransaction(tx: Tx): void {
  if (typeof property(tx, 'query') !== 'function') {
    refuse(
      'an object without query()',
      'pass a pg client after BEGIN, or wrap the transaction with fromPrisma, fromDrizzle or another adapter',
    )
  }
  const client = unwrapSchema(tx)
  if (typeof property(client, 'totalCount') === 'number' && typeof property(client, 'connect') === 'function') {
    refuse('a pg.Pool', 'call pool.connect(), run BEGIN on that client and pass the client')
  }
  if (isIdle(client)) refuse('a pg client outside a transaction', 'run BEGIN on the client before you pass it')
  if (typeof property(client, 'createQueryBuilder') === 'function') {
    refuse('an object of TypeORM', 'pass fromTypeOrm(manager)')
  }
}

/**
 * Returns true if the server reported no transaction (`I`) and the client has sent nothing since. A BEGIN that is not
 * awaited clears `readyForQuery` at once, so a client inside BEGIN is never idle. A client without these properties
 * counts as not idle.
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

/** Makes the transaction read-only with one snapshot. Must be the first statement of the transaction. */
export async function beginSnapshot(tx: Queryable): Promise<void> {
  await tx.query('SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY')
}

/**
 * Runs the body and undoes its work if the body throws. With a role handle, the body runs in a new transaction. In a
 * transaction of the caller, the work is undone by a rollback to a savepoint.
 */
export async function undoOnError<T>(tx: Queryable, body: (tx: Queryable) => Promise<T>): Promise<T> {
  if (isRoleHandle(tx)) return tx.transaction(body)
  await tx.query('SAVEPOINT symphony_enqueue')
  try {
    const result = await body(tx)
    await tx.query('RELEASE SAVEPOINT symphony_enqueue')
    return result
  } catch (error) {
    await tx.query('ROLLBACK TO SAVEPOINT symphony_enqueue')
    // ROLLBACK TO keeps the savepoint. An outer `undoOnError` uses the same name, and would find this savepoint instead
    // of its own.
    await tx.query('RELEASE SAVEPOINT symphony_enqueue')
    throw error
  }
}

function isRoleHandle(tx: Queryable): tx is RoleHandle {
  return 'transaction' in tx && 'role' in tx
}
