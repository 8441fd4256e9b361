import type { StatementEntry, StatementFormat } from './statements/types.js'

/** Kinds of findings, with the names of SQL and metrics. */
export const FINDING_KINDS = [
  'paid_twice',
  'paid_not_recorded',
  'recorded_not_paid',
  'amount_differs',
  'reversed',
  'unknown_entry',
] as const
export type FindingKind = (typeof FINDING_KINDS)[number]

/** Severities of findings, most severe first. */
export const FINDING_SEVERITIES = ['critical', 'warning', 'info'] as const
export type FindingSeverity = (typeof FINDING_SEVERITIES)[number]

/** Number of payments or entries per result. `reversed` and `unknownEntry` count entries, the others payments. */
export interface ReconciliationCounts {
  readonly matched: number
  readonly paidTwice: number
  readonly paidNotRecorded: number
  readonly recordedNotPaid: number
  readonly amountDiffers: number
  readonly reversed: number
  readonly unknownEntry: number
}

/** Comparison of one statement with the ledger of a rail. */
export interface ReconciliationRun {
  readonly runId: string
  readonly railType: string
  /** Format; `rail` if the rail listed its payments itself. */
  readonly format: StatementFormat | 'rail'
  /** SHA-256 of the file, in hexadecimal digits. */
  readonly fileSha256: string
  readonly statementIds: readonly string[]
  readonly accounts: readonly string[]
  readonly periodFrom: string
  /** End of the period, exclusive. */
  readonly periodTo: string
  readonly settlementDays: number
  /** Number of booked debits and reversals in the statement. */
  readonly entries: number
  readonly counts: ReconciliationCounts
  /** Number of debits that name a payment of another rail. */
  readonly otherRails: number
  /** Sum of the unknown entries per currency, as decimal text. */
  readonly unknownSums: Readonly<Record<string, string>>
  /** Number of findings that are not closed. */
  readonly openFindings: number
  readonly actor: string
  readonly createdAt: string
}

/** Payment of a finding, with its state in the ledger at the time of the run. */
export interface FindingPayment {
  readonly state: 'DISPATCHED' | 'FAILED' | 'HELD' | 'PENDING'
  /** Null if the amount is encrypted. */
  readonly amount: string | null
  readonly currency: string | null
  readonly instructionId: string
  readonly idempotencyKey: string
  readonly participantId: string
  readonly railReference: string | null
  readonly completedAt: string | null
}

/** Entry of a finding, with the texts of the statement. */
export type FindingEntry = Pick<
  StatementEntry,
  'account' | 'bankReference' | 'reference' | 'amount' | 'currency' | 'bookedOn' | 'valuedOn'
> & { readonly kind: 'payout' | 'reversal' | 'debit_reversal' }

/** Difference between a statement and the ledger. */
export interface Finding {
  /** Id of the finding; null in a dry run. */
  readonly findingId: string | null
  readonly runId: string | null
  readonly railType: string
  readonly kind: FindingKind
  readonly severity: FindingSeverity
  readonly outboxId: string | null
  readonly payment: FindingPayment | null
  readonly entries: readonly FindingEntry[]
  /** Proposal to record a held payment as DISPATCHED. */
  readonly proposalId: string | null
  /** Event of the return that the run recorded. */
  readonly returnEventId: string | null
  /** Reason why no return or proposal was recorded. */
  readonly note: string | null
  readonly createdAt: string | null
  readonly closed: { readonly by: string; readonly reason: string; readonly at: string } | null
}

/** Result of a reconciliation. */
export interface Reconciliation extends Omit<ReconciliationRun, 'runId' | 'openFindings' | 'actor' | 'createdAt'> {
  /** Id of the run; null in a dry run of a file that was not reconciled before. */
  readonly runId: string | null
  /** True if the same file was reconciled before with the same options; this is then the earlier run. */
  readonly repeated: boolean
  readonly dryRun: boolean
  /** At most 100 findings of this run, most severe first, without findings of earlier runs. */
  readonly findings: readonly Finding[]
}
