import type { JsonObject } from '../core/index.js'
import type { AttemptAction, AttemptState, FreezeCause } from './types.js'

/** The newest row of `dispatch_epochs`: the run of the server in which the work goes on. */
export interface DispatchEpoch {
  readonly epochNo: number
  readonly beganAt: Date
  /** Null where the server withholds it. */
  readonly systemIdentifier: bigint | null
  readonly timeline: number | null
  readonly beatNo: bigint
  readonly beatAt: Date
  readonly synchronous: boolean
  readonly frozen: boolean
  /** Of the last freeze, lifted or not. */
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

/** The queue at a glance: one row of the view `supervisor_outbox_status`. */
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
  /** Pending, and the rail may have acted. */
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
  /** By a person, or by a rail's own word. */
  readonly heldOtherCount: bigint
  /** Relayers that reported within the last minute. */
  readonly workersAliveCount: bigint
  /** TERMINAL_BLOCKED events since the beginning. */
  readonly contradictionsTotal: bigint
  /** Contradictions that no operator has reviewed. */
  readonly unreviewedContradictionCount: bigint
  /** Age of the oldest of them; 0 without one. */
  readonly oldestUnreviewedContradictionAgeSeconds: number
  /** Of what is held now; 0 where nothing is. */
  readonly oldestHoldAgeSeconds: number
  readonly oldestExpiredLeaseAgeSeconds: number
  /** How long items have been due while no relayer reported. */
  readonly dueWithoutWorkerSeconds: number
  /** Attempts of the last 15 minutes, and the age of the first of them. */
  readonly dispatchedRecently: bigint
  readonly retryableRecently: bigint
  readonly failedRecently: bigint
  readonly retryableRecentlyAgeSeconds: number
  readonly failedRecentlyAgeSeconds: number
  /** As workers reported within a day; null: no worker did. */
  readonly lastUnknownCodeAgeSeconds: number | null
  readonly lastClockJumpAgeSeconds: number | null
  /** Of the last verification of the ledger; null before the first. */
  readonly ledgerBreakCount: bigint | null
  readonly ledgerVerifiedAt: Date | null
  readonly ledgerBrokenAgeSeconds: number | null
  /** Since creation, of the oldest item that has not ended; items scheduled for later and never attempted do not count. */
  readonly oldestUnfinishedAgeSeconds: number
  /** Time since everything was paused; 0 while it is not. */
  readonly allPausedAgeSeconds: number
}

export type ItemState = 'DUE' | 'SCHEDULED' | 'LEASED' | 'EXPIRED' | 'BLOCKED' | 'HELD' | 'DISPATCHED' | 'FAILED'

/** Part of a payload that everyone who may read an item sees, as far as the field classes of its rail allow. */
export interface ShownMoney {
  /** Decimal, as in the payload; null if it is secret or no number. */
  readonly amount: string | null
  readonly currency: string | null
  /** `••••3000`; null if it is withheld or absent. */
  readonly destination: string | null
  /** Reason why no destination is shown. `undeclared`: no process has declared the rail. */
  readonly destinationWithheld: 'encrypted' | 'forbidden' | 'undeclared' | null
}

/** Freeze that made the outcome of a pending item unknown. */
export interface ItemFreeze {
  readonly epochNo: number
  readonly cause: FreezeCause
  readonly reason: string
  readonly frozenAt: string
}

/** One item as a person would describe it: a row of the view `outbox_operational_status`. */
export interface ItemStatus extends ShownMoney {
  /** Null, too, if an attempt was made after the freeze. */
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
  /** A message, not a payment. */
  readonly isMessage: boolean
  readonly lastAttemptAction: AttemptAction | null
}

export interface Page<Item> {
  readonly items: readonly Item[]
  /** Where the next page begins; null: there is nothing more. */
  readonly next: string | null
}

/** A row of the ledger, without payload and token. */
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
  /** The outcome was unknown after this attempt. */
  readonly outcomeUnknown: boolean
}

export interface ItemEvent {
  readonly eventNo: bigint
  readonly eventType: string
  readonly actor: string
  readonly detail: JsonObject
  readonly createdAt: Date
}
