import { AppError, type JsonObject } from '../core/index.js'
import type {
  AttemptAction,
  AttemptState,
  ClaimedItem,
  CompletionVerdict,
  EnqueuedItem,
  EpochCheck,
  FreezeCause,
  OutboxEvidence,
  OutboxState,
} from './types.js'

/**
 * Rows as the functions return them, turned once into the objects the rest of the house knows. The client may be the
 * caller's own, so an int8 may arrive as text.
 */

type Timestamp = Date | string
type Integer8 = bigint | number | string

export interface EnqueuedRow {
  readonly outbox_id: string
  readonly sequence_id: Integer8
  readonly created_at: Timestamp
  readonly state: OutboxState
  readonly created: boolean
}

export function toEnqueuedItem(row: EnqueuedRow): EnqueuedItem {
  return {
    outboxId: row.outbox_id,
    sequenceId: BigInt(row.sequence_id),
    createdAt: toDate(row.created_at),
    state: row.state,
    created: row.created,
  }
}

export interface EpochCheckRow {
  readonly epoch_id: string
  readonly beat_no: Integer8
  readonly beat_at: Timestamp
  readonly frozen_at: Timestamp | null
  readonly freeze_cause: FreezeCause | null
  readonly freeze_reason: string | null
  readonly marked: boolean
}

export function toEpochCheck(row: EpochCheckRow): EpochCheck {
  const { frozen_at: frozenAt, freeze_cause: cause, freeze_reason: reason, marked } = row
  return {
    memory: { epochId: row.epoch_id, beatNo: BigInt(row.beat_no), beatAt: toDate(row.beat_at) },
    freeze:
      frozenAt === null || cause === null ? undefined : { frozenAt: toDate(frozenAt), cause, reason: reason ?? '' },
    marked,
  }
}

export interface ClaimedRow {
  readonly outbox_id: string
  readonly instruction_id: string
  readonly participant_id: string
  readonly sequence_id: Integer8
  readonly idempotency_key: string
  readonly rail_type: string
  readonly payload: JsonObject
  readonly attempt_count: number
  readonly lease_token: string
  readonly lease_expires_at: Timestamp
  readonly claimed_at: Timestamp
  readonly outcome_unknown: boolean
  readonly expiry_streak: number
  readonly taken_over: boolean
  readonly ordered: boolean
  readonly evidence: EvidenceJson | null
  readonly created_at: Timestamp
  readonly due_at: Timestamp
  readonly trace_context: string | null
}

/** What a claim took over and did not lease: it was held, or there was no room for it. */
export interface UnleasedTakeoverRow {
  readonly outbox_id: string
  readonly rail_type: string
  readonly lease_token: null
  readonly hold_reason: string | null
}

export function toClaimedItem(row: ClaimedRow): ClaimedItem {
  return {
    outboxId: row.outbox_id,
    instructionId: row.instruction_id,
    participantId: row.participant_id,
    sequenceId: BigInt(row.sequence_id),
    idempotencyKey: row.idempotency_key,
    railType: row.rail_type,
    payload: row.payload,
    attemptCount: row.attempt_count,
    leaseToken: row.lease_token,
    leaseExpiresAt: toDate(row.lease_expires_at),
    claimedAt: toDate(row.claimed_at),
    outcomeUnknown: row.outcome_unknown,
    expiryStreak: row.expiry_streak,
    takenOver: row.taken_over,
    ordered: row.ordered,
    evidence: row.evidence && toEvidence(row.evidence),
    createdAt: toDate(row.created_at),
    dueAt: toDate(row.due_at),
    traceContext: row.trace_context,
  }
}

interface EvidenceJson {
  readonly last_attempt: {
    readonly attempt_no: number
    readonly state: AttemptState
    readonly rail_reference: string | null
    readonly rail_code: string | null
    readonly error_code: string | null
    readonly worker_id: string | null
    readonly claimed_at: string | null
    readonly completed_at: string | null
    readonly action: AttemptAction
    readonly outcome_unknown: boolean
  } | null
  readonly late_outcome: {
    readonly state: 'DISPATCHED' | 'FAILED' | 'RETRYABLE'
    readonly rail_reference?: string
    readonly rail_code?: string
    readonly error_code?: string
  } | null
}

function toEvidence({ last_attempt: last, late_outcome: late }: EvidenceJson): OutboxEvidence {
  return {
    lastAttempt: last && {
      attemptNo: last.attempt_no,
      state: last.state,
      railReference: last.rail_reference,
      railCode: last.rail_code,
      errorCode: last.error_code,
      workerId: last.worker_id,
      claimedAt: last.claimed_at === null ? null : toDate(last.claimed_at),
      completedAt: last.completed_at === null ? null : toDate(last.completed_at),
      action: last.action,
      outcomeUnknown: last.outcome_unknown,
    },
    lateOutcome: late && {
      state: late.state,
      railReference: late.rail_reference ?? null,
      railCode: late.rail_code ?? null,
      errorCode: late.error_code ?? null,
    },
  }
}

export interface VerdictRow {
  readonly outbox_id: string
  readonly verdict: CompletionVerdict['verdict']
  readonly attempt_no: number | null
  readonly state: AttemptState | null
  readonly held: boolean
  readonly contradicted: boolean
}

export function toVerdict(row: VerdictRow): CompletionVerdict {
  const { outbox_id: outboxId, verdict, attempt_no: attemptNo, state, held, contradicted } = row
  if (verdict === 'LEASE_LOST' || attemptNo === null || state === null) return { outboxId, verdict: 'LEASE_LOST' }
  if (verdict === 'ALREADY_RECORDED') return { outboxId, verdict, attemptNo, state, contradicted }
  return { outboxId, verdict, attemptNo, state, held, contradicted }
}

/** The one row a function of one item always returns. */
export function onlyRow<R>(rows: readonly R[]): R {
  const [row] = rows
  if (row === undefined || rows.length > 1) {
    throw new AppError('UNEXPECTED_ROWS', `a function that returns one row returned ${rows.length}`, {
      remedy: 'The schema and this release do not fit together: run `symphony doctor`.',
    })
  }
  return row
}

export function toDate(value: Timestamp): Date {
  return value instanceof Date ? value : new Date(value)
}
