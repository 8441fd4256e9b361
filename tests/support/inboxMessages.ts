import { randomUUID } from 'node:crypto'
import {
  claimInboxBatch,
  enqueueInboxMessage,
  type InboxClaim,
  type InboxKey,
  type InboxMessage,
} from '../../libs/inbox/index.js'
import type { TestDatabase } from './database.js'

/** Default worker of a test. */
export const WORKER = 'worker-1'

/** Builds a message with a unique source, so that tests of one file share nothing. */
export function buildMessage(overrides: Partial<InboxMessage> = {}): InboxMessage {
  return {
    source: `source-${randomUUID()}`,
    messageId: 'message-1',
    topic: 'payment.settled',
    payload: { amountMinor: '1050' },
    ...overrides,
  }
}

export async function enqueued(db: TestDatabase, overrides: Partial<InboxMessage> = {}): Promise<InboxMessage> {
  const message = buildMessage(overrides)
  await enqueueInboxMessage(db.as('symphony_ingest'), message)
  return message
}

export interface ClaimSettings {
  readonly workerId?: string
  readonly leaseSeconds?: number
  readonly attemptsMax?: number
}

/** Claims everything due, which may include messages of other tests, and returns those of one source. */
export async function claimOf(
  db: TestDatabase,
  { source }: Pick<InboxKey, 'source'>,
  { workerId = WORKER, leaseSeconds = 600, attemptsMax }: ClaimSettings = {},
): Promise<InboxClaim[]> {
  const claimed = await claimInboxBatch(db.as('symphony_executor'), 1_000, workerId, leaseSeconds, attemptsMax)
  return claimed.filter((message) => message.source === source)
}

export async function enqueuedAndClaimed(
  db: TestDatabase,
  overrides: Partial<InboxMessage> = {},
  settings: ClaimSettings = {},
): Promise<InboxClaim> {
  const [claim] = await claimOf(db, await enqueued(db, overrides), settings)
  if (claim === undefined) throw new Error('the message was not claimed')
  return claim
}

/** Reads the row as superuser. */
export async function rowOf(db: TestDatabase, { source, messageId }: InboxKey): Promise<Record<string, unknown>> {
  const { rows } = await db.queryNoRole(
    `SELECT *, due_at > clock_timestamp() AS due_later, claim_expires_at > clock_timestamp() AS claim_live
     FROM inbox_messages WHERE source = $1 AND message_id = $2`,
    [source, messageId],
  )
  return rows[0] ?? {}
}

export async function expireClaim(db: TestDatabase, key: InboxKey): Promise<void> {
  await touch(db, key, `claim_expires_at = clock_timestamp() - interval '1 second'`, 'fence IS NOT NULL')
}

export async function makeDue(db: TestDatabase, key: InboxKey): Promise<void> {
  await touch(db, key, `due_at = clock_timestamp() - interval '1 second'`, `state = 'seen'`)
}

/** Moves the end of a message into the past. */
export async function endedAgo(db: TestDatabase, key: InboxKey, seconds: number): Promise<void> {
  await touch(db, key, `ended_at = clock_timestamp() - make_interval(secs => ${seconds})`, 'ended_at IS NOT NULL')
}

/** Moves the last sighting into the past, and the first one with it. */
export async function sightedAgo(db: TestDatabase, key: InboxKey, seconds: number): Promise<void> {
  const then = `clock_timestamp() - make_interval(secs => ${seconds})`
  await touch(db, key, `last_seen_at = ${then}, first_seen_at = LEAST(first_seen_at, ${then})`, 'true')
}

async function touch(db: TestDatabase, { source, messageId }: InboxKey, set: string, where: string): Promise<void> {
  const { rows } = await db.queryNoRole(
    `UPDATE inbox_messages SET ${set} WHERE source = $1 AND message_id = $2 AND ${where} RETURNING 1`,
    [source, messageId],
  )
  if (rows.length === 0) throw new Error(`no such message with ${where}`)
}
