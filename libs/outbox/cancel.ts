import { REASON_LENGTH_MAX, requiredId, requiredIdempotencyKey, requiredText, requiredUuid } from '../core/index.js'
import { call, onlyRow, type Queryable } from '../db/index.js'
import type { CancelledItem } from './types.js'

/**
 * Cancels an item in the transaction of `role`, as symphony_ingest or symphony_control. Throws `NotCancellableError` if
 * a call may have paid it or may still pay it, or if it has ended.
 */
export async function cancelOutboxItem(role: Queryable, outboxId: string, reason: string): Promise<CancelledItem> {
  return cancel(role, 'cancel_outbox_item', [
    requiredUuid('outboxId', outboxId),
    requiredText('reason', reason, REASON_LENGTH_MAX),
  ])
}

/** Cancels the newest item of the payment with this instruction id and key. */
export async function cancelOutboxInstruction(
  role: Queryable,
  instructionId: string,
  idempotencyKey: string,
  reason: string,
): Promise<CancelledItem> {
  return cancel(role, 'cancel_outbox_instruction', [
    requiredId('instructionId', instructionId),
    requiredIdempotencyKey('idempotencyKey', idempotencyKey),
    requiredText('reason', reason, REASON_LENGTH_MAX),
  ])
}

async function cancel(role: Queryable, functionName: string, values: readonly unknown[]): Promise<CancelledItem> {
  const rows = await call<{ outbox_id: string; attempt_id: string }>(role, functionName, values)
  const { outbox_id: outboxId, attempt_id: attemptId } = onlyRow(rows)
  return { outboxId, attemptId }
}
