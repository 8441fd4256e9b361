import type { JsonObject } from '../core/index.js'

/** What a caller wants paid: the instruction and key name it for ever. */
export interface OutboxInstruction {
  readonly instructionId: string
  /** Whose stream it belongs to; owns the sequence. */
  readonly participantId: string
  readonly idempotencyKey: string
  /** Which rail carries it. */
  readonly railType: string
  readonly payload: JsonObject
  /** Not to be claimed before this time. @default now */
  readonly notBefore?: Date
  /** Dispatched one at a time, in sequence, with the other ordered items of the participant. @default false */
  readonly ordered?: boolean
  /**
   * The trace it belongs to, as `encodeTraceContext` makes it of a request's headers. No part of what the instruction is: the
   * same again from another trace is the same. What is no trace context is dropped. @default the active span, if there is one
   */
  readonly traceContext?: string
}

export type OutboxState = 'PENDING' | 'DISPATCHED' | 'FAILED'

/** The item that stands for an instruction, whether this call made it or an earlier one did. */
export interface EnqueuedItem {
  readonly outboxId: string
  readonly sequenceId: bigint
  readonly createdAt: Date
  readonly state: OutboxState
  /** False: the same instruction and key were enqueued before, and this is what became of it. */
  readonly created: boolean
}

/** A leased item. The token is what every later call about it must show. */
export interface ClaimedItem {
  readonly outboxId: string
  readonly instructionId: string
  readonly participantId: string
  readonly sequenceId: bigint
  readonly idempotencyKey: string
  readonly railType: string
  readonly payload: JsonObject
  /** Attempts recorded so far, at most 20. */
  readonly attemptCount: number
  readonly leaseToken: string
  readonly leaseExpiresAt: Date
  /** The database's clock at the claim. */
  readonly claimedAt: Date
  /** The rail may have acted before, and nobody knows. */
  readonly outcomeUnknown: boolean
  /** How many leases in a row expired before this one. */
  readonly expiryStreak: number
  /** This very claim took it over from an expired lease, and wrote that to the ledger. */
  readonly takenOver: boolean
  readonly ordered: boolean
  /** What is known of an unknown outcome; null for an item without one. */
  readonly evidence: OutboxEvidence | null
  /** When it was accepted. */
  readonly createdAt: Date
  /** Since when it could have been claimed. */
  readonly dueAt: Date
  /** W3C traceparent and, after a space, tracestate of the request that enqueued it. */
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
    /** The outcome was unknown after that attempt. */
    readonly outcomeUnknown: boolean
  } | null
  /** What a worker reported after it had lost its lease. A success here is completed without calling the rail. */
  readonly lateOutcome: {
    readonly state: CompletionState
    readonly railReference: string | null
    readonly railCode: string | null
    readonly errorCode: string | null
  } | null
}

export type CompletionState = 'DISPATCHED' | 'FAILED' | 'RETRYABLE'
export type AttemptState = CompletionState | 'ZOMBIE_REQUEUE'

/** Action of an attempt. */
export type AttemptAction =
  /** The rail was called. */
  | 'sent'
  /** Nothing was sent. The rail was asked about an earlier send, or a late outcome settled it. */
  | 'inquired'
  /** The attempt ended before the call, or the adapter is certain that nothing left. */
  | 'not_sent'
  /** Two people decided. */
  | 'decided'
  /** The lease expired. */
  | 'expired'

/** A lease as its holder knows it. */
export interface LeaseRef {
  readonly outboxId: string
  readonly leaseToken: string
}

/** What became of a leased item. */
export interface AttemptOutcome extends LeaseRef {
  readonly state: CompletionState
  readonly railReference?: string | null
  readonly railCode?: string | null
  readonly errorCode?: string | null
  readonly errorMessage?: string | null
  readonly latencyMs?: number | null
  /** When to try again. @default the database's backoff */
  readonly retryDelaySeconds?: number | null
  /**
   * True: the rail may have acted. False: it is now certain that it had not before, and only a definitive inquiry or an
   * idempotent rail can know that. Absent: what was known stays.
   */
  readonly outcomeUnknown?: boolean | null
  /** Hold the item for a person instead of trying again. Not with DISPATCHED. */
  readonly holdReason?: string | null
  /** `not_sent` is refused with DISPATCHED. @default 'sent' */
  readonly action?: Exclude<AttemptAction, 'decided' | 'expired'> | null
}

