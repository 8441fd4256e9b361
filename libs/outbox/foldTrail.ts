import type { JsonObject } from '../core/index.js'

/**
 * Row of `payment_outbox_pending`, column by column. Times are text with microseconds. Instead of a payload or a lease
 * token, the row has `sha256:` and the hash, because events contain only the hashes.
 */
export interface PendingRow {
  readonly outbox_id: string
  readonly instruction_id: string
  readonly participant_id: string
  readonly sequence_id: string
  readonly idempotency_key: string
  readonly rail_type: string
  readonly payload: string
  readonly attempt_count: number
  readonly next_attempt_at: string
  readonly created_at: string
  readonly claimed_by: string | null
  readonly lease_token: string | null
  readonly lease_expires_at: string | null
  readonly claimed_at: string | null
  readonly dispatch_mark: string | null
  readonly outcome_unknown: boolean
  readonly expiry_streak: number
  readonly late_outcome: string | null
  readonly hold_reason: string | null
  readonly held_by: string | null
  readonly held_at: string | null
  readonly ordered: boolean
  readonly blocked: boolean
  readonly block_unverified: boolean
  readonly trace_context: string | null
  readonly is_message: boolean
  readonly stream_position: string | null
  readonly outcome_topic: string | null
}

export type PendingColumn = keyof PendingRow

/** Columns that never change. The fold takes them from `payment_outbox_identities`, an append-only table. */
export type PendingIdentity = Pick<
  PendingRow,
  | 'outbox_id'
  | 'instruction_id'
  | 'participant_id'
  | 'sequence_id'
  | 'idempotency_key'
  | 'rail_type'
  | 'payload'
  | 'created_at'
  | 'ordered'
  | 'is_message'
  | 'stream_position'
  | 'outcome_topic'
>

/** One event of an item, in the order of `eventNo`. */
export interface TrailEvent {
  readonly eventNo: number
  readonly at: string
  readonly eventType: string
  readonly actor: string
  readonly detail: JsonObject
  /** Detail as the JSON text that PostgreSQL writes. */
  readonly detailText: string
}

export interface ColumnChange {
  readonly column: PendingColumn
  readonly before: PendingRow[PendingColumn]
  readonly after: PendingRow[PendingColumn]
}

export interface TrailStep {
  readonly event: TrailEvent
  readonly changes: readonly ColumnChange[]
  /** Whether this event completes the item and removes its row from the queue. */
  readonly ends: boolean
}

interface FoldedTrail {
  readonly steps: readonly TrailStep[]
  /** Row after the last event; null if the item is terminal. */
  readonly row: PendingRow | null
}

/**
 * Folds the events of one item into its expected pending row. With the full trail on, every function that changes a
 * pending row writes an event of that item, so the item's own events suffice.
 */
export function foldTrail(identity: PendingIdentity, events: readonly TrailEvent[]): FoldedTrail {
  const steps: TrailStep[] = []
  let row: PendingRow | null = null
  for (const event of events) {
    const before: PendingRow | null = row
    row = nextRow(identity, before, event)
    const ends = before !== null && row === null
    steps.push({ event, changes: row === null ? [] : changesBetween(before, row), ends })
  }
  return { steps, row }
}

/** Returns the columns of `after` that differ. Without a row before, every column counts as null. */
export function changesBetween(before: PendingRow | null, after: Partial<PendingRow>): ColumnChange[] {
  return columnsOf(after).flatMap((column) => {
    const [was, is] = [before?.[column] ?? null, after[column] ?? null]
    return was === is ? [] : [{ column, before: was, after: is }]
  })
}

function columnsOf(row: Partial<PendingRow>): PendingColumn[] {
  return Object.keys(row).filter((name): name is PendingColumn => name in row)
}

function nextRow(identity: PendingIdentity, row: PendingRow | null, event: TrailEvent): PendingRow | null {
  if (event.eventType === 'ENQUEUED') return enqueuedRow(identity, event.detail)
  // Late outcomes and proposals may follow the terminal outcome, and change no row.
  if (row === null) return null
  const changes = changesBy(event, row)
  return changes === 'ended' ? null : { ...row, ...changes }
}

function enqueuedRow(identity: PendingIdentity, detail: JsonObject): PendingRow {
  return {
    ...identity,
    ...NO_LEASE,
    ...NO_HOLD,
    attempt_count: 0,
    next_attempt_at: timeOf(detail['next_attempt_at']),
    outcome_unknown: false,
    expiry_streak: 0,
    late_outcome: null,
    blocked: detail['blocked'] === true,
    // Events of earlier versions lack the field: every item that was blocked at its enqueue was unverified.
    block_unverified: (detail['block_unverified'] ?? detail['blocked']) === true,
    trace_context: textOrNull(detail['trace_context']),
  }
}

