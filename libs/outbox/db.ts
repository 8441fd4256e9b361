import {
  BATCH_SIZE,
  boundedInteger,
  LEASE_SECONDS,
  REASON_LENGTH_MAX,
  requiredId,
  requiredText,
  requiredUuid,
} from '../core/index.js'
import { call, onlyRow, type Queryable } from '../db/index.js'
import { instructionColumns, leaseColumns, optionalRails, optionalText, outcomeColumns } from './arguments.js'
import { toDate, unpackClaim, unpackEnqueued, unpackVerdicts } from './rows.js'
import type { PackedClaim, PackedVerdicts } from './rows.js'
import type {
  AttemptOutcome,
  AttemptState,
  ClaimedItem,
  CompletionVerdict,
  EnqueuedItem,
  LateOutcome,
  LateOutcomeEvent,
  LeaseRef,
  LeaseRelease,
  LeaseRenewal,
  OutboxInstruction,
  RecordedAttempt,
  UnleasedTakeover,
} from './types.js'

/**
 * Wraps the SQL functions that move an item from enqueue to completion, under the same names. Wrappers of batches call
 * the packed form of their function (`claim_outbox_packed` for `claim_outbox_batch`). The first argument is a role of a
 * database (`database.as('symphony_executor')`), a transaction in that role, or, to enqueue, the caller's own client.
 * Each wrapper checks its arguments before any I/O. The database's refusals become typed errors (`LeaseLostError`,
 * `IdempotencyConflictError` …).
 */

export interface EnqueueCallOptions {
  /** Whether the items are messages, which no payment rail claims. @default false */
  readonly isMessage?: boolean
  /**
   * Caller for whom a gateway enqueues. Within a scope an idempotency key names one instruction; a second instruction
   * with that key throws `KEY_REUSED`. Only a login listed in `symphony_settings.actor_gateways` may pass a scope.
   * @default none
   */
  readonly keyScope?: string
}

export async function enqueuePaymentOutbox(
  role: Queryable,
  instruction: OutboxInstruction,
  options: EnqueueCallOptions = {},
): Promise<EnqueuedItem> {
  return onlyRow(await enqueuePaymentOutboxBatch(role, [instruction], options))
}

/** Enqueues up to 1000 items, all or none, all payments or all messages. Returns results in the order given. */
export async function enqueuePaymentOutboxBatch(
  role: Queryable,
  instructions: readonly OutboxInstruction[],
  { isMessage = false, keyScope }: EnqueueCallOptions = {},
): Promise<EnqueuedItem[]> {
  const columns = instructionColumns(instructions)
  const rows = await call<{ enqueue_outbox_packed: string }>(role, 'enqueue_outbox_packed', [
    columns.instructionIds,
    columns.participantIds,
    columns.idempotencyKeys,
    columns.railTypes,
    columns.payloads,
    columns.notBefore,
    columns.ordered,
    columns.traceContexts,
    isMessage,
    optionalText('keyScope', keyScope, KEY_SCOPE_LENGTH_MAX),
    columns.outcomeTopics,
    columns.replaces,
  ])
  return unpackEnqueued(onlyRow(rows).enqueue_outbox_packed)
}

export interface ClaimOptions {
  /** Rails to claim for. @default all */
  readonly rails?: readonly string[]
  /** True: messages only. False: payments only. @default both */
  readonly isMessage?: boolean
  /** Rails whose calls this worker marks with `beginOutboxDispatch`. @default none */
  readonly markedRails?: readonly string[]
  /** Called for each takeover that the claim recorded in the ledger without leasing the item again. */
  readonly onUnleased?: (takeover: UnleasedTakeover) => void
  /** Epoch of the caller's last check. The claim is refused if that epoch has ended or dispatch is frozen. */
  readonly epochId?: string
}

