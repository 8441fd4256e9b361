import type { OutboxItem, Proposal } from '../../../http/index.js'
import { hasScope, isMe } from '../../data/me.js'

export type ItemAction = 'cancel' | 'hold' | 'redrive' | 'replace' | 'resolve' | 'return'
export type BulkAction = 'approve' | 'cancel' | 'hold' | 'redrive' | 'release' | 'resolve'

/** Returns the actions that the state of a payment and the scopes of the person allow. The server checks each again. */
export function actionsFor(item: OutboxItem, hasOpenProposal: boolean): readonly ItemAction[] {
  const { state, holdReason, claimedBy, outcomeUnknown, lastAttemptAction } = item
  if (state === 'DISPATCHED') return hasScope('operate') && !item.isMessage ? ['return'] : []
  if (lastAttemptAction === 'cancelled') return []
  const isDecidable = hasScope('operate') && !hasOpenProposal
  if (state === 'FAILED') {
    const replace = hasScope('ingest') && !item.isMessage && !hasOpenProposal ? (['replace'] as const) : []
    return isDecidable && !hasBadPayload(item) ? ['redrive', ...replace] : replace
  }
  const decision = isDecidable ? [holdReason === null ? ('hold' as const) : ('resolve' as const)] : []
  const isCancellable = claimedBy === null && !outcomeUnknown && (hasScope('ingest') || hasScope('operate'))
  return isCancellable ? [...decision, 'cancel'] : decision
}

/** Codes with which a worker refuses a payload before it calls the rail. A redrive would be refused again. */
const PAYLOAD_CODES = new Set([
  'CARD_NUMBER_REFUSED',
  'INVALID_AMOUNT',
  'INVALID_CURRENCY',
  'INVALID_DESTINATION',
  'INVALID_PAYLOAD',
])

function hasBadPayload({ lastErrorCode }: OutboxItem): boolean {
  return lastErrorCode !== null && PAYLOAD_CODES.has(lastErrorCode)
}

/** Payment in a list. Redrives, replacement and proposal are absent if the list does not have them. */
export interface SelectableRow {
  readonly item: OutboxItem
  /** Whether an event has changed the state since the item was read, so that its other fields are old. */
  readonly isOutdated?: boolean
  readonly proposal?: Proposal | null
  readonly redrivenAs?: readonly string[]
  readonly replacedBy?: string | null
}

/**
 * Returns the bulk actions for a row. A hold with a known outcome can also be released, which one person may decide.
 */
export function bulkActionsFor(row: SelectableRow): readonly BulkAction[] {
  const { item, isOutdated = false, proposal = null, redrivenAs = [], replacedBy = null } = row
  if (isOutdated) return []
  const isSentAgain = redrivenAs.length > 0 || replacedBy !== null
  const actions = actionsFor(item, proposal !== null).flatMap((action): readonly BulkAction[] => {
    if (action === 'return' || action === 'replace' || (action === 'redrive' && isSentAgain)) return []
    return action === 'resolve' && !item.outcomeUnknown ? ['release', 'resolve'] : [action]
  })
  const isApprovable = proposal !== null && hasScope('operate') && !isMe(proposal.proposedBy)
  return isApprovable ? [...actions, 'approve'] : actions
}
