/**
 * Wrappers of the SQL functions, for programs with their own relayer or scheduler. The first argument is a role of a
 * database (`database.as('symphony_executor')`), or a transaction in it. Arguments are checked before any I/O.
 */
export { isLeaseLostError, LeaseLostError, openDatabase, withSchema } from '../db/index.js'
export type { Database, DatabaseOptions, RoleHandle } from '../db/index.js'
export type {
  AttemptOutcome,
  ClaimedItem,
  CompletionVerdict,
  LateOutcome,
  LeaseRef,
  RecordedAttempt,
  RepairedLease,
} from '../outbox/index.js'
export * as inbox from './sql/inbox.js'
export * as lease from './sql/lease.js'
export * as outbox from './sql/outbox.js'
export * as scheduler from './sql/scheduler.js'
