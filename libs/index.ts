/** For applications: the object, its rails and adapters, the errors that an application catches, and the types of its members. */
export { fromDrizzle, fromKnex, fromKysely, fromPostgresJs, fromPrisma, fromTypeOrm } from './adapters/index.js'
export {
  ArgumentRangeError,
  InvalidArgumentError,
  InvalidPayloadError,
  PermanentFailureError,
  SymphonyError,
} from './core/index.js'
export type { Clock, ErrorCode, JsonObject, JsonValue } from './core/index.js'
export { DatabaseError, IdempotencyConflictError } from './db/index.js'
export type { TlsOptions, Tx } from './db/index.js'
export { Inbox } from './inbox/index.js'
export type { InboxClaim, InboxHandler, InboxKey, InboxMessage, ReceivedMessage } from './inbox/index.js'
export { Leases, LostLeaseError } from './lease/index.js'
export type { AcquireOptions, LeaderOptions, Leadership, Lease } from './lease/index.js'
export { OutboxStore } from './outbox/index.js'
export type {
  ClaimedMessage,
  DecisionResult,
  EnqueuedItem,
  HoldDecision,
  ItemState as PaymentState,
  ItemStatus as Payment,
  LedgerAttempt as Attempt,
  Message,
  OutboxState,
  OutboxStatus,
  ProposalView as Proposal,
  TopicHandler,
  TopicMessage,
} from './outbox/index.js'
export { readKeyRing } from './protection/index.js'
export type { MasterKey, MasterKeys } from './protection/index.js'
export { defineRail, NotSentError } from './rails/index.js'
export type {
  FieldClass,
  PaymentPayload,
  Rail,
  RailAnswer,
  RailContext,
  RailContract,
  RailRequest,
  RailStatus,
  StandardSchema,
  TopicContracts,
  UnknownPolicy,
} from './rails/index.js'
export { SchedulerStore } from './scheduler/index.js'
export type {
  JobDefinition,
  JobRunStatus,
  JobStatus,
  MissedRuns,
  ScheduledClaim,
  TimerDefinition,
  TimerStatus,
  WorkState,
} from './scheduler/index.js'
export { Symphony } from './symphony/index.js'
export type {
  EnqueueOptions,
  Events,
  Instruction,
  Operator,
  PauseTarget,
  Payments,
  PaymentEvent,
  PaymentSearch,
  SymphonyEvent,
  SymphonyOptions,
  SymphonyWorker as Worker,
  WorkerCounts,
  WorkerOptions,
} from './symphony/index.js'

/** Names of the earlier surface. They disappear with the other entry points of modules. */
export { createWorkerId } from './core/index.js'
export { isLeaseLostError, LeaseLostError, openDatabase, withSchema } from './db/index.js'
export type { Database, DatabaseOptions, Queryable, RoleHandle } from './db/index.js'
export { InboxContentDiffersError, InboxWorker } from './inbox/index.js'
export type { InboxWorkerEvent, InboxWorkerOptions } from './inbox/index.js'
export { enqueue, enqueueMany, topicRails } from './outbox/index.js'
export type { MessageLeaseRef, OutboxInstruction, TopicHandlers } from './outbox/index.js'
export { FieldKeyMissingError, FieldVault, SubjectErasedError } from './protection/index.js'
export type { SymphonyWorker } from './symphony/index.js'
