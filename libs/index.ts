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
  ActorUnverifiedError,
  AlreadyTerminalError,
  ApprovalRequiredError,
  DatabaseError,
  DispatchFrozenError,
  HeldError,
  IdempotencyConflictError,
  InboxTransitionError,
  InboxUnknownError,
  InvalidCompletionStateError,
  InvalidParameterError,
  isLeaseLostError,
  LeaseLostError,
  openDatabase,
  UnknownJobError,
  withSchema,
} from './db/index.js'
export type { Database, DatabaseOptions, Queryable, RoleHandle } from './db/index.js'
export { Inbox, InboxContentDiffersError, InboxWorker } from './inbox/index.js'
export type {
  InboxHandler,
  InboxKey,
  InboxMessage,
  InboxWorkerEvent,
  InboxWorkerOptions,
  ReceivedMessage,
} from './inbox/index.js'
export { Leases, LostLeaseError } from './lease/index.js'
export type { AcquireOptions, LeaderOptions, Leadership, Lease } from './lease/index.js'
export { enqueue, enqueueMany, OutboxStore, topicRails } from './outbox/index.js'
export type {
  ClaimedMessage,
  EnqueuedItem,
  EnqueueOptions,
  Message,
  MessageLeaseRef,
  OutboxInstruction,
  OutboxState,
  TopicHandlers,
  TopicMessage,
} from './outbox/index.js'
export { CardNumberRefusedError, defineRail, InvalidPayloadError } from './rails/index.js'
export type { PaymentPayload, Rail, RailContract, TopicContracts } from './rails/index.js'
export { FieldKeyMissingError, FieldVault, SubjectErasedError } from './protection/index.js'
export { SchedulerStore } from './scheduler/index.js'
export type { JobDefinition, TimerDefinition } from './scheduler/index.js'
export { Symphony } from './symphony/index.js'
export type {
  Instruction,
  SymphonyEvent,
  SymphonyOptions,
  SymphonyWorker,
  WorkerCounts,
  WorkerOptions,
} from './symphony/index.js'
