import type { PoolUse, RoleTransactionCallback, Rows } from './Queryable.js'

/** How statements reach the server in a role: over sessions of our own, or through a pooler. */
export interface Sessions {
  query<R>(role: string, text: string, values?: readonly unknown[]): Promise<Rows<R>>
  transaction<T>(role: string, callback: RoleTransactionCallback<T>): Promise<T>
  readonly use: readonly PoolUse[]
  /** Closes the connections that nobody is using. */
  rest(): void
  close(timeoutMs: number): Promise<void>
}
