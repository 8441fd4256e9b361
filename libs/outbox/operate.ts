import {
  BATCH_SIZE,
  boundedInteger,
  encodePayload,
  REASON_LENGTH_MAX,
  requiredId,
  requiredText,
  requiredUuid,
  type JsonObject,
} from '../core/index.js'
import { call, onlyRow, type Queryable } from '../db/index.js'
import type { LoadedRail } from '../rails/index.js'
import { optionalRails } from './arguments.js'
import { toDate, toEpochCheck, type EpochCheckRow } from './rows.js'
import type {
  EpochCheck,
  EpochRecord,
  OrderedFailurePolicy,
  PauseKind,
  RepairedLease,
  UnrepairedLease,
} from './types.js'

/**
 * Wraps the other SQL functions of workers and operators, one wrapper per function, under the same name: lease repair,
 * worker reports, rail declarations, dispatch freeze, pauses and policies of participants. `db.ts` has the functions
 * that move an item, `decide.ts` the decisions of operators.
 */

export async function repairExpiredLeases(
  role: Queryable,
  batchSize: number,
  workerId: string,
  { onUnrepaired }: { readonly onUnrepaired?: (lease: UnrepairedLease) => void } = {},
): Promise<RepairedLease[]> {
  const rows = await call<{
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

/**
 * Returns the nearest due time or lease expiry, or null if no item waits. `isMessage` filters due items as in a claim.
 */
export async function nextOutboxEvent(
  role: Queryable,
  rails?: readonly string[],
  { isMessage }: { readonly isMessage?: boolean } = {},
): Promise<Date | null> {
  const rows = await call<{ next_outbox_event: Date | null }>(role, 'next_outbox_event', [
    optionalRails('rails', rails),
    isMessage ?? null,
  ])
  const { next_outbox_event: at } = onlyRow(rows)
  return at && toDate(at)
}

/** Records that a worker stopped, with its last report. Returns false for an unknown worker. */
export async function deregisterOutboxWorker(
  role: Queryable,
  workerId: string,
  detail: JsonObject = {},
): Promise<boolean> {
  const rows = await call<{ deregister_outbox_worker: boolean }>(role, 'deregister_outbox_worker', [
    requiredId('workerId', workerId),
    encodePayload(detail, 'detail'),
  ])
  return onlyRow(rows).deregister_outbox_worker
}

/** Reports a worker as alive. Returns the database's time. */
export async function heartbeatOutboxWorker(role: Queryable, workerId: string, detail: JsonObject = {}): Promise<Date> {
  const rows = await call<{ heartbeat_outbox_worker: Date }>(role, 'heartbeat_outbox_worker', [
    requiredId('workerId', workerId),
    encodePayload(detail, 'detail'),
  ])
  return toDate(onlyRow(rows).heartbeat_outbox_worker)
}

/** Part of a rail that `declareOutboxRails` records. Every `LoadedRail` has it. */
export type DeclaredRail = Pick<LoadedRail, 'type' | 'money' | 'fields'>

/**
 * Records field classes and the money flag of rails, as symphony_executor or symphony_control. A declaration never
 * loosens an earlier one. `serving` means that this process dispatches to the rails.
 */
export async function declareOutboxRails(
  role: Queryable,
  rails: Iterable<DeclaredRail>,
  declaredBy: string,
  { serving }: { readonly serving: boolean },
): Promise<void> {
  for (const { type, money, fields } of rails) {
    await call(role, 'declare_outbox_rail', [
      requiredId('rails.type', type),
      money,
      encodePayload(Object.fromEntries(fields.map(({ pointer, fieldClass }) => [pointer, fieldClass])), 'rails.fields'),
      requiredId('declaredBy', declaredBy),
      serving,
    ])
  }
}

/** Rail that no worker has served within a day. */
export interface UnservedRail {
  readonly railType: string
  /** Time of the latest declaration by a worker; null if there is none. */
  readonly servedAt: Date | null
}

/** Returns the rails, of up to 1000 given ones, that no worker has served within a day. */
export async function unservedOutboxRails(role: Queryable, rails: readonly string[]): Promise<UnservedRail[]> {
  const rows = await call<{ rail_type: string; served_at: Date | null }>(role, 'unserved_outbox_rails', [
    optionalRails('rails', rails),
  ])
  return rows.map(({ rail_type: railType, served_at: servedAt }) => ({
    railType,
    servedAt: servedAt === null ? null : toDate(servedAt),
  }))
}

/**
 * Compares the running server and the worker's record with the epochs stored in the database. Freezes dispatch if
 * commits may have been lost. Pass the `record` of the last check, or none at the first check.
 */
export async function checkDispatchEpoch(role: Queryable, workerId: string, record?: EpochRecord): Promise<EpochCheck> {
  const rows = await call<EpochCheckRow>(role, 'check_dispatch_epoch', [
    requiredId('workerId', workerId),
    record === undefined ? null : requiredUuid('record.epochId', record.epochId),
    record === undefined ? null : String(record.beatNo),
    record === undefined ? null : record.beatAt,
  ])
  return toEpochCheck(onlyRow(rows))
}

/** Freezes dispatch, after a restore that the checks cannot detect. Returns false if dispatch was already frozen. */
export async function freezeDispatch(role: Queryable, reason: string): Promise<boolean> {
  const rows = await call<{ freeze_dispatch: boolean }>(role, 'freeze_dispatch', [
    requiredText('reason', reason, REASON_LENGTH_MAX),
  ])
  return onlyRow(rows).freeze_dispatch
}

/**
 * Lifts the freeze. Returns false if dispatch was not frozen. Outcomes marked as unknown stay unknown, and the rail's
 * `onUnknown` decides.
 */
export async function liftDispatchFreeze(role: Queryable, reason: string): Promise<boolean> {
  const rows = await call<{ lift_dispatch_freeze: boolean }>(role, 'lift_dispatch_freeze', [
    requiredText('reason', reason, REASON_LENGTH_MAX),
  ])
  return onlyRow(rows).lift_dispatch_freeze
}

/** Pauses claiming. Returns false if it was already paused. Current leases continue. */
export async function pauseOutbox(role: Queryable, kind: PauseKind, name: string, reason: string): Promise<boolean> {
  const rows = await call<{ pause_outbox: boolean }>(role, 'pause_outbox', [
    requiredText('kind', kind, 20),
    requiredId('name', name),
    requiredText('reason', reason, REASON_LENGTH_MAX),
  ])
  return onlyRow(rows).pause_outbox
}

/** Resumes claiming. Returns false if there was no such pause. */
export async function resumeOutbox(role: Queryable, kind: PauseKind, name: string, reason: string): Promise<boolean> {
  const rows = await call<{ resume_outbox: boolean }>(role, 'resume_outbox', [
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
  await call(role, 'set_participant_outbox_policy', [
    requiredId('participantId', participantId),
    requiredText('onOrderedFailure', onOrderedFailure, 20),
  ])
}
