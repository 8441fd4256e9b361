import type { TestDatabase } from './database.js'

/** What the full trail says about an item that has not ended. Times are microseconds since 1970. */
export interface TrailItem {
  readonly attemptCount: number
  readonly nextAttemptAt: string
  readonly claimedBy: string | null
  readonly leaseExpiresAt: string | null
  readonly outcomeUnknown: boolean
  readonly holdReason: string | null
  readonly heldBy: string | null
  readonly blocked: boolean
}

interface TrailEvent {
  readonly at: string
  readonly outbox_id: string | null
  readonly scope: string | null
  readonly event_type: string
  readonly actor: string
  readonly detail: TrailDetail
}

/** Everything that any event may say. A number in microseconds is still exact as a double. */
interface TrailDetail {
  readonly next_attempt_at?: number
  readonly lease_expires_at?: number
  readonly attempt_no?: number
  readonly state?: string
  readonly outcome_unknown?: boolean
  readonly blocked?: boolean
  readonly reason?: string
  readonly decision?: string
  readonly items_marked?: number
  readonly frozen_at?: number
}

const NO_LEASE = { claimedBy: null, leaseExpiresAt: null }
const CEILING = 20

/**
 * Folds the events of a deployment into what must be pending. Who belongs to which participant is the identities'
 * to say; everything else comes from the events alone.
 */
export async function foldTrail(db: TestDatabase): Promise<Map<string, TrailItem>> {
  const { rows: events } = await db.queryNoRole<TrailEvent>(
    `SELECT outbox_id, scope, event_type, actor, detail, epoch_micros(created_at)::text AS at
     FROM payment_outbox_events ORDER BY created_at, event_no`,
  )
  const { rows: identities } = await db.queryNoRole<{ outbox_id: string; participant_id: string; ordered: boolean }>(
    'SELECT outbox_id, participant_id, ordered FROM payment_outbox_identities',
  )
  const items = new Map<string, TrailItem>()
  const enqueuedAt = new Map<string, number>()
  for (const event of events) {
    if (event.outbox_id === null) {
      foldPause(items, event, identities)
      foldFreeze(items, event, enqueuedAt)
      continue
    }
    if (event.event_type === 'ENQUEUED') enqueuedAt.set(event.outbox_id, Number(event.at))
    const next = foldEvent(items.get(event.outbox_id), event)
    if (next === undefined) items.delete(event.outbox_id)
    else items.set(event.outbox_id, next)
  }
  return items
}

/** The item after the event, or undefined when it has ended. */
function foldEvent(
  item: TrailItem | undefined,
  { event_type: type, actor, detail }: TrailEvent,
): TrailItem | undefined {
  if (type === 'ENQUEUED') {
    return {
      ...NO_LEASE,
      attemptCount: 0,
      nextAttemptAt: String(detail.next_attempt_at),
      outcomeUnknown: false,
      holdReason: null,
      heldBy: null,
      blocked: detail.blocked!,
    }
  }
  // What is said about an item that has ended changes nothing.
  if (item === undefined) return undefined
  const unknown = detail.outcome_unknown ?? item.outcomeUnknown
  const due = detail.next_attempt_at === undefined ? item.nextAttemptAt : String(detail.next_attempt_at)
  const attemptCount = Math.max(item.attemptCount, Math.min(detail.attempt_no ?? 0, CEILING))
  switch (type) {
    case 'LEASE_CLAIMED':
      return { ...item, claimedBy: actor, leaseExpiresAt: String(detail.lease_expires_at) }
    case 'LEASE_RENEWED':
      return { ...item, leaseExpiresAt: String(detail.lease_expires_at) }
    case 'LEASE_RELEASED':
      return { ...item, ...NO_LEASE, outcomeUnknown: unknown }
    case 'LEASE_EXPIRED_REPAIRED':
      return { ...item, ...NO_LEASE, outcomeUnknown: unknown, nextAttemptAt: due, attemptCount }
    case 'ATTEMPT_COMPLETED':
      return detail.state === 'RETRYABLE' ? { ...item, ...NO_LEASE, attemptCount } : undefined
    case 'RESCHEDULED':
      return { ...item, outcomeUnknown: unknown, nextAttemptAt: due }
    case 'HOLD_PLACED':
      return item.holdReason === null ? { ...item, holdReason: detail.reason!, heldBy: actor } : item
    case 'HOLD_RESOLVED':
      if (detail.decision !== 'RETRY') return undefined
      return { ...item, holdReason: null, heldBy: null, outcomeUnknown: false, nextAttemptAt: due }
    case 'LATE_OUTCOME':
      return { ...item, outcomeUnknown: unknown || detail.state === 'DISPATCHED' }
    case 'UNBLOCKED':
      return { ...item, blocked: false }
    default:
      return item
  }
}

/** A pause marks what it keeps; its end lifts the mark from what is not ordered. */
function foldPause(
  items: Map<string, TrailItem>,
  { event_type: type, scope }: TrailEvent,
  identities: readonly { readonly outbox_id: string; readonly participant_id: string; readonly ordered: boolean }[],
): void {
  const isPause = type === 'PAUSED'
  if (!isPause && type !== 'RESUMED') return
  for (const { outbox_id: outboxId, participant_id: participantId, ordered } of identities) {
    const item = items.get(outboxId)
    if (item === undefined) continue
    const ofParticipant = scope === `participant:${participantId}`
    const ofStream = scope === `stream:${participantId}` && ordered
    if (isPause && (ofParticipant || ofStream)) items.set(outboxId, { ...item, blocked: true })
    if (!isPause && ofParticipant && !ordered) items.set(outboxId, { ...item, blocked: false })
  }
}

/** After a freeze, everything that waited when it began is marked at once. */
function foldFreeze(
  items: Map<string, TrailItem>,
  { scope, detail }: TrailEvent,
  enqueuedAt: ReadonlyMap<string, number>,
): void {
  if (scope !== 'dispatch' || detail.items_marked === undefined) return
  for (const [outboxId, item] of items) {
    const waited = (enqueuedAt.get(outboxId) ?? 0) <= detail.frozen_at!
    if (waited) items.set(outboxId, { ...item, outcomeUnknown: true })
  }
}

/** The same about what is pending, from the queue itself. */
export async function readPending(db: TestDatabase): Promise<Map<string, TrailItem>> {
  const { rows } = await db.queryNoRole<TrailItem & { outbox_id: string }>(
    `SELECT outbox_id, attempt_count AS "attemptCount", epoch_micros(next_attempt_at)::text AS "nextAttemptAt",
       claimed_by AS "claimedBy", epoch_micros(lease_expires_at)::text AS "leaseExpiresAt",
       outcome_unknown AS "outcomeUnknown", hold_reason AS "holdReason", held_by AS "heldBy", blocked
     FROM payment_outbox_pending`,
  )
  return new Map(rows.map(({ outbox_id: outboxId, ...item }) => [outboxId, item]))
}
