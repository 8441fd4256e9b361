import {
  BATCH_SIZE,
  boundedInteger,
  encodePayload,
  LEASE_SECONDS,
  REASON_LENGTH_MAX,
  redact,
  requiredId,
  requiredText,
  type JsonObject,
} from '../core/index.js'
import { call, onlyRow, qualify, type Queryable } from '../db/index.js'
import { claimColumns, delayColumn, errorColumn, keyValues, messageColumns, namedClaims } from './arguments.js'
import type {
  AbandonedMessage,
  InboxClaim,
  ClaimFailure,
  ClaimRetry,
  ReceivedMessage,
  InboxClaimRef,
  InboxEvent,
  InboxStats,
  InboxKey,
  InboxMessage,
  InboxMessageStatus,
  InboxState,
  NextInboxEvent,
  MessageContent,
  Sighting,
} from './types.js'

/**
 * Wrappers of the SQL functions of the inbox, with the same names. The first argument is a role of a database
 * (`database.as('symphony_executor')`), a transaction in it, or the caller's own client. Arguments are checked before
 * any I/O. If the database refuses a call, the error is a `DatabaseError` with a code such as `INBOX_TRANSITION`.
 */

interface SightingRow {
  readonly state: InboxState
  readonly sightings: bigint | string
  readonly created: boolean
  readonly content_differs: boolean
}

/** Stores up to 1000 messages, each once. Returns the results in the same order. */
export async function enqueueInboxMessages(
  role: Queryable,
  messages: readonly InboxMessage[],
): Promise<ReceivedMessage[]> {
  const { sources, messageIds, topics, payloads, notBefore } = messageColumns(messages)
  const values = [sources, messageIds, topics, payloads, notBefore]
  const rows = await call<SightingRow>(role, 'enqueue_inbox_messages', values)
  return rows.map((row, index) => {
    const { state, sightings, created, contentDiffers } = toSighting(row)
    return { source: sources[index]!, messageId: messageIds[index]!, state, sightings, created, contentDiffers }
  })
}

export async function enqueueInboxMessage(role: Queryable, message: InboxMessage): Promise<ReceivedMessage> {
  return onlyRow(await enqueueInboxMessages(role, [message]))
}

export async function recordInboxSighting(role: Queryable, key: InboxKey, content?: MessageContent): Promise<Sighting> {
  const rows = await call<SightingRow>(role, 'record_inbox_sighting', [
    ...keyValues(key),
    content === undefined ? null : requiredId('topic', content.topic),
    content === undefined ? null : encodePayload(content.payload),
  ])
  return toSighting(onlyRow(rows))
}

export async function markInboxProcessing(role: Queryable, key: InboxKey): Promise<void> {
  await call(role, 'mark_inbox_processing', keyValues(key))
}

export async function markInboxProcessed(role: Queryable, key: InboxKey): Promise<void> {
  await call(role, 'mark_inbox_processed', keyValues(key))
}

export async function markInboxDead(role: Queryable, key: InboxKey, error: string): Promise<void> {
  await call(role, 'mark_inbox_dead', [...keyValues(key), redact(error)])
}

interface ClaimedRow {
  readonly source: string
  readonly message_id: string
  readonly topic: string
  readonly payload: JsonObject
  readonly attempt_count: number
  readonly attempts_max: number
  readonly sightings: bigint | string
  readonly fence: string
  readonly claim_expires_at: Date
  readonly claimed_at: Date
  readonly first_seen_at: Date
  readonly taken_over: boolean
}

