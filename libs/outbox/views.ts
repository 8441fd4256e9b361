import type { JsonObject } from '../core/index.js'
import type { ItemFreeze, ItemState, ShownMoney } from './statusTypes.js'
import type { AttemptAction, AttemptState, HoldDecision, PauseKind } from './types.js'

/** What `reads/` answers: rows for people. Times as text, to the microsecond; numbers that may pass 2^53 as text. */

export type { ItemState } from './statusTypes.js'

export interface ItemView extends ShownMoney {
  /** Null, too, if an attempt was made after the freeze. */
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
  /** A message, not a payment. */
  readonly isMessage: boolean
  readonly lastAttemptAction: AttemptAction | null
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
  /** The outcome was unknown after this attempt. */
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

/** A payment that ended as FAILED, and what people have done about it. */
export interface FailedItemView {
  readonly item: ItemView
  readonly errorMessage: string | null
  /** A redrive that waits for its second person. */
  readonly proposal: ProposalView | null
  /** The items as which two people decided to send it again, oldest first. */
  readonly redrivenAs: readonly string[]
}

/** A payment that waits for a person. */
export interface HeldItemView {
  readonly item: ItemView
  readonly proposal: ProposalView | null
}

/** Two reports about one payment that do not agree. */
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
  /** The late outcome. */
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

/** A worker as it last reported; what `detail` holds is its own word. */
export interface WorkerReport {
  readonly workerId: string
  /** Reported within the last 30 seconds; a worker that stopped is not read at all. */
  readonly alive: boolean
  readonly startedAt: string
  readonly lastSeenAt: string
  readonly detail: JsonObject
  /** Items that are leased to it now. */
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

/** How long rails took, and what went wrong how often; the most frequent first. */
export interface LatestAttempts {
  readonly latency: LatencyView
  readonly errors: ErrorView[]
}

export interface ErrorView {
  readonly railType: string
  readonly state: Exclude<AttemptState, 'DISPATCHED'>
  readonly errorCode: string | null
  /** The rail may have paid, and the outcome was unknown afterwards. */
  readonly outcomeUnknown: boolean
  readonly count: number
}
