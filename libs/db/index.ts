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
export { actingFor, Database, openDatabase } from './Database.js'
export type { Actor, RoleProbe, RoleReport } from './Database.js'
export { call, onlyRow } from './call.js'
export type { TlsMode, TlsOptions } from './connectionTarget.js'
export {
  ActorUnverifiedError,
  AlreadyTerminalError,
  AppendOnlyError,
  ApprovalRequiredError,
  DatabaseClosedError,
  DatabaseError,
  DispatchFrozenError,
  HeldError,
  IdempotencyConflictError,
  InboxTransitionError,
  InboxUnknownError,
  InvalidCompletionStateError,
  InvalidParameterError,
  KeyReusedError,
  LeaseLostError,
  NestedTransactionError,
  PoolerInTheWayError,
  RetryCeilingError,
  RoleError,
  StaleStatementError,
  TlsError,
  TransactionAbortedError,
  TransactionClosedError,
  TransactionLentError,
  UnknownJobError,
} from './errors.js'
export type { Disposition, FailureContext, Phase, RecordedOutcome } from './errors.js'
export type { Listener, ListenOptions, ListenState, NotificationHandler } from './listen.js'
export { openLoginDatabase } from './LoginDatabase.js'
export type { LoginDatabase, LoginOptions, TransactionMode } from './LoginDatabase.js'
export type { DatabaseOptions } from './options.js'
export { DEFAULT_SCHEMA, qualify, quoteIdentifier, requireTransaction, withSchema } from './Queryable.js'
export type {
  PoolUse,
  Queryable,
  RoleHandle,
  RoleTransaction,
  RoleTransactionCallback,
  Rows,
  Transaction,
  TransactionCallback,
  TransactionClient,
} from './Queryable.js'
export { POSTGRES_STATES, RAISED_STATES } from './sqlstates.js'
export { isLeaseLostError, leaseLostErrorIn, toDatabaseError } from './toDatabaseError.js'
export { epochMicros, firstUuidAt, fromEpochMicros, isoMicros } from './statement.js'
