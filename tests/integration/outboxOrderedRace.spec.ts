import { beforeAll, expect, test } from 'vitest'
import {
  claimOutboxBatch,
  completeOutboxAttempts,
  enqueuePaymentOutboxBatch,
  pauseOutbox,
  repairExpiredLeases,
  resumeOutbox,
  type AttemptOutcome,
  type ClaimedItem,
} from '../../libs/outbox/index.js'
import { useTestDatabase } from '../support/database.js'
import { brokenLedgerRules, readLedgerText } from '../support/ledgerRules.js'
import { buildInstruction } from '../support/outboxItems.js'
import { openConnection, type Connection } from '../support/race.js'

const PARTICIPANTS = 20
const ITEMS_EACH = 15
const WORKERS = 6
const ENQUEUERS = 4

const db = await useTestDatabase()
let deadline: number
beforeAll(async () => {
  deadline = Date.now() + 90_000
})

/** Returns whether every item is terminal. Throws with the open items after the deadline. */
async function isDrained(): Promise<boolean> {
  const { rows } = await db.queryNoRole<{ ended: bigint }>(
    `SELECT count(*) AS ended FROM payment_outbox_attempts WHERE state IN ('DISPATCHED', 'FAILED')`,
  )
  if (Date.now() > deadline) {
    const stranded = await db.queryNoRole(
      `SELECT participant_id, sequence_id::int, state FROM outbox_operational_status WHERE state NOT IN ('DISPATCHED', 'FAILED')
       ORDER BY participant_id, sequence_id`,
    )
    throw new Error(`not drained: ${JSON.stringify(stranded.rows.slice(0, 20))}`)
  }
  return rows[0]!.ended === BigInt(PARTICIPANTS * ITEMS_EACH)
}

const participants = Array.from({ length: PARTICIPANTS }, (_, index) => `participant-${index}`)

/** Enqueues one share of the items, three per participant at a time, in transactions that stay open for a while. */
async function enqueueShare(connection: Connection, share: number): Promise<void> {
  const mine = participants.filter((_, index) => index % ENQUEUERS === share)
  for (let done = 0; done < ITEMS_EACH; done += 3) {
    await connection.query('BEGIN')
    const items = mine.flatMap((participantId) =>
      Array.from({ length: 3 }, () => buildInstruction({ participantId, railType: pick(['a', 'b']), ordered: true })),
    )
    await enqueuePaymentOutboxBatch(connection, items)
    await connection.query(`SELECT pg_sleep(random() * 0.02)`)
    await connection.query('COMMIT')
  }
}

/** Claims and completes items with random outcomes, expiries and rollbacks until every item is terminal. */
async function work(connection: Connection, workerId: string): Promise<void> {
  while (!(await isDrained())) {
    const items = await claimOutboxBatch(connection, 1 + Math.floor(Math.random() * 8), workerId, 60)
    for (const item of items) {
      // Imitates a worker that died: its lease expires.
      if (Math.random() < 0.1) await db.expireLease(item.outboxId)
    }
    await connection.query('BEGIN')
    if (items.length > 0) await completeOutboxAttempts(connection, workerId, items.map(buildOutcome))
    await connection.query(Math.random() < 0.1 ? 'ROLLBACK' : 'COMMIT')
    await expireRemainingLeases(items)
    if (Math.random() < 0.2) await repairExpiredLeases(connection, 100, workerId)
  }
}

function buildOutcome({ outboxId, leaseToken }: ClaimedItem): AttemptOutcome {
  const state = pick(['DISPATCHED', 'DISPATCHED', 'DISPATCHED', 'FAILED', 'RETRYABLE'] as const)
  // An unknown outcome would be held instead of FAILED, and nothing here resolves holds.
  return { outboxId, leaseToken, state, outcomeUnknown: false, retryDelaySeconds: 0 }
}

/** Expires the leases that a rolled-back completion left, as a crash would. */
async function expireRemainingLeases(items: readonly ClaimedItem[]): Promise<void> {
  for (const { leaseToken } of items) {
    await db.queryNoRole(
      `UPDATE payment_outbox_pending SET lease_expires_at = clock_timestamp() - interval '1 second'
       WHERE lease_token = $1`,
      [leaseToken],
    )
  }
}

/** Makes rescheduled items due at once. Repair reschedules them by a second. */
async function hurry(connection: Connection): Promise<void> {
  while (!(await isDrained())) {
    await connection.query(
      `UPDATE payment_outbox_pending SET next_attempt_at = clock_timestamp() - interval '1 second'
       WHERE outbox_id IN (
         SELECT outbox_id FROM payment_outbox_pending WHERE next_attempt_at > clock_timestamp()
         ORDER BY outbox_id FOR UPDATE SKIP LOCKED)`,
    )
  }
}

/** Pauses and resumes one random participant, stream or rail after the other. */
async function interfere(connection: Connection): Promise<void> {
  while (!(await isDrained())) {
    const kind = pick(['participant', 'stream', 'rail'] as const)
    const name = kind === 'rail' ? pick(['a', 'b']) : pick(participants)
    await pauseOutbox(connection, kind, name, 'please wait')
    await resumeOutbox(connection, kind, name, 'go on')
  }
}

function pick<T>(choices: readonly T[]): T {
  return choices[Math.floor(Math.random() * choices.length)]!
}

test(
  `${PARTICIPANTS} streams of ${ITEMS_EACH} items drain in order despite crashes and pauses`,
  { timeout: 120_000 },
  async () => {
    const connections = await Promise.all([
      ...Array.from({ length: WORKERS }, () => openConnection(db, 'symphony_executor')),
      ...Array.from({ length: ENQUEUERS }, () => openConnection(db, 'symphony_ingest')),
      openConnection(db, 'symphony_control'),
      openConnection(db),
    ])
    await Promise.all([
      ...connections.slice(0, WORKERS).map((connection, index) => work(connection, `worker-${index}`)),
      ...connections.slice(WORKERS, WORKERS + ENQUEUERS).map((connection, index) => enqueueShare(connection, index)),
      interfere(connections.at(-2)!),
      hurry(connections.at(-1)!),
    ])

    const { rows } = await db.queryNoRole(
      `SELECT count(*) AS items, count(DISTINCT participant_id) AS streams,
         bool_and(first_claimed_at >= previous_ended_at) AS in_order, max(sequence_id) AS last
       FROM (
         SELECT participant_id, sequence_id, first_claimed_at,
           lag(ended_at, 1, '-infinity') OVER (PARTITION BY participant_id ORDER BY sequence_id) AS previous_ended_at
         FROM (
           SELECT participant_id, sequence_id, min(claimed_at) AS first_claimed_at,
             max(completed_at) FILTER (WHERE state IN ('DISPATCHED', 'FAILED')) AS ended_at
           FROM payment_outbox_attempts GROUP BY participant_id, sequence_id
         ) item
       ) stream`,
    )
    expect(rows).toEqual([
      {
        items: BigInt(PARTICIPANTS * ITEMS_EACH),
        streams: BigInt(PARTICIPANTS),
        in_order: true,
        last: BigInt(ITEMS_EACH),
      },
    ])
    expect((await db.queryNoRole('SELECT FROM payment_outbox_pending')).rows).toEqual([])
    expect(brokenLedgerRules(await readLedgerText(db.as('symphony_auditor')))).toEqual([])
  },
)