export async function claimOutboxBatch(
  role: Queryable,
  batchSize: number,
  workerId: string,
  leaseSeconds: number,
  options: ClaimOptions = {},
): Promise<ClaimedItem[]> {
  const rows = await call<PackedClaim>(role, 'claim_outbox_packed', [
    boundedInteger('batchSize', batchSize, BATCH_SIZE),
    requiredId('workerId', workerId),
    boundedInteger('leaseSeconds', leaseSeconds, LEASE_SECONDS),
    optionalRails('rails', options.rails),
    optionalRails('markedRails', options.markedRails),
    options.onUnleased !== undefined,
    options.epochId === undefined ? null : requiredUuid('epochId', options.epochId),
    options.isMessage ?? null,
  ])
  return unpackClaim(onlyRow(rows), options.onUnleased)
}

export async function renewOutboxLease(
  role: Queryable,
  lease: LeaseRef,
  workerId: string,
  leaseSeconds: number,
): Promise<Date> {
  const rows = await call<{ renew_outbox_lease: Date }>(role, 'renew_outbox_lease', [
    requiredUuid('outboxId', lease.outboxId),
    requiredUuid('leaseToken', lease.leaseToken),
    requiredId('workerId', workerId),
    boundedInteger('leaseSeconds', leaseSeconds, LEASE_SECONDS),
  ])
  return toDate(onlyRow(rows).renew_outbox_lease)
}

/**
 * Renews many leases. Does not wait for items that another transaction has locked, so that one of them does not delay
 * the others: their `renewed` is null. Repeat the call for them.
 */
export async function renewOutboxLeases(
  role: Queryable,
  leases: readonly LeaseRef[],
  workerId: string,
  leaseSeconds: number,
): Promise<LeaseRenewal[]> {
  const { outboxIds, leaseTokens } = leaseColumns(leases)
  const rows = await call<{ outbox_id: string; renewed: boolean | null; lease_expires_at: Date | null }>(
    role,
    'renew_outbox_leases',
    [
      outboxIds,
      leaseTokens,
      requiredId('workerId', workerId),
      boundedInteger('leaseSeconds', leaseSeconds, LEASE_SECONDS),
    ],
  )
  return rows.map((row) => ({
    outboxId: row.outbox_id,
    renewed: row.renewed,
    leaseExpiresAt: row.lease_expires_at && toDate(row.lease_expires_at),
  }))
}

export async function releaseOutboxLease(role: Queryable, lease: LeaseRef, workerId: string): Promise<void> {
  await call(role, 'release_outbox_lease', [
    requiredUuid('outboxId', lease.outboxId),
    requiredUuid('leaseToken', lease.leaseToken),
    requiredId('workerId', workerId),
  ])
}

/** Releases many leases. Does not wait for locked items: their `released` is null. Repeat the call for them. */
export async function releaseOutboxLeases(
  role: Queryable,
  leases: readonly LeaseRef[],
  workerId: string,
): Promise<LeaseRelease[]> {
  const { outboxIds, leaseTokens } = leaseColumns(leases)
  const rows = await call<{ outbox_id: string; released: boolean | null }>(role, 'release_outbox_leases', [
    outboxIds,
    leaseTokens,
    requiredId('workerId', workerId),
  ])
  return rows.map((row) => ({ outboxId: row.outbox_id, released: row.released }))
}

/** Writes the dispatch mark, before a call to a rail with `onUnknown: 'hold'`. */
export async function beginOutboxDispatch(role: Queryable, lease: LeaseRef, workerId: string): Promise<void> {
  await call(role, 'begin_outbox_dispatch', [
    requiredUuid('outboxId', lease.outboxId),
    requiredUuid('leaseToken', lease.leaseToken),
    requiredId('workerId', workerId),
  ])
}

/** Holds a leased item that will not be dispatched. Returns the id of the event. */
export async function holdLeasedOutboxItem(
  role: Queryable,
  lease: LeaseRef,
  workerId: string,
  reason: string,
): Promise<string> {
  const rows = await call<{ hold_leased_outbox_item: string }>(role, 'hold_leased_outbox_item', [
    requiredUuid('outboxId', lease.outboxId),
    requiredUuid('leaseToken', lease.leaseToken),
    requiredId('workerId', workerId),
    requiredText('reason', reason, REASON_LENGTH_MAX),
  ])
  return onlyRow(rows).hold_leased_outbox_item
}