export async function claimInboxBatch(
  role: Queryable,
  batchSize: number,
  workerId: string,
  leaseSeconds: number,
  attemptsMax: number = ATTEMPTS_MAX_DEFAULT,
): Promise<InboxClaim[]> {
  const rows = await call<ClaimedRow>(role, 'claim_inbox_batch', [
    boundedInteger('batchSize', batchSize, BATCH_SIZE),
    requiredId('workerId', workerId),
    boundedInteger('leaseSeconds', leaseSeconds, LEASE_SECONDS),
    boundedInteger('attemptsMax', attemptsMax, ATTEMPTS_MAX),
  ])
  return rows.map((row) => ({
    source: row.source,
    messageId: row.message_id,
    topic: row.topic,
    payload: row.payload,
    attemptCount: row.attempt_count,
    attemptsMax: row.attempts_max,
    sightings: BigInt(row.sightings),
    fence: row.fence,
    claimExpiresAt: row.claim_expires_at,
    claimedAt: row.claimed_at,
    firstSeenAt: row.first_seen_at,
    takenOver: row.taken_over,
  }))
}

interface KeyRow {
  readonly source: string
  readonly message_id: string
}

export async function ackInboxMessages(
  role: Queryable,
  claims: readonly InboxClaimRef[],
  workerId: string,
): Promise<InboxKey[]> {
  const worker = requiredId('workerId', workerId)
  const named = namedClaims(claims)
  if (named.length === 0) return []
  const { sources, messageIds, fences } = claimColumns(named)
  const values = [sources, messageIds, fences, worker]
  return (await call<KeyRow>(role, 'ack_inbox_messages', values)).map(toKey)
}

/**
 * Makes messages due again. Pass `costsAttempt` false for causes outside the message, such as a missing handler: the
 * attempt then does not count.
 */
export async function abandonInboxMessages(
  role: Queryable,
  claims: readonly (InboxClaimRef & ClaimRetry)[],
  workerId: string,
  costsAttempt = true,
): Promise<AbandonedMessage[]> {
  const worker = requiredId('workerId', workerId)
  const named = namedClaims(claims)
  if (named.length === 0) return []
  const { sources, messageIds, fences } = claimColumns(named)
  const rows = await call<KeyRow & { readonly state: 'seen' | 'dead' }>(role, 'abandon_inbox_messages', [
    sources,
    messageIds,
    fences,
    worker,
    errorColumn(named),
    delayColumn(named),
    costsAttempt,
  ])
  return rows.map(({ source, message_id: messageId, state }) => ({ source, messageId, state }))
}

export async function failInboxMessages(
  role: Queryable,
  claims: readonly (InboxClaimRef & ClaimFailure)[],
  workerId: string,
): Promise<InboxKey[]> {
  const worker = requiredId('workerId', workerId)
  const named = namedClaims(claims)
  if (named.length === 0) return []
  const { sources, messageIds, fences } = claimColumns(named)
  const values = [sources, messageIds, fences, worker, errorColumn(named)]
  return (await call<KeyRow>(role, 'fail_inbox_messages', values)).map(toKey)
}

/** Revives a dead message as symphony_control. The actor is the login. Returns the event id. */
export async function reviveInboxMessage(role: Queryable, key: InboxKey, reason: string): Promise<string> {
  const rows = await call<{ revive_inbox_message: string }>(role, 'revive_inbox_message', [
    ...keyValues(key),
    requiredText('reason', reason, REASON_LENGTH_MAX),
  ])
  return onlyRow(rows).revive_inbox_message
}

/** Deletes one batch of messages that were done, or only sighted, at least `keepSeconds` ago. Returns their number. */
export async function purgeInboxMessages(role: Queryable, keepSeconds: number, batchSize: number): Promise<number> {
  const rows = await call<{ purge_inbox_messages: number }>(role, 'purge_inbox_messages', [
    boundedInteger('keepSeconds', keepSeconds, RETENTION_SECONDS),
    boundedInteger('batchSize', batchSize, BATCH_SIZE),
  ])
  return onlyRow(rows).purge_inbox_messages
}

/**
 * Returns the next due time or claim expiry. The database computes the remaining time, because the clock of this
 * process may be wrong.
 */
export async function nextInboxEvent(role: Queryable): Promise<NextInboxEvent | null> {
  const { rows } = await role.query<{ at: Date | null; in_ms: number }>(
    `SELECT n.at, (extract(epoch FROM n.at - clock_timestamp()) * 1000)::float8 AS in_ms
     FROM ${qualify(role, 'next_inbox_event')}() AS n(at)`,
  )
  const { at, in_ms: inMs } = onlyRow(rows)
  return at === null ? null : { at, inMs }
}

