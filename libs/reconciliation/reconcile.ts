import { createHash, type Hash } from 'node:crypto'
import { InvalidArgumentError, SymphonyError } from '../core/index.js'
import type { Queryable } from '../db/index.js'
import { annotateAmounts, annotateCoverage } from './annotate.js'
import { finishReconciliation, type FinishedReconciliation, type FinishedUpload } from './db.js'
import { planReconciliation, type ReconcileOptions, type ReconcileTools, type ReconciliationPlan } from './options.js'
import { partsOfDetail, readFindingsBySeverity } from './reads/findings.js'
import { readStatement } from './statements/readStatement.js'
import type { ReadStatementOptions, StatementSummary } from './statements/types.js'
import type { Finding, Reconciliation } from './types.js'
import { Upload } from './Upload.js'

/**
 * Compares a statement with the ledger of a rail. Reads and stages the entries, adds facts that SQL cannot read, and
 * lets the database compare. The same file with the same options returns the earlier run. A failed run records nothing.
 * `role` is symphony_control, or a person in that role.
 */
export async function reconcile(
  role: Queryable,
  options: ReconcileOptions,
  tools: ReconcileTools,
): Promise<Reconciliation> {
  const plan = planReconciliation(options, tools)
  const upload = new Upload(role)
  try {
    const { summary, fileSha256 } = await stageStatement(upload, plan)
    const uploadId = await upload.end()
    const { railType, format, settlementDays, keepUnknown, dryRun, signal } = plan
    const { statementIds, accounts } = summary
    const { entries } = upload
    const facts = { railType, format, statementIds, accounts, ...periodOf(plan, summary), settlementDays }
    const readingSha256 = hashReading(plan.reading)
    const staged = { ...facts, uploadId, entries, fileSha256, readingSha256, keepUnknown, dryRun }
    await annotateAmounts(role, staged, tools, signal)
    const { findings, ...outcome } = await compare(role, staged, tools, signal)
    const { from, to, ...shown } = facts
    return {
      ...outcome,
      ...shown,
      dryRun,
      fileSha256: fileSha256.toString('hex'),
      periodFrom: from.toISOString(),
      periodTo: to.toISOString(),
      entries,
      findings:
        findings === null && outcome.runId !== null
          ? (await readFindingsBySeverity(role, { runId: outcome.runId, limit: FINDINGS_MAX })).items
          : (findings ?? []).map((finding) => dryFinding(finding, railType)),
    }
  } catch (error) {
    await upload.discard()
    throw error
  }
}

/** Maximum number of findings in a result, also of a dry run. */
const FINDINGS_MAX = 100

interface StagedStatement {
  readonly summary: StatementSummary
  readonly fileSha256: Buffer
}

async function stageStatement(
  upload: Upload,
  { statement, reading, signal }: ReconciliationPlan,
): Promise<StagedStatement> {
  const hash = createHash('sha256')
  const batches = readStatement(hashed(statement, hash, signal), reading)
  for (;;) {
    const step = await batches.next()
    if (step.done === true) return { summary: step.value, fileSha256: hash.digest() }
    // Throws the error into the reader, so that the reader closes the source.
    await upload.add(step.value).catch((error: unknown) => batches.throw(error))
  }
}

/** Annotates and compares, again if a concurrent run has extended the window after it was annotated. */
async function compare(
  role: Queryable,
  staged: FinishedUpload,
  tools: ReconcileTools,
  signal: AbortSignal,
): Promise<FinishedReconciliation> {
  for (let comparison = 1; ; comparison += 1) {
    const coveredFrom = await annotateCoverage(role, staged, tools, signal)
    signal.throwIfAborted()
    try {
      return await finishReconciliation(role, staged, coveredFrom)
    } catch (error) {
      const isStale = error instanceof SymphonyError && error.code === 'SERIALIZATION_FAILURE'
      if (!isStale || coveredFrom === null || comparison === COMPARISONS_MAX) throw error
    }
  }
}

/** Each repetition needs another run of the same rail and accounts that commits at this moment. */
const COMPARISONS_MAX = 5

/** Hashes the options that decide which entries the reader finds. `finish_reconciliation` compares accounts itself. */
function hashReading({ format, columns, decimal = '.', dateFormat, referencePattern }: ReadStatementOptions): Buffer {
  const named = Object.entries(columns ?? {}).toSorted(([one], [other]) => (one < other ? -1 : 1))
  const options = [format, named, decimal, dateFormat ?? 'YYYY-MM-DD', String(referencePattern ?? '')]
  return createHash('sha256').update(JSON.stringify(options)).digest()
}

/** Yields the bytes unchanged and hashes them. The hash is complete when the reader has read all bytes. */
async function* hashed(
  statement: AsyncIterable<Uint8Array>,
  hash: Hash,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  for await (const chunk of statement) {
    signal.throwIfAborted()
    if (!(chunk instanceof Uint8Array)) {
      throw new InvalidArgumentError('statement', `expected a stream of bytes, got a stream of ${typeof chunk}`)
    }
    hash.update(chunk)
    yield chunk
  }
}

function periodOf(plan: ReconciliationPlan, summary: StatementSummary): { readonly from: Date; readonly to: Date } {
  const from = plan.from ?? summary.from
  const to = plan.to ?? summary.to
  if (from === null || to === null) {
    throw new InvalidArgumentError(
      from === null ? 'from' : 'to',
      'expected a time, because the statement has no period and no entry with a date',
    )
  }
  if (from >= to) throw new InvalidArgumentError('to', 'expected a time after the start of the statement')
  return { from, to }
}

function dryFinding(
  { kind, severity, outboxId, ...detail }: NonNullable<FinishedReconciliation['findings']>[number],
  railType: string,
): Finding {
  const nothing = { findingId: null, runId: null, createdAt: null, closed: null }
  return { ...nothing, railType, kind, severity, outboxId, ...partsOfDetail(detail) }
}