export async function completeOutboxAttempt(
  role: Queryable,
  workerId: string,
  outcome: AttemptOutcome,
): Promise<RecordedAttempt> {
  const columns = outcomeColumns([outcome])
  const rows = await call<{ attempt_no: number; state: AttemptState; held: boolean }>(role, 'complete_outbox_attempt', [
    columns.outboxIds[0],
    columns.leaseTokens[0],
    requiredId('workerId', workerId),
    columns.states[0],
    columns.railReferences?.[0] ?? null,
    columns.railCodes?.[0] ?? null,
    columns.errorCodes?.[0] ?? null,
    columns.errorMessages?.[0] ?? null,
    columns.latenciesMs?.[0] ?? null,
    columns.retryDelaysSeconds?.[0] ?? null,
    columns.outcomesUnknown?.[0] ?? null,
    columns.holdReasons?.[0] ?? null,
    columns.actions?.[0] ?? null,
  ])
  const { attempt_no: attemptNo, state, held } = onlyRow(rows)
  return { attemptNo, state, held }
}

/**
 * Records up to 1000 outcomes in one statement, each fenced by its own token. A lost lease is a verdict here, not an
 * error. With `isMessage`, an item of the other kind stays unchanged and gets the verdict LEASE_LOST.
 */
export async function completeOutboxAttempts(
  role: Queryable,
  workerId: string,
  outcomes: readonly AttemptOutcome[],
  { isMessage }: { readonly isMessage?: boolean } = {},
): Promise<CompletionVerdict[]> {
  const columns = outcomeColumns(outcomes)
  const rows = await call<PackedVerdicts>(role, 'complete_outbox_packed', [
    columns.outboxIds,
    columns.leaseTokens,
    requiredId('workerId', workerId),
    columns.states,
    columns.railReferences,
    columns.railCodes,
    columns.errorCodes,
    columns.errorMessages,
    columns.latenciesMs,
    columns.retryDelaysSeconds,
    columns.outcomesUnknown,
    columns.holdReasons,
    isMessage ?? null,
    columns.actions,
  ])
  return unpackVerdicts(onlyRow(rows), columns.outboxIds)
}

export async function recordLateOutcome(
  role: Queryable,
  workerId: string,
  outcome: LateOutcome,
): Promise<LateOutcomeEvent> {
  const columns = outcomeColumns([outcome])
  const rows = await call<{ event_id: string; event_type: LateOutcomeEvent['eventType'] }>(
    role,
    'record_late_outcome',
    [
      columns.outboxIds[0],
      columns.leaseTokens[0],
      requiredId('workerId', workerId),
      columns.states[0],
      columns.railReferences?.[0] ?? null,
      columns.railCodes?.[0] ?? null,
      columns.errorCodes?.[0] ?? null,
      columns.errorMessages?.[0] ?? null,
      columns.latenciesMs?.[0] ?? null,
    ],
  )
  const { event_id: eventId, event_type: eventType } = onlyRow(rows)
  return { eventId, eventType }
}

/**
 * Deletes rows past their retention from the search table and the counts per minute, hour and day, at most one batch.
 * Returns their number. The ledger keeps everything.
 */
export async function purgeLedgerProjection(
  role: Queryable,
  searchSeconds: number,
  batchSize: number,
): Promise<number> {
  const rows = await call<{ purge_ledger_projection: number }>(role, 'purge_ledger_projection', [
    boundedInteger('searchSeconds', searchSeconds, { min: 60, max: 315_360_000 }),
    boundedInteger('batchSize', batchSize, { min: 1, max: 1_000 }),
  ])
  return onlyRow(rows).purge_ledger_projection
}

export const KEY_SCOPE_LENGTH_MAX = 500
