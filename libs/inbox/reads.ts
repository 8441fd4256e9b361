import { boundedInteger } from '../core/index.js'
import { epochMicros, fromEpochMicros, isoMicros, qualify, type Queryable } from '../db/index.js'
import type { InboxState } from './types.js'

/** Reads pages of messages for people, without payload and fence. Times are text with microseconds. */

export interface InboxMessageRow {
  readonly source: string
  readonly messageId: string
  readonly topic: string | null
  readonly state: InboxState
  readonly sightings: string
  readonly attemptCount: number
  readonly attemptsMax: number
  readonly dueAt: string | null
  readonly firstSeenAt: string
  readonly lastSeenAt: string
  readonly endedAt: string | null
  readonly lastError: string | null
  readonly claimedBy: string | null
  readonly claimExpiresAt: string | null
}

/** Position of the last message of a page: its time in microseconds since 1970, and its key to order equal times. */
export interface InboxCursor {
  readonly micros: string
  readonly source: string
  readonly messageId: string
}

/**
 * Returns messages of a state, latest first: done and dead messages by the time of their end, others by the time of
 * their first sighting. `since` and `until` apply to the same time. As symphony_readonly, symphony_auditor or
 * symphony_control.
 */
export async function readInboxPage(
  role: Queryable,
  {
    state,
    after,
    since,
    until,
    limit,
  }: { state: InboxState; after?: InboxCursor | undefined; since?: Date; until?: Date; limit: number },
): Promise<{ readonly view: InboxMessageRow; readonly cursor: InboxCursor }[]> {
  const time = state === 'done' || state === 'dead' ? 'm.ended_at' : 'm.first_seen_at'
  const { rows } = await role.query<InboxMessageRow & { micros: string }>(
    `SELECT m.source, m.message_id AS "messageId", m.topic, m.state, m.sightings::text AS sightings,
       m.attempt_count AS "attemptCount", m.attempts_max AS "attemptsMax", ${isoMicros('m.due_at')} AS "dueAt",
       ${isoMicros('m.first_seen_at')} AS "firstSeenAt", ${isoMicros('m.last_seen_at')} AS "lastSeenAt",
       ${isoMicros('m.ended_at')} AS "endedAt", m.last_error AS "lastError", m.claimed_by AS "claimedBy",
       ${isoMicros('m.claim_expires_at')} AS "claimExpiresAt", ${epochMicros(time)} AS micros
     FROM ${qualify(role, 'inbox_messages')} m
     WHERE m.state = $1 AND ${time} <= ${fromEpochMicros('$2')}
       AND ($3::text IS NULL OR (${time}, m.source, m.message_id) < (${fromEpochMicros('$2')}, $3, $4::text))
       AND ${time} >= COALESCE($6::timestamptz, '-infinity') AND ${time} < COALESCE($7::timestamptz, 'infinity')
     ORDER BY ${time} DESC, m.source DESC, m.message_id DESC LIMIT $5`,
    [
      state,
      after?.micros ?? LAST_MICROS,
      after?.source ?? null,
      after?.messageId ?? null,
      boundedInteger('limit', limit, PAGE),
      since ?? null,
      until ?? null,
    ],
  )
  return rows.map(({ micros, ...view }) => ({
    view,
    cursor: { micros, source: view.source, messageId: view.messageId },
  }))
}

const PAGE = Object.freeze({ min: 1, max: 501 })
const LAST_MICROS = '10000000000000000'
