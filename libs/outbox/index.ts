/**
 * Payment outbox. An item is pending until its terminal outcome, DISPATCHED or FAILED.
 *
 * | state | moved by | a crash there leaves |
 * | --- | --- | --- |
 * | due, scheduled | `claimOutboxBatch` leases it, `cancelOutboxItem` ends it | the row |
 * | leased (in flight) | its holder completes, renews or releases it; `repairExpiredLeases` or another claim ends an expired lease | a lease that expires, then a ledger row and the mark "outcome unknown" |
 * | blocked | the end of the ordered item before it; the end of a pause | the row |
 * | held | operators, two of them for a decision about money | the row |
 * | DISPATCHED, FAILED | terminal | a ledger row; the queue row is gone |
 *
 * A restore or a failover that may have lost commits freezes dispatch. Nothing is claimed until an operator lifts the
 * freeze (`liftDispatchFreeze`), and every waiting item has an unknown outcome. Each run of a server is an epoch, and
 * every claim names the epoch that its worker has checked.
 *
 * SQL functions decide all of this; this module calls them. A worker without a live lease saves its outcome with
 * `recordLateOutcome`.
 */
export {
  beginOutboxDispatch,
  claimOutboxBatch,
  completeOutboxAttempt,
  completeOutboxAttempts,
  enqueuePaymentOutbox,
  enqueuePaymentOutboxBatch,
  holdLeasedOutboxItem,
  purgeLedgerProjection,
  recordLateOutcome,
  releaseOutboxLease,
  releaseOutboxLeases,
  renewOutboxLease,
  renewOutboxLeases,
} from './db.js'
export type { ClaimOptions, EnqueueCallOptions } from './db.js'
export {
  approveOutboxProposal,
  noteOutboxItem,
  placeOutboxHold,
  recordOutboxReturn,
  redriveOutboxItem,
  resolveOutboxHold,
  reviewOutboxContradiction,
  withdrawOutboxProposal,
} from './decide.js'
export {
  checkDispatchEpoch,
  declareOutboxRails,
  deregisterOutboxWorker,
  freezeDispatch,
  heartbeatOutboxWorker,
  liftDispatchFreeze,
  nextOutboxEvent,
  pauseOutbox,
  repairExpiredLeases,
  resumeOutbox,
  setParticipantOutboxPolicy,
} from './operate.js'
export type { DeclaredRail } from './operate.js'
export { approveOutboxLimit, proposeOutboxLimit, withdrawOutboxLimit } from './limits.js'
export type { LimitKind, LimitRule } from './limits.js'
export { cancelOutboxInstruction, cancelOutboxItem } from './cancel.js'
export { EpochFile } from './EpochFile.js'
export { enqueue, enqueueChecked, enqueueMany, proposeChecked } from './enqueue.js'
export type { EnqueueChecks, EnqueueOptions, InstructionEncryptor } from './enqueue.js'
export type { OnRelayerEvent, RelayerEvent } from './events.js'
export { outcomeSchema } from './paymentOutcome.js'
export type { PaymentOutcome } from './paymentOutcome.js'
export { parseInstruction } from './parseInstruction.js'
export type { ParseInstructionOptions } from './parseInstruction.js'
export { RelayerOptionError } from './options.js'
export type { RelayerOptions } from './options.js'
export { OutboxRelayer } from './OutboxRelayer.js'
export type { RelayerCounts } from './RelayerTally.js'
export { OutboxStore } from './OutboxStore.js'
export type {
  AbandonOptions,
  ClaimedMessage,
  ClaimRequest,
  Message,
  MessageLeaseRef,
  OutboxStoreDatabase,
  OutboxStoreOptions,
} from './OutboxStore.js'
export { RailWarnings } from './RailWarnings.js'
export type { EnqueueWarning } from './RailWarnings.js'
export { activeTraceContext, traceContextFromHeaders } from './traces.js'
export {
  readContradiction,
  readContradictionPage,
  readFailedItems,
  readHeldItems,
  readProposal,
  readProposalPage,
  readProposalsOf,
} from './reads/decisions.js'
export type { ContradictionSearch, ProposalSearch } from './reads/decisions.js'
export { isLimitProposal, readLimits } from './reads/limits.js'
export {
  describeFreezeCause,
  readDispatchEpoch,
  readLatestAttempts,
  readDatabaseTime,
  readOutboxStatus,
  readPauses,
  readPausesOf,
  readRailFields,
  readTopicsAmong,
  readRailQueues,
  readServerVersion,
  readThroughput,
  readWorkerReports,
} from './reads/status.js'
export { readWorkerHistory } from './reads/workerHistory.js'
export {
  readAttempts,
  readAttemptViews,
  readEventViews,
  readInstructionIds,
  readItemEvents,
  readItems,
  readItemViews,
  readParticipantOf,
  readRedrives,
  readReplacements,
} from './reads/items.js'
export { readReplays } from './reads/replay.js'
export type { ItemReplay, TrailGap } from './reads/replay.js'
export type { PendingRow, TrailStep } from './foldTrail.js'
export { proposePaymentOutbox, type ProposedItem } from './propose.js'
export { findItems, readRecentlyChanged } from './reads/find.js'
export { searchItems, searchParticipant } from './reads/search.js'
export type { HeldItemSearch } from './reads/decisions.js'
export type { CreatedRange, ItemSearch } from './reads/search.js'
export { DestinationHash, DestinationHasher, OTHER_KEY } from './DestinationHasher.js'
export type { HasherCounts, HasherEvent } from './DestinationHasher.js'
export { readHashing, readNextDestinations, storeSearchDestinations } from './reads/destinations.js'
export type { BlockDestinations, Hashing } from './reads/destinations.js'
export { countProjected, isByAmount, narrowProjected, searchProjected } from './reads/projected.js'
export type {
  ProjectedCursor,
  ProjectedFilter,
  ProjectedSearch,
  ProjectedState,
  SearchSort,
  StateCounts,
} from './reads/projected.js'
export { LATENCY_RANGES, readLatencySeries, readRailStatistics, readSeries } from './reads/series.js'
export type { RailStatistics, SeriesCounts, SeriesGrain, SeriesQuery, SeriesRange } from './reads/series.js'
export { readStatement, STATEMENT_FIELDS } from './reads/statement.js'
export type { StatementLine, StatementSearch } from './reads/statement.js'
export { topicRails } from './topicRails.js'
export type { TopicContext, TopicHandler, TopicHandlers, TopicMessage, TopicOptions } from './topicRails.js'
export type {
  DispatchEpoch,
  ItemEvent,
  ItemFreeze,
  ItemKind,
  ItemState,
  ItemStatus,
  KindStatus,
  LedgerAttempt,
  OutboxStatus,
  Page,
  ShownMoney,
} from './statusTypes.js'
export type {
  ApprovedProposal,
  AttemptAction,
  AttemptOutcome,
  AttemptState,
  CancelledItem,
  ClaimedItem,
  CompletionState,
  CompletionVerdict,
  DecisionResult,
  DispatchFreeze,
  EnqueuedItem,
  EpochCheck,
  EpochRecord,
  FreezeCause,
  HoldDecision,
  LateOutcome,
  LateOutcomeEvent,
  LeaseRef,
  LeaseRelease,
  LeaseRenewal,
  OrderedFailurePolicy,
  OutboxEvidence,
  OutboxInstruction,
  OutboxState,
  PauseKind,
  PaymentReturn,
  RecordedAttempt,
  RecordedReturn,
  RepairedLease,
  UnleasedTakeover,
  UnrepairedLease,
} from './types.js'
export type {
  AttemptView,
  ContradictionView,
  ErrorView,
  EventView,
  FailedItemView,
  HeldItemView,
  NoteView,
  ItemView,
  LatencyView,
  LimitProposalView,
  LimitRuleView,
  LimitsView,
  LimitView,
  PauseView,
  ProposalStatus,
  ProposalView,
  RailQueue,
  ThroughputView,
  WorkerReport,
} from './views.js'
export {
  readKnownRails,
  readSkippedHead,
  requireKnownName,
  requireKnownSearch,
  UnknownNameError,
} from './reads/pausable.js'
export type { SkippedHead } from './reads/pausable.js'
