import {
  BATCH_SIZE,
  boundedInteger,
  encodePayload,
  LEASE_SECONDS,
  RAIL_REFERENCE_LENGTH_MAX,
  REASON_LENGTH_MAX,
  requiredId,
  requiredText,
  requiredUuid,
} from '../core/index.js'
import type { JsonObject } from '../core/index.js'
import { callFunction, type Queryable, type RoleHandle } from '../db/index.js'
import type { LoadedRail } from '../rails/index.js'
import { instructionColumns, leaseColumns, optionalRails, optionalText, outcomeColumns } from './arguments.js'
import { onlyRow, toDate, toEpochCheck, unpackClaim, unpackEnqueued, unpackVerdicts } from './rows.js'
import type { EpochCheckRow, PackedClaim, PackedVerdicts } from './rows.js'
import type {
  ApprovedProposal,
  AttemptOutcome,
  AttemptState,
  ClaimedItem,
  CompletionVerdict,
  DecisionResult,
  EnqueuedItem,
  EpochCheck,
  EpochMemory,
  UnleasedTakeover,
  HoldDecision,
  LateOutcome,
  LateOutcomeEvent,
  LeaseClaim,
  LeaseRelease,
  LeaseRenewal,
  OrderedFailurePolicy,
  OutboxInstruction,
  PauseKind,
  RecordedAttempt,
  RepairedLease,
  UnrepairedLease,
} from './types.js'

/**
 * The functions of the payment outbox, one wrapper each, under the same name. Each takes first who asks: a role of a
 * database (`database.as('symphony_executor')`), a transaction in it, or, to enqueue, the caller's own client. Arguments
 * are checked before any I/O; what the database refuses is a typed error (`LeaseLostError`, `IdempotencyConflictError` …).
 */

