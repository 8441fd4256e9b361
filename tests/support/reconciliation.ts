import { createHash, randomUUID } from 'node:crypto'
import { call, onlyRow } from '../../libs/db/call.js'
import type { Queryable } from '../../libs/db/index.js'
import type { TestDatabase } from './database.js'

/** Entry of a statement as SQL receives it. By default a booked debit of 10.50 EUR today. */
export interface TestEntry {
  readonly outboxId?: string | null
  readonly candidates?: string
  readonly kind?: 'payout' | 'reversal' | 'debit_reversal'
  readonly account?: string
  readonly bankReference?: string | null
  readonly reference?: string | null
  readonly amount?: string | null
  readonly currency?: string | null
  readonly bookedOn?: string
  readonly returnCode?: string | null
}

export interface TestRunOptions {
  readonly role?: Queryable
  readonly file?: string
  /** Options of the reader. */
  readonly reading?: string
  /** Start of the time whose payments of other accounts are annotated. */
  readonly coveredFrom?: Date
  readonly accounts?: readonly string[]
  readonly from?: Date
  readonly to?: Date
  readonly settlementDays?: number
  readonly keepUnknown?: boolean
  readonly dryRun?: boolean
  /** Number of entries that the statement claims to have. */
  readonly entries?: number
}

export interface TestRun {
  readonly runId: string | null
  readonly repeated: boolean
  readonly counts: Readonly<Record<string, number>>
  readonly otherRails: number
  readonly unknownSums: Readonly<Record<string, string>>
  readonly findings:
    | readonly { readonly kind: string; readonly severity: string; readonly outboxId: string | null }[]
    | null
}

const ACCOUNT = 'DE89370400440532013000'
const DAY_MS = 86_400_000

/** Stages the entries and returns the id of the upload. */
export async function stageEntries(role: Queryable, entries: readonly TestEntry[]): Promise<string> {
  const column = (value: (entry: TestEntry, n: number) => unknown) => entries.map(value)
  const [row] = await call<{ stage_reconciliation_entries: string }>(role, 'stage_reconciliation_entries', [
    column(({ kind = 'payout' }) => kind),
    column(({ account = ACCOUNT }) => account),
    column(({ bankReference = `B-${randomUUID()}` }) => bankReference),
    column(({ reference = 'E-1' }) => reference),
    column(({ candidates, outboxId }) => candidates ?? outboxId ?? null),
    column(({ amount = '10.50' }) => amount),
    column(({ currency = 'EUR' }) => currency),
    column(({ bookedOn = new Date().toISOString().slice(0, 10) }) => bookedOn),
    column(({ bookedOn = new Date().toISOString().slice(0, 10) }) => bookedOn),
    column(({ returnCode = null }) => returnCode),
    column((_, n) => n + 1),
  ])
  return row!.stage_reconciliation_entries
}

/**
 * Middle of the default period. It is the same for all runs, because the same file with another period is another run.
 */
const START_MS = Date.now()

/**
 * Stages the entries and compares them as one file. By default the period is one day before and after now, and there
 * are no settlement days.
 */
export async function reconcileEntries(
  db: TestDatabase,
  rail: string,
  entries: readonly TestEntry[],
  options: TestRunOptions = {},
): Promise<TestRun> {
  const role = options.role ?? db.as('symphony_control')
  const uploadId = await stageEntries(role, entries)
  return finish(role, uploadId, rail, { entries: entries.length, ...options })
}

export async function finish(
  role: Queryable,
  uploadId: string,
  rail: string,
  options: TestRunOptions,
): Promise<TestRun> {
  const { accounts = [ACCOUNT], from, to, settlementDays = 0, keepUnknown = false, dryRun = false } = options
  const rows = await call<FinishedRow>(role, 'finish_reconciliation', [
    uploadId,
    options.entries ?? 0,
    rail,
    'camt053',
    createHash('sha256')
      .update(options.file ?? randomUUID())
      .digest(),
    ['S-1'],
    accounts,
    from ?? new Date(START_MS - DAY_MS),
    to ?? new Date(START_MS + DAY_MS),
    settlementDays,
    keepUnknown,
    dryRun,
    createHash('sha256')
      .update(options.reading ?? '')
      .digest(),
    ...(options.coveredFrom === undefined ? [] : [options.coveredFrom]),
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
  readonly findings: TestRun['findings']
}

export interface TestFinding {
  readonly findingId: string
  readonly kind: string
  readonly severity: string
  readonly outboxId: string | null
  readonly detail: { readonly note?: string; readonly proposalId?: string; readonly returnEventId?: string }
}

/** Reads the findings that a run recorded, in their order. */
export async function findingsOf(db: TestDatabase, runId: string | null): Promise<readonly TestFinding[]> {
  const { rows } = await db.queryNoRole<TestFinding>(
    `SELECT finding_id AS "findingId", kind, severity, outbox_id AS "outboxId", detail
     FROM reconciliation_findings WHERE run_id = $1 ORDER BY finding_id`,
    [runId],
  )
  return rows
}
