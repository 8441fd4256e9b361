import { CANDIDATES_MAX, toOutboxId } from './references.js'
import type { StatementEntry } from './types.js'

export interface CamtAmount {
  readonly amount: string
  readonly currency: string
}

/** Fields of an `Ntry`, or of one of its `TxDtls`. */
export class CamtFields {
  amount: CamtAmount | null = null
  transactionAmount: CamtAmount | null = null
  instructedAmount: CamtAmount | null = null
  direction: StatementEntry['direction'] | null = null
  status: StatementEntry['status'] | null = null
  reversal: boolean | null = null
  bookedOn: string | null = null
  valuedOn: string | null = null
  servicerReference: string | null = null
  endToEndId: string | null = null
  instructionId: string | null = null
  transactionId: string | null = null
  creditorReference: string | null = null
  freeText: string | null = null
  /** Outbox ids of the creditor references. */
  structuredIds: readonly string[] = []
  /** Outbox ids in free text. */
  freeTextIds: readonly string[] = []
  returnCode: string | null = null
}

interface EntryParts extends Pick<StatementEntry, 'account' | 'direction' | 'status' | 'position'> {
  readonly entry: CamtFields
  readonly detail: CamtFields
  readonly isOnlyDetail: boolean
}

/**
 * Combines a transaction (`TxDtls`) with its entry (`Ntry`), which supplies missing fields. An entry without
 * transactions counts as one transaction.
 */
export function joinDetail({
  account,
  direction,
  status,
  position,
  entry,
  detail,
  isOnlyDetail,
}: EntryParts): StatementEntry {
  const amount = chooseAmount(entry, detail, isOnlyDetail)
  const ownReference = isOnlyDetail ? (detail.servicerReference ?? entry.servicerReference) : detail.servicerReference
  const { endToEndId, instructionId, creditorReference, freeText } = detail
  return {
    account,
    bankReference: bankReference(entry, detail),
    reference: endToEndId ?? instructionId ?? ownReference ?? creditorReference ?? freeText,
    candidates: candidates(detail, ownReference),
    amount: amount?.amount ?? null,
    currency: amount?.currency ?? null,
    direction,
    status,
    // Many banks mark a returned payment only by a reason, without RvslInd.
    reversal: entry.reversal === true || (direction === 'credit' && detail.returnCode !== null),
    bookedOn: entry.bookedOn,
    valuedOn: entry.valuedOn,
    returnCode: detail.returnCode,
    position,
  }
}

/**
 * Returns the booked amount of the transaction. If the instructed amount has another currency, returns the instructed
 * amount, because the payload contains that one. Returns null if the bank gives only the sum of several transactions.
 */
function chooseAmount(entry: CamtFields, detail: CamtFields, isOnlyDetail: boolean): CamtAmount | null {
  const ofEntry = isOnlyDetail ? entry : null
  const booked = detail.amount ?? detail.transactionAmount ?? ofEntry?.amount ?? null
  const instructed = detail.instructedAmount ?? ofEntry?.instructedAmount ?? null
  if (booked === null) return instructed
  return instructed !== null && instructed.currency !== booked.currency ? instructed : booked
}

/**
 * Returns the bank's reference, joined with the transaction's own reference. In some files all transactions of a batch
 * share the bank's reference; joined, they differ. A transaction has the same joined reference in camt.053 and
 * camt.054.
 */
function bankReference(entry: CamtFields, detail: CamtFields): string | null {
  const ofBank = detail.servicerReference ?? entry.servicerReference
  const own = detail.endToEndId ?? detail.instructionId ?? detail.transactionId
  return ofBank === null || own === null ? ofBank : `${ofBank}/${own}`
}

/** Returns the outbox ids in the order of their fields, without repeats. */
function candidates(detail: CamtFields, ownReference: string | null): readonly string[] {
  const found: string[] = []
  for (const field of [detail.endToEndId, detail.instructionId, ownReference]) {
    const id = field === null ? undefined : toOutboxId(field)
    if (id !== undefined && !found.includes(id)) found.push(id)
  }
  for (const id of detail.structuredIds) if (!found.includes(id)) found.push(id)
  for (const id of detail.freeTextIds) if (!found.includes(id)) found.push(id)
  return found.slice(0, CANDIDATES_MAX)
}
