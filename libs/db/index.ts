/**
 * The only room that speaks to PostgreSQL's driver: connections, roles, transactions, LISTEN and what errors mean.
 *
 * A process logs in as a member of several roles that inherits none of them, and every statement names the role it runs
 * in; there is no default. `database.as(role)` is what wrappers of database functions receive. A connection is lent to
 * one caller at a time, is proved to be in its role when it is new and again before anyone else gets it, and never
 * leaves this room.
 *
 * Whatever fails is a `DatabaseError` with a `disposition`: `retry` (surely nothing happened), `unknown` (it may have
 * been committed: find out first) or `fatal`. A crash of this process leaves nothing behind but sessions, which the
 * server ends by the timeouts set on each of them.
 */
export type { PoolUse } from './PoolUse.js'
export { actingFor, type Actor } from './actingFor.js'
export { Database, openDatabase } from './Database.js'
export type { RoleHandle } from './Database.js'
export {
  DatabaseClosedError,
  DatabaseError,
  NestedTransactionError,
  PoolerInTheWayError,
  RoleError,
  StaleStatementError,
  TlsError,
  TransactionAbortedError,
  TransactionClosedError,
  TransactionLentError,
} from './errors.js'
export type { Disposition, FailureContext, Phase } from './errors.js'
export { openLoginDatabase } from './LoginDatabase.js'
export type { LoginDatabase, LoginOptions, TransactionMode } from './LoginDatabase.js'
export type { Listener, ListenOptions, ListenState, NotificationHandler } from './listen.js'
export type { DatabaseOptions } from './options.js'
export type { RoleProbe, RoleReport } from './probeRoles.js'
export { callFunction, DEFAULT_SCHEMA, qualify, quoteIdentifier, withSchema } from './Queryable.js'
export type { Queryable, Rows } from './Queryable.js'
export { requireTransaction } from './requireTransaction.js'
export type { TransactionClient } from './requireTransaction.js'
export {
  ActorUnverifiedError,
  AlreadyTerminalError,
  AppendOnlyError,
  ApprovalRequiredError,
  DispatchFrozenError,
  HeldError,
  IdempotencyConflictError,
  InboxTransitionError,
  InboxUnknownError,
  InvalidCompletionStateError,
  InvalidParameterError,
  KeyReusedError,
  LeaseLostError,
  RetryCeilingError,
  UnknownJobError,
} from './raisedErrors.js'
export type { RecordedOutcome } from './raisedErrors.js'
export { POSTGRES_STATES, RAISED_STATES } from './sqlstates.js'
export { epochMicros, firstUuidAt, fromEpochMicros, isoMicros } from './sqlTime.js'
export type { TlsMode, TlsOptions } from './tls.js'
export { isLeaseLostError, leaseLostErrorIn, toDatabaseError } from './toDatabaseError.js'
export type { RoleTransaction, RoleTransactionCallback, Transaction, TransactionCallback } from './roleTransaction.js'
