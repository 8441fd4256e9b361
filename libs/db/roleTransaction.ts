import type { Queryable } from './Queryable.js'

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