export interface RecordedAttempt {
  readonly attemptNo: number
  /** What was recorded, which the ceiling or an unknown outcome may have made different from what was asked. */
  readonly state: AttemptState
  readonly held: boolean
}

/**
 * The verdict on one completion of a batch. `contradicted`: a late outcome reported a success under another rail reference. The
 * database recorded TERMINAL_BLOCKED, and an operator must review it.
 */
export type CompletionVerdict =
  | ({ readonly outboxId: string; readonly verdict: 'RECORDED'; readonly contradicted: boolean } & RecordedAttempt)
  /** This very token had recorded that outcome before: a lost answer, not a lost lease. */
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
  readonly renewed: boolean
  readonly leaseExpiresAt: Date | null
}

export interface LeaseRelease {
  readonly outboxId: string
  readonly released: boolean
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
  /** TERMINAL_BLOCKED: the late outcome contradicts the recorded one, which stands. An operator must review it. */
  readonly eventType: 'LATE_OUTCOME' | 'TERMINAL_BLOCKED'
}

export interface RepairedLease {
  readonly outboxId: string
  readonly attemptNo: number
  /** Why the repair held the item, if it did. */
  readonly placedHold: string | undefined
}

/** An expired lease that repair could not return to the queue. The next run finds it again. */
export interface UnrepairedLease {
  readonly outboxId: string
  /** Number of the attempt that could not be recorded. */
  readonly attemptNo: number
  /** SQLSTATE of the failure. */
  readonly sqlstate: string
}

/** An expired lease that a claim wrote to the ledger and did not lease again. */
export interface UnleasedTakeover {
  readonly outboxId: string
  readonly railType: string
  /** Why the database held it: at the ceiling, or because a marked call had begun. Null: there was no room, it is in the queue. */
  readonly holdReason: string | null
}

export type HoldDecision = 'DISPATCHED' | 'FAILED' | 'RETRY'

/** APPLIED at once, or PROPOSED: a second person must approve it. */
export type DecisionResult =
  | { readonly status: 'APPLIED'; readonly proposalId: null }
  | { readonly status: 'PROPOSED'; readonly proposalId: string }

export interface ApprovedProposal {
  readonly outboxId: string
  readonly decision: HoldDecision | 'REDRIVE'
  /** The new item of an approved redrive. */
  readonly redrivenAs: string | null
}

/** `all` pauses every rail, payments and messages; its name is `all` too. */
export type PauseKind = 'rail' | 'participant' | 'stream' | 'all'

export type OrderedFailurePolicy = 'continue' | 'halt'

/** Why nothing may be dispatched. `docs/operate/restore.md` says what to do about each. */
export type FreezeCause =
  /** Another system identifier: a restored dump, or a new cluster. */
  | 'ANOTHER_SERVER'
  /** The same server, and a copy of the database or a dump restored beside it. */
  | 'ANOTHER_DATABASE'
  | 'LOWER_TIMELINE'
  /** A failover or a recovery that may have lost commits. */
  | 'NEW_TIMELINE'
  /** A worker's record is newer than the database: the database is an earlier state of itself. */
  | 'LOST_COMMITS'
  | 'OPERATOR'

/** Last heartbeat that the database reported to a worker. */
export interface EpochRecord {
  readonly epochId: string
  readonly beatNo: bigint
  readonly beatAt: Date
}

/** Saves a worker's epoch record outside the database, so that it outlives the process. */
export interface EpochStore {
  readonly load: () => Promise<EpochRecord | undefined>
  readonly save: (record: EpochRecord) => Promise<void>
}

export interface DispatchFreeze {
  readonly frozenAt: Date
  readonly cause: FreezeCause
  readonly reason: string
}

/** Result of an epoch check. The worker passes `record` to its next check. */
export interface EpochCheck {
  readonly record: EpochRecord
  /** Undefined: dispatch is open. */
  readonly freeze: DispatchFreeze | undefined
  /** Whether the items that waited at the last freeze are marked as unknown. */
  readonly marked: boolean
}
