import type { JsonObject } from '../core/index.js'

/** Payment that a client requests. Instruction id and idempotency key identify it permanently. */
export interface OutboxInstruction {
  readonly instructionId: string
  /** Owner of the stream and its sequence numbers. */
  readonly participantId: string
  readonly idempotencyKey: string
  readonly railType: string
  readonly payload: JsonObject
  /** Earliest time of a claim. @default now */
  readonly notBefore?: Date
  /** Whether the item waits for earlier ordered items of the participant. @default false */
  readonly ordered?: boolean
  /**
   * Topic that receives the outcomes of this payment, each as a message that commits with the outcome. A repeated
   * instruction keeps its first topic. @default none
   */
  readonly outcomeTopic?: string
  /** Outbox id of the returned or failed payment that this payment replaces. @default none */
  readonly replaces?: string
  /**
   * Trace context, as `encodeTraceContext` makes it from request headers. A repeated instruction may have another trace
   * context. An invalid trace context is dropped. @default the active span, if there is one
   */
  readonly traceContext?: string
}

export type OutboxState = 'PENDING' | 'DISPATCHED' | 'FAILED'

/** Item of an instruction, created by this call or an earlier one. */
export interface EnqueuedItem {
  readonly outboxId: string
  readonly sequenceId: bigint
  readonly createdAt: Date
  readonly state: OutboxState
  /** False if the same instruction and key were enqueued before. */
  readonly created: boolean
}

/** Leased item. Every later call about it needs its lease token. */
export interface ClaimedItem {
  readonly outboxId: string
  readonly instructionId: string
  readonly participantId: string
  readonly sequenceId: bigint
  readonly idempotencyKey: string
  readonly railType: string
  readonly payload: JsonObject
  /** Number of attempts recorded so far, at most 20. */
  readonly attemptCount: number
  readonly leaseToken: string
  /** End of the lease. The items of one claim share this Date, so copy it before you change it. */
  readonly leaseExpiresAt: Date
  /** Database time of the claim. The items of one claim share this Date too. */
  readonly claimedAt: Date
  /** Whether the rail may have acted on an earlier attempt. */
  readonly outcomeUnknown: boolean
  /** Number of consecutive leases that expired before this one. */
  readonly expiryStreak: number
  /** Whether this claim took the item over from an expired lease and recorded the expiry in the ledger. */
  readonly takenOver: boolean
  readonly ordered: boolean
  /** Evidence about an unknown outcome; null if the outcome is not unknown. */
  readonly evidence: OutboxEvidence | null
  readonly createdAt: Date
  /** Time from which the item could be claimed. */
  readonly dueAt: Date
  /** W3C traceparent and, after a space, tracestate of the request that enqueued the item. */
  readonly traceContext: string | null
}

export interface OutboxEvidence {
  readonly lastAttempt: {
    readonly attemptNo: number
    readonly state: AttemptState
    readonly railReference: string | null
    readonly railCode: string | null
    readonly errorCode: string | null
    readonly workerId: string | null
    readonly claimedAt: Date | null
    readonly completedAt: Date | null
    readonly action: AttemptAction
    /** Whether the outcome was unknown after this attempt. */
    readonly outcomeUnknown: boolean
  } | null
  /** Late outcome of a worker that had lost its lease. A late success completes the item without a call of the rail. */
  readonly lateOutcome: {
    readonly state: CompletionState
    readonly railReference: string | null
    readonly railCode: string | null
    readonly errorCode: string | null
  } | null
}

export type CompletionState = 'DISPATCHED' | 'FAILED' | 'RETRYABLE'
export type AttemptState = CompletionState | 'ZOMBIE_REQUEUE'

export type AttemptAction =
  /** The rail was called. */
  | 'sent'
  /** Nothing was sent. The rail was asked about an earlier attempt, or a late outcome settled it. */
  | 'inquired'
  /** The attempt ended before the call, or the adapter is certain that nothing was sent. */
  | 'not_sent'
  /** Two people decided the outcome. */
  | 'decided'
  /** The lease expired. */
  | 'expired'
  /** An application or an operator cancelled the item before it was sent. */
  | 'cancelled'

/** Lease, identified by its item and its token. */
export interface LeaseRef {
  readonly outboxId: string
  readonly leaseToken: string
}

export interface AttemptOutcome extends LeaseRef {
  readonly state: CompletionState
  readonly railReference?: string | null
  readonly railCode?: string | null
  readonly errorCode?: string | null
  readonly errorMessage?: string | null
  readonly latencyMs?: number | null
  /** Delay of the next attempt. @default the database's backoff */
  readonly retryDelaySeconds?: number | null
  /**
   * True: the rail may have acted. False: the rail has certainly not acted on any earlier attempt, which only a
   * definitive inquiry or an idempotent rail can show. Absent: unchanged.
   */
  readonly outcomeUnknown?: boolean | null
  /** Reason to hold the item instead of retrying it. Not allowed with DISPATCHED. */
  readonly holdReason?: string | null
  /** Action of the attempt. `not_sent` is not allowed with DISPATCHED. @default 'sent' */
  readonly action?: Exclude<AttemptAction, 'decided' | 'expired' | 'cancelled'> | null
}

export interface RecordedAttempt {
  readonly attemptNo: number
  /** Recorded state. The retry ceiling or an unknown outcome may change the requested state. */
  readonly state: AttemptState
  readonly held: boolean
}

