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
  InvalidCompletionStateError,
  InvalidParameterError,
  isLeaseLostError,
  LeaseLostError,
  openDatabase,
  withSchema,
} from './db/index.js'
export type { Database, DatabaseOptions, Queryable, RoleHandle } from './db/index.js'
export { enqueue, enqueueMany, OutboxStore, topicRails } from './outbox/index.js'
export type {
  ClaimedMessage,
  EnqueuedItem,
  EnqueueOptions,
  MessageReceipt,
  OutboxInstruction,
  OutboxMessage,
  OutboxState,
  TopicHandlers,
  TopicMessage,
} from './outbox/index.js'
