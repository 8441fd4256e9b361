import { REASON_LENGTH_MAX, requiredText } from '../core/index.js'
import { call, onlyRow, type Queryable } from '../db/index.js'
import { instructionColumns, optionalText } from './arguments.js'
import { KEY_SCOPE_LENGTH_MAX, type EnqueueCallOptions } from './db.js'
import { toDate } from './rows.js'
import type { EnqueuedItem, OutboxInstruction, OutboxState } from './types.js'

/** Payment that a person proposes. It has no `notBefore`, and it is not ordered. */
export type ProposedInstruction = Pick<
  OutboxInstruction,
  'instructionId' | 'participantId' | 'idempotencyKey' | 'railType' | 'payload' | 'replaces' | 'outcomeTopic'
>

/** Payment that is held until a second person approves it. */
export interface ProposedItem extends EnqueuedItem {
  /** Open proposal; null if a repeated call finds that the proposal was decided before. */
  readonly proposalId: string | null
}

/**
 * Enqueues a payment and proposes it in the name of the caller. The payment is held until a second person approves the
 * proposal (`approveOutboxProposal`), or two people above a limit that asks for two.
 */
export async function proposePaymentOutbox(
  role: Queryable,
  instruction: ProposedInstruction,
  reason: string,
  { keyScope }: Pick<EnqueueCallOptions, 'keyScope'> = {},
): Promise<ProposedItem> {
  const columns = instructionColumns([instruction])
  const rows = await call<{
    outbox_id: string
    sequence_id: string
    created_at: Date
    state: OutboxState
    created: boolean
    proposal_id: string | null
  }>(role, 'propose_payment_outbox', [
    columns.instructionIds[0],
    columns.participantIds[0],
    columns.idempotencyKeys[0],
    columns.railTypes[0],
    columns.payloads[0],
    requiredText('reason', reason, REASON_LENGTH_MAX),
    optionalText('keyScope', keyScope, KEY_SCOPE_LENGTH_MAX),
    columns.replaces?.[0] ?? null,
    columns.outcomeTopics?.[0] ?? null,
  ])
  const { outbox_id: outboxId, created_at: createdAt, state, created, ...row } = onlyRow(rows)
  return {
    outboxId,
    sequenceId: BigInt(row.sequence_id),
    createdAt: toDate(createdAt),
    state,
    created,
    proposalId: row.proposal_id,
  }
}
