import type { JsonObject } from '../core/index.js'
import type { AttemptAction, AttemptState, FreezeCause } from './types.js'

/** Current server epoch: the newest row of `dispatch_epochs`. */
export interface DispatchEpoch {
  readonly epochNo: number
  readonly beganAt: Date
  /** Identifier of the database cluster; null if the server does not reveal it. */
  readonly systemIdentifier: bigint | null
  readonly timeline: number | null
  readonly beatNo: bigint
  readonly beatAt: Date
  readonly synchronous: boolean
  readonly frozen: boolean
  /** Time of the last freeze, lifted or not. The following fields describe the same freeze. */
  readonly frozenAt: Date | null
  readonly freezeCause: FreezeCause | null
  readonly freezeReason: string | null
  readonly frozenBy: string | null
  readonly markedAt: Date | null
  readonly itemsMarked: bigint | null
  readonly liftedAt: Date | null
  readonly liftedBy: string | null
  readonly liftReason: string | null
}

/** Numbers of the queue: the row of the view `supervisor_outbox_status`. */
export interface OutboxStatus {
  readonly pendingCount: bigint
  readonly dueUnleasedCount: bigint
  readonly leasedCount: bigint
  readonly expiredLeaseCount: bigint
  readonly scheduledCount: bigint
  readonly blockedCount: bigint
  readonly heldCount: bigint
  readonly oldestPendingAgeSeconds: number
  readonly oldestDueAgeSeconds: number
  readonly dispatchedTotal: bigint
  readonly retryableTotal: bigint
  readonly failedTotal: bigint
  readonly zombieRequeueTotal: bigint
  readonly dispatchedLastHour: bigint
  readonly retryableLastHour: bigint
  readonly failedLastHour: bigint
  readonly dlqDepth: bigint
  /** DISPATCHED payments of which the rail returned money. */
  readonly returnedTotal: bigint
  /** Number of cancelled items. `failedTotal` and `dlqDepth` include them. */
  readonly cancelledTotal: bigint
  readonly cancelledLastHour: bigint
  /** Time since the pending items were counted; 0 unless the queue is large. */
  readonly countsAgeSeconds: number
  /** Pending items with an unknown outcome. */
  readonly outcomeUnknownCount: bigint
  readonly heldOutcomeUnknownCount: bigint
  readonly heldFailedUnknownCount: bigint
  readonly heldRetryCeilingCount: bigint
  readonly heldLeaseExpiryCount: bigint
  readonly heldEarlierPaidCount: bigint
  readonly heldFieldKeyMissingCount: bigint
  readonly heldFieldKeyDestroyedCount: bigint
  readonly heldFieldUnreadableCount: bigint
  readonly heldReferenceInvalidCount: bigint
  readonly heldAmountApprovalCount: bigint
  readonly heldLimitExceededCount: bigint
  readonly heldLimitUnreadableCount: bigint
  /** Outcome messages whose delivery failed 20 times. */
  readonly heldOutcomeNotDeliveredCount: bigint
  /** Items held by an operator, or for a reason that the rail gave. */
  readonly heldOtherCount: bigint
  /** Relayers that reported within the last minute. */
  readonly workersAliveCount: bigint
  /** Number of TERMINAL_BLOCKED events, reviewed or not. */
  readonly contradictionsTotal: bigint
  readonly unreviewedContradictionCount: bigint
  /** Age of the oldest unreviewed contradiction; 0 if there is none. */
  readonly oldestUnreviewedContradictionAgeSeconds: number
  /** Age of the oldest current hold; 0 if there is none. */
  readonly oldestHoldAgeSeconds: number
  readonly oldestExpiredLeaseAgeSeconds: number
  /** Time for which items have been due while no relayer reported. */
  readonly dueWithoutWorkerSeconds: number
  /**
   * Number of attempts in the last 15 minutes, by state, without cancellations. Each age is that of the first of these
   * attempts. Attempts that are already summed per minute have the age of the start of their minute.
   */
  readonly dispatchedRecently: bigint
  readonly retryableRecently: bigint
  readonly failedRecently: bigint
  readonly retryableRecentlyAgeSeconds: number
  readonly failedRecentlyAgeSeconds: number
  /**
   * Time since a worker last met an unlisted code, by the reports of the last day; null if none reported one. The next
   * field is the same for clock jumps.
   */
  readonly lastUnknownCodeAgeSeconds: number | null
  readonly lastClockJumpAgeSeconds: number | null
  /** Number of breaks that the last verification of the ledger found; null before the first verification. */
  readonly ledgerBreakCount: bigint | null
  readonly ledgerVerifiedAt: Date | null
  readonly ledgerBrokenAgeSeconds: number | null
  /** Age of the oldest item without a terminal outcome. Items scheduled for later and never attempted do not count. */
  readonly oldestUnfinishedAgeSeconds: number
  /** Time since all rails were paused; 0 if they are not. */
  readonly allPausedAgeSeconds: number
  /** Counts per kind: payments and messages. All other counts include both kinds. */
  readonly kinds: Readonly<Record<ItemKind, KindStatus>>
}

