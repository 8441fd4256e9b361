import { LeaseLostError, NotCancellableError, type DatabaseError } from '../../libs/db/index.js'
import type { ClaimedItem, CompletionVerdict } from '../../libs/outbox/index.js'

/** Converts answers of the database into the text of the model. */

export function describeRecorded({
  attemptNo,
  state,
  held,
}: {
  attemptNo: number
  state: string
  held: boolean
}): string {
  return `${attemptNo} ${state}${held ? ' held' : ''}`
}

export function describeVerdict(verdict: CompletionVerdict): string {
  if (verdict.verdict === 'RECORDED') return describeRecorded(verdict)
  return verdict.verdict === 'LEASE_LOST' ? 'lease lost' : `already ${verdict.attemptNo} ${verdict.state}`
}

export function describeEvidence({ outcomeUnknown, evidence }: ClaimedItem): string {
  if (evidence === null) return outcomeUnknown ? ' unknown' : ''
  const { lastAttempt, lateOutcome } = evidence
  const last = lastAttempt === null ? 'none' : `${lastAttempt.attemptNo} ${lastAttempt.state}`
  const late = lateOutcome === null ? 'none' : `${lateOutcome.state} ${lateOutcome.railReference}`
  return `${outcomeUnknown ? ' unknown' : ''} last ${last} late ${late}`
}

export function describeRefusal(error: DatabaseError): string {
  if (error instanceof NotCancellableError) return `${error.sqlstate} ${error.reason}`
  if (!(error instanceof LeaseLostError)) return error.sqlstate ?? error.message
  const { recorded } = error
  return `P7002 ${recorded === undefined ? 'nothing' : `already ${recorded.attemptNo} ${recorded.state}`} recorded`
}
