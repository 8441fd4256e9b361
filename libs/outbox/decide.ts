import {
  ERROR_CODE_LENGTH_MAX,
  parseMoney,
  PERSON_LENGTH_MAX,
  RAIL_REFERENCE_LENGTH_MAX,
  REASON_LENGTH_MAX,
  requiredText,
  requiredUuid,
} from '../core/index.js'
import { call, onlyRow, type Queryable } from '../db/index.js'
import { optionalDate, optionalText } from './arguments.js'
import type { ApprovedProposal, DecisionResult, HoldDecision, PaymentReturn, RecordedReturn } from './types.js'

/**
 * Wraps the SQL functions of operators' decisions about single items, one wrapper per function, under the same name:
 * holds, notes, redrives, proposals, contradictions and returns.
 */

export async function placeOutboxHold(role: Queryable, outboxId: string, reason: string): Promise<string> {
  const rows = await call<{ place_outbox_hold: string }>(role, 'place_outbox_hold', [
    requiredUuid('outboxId', outboxId),
    requiredText('reason', reason, REASON_LENGTH_MAX),
  ])
  return onlyRow(rows).place_outbox_hold
}

/**
 * Appends a note to an item in any state. Returns the event id.
 *
 * @param assignee person in charge of the item from now on; empty for no person; null keeps the present one
 */
export async function noteOutboxItem(
  role: Queryable,
  outboxId: string,
  note: string,
  assignee: string | null = null,
): Promise<string> {
  const rows = await call<{ note_outbox_item: string }>(role, 'note_outbox_item', [
    requiredUuid('outboxId', outboxId),
    requiredText('note', note, REASON_LENGTH_MAX),
    assignee === '' ? '' : optionalText('assignee', assignee, PERSON_LENGTH_MAX),
  ])
  return onlyRow(rows).note_outbox_item
}

/** Lifts the hold at once for RETRY without an unknown outcome. Proposes any other decision to a second person. */
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

/** Proposes to redrive a FAILED item. */
export async function redriveOutboxItem(role: Queryable, outboxId: string, reason: string): Promise<DecisionResult> {
  return decide(role, 'redrive_outbox_item', [
    requiredUuid('outboxId', outboxId),
    requiredText('reason', reason, REASON_LENGTH_MAX),
  ])
}

async function decide(role: Queryable, functionName: string, values: readonly unknown[]): Promise<DecisionResult> {
  const rows = await call<{ status: 'APPLIED' | 'PROPOSED'; proposal_id: string | null }>(role, functionName, values)
  const { proposal_id: proposalId } = onlyRow(rows)
  return proposalId === null ? { status: 'APPLIED', proposalId } : { status: 'PROPOSED', proposalId }
}

export async function approveOutboxProposal(role: Queryable, proposalId: string): Promise<ApprovedProposal> {
  const rows = await call<{
    outbox_id: string
    decision: ApprovedProposal['decision']
    redriven_as: string | null
    applied: boolean
  }>(role, 'approve_outbox_proposal', [requiredUuid('proposalId', proposalId)])
  const row = onlyRow(rows)
  return { outboxId: row.outbox_id, decision: row.decision, redrivenAs: row.redriven_as, applied: row.applied }
}

export async function withdrawOutboxProposal(role: Queryable, proposalId: string, reason: string): Promise<void> {
  await call(role, 'withdraw_outbox_proposal', [
    requiredUuid('proposalId', proposalId),
    requiredText('reason', reason, REASON_LENGTH_MAX),
  ])
}

/** Records that an operator compared a contradiction with the rail. Returns the event id. */
export async function reviewOutboxContradiction(role: Queryable, eventId: string, reason: string): Promise<string> {
  const rows = await call<{ review_outbox_contradiction: string }>(role, 'review_outbox_contradiction', [
    requiredUuid('eventId', eventId),
    requiredText('reason', reason, REASON_LENGTH_MAX),
  ])
  return onlyRow(rows).review_outbox_contradiction
}

/**
 * Records that the rail returned money of a DISPATCHED payment, as symphony_control or symphony_executor. A repeat with
 * the same reference and content returns the first event.
 */
export async function recordOutboxReturn(role: Queryable, given: PaymentReturn): Promise<RecordedReturn> {
  parseMoney(given.amount, given.currency)
  const rows = await call<{ event_id: string; created: boolean; returned_total: string }>(
    role,
    'record_outbox_return',
    [
      requiredUuid('outboxId', given.outboxId),
      given.amount,
      given.currency,
      requiredText('code', given.code, ERROR_CODE_LENGTH_MAX),
      requiredText('reference', given.reference, RAIL_REFERENCE_LENGTH_MAX),
      optionalDate('occurredAt', given.occurredAt),
    ],
  )
  const { event_id: eventId, created, returned_total: returnedTotal } = onlyRow(rows)
  return { eventId, created, returnedTotal }
}
