/**
 * Connections, roles, transactions, LISTEN and errors of PostgreSQL. No other module calls the driver.
 *
 * A process logs in as a member of several roles and inherits none of them. Every statement names its role; there is no
 * default. Wrappers of database functions receive `database.as(role)`. One caller at a time uses a connection. The role
 * of a new connection is verified. It is set again after a caller that could have changed it.
 *
 * Every failure is a `DatabaseError` with a `disposition`: `retry` (no effect), `unknown` (it may have been committed,
 * so check first) or `fatal`. A crash of this process leaves only sessions, which the server ends by their timeouts.
 */
export { Database, openDatabase, openOrUse, withActor } from './Database.js'
export type { Actor, RoleProbe, RoleReport, RoleSource } from './Database.js'
export { call, onlyRow } from './call.js'
export type { TlsMode, TlsOptions } from './connectionTarget.js'
export {
  DatabaseClosedError,
  DatabaseError,
  IdempotencyConflictError,
  KeyReusedError,
  LeaseLostError,
  NestedTransactionError,
  NotCancellableError,
  RoleError,
  StaleStatementError,
  TlsError,
  TransactionAbortedError,
  TransactionBusyError,
  TransactionClosedError,
  TransactionPoolerError,
} from './errors.js'
export type { Disposition, FailureContext, Phase, RecordedOutcome } from './errors.js'
export { embeddedFolder, loadEmbedded } from './embedded.js'
export type { Listener, ListenOptions, ListenState, NotificationHandler } from './listen.js'
export { openLoginDatabase } from './LoginDatabase.js'
export type { LoginDatabase, LoginOptions, TransactionMode } from './LoginDatabase.js'
export { DATABASE_OPTIONS } from './options.js'
export type { DatabaseOptions } from './options.js'
export {
  beginSnapshot,
  DEFAULT_SCHEMA,
  qualify,
  quoteIdentifier,
  requireTransaction,
  undoOnError,
  withSchema,
} from './Queryable.js'
export type {
  PoolUsage,
  Queryable,
  RoleHandle,
  RoleTransaction,
  RoleTransactionCallback,
  Rows,
  Transaction,
  TransactionCallback,
  Tx,
} from './Queryable.js'
export type { ServerErrorFields } from './serverError.js'
export { RAISED_SQLSTATES, SQLSTATE_DISPOSITIONS } from './sqlstates.js'
export { isLeaseLostError, leaseLostErrorIn, toDatabaseError } from './toDatabaseError.js'
export { epochMicros, fromEpochMicros, isoMicros, minUuidV7At } from './statement.js'
