/** What an application imports: enough to enqueue, claim and complete, and to know what went wrong. */
export { AppError, ArgumentRangeError, createWorkerId, InvalidArgumentError } from './core/index.js'
export type { JsonObject, JsonValue } from './core/index.js'
export {
  AlreadyTerminalError,
  ApprovalRequiredError,
  DatabaseError,
  HeldError,
  IdempotencyConflictError,
  InvalidCompletionStateError,
  InvalidParameterError,
  isLeaseLostError,
  LeaseLostError,
  openDatabase,
  UnknownJobError,
  withSchema,
} from './db/index.js'
export type { Database, DatabaseOptions, Queryable, RoleHandle } from './db/index.js'
export { enqueue, enqueueMany } from './outbox/index.js'
export type { EnqueuedItem, EnqueueOptions, OutboxInstruction, OutboxState } from './outbox/index.js'
export { SchedulerStore } from './scheduler/index.js'
export type { JobDefinition, TimerDefinition } from './scheduler/index.js'
