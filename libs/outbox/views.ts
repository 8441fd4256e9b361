import type { JsonObject } from '../core/index.js'
import type { LimitKind } from './limits.js'
import type { ItemFreeze, ItemState, ShownMoney } from './statusTypes.js'
import type { AttemptAction, AttemptState, HoldDecision, PauseKind } from './types.js'

/** Results of `reads/`, for people: times as text with microseconds, numbers that may exceed 2^53 as text. */

export type { ItemState } from './statusTypes.js'

export interface ItemView extends ShownMoney {
  /** Freeze that made the outcome unknown; null if there is none, or if an attempt followed it. */
  readonly freeze: ItemFreeze | null
  readonly outboxId: string
  readonly instructionId: string
  readonly idempotencyKey: string
  readonly participantId: string
  readonly sequenceId: string
  readonly railType: string
  readonly createdAt: string
  readonly ordered: boolean
  readonly redriveOf: string | null
  readonly state: ItemState
  readonly nextAttemptAt: string | null
  readonly claimedBy: string | null
  readonly claimedAt: string | null
  readonly leaseExpiresAt: string | null
  readonly outcomeUnknown: boolean
  readonly expiryStreak: number
  readonly holdReason: string | null
  readonly heldBy: string | null
  readonly heldAt: string | null
  readonly lastAttemptNo: number | null
  readonly lastAttemptState: AttemptState | null
  readonly lastAttemptAt: string | null
  readonly lastRailReference: string | null
  readonly lastRailCode: string | null
  readonly lastErrorCode: string | null
  readonly isMessage: boolean
  readonly lastAttemptAction: AttemptAction | null
  /** Whether the rail returned money of the payment. */
  readonly returned: boolean
  /** Sum of the returns as decimal text; null without a return, or if the amount is secret. */
  readonly returnedAmount: string | null
  /** Payment that this one replaces. */
  readonly replaces: string | null
}

export interface AttemptView {
  readonly outboxId: string
  readonly attemptId: string
  readonly attemptNo: number
  readonly state: AttemptState
  readonly claimedAt: string | null
  readonly completedAt: string | null
  readonly railReference: string | null
  readonly railCode: string | null
  readonly errorCode: string | null
  readonly errorMessage: string | null
  readonly latencyMs: number | null
  readonly workerId: string | null
  readonly action: AttemptAction
  readonly outcomeUnknown: boolean
}

export interface EventView {
  readonly eventNo: string
  readonly eventType: string
  readonly actor: string
  readonly detail: JsonObject
  readonly createdAt: string
}

export type ProposalStatus = 'OPEN' | 'APPROVED' | 'WITHDRAWN'

export interface ProposalView extends ShownMoney {
  readonly proposalId: string
  readonly outboxId: string
  readonly instructionId: string
  readonly decision: HoldDecision | 'REDRIVE'
  readonly reason: string
  readonly railReference: string | null
  readonly status: ProposalStatus
  readonly proposedBy: string
  readonly proposedAt: string
  readonly decidedBy: string | null
  readonly decidedAt: string | null
}

/** FAILED payment with the decisions about it. */
export interface FailedItemView {
  readonly item: ItemView
  readonly errorMessage: string | null
  /** Redrive that waits for a second person's approval. */
  readonly proposal: ProposalView | null
  /** Redrives of the item, oldest first. */
  readonly redrivenAs: readonly string[]
  readonly replacedBy: string | null
}

export interface HeldItemView {
  readonly item: ItemView
  readonly proposal: ProposalView | null
  /** Assignee in the latest note; null if it names none, or if there is no note. */
  readonly assignee: string | null
  readonly latestNote: NoteView | null
}

export interface NoteView {
  readonly note: string
  readonly actor: string
  readonly createdAt: string
}

/** Two contradicting reports about one payment. */
export interface ContradictionView {
  /** Id of the TERMINAL_BLOCKED event. */
  readonly eventId: string
  readonly outboxId: string
  readonly instructionId: string
  readonly participantId: string
  readonly railType: string
  readonly recordedAt: string
  /** Worker or operator whose call recorded the contradiction. */
  readonly actor: string
  readonly recorded: ReportedOutcome
  readonly reported: ReportedOutcome
  readonly reviewedAt: string | null
  readonly reviewedBy: string | null
  readonly reviewReason: string | null
}

interface ReportedOutcome {
  readonly state: 'DISPATCHED' | 'FAILED'
  readonly railReference: string | null
}

export interface PauseView {
  readonly kind: PauseKind
  readonly name: string
  readonly reason: string
  readonly pausedBy: string
  readonly pausedAt: string
}

/** Rule of a limit. A field that the kind does not have is null. */
export interface LimitRuleView {
  readonly kind: LimitKind
  readonly railType: string | null
  readonly participantId: string | null
  readonly currency: string | null
  readonly limit: string
  readonly windowSeconds: number | null
  readonly approvals: number | null
}

/** Limit in force. */
export interface LimitView extends LimitRuleView {
  readonly name: string
  readonly setBy: string
  readonly setAt: string
  /** Sum or number in the current window; null for `approval`. */
  readonly used: string | null
  /**
   * Time at which a payment exceeded the limit in the current window; null if none did. Later payments are held too.
   */
  readonly exceededAt: string | null
}

/** Open proposal to set a limit, or to remove it (`rule` is null). */
export interface LimitProposalView {
  readonly proposalId: string
  readonly name: string
  readonly rule: LimitRuleView | null
  readonly reason: string
  readonly proposedBy: string
  readonly proposedAt: string
}

export interface LimitsView {
  readonly limits: readonly LimitView[]
  readonly proposals: readonly LimitProposalView[]
}

/** Last report of a worker. The worker chooses the content of `detail`. */
export interface WorkerReport {
  readonly workerId: string
  /** Whether the worker reported within the last minute. Stopped workers are not returned. */
  readonly alive: boolean
  readonly startedAt: string
  readonly lastSeenAt: string
  readonly detail: JsonObject
  readonly leases: number
}

export interface RailQueue {
  readonly railType: string
  readonly pending: number
  readonly due: number
  readonly inFlight: number
  readonly held: number
  readonly oldestDueAgeSeconds: number
}

export interface ThroughputView {
  readonly minute: string
  readonly dispatched: number
  readonly retryable: number
  readonly failed: number
  readonly zombieRequeue: number
  /** Attempts among `retryable` and `zombieRequeue` that left the outcome unknown. */
  readonly outcomeUnknown: number
}

export interface LatencyView {
  readonly sampled: number
  readonly p50Ms: number | null
  readonly p90Ms: number | null
  readonly p99Ms: number | null
  readonly maxMs: number | null
}

/** Latencies of the latest attempts, and their errors, most frequent first. */
export interface LatestAttempts {
  readonly latency: LatencyView
  readonly errors: ErrorView[]
}

export interface ErrorView {
  readonly railType: string
  readonly state: Exclude<AttemptState, 'DISPATCHED'>
  readonly errorCode: string | null
  /** Whether the outcome was unknown afterwards, so the rail may have paid. */
  readonly outcomeUnknown: boolean
  readonly count: number
}