/**
 * Verdict on one completion of a batch. `contradicted`: a late outcome reported a success under another rail reference.
 * The database recorded TERMINAL_BLOCKED, and an operator must review it.
 */
export type CompletionVerdict =
  | ({ readonly outboxId: string; readonly verdict: 'RECORDED'; readonly contradicted: boolean } & RecordedAttempt)
  /** An earlier call with the same token recorded this outcome, and its answer was lost. The lease was not lost. */
  | {
      readonly outboxId: string
      readonly verdict: 'ALREADY_RECORDED'
      readonly attemptNo: number
      readonly state: AttemptState
      readonly contradicted: boolean
    }
  | { readonly outboxId: string; readonly verdict: 'LEASE_LOST' }

export interface LeaseRenewal {
  readonly outboxId: string
  /** Null if another transaction has locked the item: the lease is neither renewed nor known to be lost. */
  readonly renewed: boolean | null
  readonly leaseExpiresAt: Date | null
}

export interface LeaseRelease {
  readonly outboxId: string
  /** Null if another transaction has locked the item: repeat the release. */
  readonly released: boolean | null
}

export interface LateOutcome extends LeaseRef {
  readonly state: CompletionState
  readonly railReference?: string | null
  readonly railCode?: string | null
  readonly errorCode?: string | null
  readonly errorMessage?: string | null
  readonly latencyMs?: number | null
}

export interface LateOutcomeEvent {
  readonly eventId: string
  /**
   * TERMINAL_BLOCKED: the late outcome contradicts the recorded one, which does not change. An operator must review it.
   */
  readonly eventType: 'LATE_OUTCOME' | 'TERMINAL_BLOCKED'
}

export interface RepairedLease {
  readonly outboxId: string
  readonly attemptNo: number
  /** Reason for which the repair held the item; undefined if the repair did not hold it. */
  readonly placedHold: string | undefined
}

/** Expired lease that repair could not return to the queue. The next run tries again. */
export interface UnrepairedLease {
  readonly outboxId: string
  /** Number of the attempt that could not be recorded. */
  readonly attemptNo: number
  readonly sqlstate: string
}

/** Expired lease that a claim recorded in the ledger, and whose item the claim did not lease again. */
export interface UnleasedTakeover {
  readonly outboxId: string
  readonly railType: string
  /** Reason of the hold: the retry ceiling, or a marked call that had begun. Null if the item was requeued. */
  readonly holdReason: string | null
}

export type HoldDecision = 'DISPATCHED' | 'FAILED' | 'RETRY'

/** Result of a decision: applied at once, or proposed to a second person. */
export type DecisionResult =
  | { readonly status: 'APPLIED'; readonly proposalId: null }
  | { readonly status: 'PROPOSED'; readonly proposalId: string }

/** Cancelled item and its terminal attempt. */
export interface CancelledItem {
  readonly outboxId: string
  readonly attemptId: string
}

export interface ApprovedProposal {
  readonly outboxId: string
  readonly decision: HoldDecision | 'REDRIVE'
  /** Id of the new item after an approved redrive. */
  readonly redrivenAs: string | null
  /**
   * False if a second approval is still missing. Two are needed for decisions that a reconciliation proposed, and for
   * payments that a person entered above a limit that asks for two.
   */
  readonly applied: boolean
}

/** Money of a DISPATCHED payment that the rail returned. */
export interface PaymentReturn {
  readonly outboxId: string
  /** Returned amount as a decimal string, such as `12.50`: the whole payment or a part of it. */
  readonly amount: string
  readonly currency: string
  /** Reason code of the rail, such as `AC04`. */
  readonly code: string
  /** Rail's own id of the return. A repeat with the same reference is recognised. */
  readonly reference: string
  /** Time of the return. @default now */
  readonly occurredAt?: Date
}

export interface RecordedReturn {
  /** Id of the RETURN_RECORDED event. */
  readonly eventId: string
  /** False if this return was recorded before. */
  readonly created: boolean
  /** Sum of all returns of the payment, as a decimal string. */
  readonly returnedTotal: string
}

/** Kind of a pause. `all` pauses every payment and message on every rail; such a pause must have the name `all`. */
export type PauseKind = 'rail' | 'participant' | 'stream' | 'all'

export type OrderedFailurePolicy = 'continue' | 'halt'

/** Cause of a dispatch freeze. `docs/operate/restore.md` gives the steps for each. */
export type FreezeCause =
  /** Another system identifier: a restored dump, or a new cluster. */
  | 'ANOTHER_SERVER'
  /** Same server, but another database: a copy, or a restored dump. */
  | 'ANOTHER_DATABASE'
  | 'LOWER_TIMELINE'
  /** A failover or a recovery that may have lost commits. */
  | 'NEW_TIMELINE'
  /** A worker's record is newer than the database, so the database was restored to an earlier state. */
  | 'LOST_COMMITS'
  | 'OPERATOR'

export interface EpochRecord {
  readonly epochId: string
  readonly beatNo: bigint
  readonly beatAt: Date
}

export interface DispatchFreeze {
  readonly frozenAt: Date
  readonly cause: FreezeCause
  readonly reason: string
}

/** Result of an epoch check. The worker passes `record` to its next check. */
export interface EpochCheck {
  readonly record: EpochRecord
  /** Current freeze; undefined if dispatch is open. */
  readonly freeze: DispatchFreeze | undefined
  /** Whether the items that waited at the last freeze are marked as unknown. */
  readonly marked: boolean
}