export interface EnqueueCallOptions {
  /** Whether the items are messages, which no payment rail claims. @default false */
  readonly isMessage?: boolean
  /**
   * Caller on whose behalf a gateway enqueues. Within a scope an idempotency key names one instruction: another one throws
   * `KeyReusedError`. Only a login listed in `symphony_settings.actor_gateways` may pass it. @default none
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

/** Up to 1000 items, all or none; answers come in the order given. All are payments, or all are messages. */
export async function enqueuePaymentOutboxBatch(
  role: Queryable,
  instructions: readonly OutboxInstruction[],
  { isMessage = false, keyScope }: EnqueueCallOptions = {},
): Promise<EnqueuedItem[]> {
  const columns = instructionColumns(instructions)
  const rows = await callFunction<{ enqueue_outbox_packed: string }>(role, 'enqueue_outbox_packed', [
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
  ])
  return unpackEnqueued(onlyRow(rows).enqueue_outbox_packed)
}

export interface ClaimOptions {
  /** Claim of these rails only. @default all */
  readonly rails?: readonly string[]
  /** True: messages only. False: payments only. @default both */
  readonly isMessage?: boolean
  /** Rails whose calls this worker announces with `beginOutboxDispatch`. @default none */
  readonly announcedRails?: readonly string[]
  /** Told of each expired lease that the claim found and did not lease again: a ledger row, and nothing to carry. */
  readonly onUnleased?: (takeover: UnleasedTakeover) => void
  /** The epoch of the caller's last check: if it is over, or frozen, the claim is refused instead of being empty. */
  readonly epochId?: string
}

export async function claimOutboxBatch(
  role: Queryable,
  batchSize: number,
  workerId: string,
  leaseSeconds: number,
  options: ClaimOptions = {},
): Promise<ClaimedItem[]> {
  const rows = await callFunction<PackedClaim>(role, 'claim_outbox_packed', [
    boundedInteger('batchSize', batchSize, BATCH_SIZE),
    requiredId('workerId', workerId),
    boundedInteger('leaseSeconds', leaseSeconds, LEASE_SECONDS),
    optionalRails('rails', options.rails),
    optionalRails('announcedRails', options.announcedRails),
    options.onUnleased !== undefined,
    options.epochId === undefined ? null : requiredUuid('epochId', options.epochId),
    options.isMessage ?? null,
  ])
  return unpackClaim(onlyRow(rows), options.onUnleased)
}

export async function renewOutboxLease(
  role: Queryable,
  lease: LeaseClaim,
  workerId: string,
  leaseSeconds: number,
): Promise<Date> {
  const rows = await callFunction<{ renew_outbox_lease: Date }>(role, 'renew_outbox_lease', [
    requiredUuid('outboxId', lease.outboxId),
    requiredUuid('leaseToken', lease.leaseToken),
    requiredId('workerId', workerId),
    boundedInteger('leaseSeconds', leaseSeconds, LEASE_SECONDS),
  ])
  return toDate(onlyRow(rows).renew_outbox_lease)
}

export async function renewOutboxLeases(
  role: Queryable,
  leases: readonly LeaseClaim[],
  workerId: string,
  leaseSeconds: number,
): Promise<LeaseRenewal[]> {
  const { outboxIds, leaseTokens } = leaseColumns(leases)
  const rows = await callFunction<{ outbox_id: string; renewed: boolean; lease_expires_at: Date | null }>(
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

export async function releaseOutboxLease(role: Queryable, lease: LeaseClaim, workerId: string): Promise<void> {
  await callFunction(role, 'release_outbox_lease', [
    requiredUuid('outboxId', lease.outboxId),
    requiredUuid('leaseToken', lease.leaseToken),
    requiredId('workerId', workerId),
  ])
}

export async function releaseOutboxLeases(
  role: Queryable,
  leases: readonly LeaseClaim[],
  workerId: string,
): Promise<LeaseRelease[]> {
  const { outboxIds, leaseTokens } = leaseColumns(leases)
  const rows = await callFunction<{ outbox_id: string; released: boolean }>(role, 'release_outbox_leases', [
    outboxIds,
    leaseTokens,
    requiredId('workerId', workerId),
  ])
  return rows.map((row) => ({ outboxId: row.outbox_id, released: row.released }))
}

/** The mark before a call whose unknown outcome only a person can settle. */
export async function beginOutboxDispatch(role: Queryable, lease: LeaseClaim, workerId: string): Promise<void> {
  await callFunction(role, 'begin_outbox_dispatch', [
    requiredUuid('outboxId', lease.outboxId),
    requiredUuid('leaseToken', lease.leaseToken),
    requiredId('workerId', workerId),
  ])
}

/** Holds a leased item that will not be dispatched. Returns the id of the event. */
export async function holdLeasedOutboxItem(
  role: Queryable,
  lease: LeaseClaim,
  workerId: string,
  reason: string,
): Promise<string> {
  const rows = await callFunction<{ hold_leased_outbox_item: string }>(role, 'hold_leased_outbox_item', [
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
  const rows = await callFunction<{ attempt_no: number; state: AttemptState; held: boolean }>(
    role,
    'complete_outbox_attempt',
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
      columns.retryDelaysSeconds?.[0] ?? null,
      columns.outcomesUnknown?.[0] ?? null,
      columns.holdReasons?.[0] ?? null,
      columns.actions?.[0] ?? null,
    ],
  )
  const { attempt_no: attemptNo, state, held } = onlyRow(rows)
  return { attemptNo, state, held }
}

/**
 * Up to 1000 outcomes in one statement, each fenced on its own; a lost lease is a verdict here, not an error. With
 * `isMessage`, an item of the other kind is left alone and gets the verdict LEASE_LOST.
 */
export async function completeOutboxAttempts(
  role: Queryable,
  workerId: string,
  outcomes: readonly AttemptOutcome[],
  { isMessage }: { readonly isMessage?: boolean } = {},
): Promise<CompletionVerdict[]> {
  const columns = outcomeColumns(outcomes)
  const rows = await callFunction<PackedVerdicts>(role, 'complete_outbox_packed', [
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
  const rows = await callFunction<{ event_id: string; event_type: LateOutcomeEvent['eventType'] }>(
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

export async function repairExpiredLeases(
  role: Queryable,
  batchSize: number,
  workerId: string,
  { onUnrepaired }: { readonly onUnrepaired?: (lease: UnrepairedLease) => void } = {},
): Promise<RepairedLease[]> {
  const rows = await callFunction<{
    outbox_id: string
    attempt_no: number
    placed_hold: string | null
    failure: string | null
  }>(role, 'repair_expired_leases', [
    boundedInteger('batchSize', batchSize, BATCH_SIZE),
    requiredId('workerId', workerId),
    onUnrepaired !== undefined,
  ])
  return rows.flatMap(({ outbox_id: outboxId, attempt_no: attemptNo, placed_hold: placedHold, failure }) => {
    if (failure === null) return [{ outboxId, attemptNo, placedHold: placedHold ?? undefined }]
    onUnrepaired?.({ outboxId, attemptNo, sqlstate: failure })
    return []
  })
}

/** The nearest due time or lease expiry; null when nothing waits. `isMessage` filters due items as in a claim. */
export async function nextOutboxEvent(
  role: Queryable,
  rails?: readonly string[],
  { isMessage }: { readonly isMessage?: boolean } = {},
): Promise<Date | null> {
  const rows = await callFunction<{ next_outbox_event: Date | null }>(role, 'next_outbox_event', [
    optionalRails('rails', rails),
    isMessage ?? null,
  ])
  const { next_outbox_event: at } = onlyRow(rows)
  return at && toDate(at)
}

/** Records that a worker stopped, with its last report. False: the worker is not known. */
export async function deregisterOutboxWorker(
  role: Queryable,
  workerId: string,
  detail: JsonObject = {},
): Promise<boolean> {
  const rows = await callFunction<{ deregister_outbox_worker: boolean }>(role, 'deregister_outbox_worker', [
    requiredId('workerId', workerId),
    encodePayload(detail, 'detail'),
  ])
  return onlyRow(rows).deregister_outbox_worker
}

/** Reports a worker as alive; returns the database's clock. */
export async function heartbeatOutboxWorker(role: Queryable, workerId: string, detail: JsonObject = {}): Promise<Date> {
  const rows = await callFunction<{ heartbeat_outbox_worker: Date }>(role, 'heartbeat_outbox_worker', [
    requiredId('workerId', workerId),
    encodePayload(detail, 'detail'),
  ])
  return toDate(onlyRow(rows).heartbeat_outbox_worker)
}

/** Rail as `declareOutboxRails` records it. A loaded rail is one. */
export type DeclaredRail = Pick<LoadedRail, 'type' | 'money' | 'fields'>

/**
 * Records field classes and the money flag of rails, as symphony_executor or symphony_control. A declaration never loosens an
 * earlier one. `serving` means that this process carries the rails.
 */
export async function declareOutboxRails(
  role: Queryable,
  rails: Iterable<DeclaredRail>,
  declaredBy: string,
  { serving }: { readonly serving: boolean },
): Promise<void> {
  for (const { type, money, fields } of rails) {
    await callFunction(role, 'declare_outbox_rail', [
      requiredId('rails.type', type),
      money,
      encodePayload(Object.fromEntries(fields.map(({ pointer, fieldClass }) => [pointer, fieldClass])), 'rails.fields'),
      requiredId('declaredBy', declaredBy),
      serving,
    ])
  }
}

/** Rail without a worker. */
export interface UnservedRail {
  readonly railType: string
  /** Latest declaration by a worker; null if there is none. */
  readonly servedAt: Date | null
}

/** Returns those of up to 1000 rails that no worker has served within a day. */
export async function unservedOutboxRails(role: Queryable, rails: readonly string[]): Promise<UnservedRail[]> {
  const rows = await callFunction<{ rail_type: string; served_at: Date | null }>(role, 'unserved_outbox_rails', [
    optionalRails('rails', rails),
  ])
  return rows.map(({ rail_type: railType, served_at: servedAt }) => ({
    railType,
    servedAt: servedAt === null ? null : toDate(servedAt),
  }))
}

/**
 * Compares the server, and what this worker remembers, with what the database knows; dispatch is frozen where commits may
 * have been lost. Show what the last check answered; nothing at the first.
 */
export async function checkDispatchEpoch(role: Queryable, workerId: string, memory?: EpochMemory): Promise<EpochCheck> {
  const rows = await callFunction<EpochCheckRow>(role, 'check_dispatch_epoch', [
    requiredId('workerId', workerId),
    memory === undefined ? null : requiredUuid('memory.epochId', memory.epochId),
    memory === undefined ? null : String(memory.beatNo),
    memory === undefined ? null : memory.beatAt,
  ])
  return toEpochCheck(onlyRow(rows))
}

/** After a restore that nothing else can notice. False: it was frozen already. */
export async function freezeDispatch(role: Queryable, reason: string): Promise<boolean> {
  const rows = await callFunction<{ freeze_dispatch: boolean }>(role, 'freeze_dispatch', [
    requiredText('reason', reason, REASON_LENGTH_MAX),
  ])
  return onlyRow(rows).freeze_dispatch
}

/** False: it was not frozen. What was marked as unknown stays so, and is decided by the policy of its rail. */
export async function liftDispatchFreeze(role: Queryable, reason: string): Promise<boolean> {
  const rows = await callFunction<{ lift_dispatch_freeze: boolean }>(role, 'lift_dispatch_freeze', [
    requiredText('reason', reason, REASON_LENGTH_MAX),
  ])
  return onlyRow(rows).lift_dispatch_freeze
}

export async function placeOutboxHold(role: Queryable, outboxId: string, reason: string): Promise<string> {
  const rows = await callFunction<{ place_outbox_hold: string }>(role, 'place_outbox_hold', [
    requiredUuid('outboxId', outboxId),
    requiredText('reason', reason, REASON_LENGTH_MAX),
  ])
  return onlyRow(rows).place_outbox_hold
}

/** Lifts a hold where nothing is unknown (RETRY), else proposes the decision to a second person. */
export async function resolveOutboxHold(
  role: Queryable,
  outboxId: string,
  decision: HoldDecision,
  reason: string,
  railReference: string | null = null,
): Promise<DecisionResult> {
  return decide(role, 'resolve_outbox_hold', [
    requiredUuid('outboxId', outboxId),
    requiredText('decision', decision, 20),
    requiredText('reason', reason, REASON_LENGTH_MAX),
    optionalText('railReference', railReference, RAIL_REFERENCE_LENGTH_MAX),
  ])
}

/** Proposes to send a FAILED item again, as a new item that names it. */
export async function redriveOutboxItem(role: Queryable, outboxId: string, reason: string): Promise<DecisionResult> {
  return decide(role, 'redrive_outbox_item', [
    requiredUuid('outboxId', outboxId),
    requiredText('reason', reason, REASON_LENGTH_MAX),
  ])
}

async function decide(role: Queryable, functionName: string, values: readonly unknown[]): Promise<DecisionResult> {
  const rows = await callFunction<{ status: 'APPLIED' | 'PROPOSED'; proposal_id: string | null }>(
    role,
    functionName,
    values,
  )
  const { proposal_id: proposalId } = onlyRow(rows)
  return proposalId === null ? { status: 'APPLIED', proposalId } : { status: 'PROPOSED', proposalId }
}

export async function approveOutboxProposal(role: Queryable, proposalId: string): Promise<ApprovedProposal> {
  const rows = await callFunction<{
    outbox_id: string
    decision: ApprovedProposal['decision']
    redriven_as: string | null
  }>(role, 'approve_outbox_proposal', [requiredUuid('proposalId', proposalId)])
  const row = onlyRow(rows)
  return { outboxId: row.outbox_id, decision: row.decision, redrivenAs: row.redriven_as }
}

export async function withdrawOutboxProposal(role: Queryable, proposalId: string, reason: string): Promise<void> {
  await callFunction(role, 'withdraw_outbox_proposal', [
    requiredUuid('proposalId', proposalId),
    requiredText('reason', reason, REASON_LENGTH_MAX),
  ])
}

/** Records that an operator compared a contradiction with the rail. Returns the id of the event. */
export async function reviewOutboxContradiction(role: Queryable, eventId: string, reason: string): Promise<string> {
  const rows = await callFunction<{ review_outbox_contradiction: string }>(role, 'review_outbox_contradiction', [
    requiredUuid('eventId', eventId),
    requiredText('reason', reason, REASON_LENGTH_MAX),
  ])
  return onlyRow(rows).review_outbox_contradiction
}

/** False: it was paused already. Leases in hand go on. */
export async function pauseOutbox(role: Queryable, kind: PauseKind, name: string, reason: string): Promise<boolean> {
  const rows = await callFunction<{ pause_outbox: boolean }>(role, 'pause_outbox', [
    requiredText('kind', kind, 20),
    requiredId('name', name),
    requiredText('reason', reason, REASON_LENGTH_MAX),
  ])
  return onlyRow(rows).pause_outbox
}

/** False: there was no such pause. */
export async function resumeOutbox(role: Queryable, kind: PauseKind, name: string, reason: string): Promise<boolean> {
  const rows = await callFunction<{ resume_outbox: boolean }>(role, 'resume_outbox', [
    requiredText('kind', kind, 20),
    requiredId('name', name),
    requiredText('reason', reason, REASON_LENGTH_MAX),
  ])
  return onlyRow(rows).resume_outbox
}

export async function setParticipantOutboxPolicy(
  role: Queryable,
  participantId: string,
  onOrderedFailure: OrderedFailurePolicy,
): Promise<void> {
  await callFunction(role, 'set_participant_outbox_policy', [
    requiredId('participantId', participantId),
    requiredText('onOrderedFailure', onOrderedFailure, 20),
  ])
}

const KEY_SCOPE_LENGTH_MAX = 500

/** Runs a body whose work is undone if it throws: in a transaction of its own, or up to a savepoint of the caller's. */
export async function undoOnError<T>(tx: Queryable, body: (tx: Queryable) => Promise<T>): Promise<T> {
  if (isRoleHandle(tx)) return tx.transaction(body)
  await tx.query('SAVEPOINT symphony_enqueue')
  try {
    const result = await body(tx)
    await tx.query('RELEASE SAVEPOINT symphony_enqueue')
    return result
  } catch (error) {
    await tx.query('ROLLBACK TO SAVEPOINT symphony_enqueue')
    throw error
  }
}

function isRoleHandle(tx: Queryable): tx is RoleHandle {
  return 'transaction' in tx && 'role' in tx
}
