/** What an application imports: enough to enqueue, claim and complete, and to know what went wrong. */
export {
  AppError,
  ArgumentRangeError,
  createWorkerId,
  InvalidArgumentError,
  PermanentFailureError,
} from './core/index.js'
export type { JsonObject, JsonValue } from './core/index.js'
export {
  AlreadyTerminalError,
  ApprovalRequiredError,
  DatabaseError,
  HeldError,
  IdempotencyConflictError,
  InboxTransitionError,
  InboxUnknownError,
  InvalidCompletionStateError,
  InvalidParameterError,
  isLeaseLostError,
  LeaseLostError,
  openDatabase,
  withSchema,
} from './db/index.js'
export type { Database, DatabaseOptions, Queryable, RoleHandle } from './db/index.js'
export { Inbox, InboxContentDiffersError, InboxWorker, InboxWorkStore } from './inbox/index.js'
export type {
  ClaimedMessage,
  EnqueuedMessage,
  InboxHandler,
  InboxKey,
  InboxMessage,
  InboxWorkerEvent,
  InboxWorkerOptions,
} from './inbox/index.js'
export { enqueue, enqueueMany } from './outbox/index.js'
export type { EnqueuedItem, EnqueueOptions, OutboxInstruction, OutboxState } from './outbox/index.js'
