import { randomUUID } from 'node:crypto'
import type { JsonObject } from '../../libs/core/index.js'
import {
  claimOutboxBatch,
  completeOutboxAttempt,
  enqueuePaymentOutbox,
  recordLateOutcome,
  type AttemptAction,
  type AttemptOutcome,
  type AttemptState,
  type ClaimedItem,
  type EnqueuedItem,
  type LateOutcome,
  type OutboxInstruction,
  type RecordedAttempt,
} from '../../libs/outbox/index.js'
import type { TestDatabase } from './database.js'

/** Default worker of a test. */
export const WORKER = 'worker-1'

/** Builds an instruction with a unique participant and rail, so that tests of one file share no queue. */
export function buildInstruction(overrides: Partial<OutboxInstruction> = {}): OutboxInstruction {
  const unique = randomUUID()
  return {
    instructionId: `instruction-${unique}`,
    participantId: `participant-${unique}`,
    idempotencyKey: `key-${unique}`,
    railType: `rail-${unique}`,
    payload: { amountMinor: '1050', currency: 'EUR' },
    ...overrides,
  }
}

/** An item with its instruction. */
export type Enqueued = EnqueuedItem & OutboxInstruction

export async function enqueue(db: TestDatabase, overrides: Partial<OutboxInstruction> = {}): Promise<Enqueued> {
  const instruction = buildInstruction(overrides)
  return { ...instruction, ...(await enqueuePaymentOutbox(db.as('symphony_ingest'), instruction)) }
}

export interface ClaimSettings {
  readonly workerId?: string
  readonly leaseSeconds?: number
  readonly batchSize?: number
  /** Whether the worker sets dispatch marks for these rails. */
  readonly marked?: boolean
}

export function claim(
  db: TestDatabase,
  rails: string | readonly string[],
  { workerId = WORKER, leaseSeconds = 600, batchSize = 100, marked = false }: ClaimSettings = {},
): Promise<ClaimedItem[]> {
  const list = typeof rails === 'string' ? [rails] : rails
  return claimOutboxBatch(db.as('symphony_executor'), batchSize, workerId, leaseSeconds, {
    rails: list,
    ...(marked ? { markedRails: list } : {}),
  })
}

/** Claims the only due item of this rail. */
export async function claimOnly(db: TestDatabase, rail: string, settings?: ClaimSettings): Promise<ClaimedItem> {
  const items = await claim(db, rail, settings)
  const [item] = items
  if (item === undefined || items.length > 1) throw new Error(`expected one due item on ${rail}, got ${items.length}`)
  return item
}

export async function enqueueAndClaim(
  db: TestDatabase,
  overrides: Partial<OutboxInstruction> = {},
  settings?: ClaimSettings,
): Promise<ClaimedItem> {
  const { railType } = await enqueue(db, overrides)
  return claimOnly(db, railType, settings)
}

export async function makeDueAndClaim(
  db: TestDatabase,
  { outboxId, railType }: { readonly outboxId: string; readonly railType: string },
  settings?: ClaimSettings,
): Promise<ClaimedItem> {
  await db.makeDue(outboxId)
  return claimOnly(db, railType, settings)
}

export function complete(
  db: TestDatabase,
  { outboxId, leaseToken }: { readonly outboxId: string; readonly leaseToken: string },
  outcome: Omit<AttemptOutcome, 'outboxId' | 'leaseToken'>,
  workerId = WORKER,
): Promise<RecordedAttempt> {
  return completeOutboxAttempt(db.as('symphony_executor'), workerId, { outboxId, leaseToken, ...outcome })
}

/** Creates a due item with n RETRYABLE attempts. */
export async function enqueueAndFail(
  db: TestDatabase,
  attempts: number,
  overrides: Partial<OutboxInstruction> = {},
): Promise<Enqueued> {
  const item = await enqueue(db, overrides)
  for (let attempt = 1; attempt <= attempts; attempt++) {
    const lease = await makeDueAndClaim(db, item)
    await complete(db, lease, { state: 'RETRYABLE', errorCode: 'BUSY' })
  }
  await db.makeDue(item.outboxId)
  return item
}

