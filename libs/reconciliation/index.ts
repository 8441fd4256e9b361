/**
 * Reconciliation: compares statements of a bank with the ledger of a rail.
 *
 * `reconcile` reads a statement (`readStatement`) and stages its booked debits and reversals in batches. It adds facts
 * that SQL cannot read (decrypted amounts, accounts) and calls `finish_reconciliation`. That function compares in one
 * transaction and records run, entries, findings, returns and proposals.
 *
 * A crash before that call leaves staged entries, which lease repair deletes after a day. A repeated file is read again
 * from the start; if its run was recorded, that run is returned.
 */
export { closeReconciliationFinding } from './db.js'
export { parseStatementColumns, RECONCILE_TIMEOUT_MS } from './options.js'
export type { ReconcileOptions, ReconcileTools } from './options.js'
export {
  readFindings,
  readFindingsBySeverity,
  readReconciliationRun,
  readReconciliationRuns,
} from './reads/findings.js'
export type { BankDetail, FindingPlace, FindingSearch, RunSearch } from './reads/findings.js'
export { reconcile } from './reconcile.js'
export { readPaymentEntries, type PaymentEntry } from './reads/entries.js'
export {
  readReconciliationStatus,
  type OpenFindings,
  type ReconciledRail,
  type ReconciliationStatus,
} from './reads/status.js'
export { readStatement } from './statements/readStatement.js'
export { STATEMENT_FORMATS } from './statements/types.js'
export type {
  ReadStatementOptions,
  StatementColumns,
  StatementEntry,
  StatementFormat,
  StatementSummary,
} from './statements/types.js'
export { FINDING_KINDS, FINDING_SEVERITIES } from './types.js'
export type {
  Finding,
  FindingEntry,
  FindingKind,
  FindingPayment,
  FindingSeverity,
  Reconciliation,
  ReconciliationCounts,
  ReconciliationRun,
} from './types.js'
