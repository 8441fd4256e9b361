import { REASON_LENGTH_MAX, requiredText, requiredUuid } from '../core/index.js'
import { call, onlyRow, type Queryable } from '../db/index.js'
import type { FindingEntry, FindingKind, FindingPayment, FindingSeverity, ReconciliationCounts } from './types.js'

/** Wrappers of the SQL functions of reconciliation, with the same names. For symphony_control. */

/** Entries of a statement by column. */
export interface StagedColumns {
  readonly kinds: ('payout' | 'reversal' | 'debit_reversal')[]
  readonly accounts: (string | null)[]
  readonly bankReferences: (string | null)[]
  readonly references: (string | null)[]
  /** Outbox ids, separated by commas. */
  readonly candidates: (string | null)[]
  readonly amounts: (string | null)[]
  readonly currencies: (string | null)[]
  readonly bookedOn: (string | null)[]
  readonly valuedOn: (string | null)[]
  readonly returnCodes: (string | null)[]
  readonly positions: number[]
}

/** Stores entries of a statement. Returns the id of the upload, which the next call passes. */
export async function stageReconciliationEntries(
  role: Queryable,
  uploadId: string | null,
  columns: StagedColumns,
): Promise<string> {
  const rows = await call<{ stage_reconciliation_entries: string }>(role, 'stage_reconciliation_entries', [
    columns.kinds,
    columns.accounts,
    columns.bankReferences,
    columns.references,
    columns.candidates,
    columns.amounts,
    columns.currencies,
    columns.bookedOn,
    columns.valuedOn,
    columns.returnCodes,
    columns.positions,
    uploadId,
  ])
  return onlyRow(rows).stage_reconciliation_entries
}

export async function discardReconciliationUpload(role: Queryable, uploadId: string): Promise<void> {
  await call(role, 'discard_reconciliation_upload', [uploadId])
}

/** Returns the ids of payments in an upload whose amount or currency SQL cannot read, in order of id. */
export async function unreadableReconciliationPayments(
  role: Queryable,
  uploadId: string,
  railType: string,
  after: string | null,
  limit: number,
): Promise<string[]> {
  const values = [uploadId, railType, limit, after]
  const rows = await call<{ outbox_id: string }>(role, 'unreadable_reconciliation_payments', values)
  return rows.map(({ outbox_id: outboxId }) => outboxId)
}

/** Range of dispatch times. Payments dispatched in this range must be on the statement. */
export interface ReconciliationWindow {
  readonly from: Date
  readonly to: Date
}

export async function reconciliationWindow(
  role: Queryable,
  { railType, accounts, from, to, settlementDays }: Omit<FinishedUpload, 'uploadId' | 'entries'>,
): Promise<ReconciliationWindow> {
  const values = [railType, accounts, from, to, settlementDays]
  const rows = await call<{ checked_from: Date; checked_to: Date }>(role, 'reconciliation_window', values)
  const { checked_from: checkedFrom, checked_to: checkedTo } = onlyRow(rows)
  return { from: checkedFrom, to: checkedTo }
}

/** Facts about a payment that SQL cannot read. */
export interface PaymentAnnotation {
  readonly outboxId: string
  readonly amount: string | null
  readonly currency: string | null
  /** Whether an account of the statement pays the payment. */
  readonly covered: boolean
}

export async function annotateReconciliationPayments(
  role: Queryable,
  uploadId: string,
  annotations: readonly PaymentAnnotation[],
): Promise<void> {
  await call(role, 'annotate_reconciliation_payments', [
    uploadId,
    annotations.map(({ outboxId }) => outboxId),
    annotations.map(({ amount }) => amount),
    annotations.map(({ currency }) => currency),
    annotations.map(({ covered }) => covered),
  ])
}

/** Arguments of `finish_reconciliation`. */
export interface FinishedUpload {
  readonly uploadId: string
  readonly entries: number
  readonly railType: string
  readonly format: string
  readonly fileSha256: Buffer
  /** Hash of the options with which the file was read. */
  readonly readingSha256: Buffer
  readonly statementIds: readonly string[]
  readonly accounts: readonly string[]
  readonly from: Date
  readonly to: Date
  readonly settlementDays: number
  readonly keepUnknown: boolean
  readonly dryRun: boolean
}

export interface FinishedReconciliation {
  readonly runId: string | null
  readonly repeated: boolean
  readonly counts: ReconciliationCounts
  readonly otherRails: number
  readonly unknownSums: Readonly<Record<string, string>>
  /** First 100 findings of a dry run; null for a recorded run. */
  readonly findings:
    | readonly (FindingDetail & {
        readonly kind: FindingKind
        readonly severity: FindingSeverity
        readonly outboxId: string | null
      })[]
    | null
}

/** Column `detail` of a finding. */
export interface FindingDetail {
  readonly payment: FindingPayment | null
  readonly entries: readonly FindingEntry[]
  readonly proposalId?: string
  readonly returnEventId?: string
  readonly note?: string
}

interface FinishedRow {
  readonly run_id: string | null
  readonly repeated: boolean
  readonly matched: bigint
  readonly paid_twice: bigint
  readonly paid_not_recorded: bigint
  readonly recorded_not_paid: bigint
  readonly amount_differs: bigint
  readonly reversed: bigint
  readonly unknown_entry: bigint
  readonly other_rails: bigint
  readonly unknown_sums: Readonly<Record<string, string>>
  readonly findings: FinishedReconciliation['findings']
}

/**
 * Compares the entries of an upload with the ledger of a rail. For a repeated file, returns the first run.
 * `coveredFrom` is the start of the window whose payments were annotated. A Date truncates the microseconds, so it is
 * never later than the start. Fails with SERIALIZATION_FAILURE if a concurrent run has moved the start further back.
 */
export async function finishReconciliation(
  role: Queryable,
  upload: FinishedUpload,
  coveredFrom: Date | null,
): Promise<FinishedReconciliation> {
  const rows = await call<FinishedRow>(role, 'finish_reconciliation', [
    upload.uploadId,
    upload.entries,
    upload.railType,
    upload.format,
    upload.fileSha256,
    upload.statementIds,
    upload.accounts,
    upload.from,
    upload.to,
    upload.settlementDays,
    upload.keepUnknown,
    upload.dryRun,
    upload.readingSha256,
    coveredFrom,
  ])
  const row = onlyRow(rows)
  return {
    runId: row.run_id,
    repeated: row.repeated,
    counts: {
      matched: Number(row.matched),
      paidTwice: Number(row.paid_twice),
      paidNotRecorded: Number(row.paid_not_recorded),
      recordedNotPaid: Number(row.recorded_not_paid),
      amountDiffers: Number(row.amount_differs),
      reversed: Number(row.reversed),
      unknownEntry: Number(row.unknown_entry),
    },
    otherRails: Number(row.other_rails),
    unknownSums: row.unknown_sums,
    findings: row.findings,
  }
}

/** Closes a finding with a reason. Returns the event id. */
export async function closeReconciliationFinding(role: Queryable, findingId: string, reason: string): Promise<string> {
  const rows = await call<{ close_reconciliation_finding: string }>(role, 'close_reconciliation_finding', [
    requiredUuid('findingId', findingId),
    requiredText('reason', reason, REASON_LENGTH_MAX),
  ])
  return onlyRow(rows).close_reconciliation_finding
}