/** Queue row of an item. */
export interface PendingRow {
  readonly outbox_id: string
  readonly attempt_count: number
  readonly next_attempt_at: Date
  readonly created_at: Date
  readonly claimed_by: string | null
  readonly lease_token: string | null
  readonly lease_expires_at: Date | null
  readonly claimed_at: Date | null
  readonly dispatch_mark: 'awaited' | 'begun' | null
  readonly outcome_unknown: boolean
  readonly expiry_streak: number
  readonly late_outcome: JsonObject | null
  readonly hold_reason: string | null
  readonly held_by: string | null
  readonly held_at: Date | null
  readonly ordered: boolean
  readonly blocked: boolean
  readonly block_unverified: boolean
  /** Seconds from the end of the last attempt until the item is due. Null before the first attempt. */
  readonly retry_after_seconds: number | null
}

export async function pendingRow(db: TestDatabase, outboxId: string): Promise<PendingRow | undefined> {
  const { rows } = await db.queryNoRole<PendingRow>(
    `SELECT p.*, extract(epoch FROM p.next_attempt_at - last.completed_at)::float8 AS retry_after_seconds
     FROM payment_outbox_pending p
     LEFT JOIN LATERAL (
       SELECT a.completed_at FROM payment_outbox_attempts a
       WHERE a.outbox_id = p.outbox_id ORDER BY a.attempt_no DESC LIMIT 1
     ) last ON true
     WHERE p.outbox_id = $1`,
    [outboxId],
  )
  return rows[0]
}

export interface AttemptRow {
  readonly attempt_id: string
  readonly attempt_no: number
  readonly state: AttemptState
  readonly claimed_at: Date | null
  readonly completed_at: Date | null
  readonly rail_reference: string | null
  readonly rail_code: string | null
  readonly error_code: string | null
  readonly error_message: string | null
  readonly latency_ms: number | null
  readonly worker_id: string | null
  readonly lease_token: string | null
  readonly action: AttemptAction
  readonly outcome_unknown: boolean
}

export async function attemptRows(db: TestDatabase, outboxId: string): Promise<AttemptRow[]> {
  const { rows } = await db.queryNoRole<AttemptRow>(
    'SELECT * FROM payment_outbox_attempts WHERE outbox_id = $1 ORDER BY attempt_no',
    [outboxId],
  )
  return rows
}

/** Returns the attempts as short texts: `['1 RETRYABLE', '2 DISPATCHED']`. */
export async function ledger(db: TestDatabase, outboxId: string): Promise<string[]> {
  return (await attemptRows(db, outboxId)).map(({ attempt_no, state }) => `${attempt_no} ${state}`)
}

export interface EventRow {
  readonly event_id: string
  readonly event_no: bigint
  readonly event_type: string
  readonly attempt_id: string | null
  readonly actor: string
  readonly detail: JsonObject
}

export async function eventRows(db: TestDatabase, outboxId: string): Promise<EventRow[]> {
  const { rows } = await db.queryNoRole<EventRow>(
    'SELECT * FROM payment_outbox_events WHERE outbox_id = $1 ORDER BY event_no',
    [outboxId],
  )
  return rows
}

/** Returns the participant's sequence numbers in order, and the next one. */
export async function sequenceOf(
  db: TestDatabase,
  participantId: string,
): Promise<{ readonly taken: bigint[]; readonly next: bigint | undefined }> {
  const taken = await db.queryNoRole<{ sequence_id: bigint }>(
    'SELECT sequence_id FROM payment_outbox_identities WHERE participant_id = $1 ORDER BY sequence_id',
    [participantId],
  )
  const next = await db.queryNoRole<{ next_sequence_id: bigint }>(
    'SELECT next_sequence_id FROM participant_outbox_sequences WHERE participant_id = $1',
    [participantId],
  )
  return { taken: taken.rows.map((row) => row.sequence_id), next: next.rows[0]?.next_sequence_id }
}

/** Creates a paid item with a late report of another rail reference. Returns the id of its TERMINAL_BLOCKED event. */
export async function createContradiction(db: TestDatabase): Promise<string> {
  const lease = await enqueueAndClaim(db)
  await complete(db, lease, { state: 'DISPATCHED', railReference: 'ref-1' })
  const late: LateOutcome = { ...lease, state: 'DISPATCHED', railReference: 'ref-2' }
  return (await recordLateOutcome(db.as('symphony_executor'), WORKER, late)).eventId
}
