import {
  boundedInteger,
  InvalidArgumentError,
  LIMIT_WINDOW_SECONDS,
  minorUnitsOf,
  REASON_LENGTH_MAX,
  requireKnownOptions,
  requiredId,
  requiredText,
  requiredUuid,
} from '../core/index.js'
import { call, onlyRow, type Queryable } from '../db/index.js'

/** Wraps the SQL functions that set and remove limits. */

/**
 * Kind of a limit. `approval` holds a payment above an amount. `amount` and `count` hold payments beyond the sum or the
 * number of a rolling window.
 */
export type LimitKind = 'approval' | 'amount' | 'count'

/** Rule that holds payments at enqueue. It names a rail, a participant or both. */
export interface LimitRule {
  readonly kind: LimitKind
  readonly railType?: string
  readonly participantId?: string
  /** ISO 4217 code. Required for `approval` and `amount`, absent for `count`. */
  readonly currency?: string
  /** Decimal amount such as `250000.00`, or for `count` a number of payments. */
  readonly limit: string
  /** Length of the rolling window, from 60 seconds to 31 days. Absent for `approval`. */
  readonly windowSeconds?: number
  /** Number of people who release a payment above the limit, 1 or 2. Only for `approval`. */
  readonly approvals?: number
}

/** Proposes to set a limit, or to remove the limit of this name (`rule` is null). Returns the id of the proposal. */
export async function proposeOutboxLimit(
  role: Queryable,
  name: string,
  rule: LimitRule | null,
  reason: string,
): Promise<string> {
  requiredId('name', name)
  requiredText('reason', reason, REASON_LENGTH_MAX)
  if (rule === null) {
    const rows = await call<{ propose_outbox_limit_removal: string }>(role, 'propose_outbox_limit_removal', [
      name,
      reason,
    ])
    return onlyRow(rows).propose_outbox_limit_removal
  }
  requireKnownOptions(rule, LIMIT_FIELDS, 'rule.')
  const { kind, limit, railType, participantId, currency, windowSeconds, approvals } = rule
  if (currency !== undefined && minorUnitsOf(currency) === undefined) {
    throw new InvalidArgumentError('rule.currency', 'expected an ISO 4217 code in which amounts can be paid')
  }
  if (typeof limit !== 'string' || !LIMIT_VALUE.test(limit)) {
    throw new InvalidArgumentError('rule.limit', 'expected a decimal string such as 250000.00, or a number of payments')
  }
  const rows = await call<{ propose_outbox_limit: string }>(role, 'propose_outbox_limit', [
    name,
    requiredText('rule.kind', kind, 20),
    limit,
    reason,
    railType === undefined ? null : requiredId('rule.railType', railType),
    participantId === undefined ? null : requiredId('rule.participantId', participantId),
    currency ?? null,
    windowSeconds === undefined ? null : boundedInteger('rule.windowSeconds', windowSeconds, LIMIT_WINDOW_SECONDS),
    approvals === undefined ? null : boundedInteger('rule.approvals', approvals, { min: 1, max: 2 }),
  ])
  return onlyRow(rows).propose_outbox_limit
}

/** Applies the proposal of another person. Returns the name of the limit. */
export async function approveOutboxLimit(role: Queryable, proposalId: string): Promise<string> {
  const rows = await call<{ approve_outbox_limit: string }>(role, 'approve_outbox_limit', [
    requiredUuid('proposalId', proposalId),
  ])
  return onlyRow(rows).approve_outbox_limit
}

export async function withdrawOutboxLimit(role: Queryable, proposalId: string, reason: string): Promise<void> {
  await call(role, 'withdraw_outbox_limit', [
    requiredUuid('proposalId', proposalId),
    requiredText('reason', reason, REASON_LENGTH_MAX),
  ])
}

const LIMIT_FIELDS = ['kind', 'limit', 'railType', 'participantId', 'currency', 'windowSeconds', 'approvals']

/** Value of a limit. The database also checks its range. */
const LIMIT_VALUE = /^(?:0|[1-9]\d{0,17})(?:\.\d{1,4})?$/