function changesBy(event: TrailEvent, row: PendingRow): Partial<PendingRow> | 'ended' {
  const { eventType, actor, detail } = event
  const outcomeUnknown = { outcome_unknown: detail['outcome_unknown'] === true }
  switch (eventType) {
    case 'LEASE_CLAIMED':
      return {
        claimed_by: actor,
        lease_token: `sha256:${textOrNull(detail['lease_token_hash'])}`,
        lease_expires_at: timeOf(detail['lease_expires_at']),
        claimed_at: timeOf(detail['claimed_at']),
        dispatch_mark: textOrNull(detail['dispatch_mark']),
      }
    case 'LEASE_RENEWED':
      return { lease_expires_at: timeOf(detail['lease_expires_at']) }
    case 'DISPATCH_BEGUN':
      return { dispatch_mark: 'begun' }
    case 'LEASE_RELEASED':
      return { ...NO_LEASE, ...('outcome_unknown' in detail ? outcomeUnknown : {}) }
    case 'LEASE_EXPIRED_REPAIRED':
      return {
        ...NO_LEASE,
        ...outcomeUnknown,
        ...countedBy(event, row),
        next_attempt_at: timeOf(detail['next_attempt_at']),
        expiry_streak: row.expiry_streak + 1,
      }
    case 'ATTEMPT_COMPLETED':
      if (detail['state'] !== 'RETRYABLE') return 'ended'
      return { ...NO_LEASE, ...countedBy(event, row) }
    case 'RESCHEDULED':
      return {
        ...outcomeUnknown,
        next_attempt_at: timeOf(detail['next_attempt_at']),
        expiry_streak: Number(detail['expiry_streak']),
      }
    case 'HOLD_PLACED':
      // A second hold does not replace the first.
      if (row.hold_reason !== null) return {}
      return { hold_reason: textOrNull(detail['reason']), held_by: actor, held_at: timeOf(detail['held_at']) }
    case 'HOLD_RESOLVED':
      if (detail['decision'] !== 'RETRY') return 'ended'
      return {
        ...NO_HOLD,
        outcome_unknown: false,
        expiry_streak: 0,
        next_attempt_at: timeOf(detail['next_attempt_at']),
      }
    case 'LATE_OUTCOME':
      return lateOutcome(event, row)
    case 'BLOCKED':
      return { blocked: true, block_unverified: detail['block_unverified'] === true }
    case 'UNBLOCKED':
      return { blocked: false, block_unverified: false }
    case 'MARKED_UNKNOWN':
      return { outcome_unknown: true }
    default:
      return {}
  }
}

const NO_LEASE = {
  claimed_by: null,
  lease_token: null,
  lease_expires_at: null,
  claimed_at: null,
  dispatch_mark: null,
} satisfies Partial<PendingRow>

const NO_HOLD = { hold_reason: null, held_by: null, held_at: null } satisfies Partial<PendingRow>

/** Maximum of the column `attempt_count`, as in `outbox_attempt_ceiling`. */
const ATTEMPT_CEILING = 20

function countedBy({ detail }: TrailEvent, row: PendingRow): Pick<PendingRow, 'attempt_count'> {
  return { attempt_count: Math.max(row.attempt_count, Math.min(Number(detail['attempt_no']), ATTEMPT_CEILING)) }
}

/** Applies a late outcome. Keeps an earlier late success, because a later report never replaces it. */
function lateOutcome({ detail, detailText }: TrailEvent, row: PendingRow): Partial<PendingRow> {
  const known: { readonly state?: unknown } = row.late_outcome === null ? {} : JSON.parse(row.late_outcome)
  return {
    late_outcome: known.state === 'DISPATCHED' ? row.late_outcome : detailText,
    outcome_unknown: row.outcome_unknown || detail['state'] === 'DISPATCHED',
  }
}

/** Formats microseconds since 1970 as `isoMicros` does. A double holds them exactly until the year 2255. */
function timeOf(micros: unknown): string {
  if (typeof micros !== 'number') return 'missing from the event'
  const seconds = Math.floor(micros / 1_000_000)
  const fraction = String(micros - seconds * 1_000_000).padStart(6, '0')
  return new Date(seconds * 1_000).toISOString().replace('.000Z', `.${fraction}Z`)
}

function textOrNull(value: unknown): string | null {
  return typeof value === 'string' ? value : null
}
