import type {
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
  Status,
  StatusEvent,
  ThroughputMinute,
  Workers,
  WorkerView,
} from './shapes/overview.js'
import type { Changed } from './shapes/common.js'
import type {
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
import type { Dispatch } from './routes/dispatch.js'
import type { InboxMessageView, InboxPage, Revived } from './routes/inbox.js'
import type {
  Accepted,
  AcceptedBatch,
  Instruction,
  InstructionBatch,
  InstructionView,
  ProposedInstruction,
  ProposedPayment,
} from './shapes/instructions.js'
import type { LeasePage, LeaseView } from './routes/leases.js'
import type { Limit, LimitApproved, LimitBody, LimitProposal, LimitProposed, Limits } from './routes/limits.js'
import type {
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
import type {
  BankEntry,
  Finding,
  FindingClosed,
  FindingPage,
  Reconciled,
  Run,
  RunPage,
} from './shapes/reconciliation.js'
import type {
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
import type { LatencySeries, RailStatistics, RailStatisticsList, Series, SeriesPoint } from './shapes/series.js'
import type { Problem } from './Problem.js'

/** Types of the JSON bodies, by their names in the OpenAPI document. */
export interface ApiTypes {
  readonly Accepted: Accepted
  readonly AcceptedBatch: AcceptedBatch
  readonly Alert: Alert
  readonly Alerts: Alerts
  readonly Approved: Approved
  readonly Cancelled: Cancelled
  readonly Attempt: Attempt
  readonly BankEntry: BankEntry
  readonly Changed: Changed
  readonly Contradiction: Contradiction
  readonly ContradictionPage: ContradictionPage
  readonly DatabaseView: DatabaseView
  readonly Databases: Databases
  readonly DeadLetter: DeadLetter
  readonly Decided: Decided
  readonly Dispatch: Dispatch
  readonly DlqPage: DlqPage
  readonly ErrorCount: ErrorCount
  readonly Finding: Finding
  readonly FindingClosed: FindingClosed
  readonly FindingPage: FindingPage
  readonly Hold: Hold
  readonly HoldPage: HoldPage
  readonly HoldPlaced: HoldPlaced
  readonly NoteAdded: NoteAdded
  readonly NoteBody: NoteBody
  readonly InboxMessageView: InboxMessageView
  readonly InboxPage: InboxPage
  readonly Instruction: Instruction
  readonly InstructionBatch: InstructionBatch
  readonly InstructionItem: InstructionItem
  readonly InstructionView: InstructionView
  readonly ProposedInstruction: ProposedInstruction
  readonly ProposedPayment: ProposedPayment
  readonly ItemsEvent: ItemsEvent
  readonly Job: Job
  readonly JobBody: JobBody
  readonly JobDefined: JobDefined
  readonly JobDeleted: JobDeleted
  readonly JobRun: JobRun
  readonly JobRunPage: JobRunPage
  readonly JobTriggered: JobTriggered
  readonly Jobs: Jobs
  readonly LatencySeries: LatencySeries
  readonly LatencyStats: LatencyStats
  readonly LeasePage: LeasePage
  readonly LeaseView: LeaseView
  readonly Limit: Limit
  readonly LimitApproved: LimitApproved
  readonly LimitBody: LimitBody
  readonly LimitProposal: LimitProposal
  readonly LimitProposed: LimitProposed
  readonly Limits: Limits
  readonly Me: Me
  readonly OutboxCounts: OutboxCounts
  readonly OutboxEvent: OutboxEvent
  readonly OutboxItem: OutboxItem
  readonly OutboxPage: OutboxPage
  readonly Pause: Pause
  readonly PauseBody: PauseBody
  readonly Pauses: Pauses
  readonly Problem: Problem
  readonly Proof: Proof
  readonly ProofRow: ProofRow
  readonly Proposal: Proposal
  readonly ProposalPage: ProposalPage
  readonly QueueStats: QueueStats
  readonly Rail: Rail
  readonly RailStatistics: RailStatistics
  readonly RailStatisticsList: RailStatisticsList
  readonly Rails: Rails
  readonly ReasonBody: ReasonBody
  readonly Reconciled: Reconciled
  readonly ResolveBody: ResolveBody
  readonly ReturnBody: ReturnBody
  readonly ReturnRecorded: ReturnRecorded
  readonly Reviewed: Reviewed
  readonly Revived: Revived
  readonly Run: Run
  readonly RunPage: RunPage
  readonly Scope: Scope
  readonly Series: Series
  readonly SeriesPoint: SeriesPoint
  readonly Status: Status
  readonly StatusEvent: StatusEvent
  readonly ThroughputMinute: ThroughputMinute
  readonly Timeline: Timeline
  readonly Timer: Timer
  readonly TimerBody: TimerBody
  readonly TimerPage: TimerPage
  readonly TimerScheduled: TimerScheduled
  readonly Withdrawn: Withdrawn
  readonly WorkerView: WorkerView
  readonly Workers: Workers
}