export type ItemKind = 'payment' | 'message'

/** Numbers of one kind of items. Ages are in seconds, 0 without such an item. */
export interface KindStatus {
  readonly pending: number
  readonly due: number
  readonly leased: number
  /** Expired leases. */
  readonly expired: number
  readonly blocked: number
  readonly held: number
  /** Pending items with an unknown outcome. */
  readonly unknown: number
  readonly pendingSeconds: number
  readonly dueSeconds: number
  readonly unfinishedSeconds: number
  readonly heldSeconds: number
  readonly expiredSeconds: number
  readonly withoutWorkerSeconds: number
  /** Attempts by state since the beginning. `failed` includes `cancelled`. */
  readonly dispatched: number
  readonly retryable: number
  readonly failed: number
  readonly requeued: number
  readonly cancelled: number
  /** Items that ended FAILED in the last hour and were not cancelled. */
  readonly deadLastHour: number
  /** Attempts of the last 15 minutes, without cancellations, and the age of the first of them. */
  readonly dispatchedRecently: number
  readonly retryableRecently: number
  readonly failedRecently: number
  readonly retryableRecentlySeconds: number
  readonly failedRecentlySeconds: number
}

export type ItemState = 'DUE' | 'SCHEDULED' | 'LEASED' | 'EXPIRED' | 'BLOCKED' | 'HELD' | 'DISPATCHED' | 'FAILED'

/** Part of a payload that every reader of an item sees, as far as the rail's field classes allow. */
export interface ShownMoney {
  /** Amount as decimal text, as in the payload; null if it is secret or not a number. */
  readonly amount: string | null
  readonly currency: string | null
  /** Destination, masked as `••••3000`; null if it is withheld or absent. */
  readonly destination: string | null
  /** Reason for a withheld destination. `undeclared`: no process has declared the rail. */
  readonly destinationWithheld: 'encrypted' | 'forbidden' | 'undeclared' | null
}

/** Freeze that made the outcome of a pending item unknown. */
export interface ItemFreeze {
  readonly epochNo: number
  readonly cause: FreezeCause
  readonly reason: string
  readonly frozenAt: string
}

/** Status of one item: a row of the view `outbox_operational_status`. */
export interface ItemStatus extends ShownMoney {
  /** Freeze that made the outcome unknown; null if there is none, or if an attempt followed it. */
  readonly freeze: ItemFreeze | null
  readonly outboxId: string
  readonly instructionId: string
  readonly idempotencyKey: string
  readonly participantId: string
  readonly sequenceId: bigint
  readonly railType: string
  readonly createdAt: Date
  readonly ordered: boolean
  readonly redriveOf: string | null
  readonly state: ItemState
  readonly nextAttemptAt: Date | null
  readonly claimedBy: string | null
  readonly leaseExpiresAt: Date | null
  readonly outcomeUnknown: boolean
  readonly holdReason: string | null
  readonly heldBy: string | null
  readonly heldAt: Date | null
  readonly lastAttemptNo: number | null
  readonly lastAttemptState: AttemptState | null
  readonly lastRailReference: string | null
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

export interface Page<Item> {
  readonly items: readonly Item[]
  /** Start of the next page; null if there is none. */
  readonly next: string | null
}

/** Attempt in the ledger, without payload and token. */
export interface LedgerAttempt {
  readonly attemptNo: number
  readonly state: AttemptState
  readonly claimedAt: Date | null
  readonly completedAt: Date | null
  readonly railReference: string | null
  readonly railCode: string | null
  readonly errorCode: string | null
  readonly errorMessage: string | null
  readonly latencyMs: number | null
  readonly workerId: string | null
  readonly action: AttemptAction
  readonly outcomeUnknown: boolean
}

export interface ItemEvent {
  readonly eventNo: bigint
  readonly eventType: string
  readonly actor: string
  readonly detail: JsonObject
  readonly createdAt: Date
}
