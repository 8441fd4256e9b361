/** Entry point for applications: `Symphony`, rails and adapters, the errors to catch, and the types of all these. */
export { fromDrizzle, fromKnex, fromKysely, fromPostgresJs, fromPrisma, fromTypeOrm } from './adapters/index.js'
export {
  ArgumentRangeError,
  InvalidArgumentError,
  InvalidPayloadError,
  PermanentFailureError,
  SymphonyError,
} from './core/index.js'
export type { Clock, ErrorCode, JsonObject, JsonValue } from './core/index.js'
export { DatabaseError, IdempotencyConflictError, NotCancellableError } from './db/index.js'
export type { TlsOptions, Tx } from './db/index.js'
export type { Inbox, InboxClaim, InboxHandler, InboxKey, InboxMessage, ReceivedMessage } from './inbox/index.js'
export { LostLeaseError } from './lease/index.js'
export type { AcquireOptions, LeaderOptions, Leadership, Lease, Leases } from './lease/index.js'
export { outcomeSchema } from './outbox/index.js'
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
  OutboxStore,
  PaymentOutcome,
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
export type {
  JobDefinition,
  JobRunStatus,
  JobStatus,
  MissedRuns,
  ScheduledClaim,
  SchedulerStore,
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
