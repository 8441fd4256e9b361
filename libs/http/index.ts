/**
 * HTTP server of Symphony's processes: health, metrics and, if enabled, the API.
 *
 * Each route uses one database role, whose privileges limit the route. The server keeps no durable state: after a
 * crash, clients repeat unanswered requests with their idempotency keys.
 */
export { bridgeToMeter } from './bridgeToMeter.js'
export type { ObservingMeter } from './bridgeToMeter.js'
export { createHttpServer } from './createHttpServer.js'
export type { HttpServerOptions } from './createHttpServer.js'
export { buildHttpServer } from './buildHttpServer.js'
export type { HttpServer, HttpServerParts, ListenAddress } from './buildHttpServer.js'
export { dashboardFolder } from './DashboardFiles.js'
export { describeDatabases } from './routes/overview.js'
export type { Api, ApiRoles, StatusSnapshot, PayloadProtection } from './Api.js'
export type { ApiTypes } from './ApiTypes.js'
export type { Identity } from './access/Identity.js'
export { readOidcOptions } from './access/oidcOptions.js'
export type { OidcOptions, SignInOptions } from './access/oidcOptions.js'
export type { HttpLimits } from './limits.js'
export { MetricsEndpoint } from './routes/health.js'
export { readWebhookSources } from './webhookSources.js'
export type { WebhookSource, WebhookSources } from './webhookSources.js'
export type { WebhookReceiver } from './routes/webhooks.js'
export type { RouteResponse, Example, Route } from './routes/route.js'
export { PROBLEMS } from './Problem.js'
export type { Problem, ProblemCode } from './Problem.js'
export { openApiDocument, problemCodesOf } from './openApi.js'

/** Types of the JSON bodies. The dashboard uses only these types. */
export type {
  Alert,
  Alerts,
  Databases,
  DatabaseView,
  ErrorCount,
  ItemsEvent,
  LatencyStats,
  Me,
  Pause,
  Pauses,
  QueueStats,
  Rail,
  Rails,
  Scope,
  SignedOut,
  SignInMethods,
  StartedSignIn,
  Status,
  StatusEvent,
  ThroughputMinute,
  WorkerHistory,
  Workers,
  WorkerView,
} from './shapes/overview.js'
export type { Changed } from './shapes/common.js'
export type {
  Approved,
  Cancelled,
  Contradiction,
  ContradictionPage,
  DeadLetter,
  Decided,
  DlqPage,
  Hold,
  HoldPage,
  HoldPlaced,
  NoteAdded,
  NoteBody,
  PauseBody,
  ProposalPage,
  ReasonBody,
  ResolveBody,
  ReturnBody,
  ReturnRecorded,
  Reviewed,
  Withdrawn,
} from './shapes/decisions.js'
export type { Dispatch } from './routes/dispatch.js'
export type { InboxMessageView, InboxPage, Revived } from './routes/inbox.js'
export type {
  Accepted,
  AcceptedBatch,
  Instruction,
  InstructionBatch,
  InstructionView,
  ProposedInstruction,
  ProposedPayment,
} from './shapes/instructions.js'
export type { LeasePage, LeaseView } from './routes/leases.js'
export type { Limit, LimitApproved, LimitBody, LimitProposal, LimitProposed, Limits } from './routes/limits.js'
export type {
  Attempt,
  Proof,
  ProofRow,
  InstructionItem,
  OutboxEvent,
  OutboxCounts,
  OutboxItem,
  OutboxPage,
  Proposal,
  Timeline,
} from './shapes/outbox.js'
export type {
  BankEntry,
  Finding,
  FindingClosed,
  FindingPage,
  Reconciled,
  Run,
  RunPage,
} from './shapes/reconciliation.js'
export type { LatencySeries, RailStatistics, RailStatisticsList, Series, SeriesPoint } from './shapes/series.js'
export type {
  Job,
  JobBody,
  JobDefined,
  JobDeleted,
  JobRun,
  JobRunPage,
  Jobs,
  JobTriggered,
  Timer,
  TimerBody,
  TimerPage,
  TimerScheduled,
} from './shapes/scheduler.js'