const STATUS_COLUMNS = `source, message_id AS "messageId", topic, state, sightings, attempt_count AS "attemptCount",
  attempts_max AS "attemptsMax", due_at AS "dueAt", first_seen_at AS "firstSeenAt", last_seen_at AS "lastSeenAt",
  ended_at AS "endedAt", last_error AS "lastError", claimed_by AS "claimedBy", claim_expires_at AS "claimExpiresAt"`

/**
 * Returns messages of a state, latest first: done and dead messages by the time of their end, others by the time of
 * their first sighting. `since` and `until` apply to the same time. As symphony_readonly, symphony_auditor or
 * symphony_control.
 */
export async function readInboxMessages(
  role: Queryable,
  state: InboxState,
  limit: number,
  { since, until }: { readonly since?: Date; readonly until?: Date } = {},
): Promise<InboxMessageStatus[]> {
  const order = state === 'done' || state === 'dead' ? 'ended_at' : 'first_seen_at'
  const { rows } = await role.query<InboxMessageStatus>(
    `SELECT ${STATUS_COLUMNS} FROM ${qualify(role, 'inbox_messages')}
     WHERE state = $1 AND ${order} >= COALESCE($3::timestamptz, '-infinity')
       AND ${order} < COALESCE($4::timestamptz, 'infinity')
     ORDER BY ${order} DESC LIMIT $2`,
    [state, boundedInteger('limit', limit, BATCH_SIZE), since ?? null, until ?? null],
  )
  return rows
}

export async function readInboxMessage(role: Queryable, key: InboxKey): Promise<InboxMessageStatus | null> {
  const { rows } = await role.query<InboxMessageStatus>(
    `SELECT ${STATUS_COLUMNS} FROM ${qualify(role, 'inbox_messages')} WHERE source = $1 AND message_id = $2`,
    keyValues(key),
  )
  return rows[0] ?? null
}

/** Returns the events of a message in order, even of a purged message. */
export async function readInboxEvents(role: Queryable, key: InboxKey): Promise<InboxEvent[]> {
  const { rows } = await role.query<InboxEvent>(
    `SELECT event_id AS "eventId", event_type AS "eventType", actor, detail, created_at AS "createdAt"
     FROM ${qualify(role, 'inbox_events')} WHERE source = $1 AND message_id = $2 ORDER BY created_at, event_id`,
    keyValues(key),
  )
  return rows
}

/** Returns counts and ages. As symphony_readonly, symphony_auditor or symphony_control. */
export async function readInboxStats(role: Queryable): Promise<InboxStats> {
  const { rows } = await role.query<InboxStats>(`
    SELECT waiting_count AS "waitingCount", due_count AS "dueCount", processing_count AS "processingCount",
      expired_claim_count AS "expiredClaimCount", dead_count AS "deadCount", oldest_due_age_seconds AS "oldestDueAgeSeconds",
      recently_dead_count AS "recentlyDeadCount", recently_dead_age_seconds AS "recentlyDeadAgeSeconds"
    FROM ${qualify(role, 'supervisor_inbox_status')}`)
  return onlyRow(rows)
}

function toSighting(row: SightingRow): Sighting {
  return {
    state: row.state,
    // A client of the caller may return an int8 as text.
    sightings: BigInt(row.sightings),
    created: row.created,
    contentDiffers: row.content_differs,
  }
}

function toKey({ source, message_id: messageId }: KeyRow): InboxKey {
  return { source, messageId }
}

export const ATTEMPTS_MAX_DEFAULT = 20
export const ATTEMPTS_MAX = Object.freeze({ min: 1, max: 1_000 })
/** Seconds, up to ten years. */
const RETENTION_SECONDS = Object.freeze({ min: 1, max: 315_576_000 })
