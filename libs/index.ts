/** What an application imports: enough to enqueue, to handle messages, to hold a lease, and to know what went wrong. */
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
export { Leases, LostLeaseError } from './lease/index.js'
export type { AcquireOptions, LeaderOptions, Leadership, Lease } from './lease/index.js'
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
