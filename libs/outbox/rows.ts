import type { JsonObject } from '../core/index.js'
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
  UnleasedTakeover,
} from './types.js'

/**
 * Converts the rows that the SQL functions return. The client may be the caller's own, so an int8 may arrive as text.
 */

type Timestamp = Date | string
type Integer8 = bigint | number | string

/** Parses one line per item: id, sequence number, time, state, and whether this call created it. */
export function unpackEnqueued(text: string): EnqueuedItem[] {
  return text.split('\n').map((line) => {
    const [outboxId = '', sequenceId = '', micros, state, created] = line.split(' ')
    return {
      outboxId,
      sequenceId: BigInt(sequenceId),
      createdAt: dateOfMicros(micros),
      // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the SQL function writes only these states
      state: state as OutboxState,
      created: created === 't',
    }
  })
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
    record: { epochId: row.epoch_id, beatNo: BigInt(row.beat_no), beatAt: toDate(row.beat_at) },
    freeze:
      frozenAt === null || cause === null ? undefined : { frozenAt: toDate(frozenAt), cause, reason: reason ?? '' },
    marked,
  }
}

/** Answer of a claim. If no item was leased, all columns but `exceptions` are null. */
export interface PackedClaim {
  readonly items: string | null
  /** JSON array, in the order of the items. */
  readonly payloads: string | null
  readonly lease_expires_at: Timestamp | null
  readonly claimed_at: Timestamp | null
  /** JSON of items with additional fields, and of takeovers that were not leased. */
  readonly exceptions: string | null
}

interface ClaimException {
  /** Position among the items, from 1; null for a takeover that was not leased. */
  readonly ordinal: number | null
  readonly outbox_id: string
  readonly rail_type: string
  readonly outcome_unknown: boolean
  readonly expiry_streak: number
  readonly taken_over: boolean
  readonly ordered: boolean
  readonly evidence: EvidenceJson | null
  readonly trace_context: string | null
  readonly hold_reason: string | null
}

export function unpackClaim(row: PackedClaim, onUnleased?: (takeover: UnleasedTakeover) => void): ClaimedItem[] {
  const exceptions = new Map<number, ClaimException>()
  const listed: readonly ClaimException[] = JSON.parse(row.exceptions ?? '[]')
  for (const one of listed) {
    if (one.ordinal !== null) exceptions.set(one.ordinal - 1, one)
    else onUnleased?.({ outboxId: one.outbox_id, railType: one.rail_type, holdReason: one.hold_reason })
  }
  if (row.items === null) return []
  // Items of one claim share these dates, and a new item has one Date for its creation and its due time. A Date takes
  // 96 bytes, and thousands of items are in memory at once.
  const leaseExpiresAt = new Date(row.lease_expires_at!)
  const claimedAt = new Date(row.claimed_at!)
  const payloads: readonly JsonObject[] = JSON.parse(row.payloads ?? '[]')
  let railType = ''
  return row.items.split('\n').map((line, index) => {
    const field = line.split(' ')
    const exception = exceptions.get(index)
    // Successive items of one rail share one string, so its hash is computed once.
    if (field[5] !== railType) railType = field[5]!
    const createdAt = dateOfMicros(field[8])
    return {
      outboxId: field[0]!,
      instructionId: field[1]!,
      participantId: field[2]!,
      sequenceId: BigInt(field[3]!),
      idempotencyKey: field[4]!,
      railType,
      payload: payloads[index]!,
      attemptCount: Number(field[6]),
      leaseToken: field[7]!,
      leaseExpiresAt,
      claimedAt,
      outcomeUnknown: exception?.outcome_unknown ?? false,
      expiryStreak: exception?.expiry_streak ?? 0,
      takenOver: exception?.taken_over ?? false,
      ordered: exception?.ordered ?? false,
      evidence: exception?.evidence ? toEvidence(exception.evidence) : null,
      createdAt,
      dueAt: field[9] === field[8] ? createdAt : dateOfMicros(field[9]),
      traceContext: exception?.trace_context ?? null,
    }
  })
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

export interface PackedVerdicts {
  /** Numbers of the attempts recorded as DISPATCHED, in the order given. */
  readonly attempt_nos: string | null
  /** JSON of all other verdicts. */
  readonly exceptions: string | null
}

interface VerdictException {
  readonly ordinal: number
  readonly outbox_id: string
  readonly verdict: CompletionVerdict['verdict']
  readonly attempt_no: number | null
  readonly state: AttemptState | null
  readonly held: boolean
  readonly contradicted: boolean
}

/** Returns one verdict per id, in the same order. */
export function unpackVerdicts(row: PackedVerdicts, outboxIds: readonly string[]): CompletionVerdict[] {
  const listed: readonly VerdictException[] = JSON.parse(row.exceptions ?? '[]')
  const exceptions = new Map(listed.map((one) => [one.ordinal - 1, one]))
  const attemptNos = row.attempt_nos?.split(' ') ?? []
  let next = 0
  return outboxIds.map((outboxId, index) => {
    const exception = exceptions.get(index)
    if (exception !== undefined) return toVerdict(exception)
    const attemptNo = Number(attemptNos[next])
    next += 1
    return { outboxId, verdict: 'RECORDED', attemptNo, state: 'DISPATCHED', held: false, contradicted: false }
  })
}

function toVerdict(row: VerdictException): CompletionVerdict {
  const { outbox_id: outboxId, verdict, attempt_no: attemptNo, state, held, contradicted } = row
  if (verdict === 'LEASE_LOST' || attemptNo === null || state === null) return { outboxId, verdict: 'LEASE_LOST' }
  if (verdict === 'ALREADY_RECORDED') return { outboxId, verdict, attemptNo, state, contradicted }
  return { outboxId, verdict, attemptNo, state, held, contradicted }
}

/** Converts microseconds to a Date, which has milliseconds. Truncates instead of rounding. */
function dateOfMicros(micros: string | undefined): Date {
  return new Date(Math.floor(Number(micros) / 1000))
}

export function toDate(value: Timestamp): Date {
  return value instanceof Date ? value : new Date(value)
}
