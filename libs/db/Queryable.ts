import { InvalidArgumentError } from '../core/index.js'

/** The schema that is meant when nobody names another one. */
export const DEFAULT_SCHEMA = 'symphony'

export interface Rows<R> {
  readonly rows: R[]
}

/**
 * The smallest thing that can run a parameterised query. A `pg` client or pool satisfies it as it is; so does what
 * `database.as(role)` returns and the handle a transaction receives. Wrappers of database functions ask for this and
 * nothing more, so they run in our transactions and in the caller's own alike.
 */
export interface Queryable {
  query<R>(text: string, values?: readonly unknown[]): Promise<Rows<R>>
  /** The schema the product was deployed to. A foreign client has none: see `withSchema`. */
  readonly schema?: string
}

/** The same client, said to work on a deployment in another schema. */
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

/** `"My Schema"."claim_outbox_batch"`: the full name of one of our objects, as this queryable must spell it. */
export function qualify(queryable: Queryable, objectName: string): string {
  return `${quoteIdentifier(queryable.schema ?? DEFAULT_SCHEMA)}.${quoteIdentifier(objectName)}`
}

/** Always quoted, so that no name can be read as a keyword, be folded to lower case, or end the identifier early. */
export function quoteIdentifier(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}

/** Given to the callback of a transaction, and dead when it ends. */
export type Transaction = Queryable & { readonly schema: string }

export type TransactionCallback<T> = (tx: Transaction) => Promise<T>

/** A transaction in a role, parts of which may run in another one. */
export interface RoleTransaction extends Transaction {
  /**
   * Runs the callback inside this same transaction, in another role that the login may act as. When it ends, the transaction
   * is back in its own role, whatever the callback did; if it throws, what it did is undone. Until then this handle refuses to
   * be used: its statements would run in the wrong role.
   */
  asRole<T>(role: string, callback: TransactionCallback<T>): Promise<T>
}

export type RoleTransactionCallback<T> = (tx: RoleTransaction) => Promise<T>

/** A database in one role: the first argument of the wrappers of database functions. */
export interface RoleHandle extends Queryable {
  readonly role: string
  readonly schema: string
  transaction<T>(callback: RoleTransactionCallback<T>): Promise<T>
}

/** Use of one connection pool at this moment. */
export interface PoolUsage {
  /** Role of the connections; `all` where one pool serves every role, through a pooler. */
  readonly role: string
  readonly inUse: number
  readonly idle: number
  /** Callers that wait for a connection. */
  readonly waiting: number
}

/**
 * A client with an open transaction. The type refuses a `pg.Pool`, which runs each statement in a transaction of its own;
 * `requireTransaction` refuses more at run time.
 */
export type Tx = Queryable & {
  /** Present on a `pg.Pool` only. */
  readonly totalCount?: never
}

/**
 * Refuses a `tx` that is known not to be a transaction, by properties that the caller's library keeps on it: no statement is
 * sent. A statement outside the caller's transaction would commit a payment that the caller then rolls back.
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
