import { boundedInteger, InvalidArgumentError, requiredId, requiredUuid, type JsonObject } from '../../core/index.js'
import { isoMicros, minUuidV7At, qualify, type Queryable } from '../../db/index.js'
import type { FindingDetail, ReconciliationWindow } from '../db.js'
import {
  FINDING_KINDS,
  FINDING_SEVERITIES,
  type Finding,
  type FindingKind,
  type FindingSeverity,
  type ReconciliationRun,
} from '../types.js'

/**
 * Reads runs, findings and bank entries, as symphony_control or symphony_auditor. symphony_readonly may read them with
 * the detail `limited`.
 */

export interface RunSearch {
  readonly railType?: string
  /** Id in `next` of the page before: a run, or a finding if findings are searched. Only older ones are returned. */
  readonly before?: string
  /** Maximum number, up to 1000. @default 100 */
  readonly limit?: number
}

export interface FindingSearch extends RunSearch {
  readonly state?: 'open' | 'closed'
  readonly kind?: FindingKind
  readonly severity?: FindingSeverity
  readonly runId?: string
  readonly outboxId?: string
}

/** `limited` omits accounts, references and the stored detail, which symphony_readonly may not read. */
export type BankDetail = 'full' | 'limited'

export interface Page<Item> {
  readonly items: readonly Item[]
  /** Cursor of the next page; null after the last one. */
  readonly next: string | null
}

type RunRow = Omit<ReconciliationRun, 'entries' | 'otherRails' | 'openFindings'> & {
  readonly entries: bigint
  readonly otherRails: bigint
  readonly openFindings: bigint
}

/** Returns runs, newest first. */
export async function readReconciliationRuns(
  role: Queryable,
  search: RunSearch = {},
): Promise<Page<ReconciliationRun>> {
  const { values, where, limit } = conditionsOf('r.run_id', search)
  const { rows } = await role.query<RunRow>(
    `SELECT ${RUN_COLUMNS}, ${openFindings(role)} FROM ${qualify(role, 'reconciliation_runs')} r
     WHERE ${where.join(' AND ')} ORDER BY r.run_id DESC LIMIT ${limit}`,
    values,
  )
  const items = rows.map(toRun)
  return { items, next: items.length === limit ? (items.at(-1)?.runId ?? null) : null }
}

export async function readReconciliationRun(role: Queryable, runId: string): Promise<ReconciliationRun | undefined> {
  const { rows } = await role.query<RunRow>(
    `SELECT ${RUN_COLUMNS}, ${openFindings(role)} FROM ${qualify(role, 'reconciliation_runs')} r WHERE r.run_id = $1`,
    [requiredUuid('runId', runId)],
  )
  return rows.map(toRun)[0]
}

const RUN_COLUMNS = `r.run_id AS "runId", r.rail_type AS "railType", r.format,
  encode(r.file_sha256, 'hex') AS "fileSha256", r.statement_ids AS "statementIds", r.accounts,
  ${isoMicros('r.period_from')} AS "periodFrom", ${isoMicros('r.period_to')} AS "periodTo",
  r.settlement_days AS "settlementDays", r.entries,
  jsonb_build_object('matched', r.counts -> 'matched', 'paidTwice', r.counts -> 'paid_twice',
    'paidNotRecorded', r.counts -> 'paid_not_recorded', 'recordedNotPaid', r.counts -> 'recorded_not_paid',
    'amountDiffers', r.counts -> 'amount_differs', 'reversed', r.counts -> 'reversed',
    'unknownEntry', r.counts -> 'unknown_entry') AS counts,
  (r.counts ->> 'other_rails')::bigint AS "otherRails", r.unknown_sums AS "unknownSums", r.actor,
  ${isoMicros('r.created_at')} AS "createdAt"`

function openFindings(role: Queryable): string {
  return `(SELECT count(*) FROM ${qualify(role, 'reconciliation_findings')} f WHERE f.run_id = r.run_id AND NOT EXISTS (
    SELECT 1 FROM ${qualify(role, 'reconciliation_closings')} c WHERE c.finding_id = f.finding_id)) AS "openFindings"`
}

function toRun({ entries, otherRails, openFindings: open, ...run }: RunRow): ReconciliationRun {
  return { ...run, entries: Number(entries), otherRails: Number(otherRails), openFindings: Number(open) }
}

interface FindingRow {
  readonly findingId: string
  readonly runId: string
  readonly railType: string
  readonly kind: FindingKind
  readonly severity: FindingSeverity
  readonly outboxId: string | null
  readonly detail: FindingDetail
  readonly createdAt: string
  readonly closedBy: string | null
  readonly closedAt: string | null
  readonly reason: string | null
}

/** Returns findings, newest first. */
export async function readFindings(
  role: Queryable,
  search: FindingSearch = {},
  detail: BankDetail = 'full',
): Promise<Page<Finding>> {
  // Open findings have their own table, so that a page of them does not scan the closed ones.
  const place = search.state === 'open' ? 'o' : 'f'
  const { values, where, limit } = conditionsOf(`${place}.finding_id`, search, place)
  const { rows } = await role.query<FindingRow>(
    `SELECT f.finding_id AS "findingId", f.run_id AS "runId", r.rail_type AS "railType", f.kind, f.severity,
       f.outbox_id AS "outboxId", ${detail === 'full' ? 'f.detail' : limitedDetail(role)},
       ${isoMicros('f.created_at')} AS "createdAt", c.closed_by AS "closedBy", ${isoMicros('c.closed_at')} AS "closedAt",
       c.reason
     FROM ${qualify(role, 'reconciliation_findings')} f
     ${place === 'o' ? `JOIN ${qualify(role, 'reconciliation_open_findings')} o ON o.finding_id = f.finding_id` : ''}
     JOIN ${qualify(role, 'reconciliation_runs')} r ON r.run_id = f.run_id
     LEFT JOIN ${qualify(role, 'reconciliation_closings')} c ON c.finding_id = f.finding_id
     WHERE ${where.join(' AND ')} ORDER BY ${place}.finding_id DESC LIMIT ${limit}`,
    values,
  )
  const items = rows.map(toFinding)
  return { items, next: items.length === limit ? (items.at(-1)?.findingId ?? null) : null }
}

/**
 * Returns SQL for the `limited` detail of a finding (alias `f`): no payment, and the entries now stored for its item.
 * The view hides amounts by the rail's field classes.
 */
function limitedDetail(role: Queryable): string {
  return `json_build_object('payment', NULL, 'entries', ARRAY(
      SELECT json_build_object('kind', e.kind, 'account', NULL, 'bankReference', NULL, 'reference', NULL,
        'amount', e.amount::text, 'currency', e.currency, 'bookedOn', e.booked_on, 'valuedOn', e.valued_on)
      FROM ${qualify(role, 'reconciliation_payment_entries')} e
      WHERE e.outbox_id = f.outbox_id AND (e.kind = 'payout') = (f.kind <> 'reversed')
      ORDER BY e.booked_on, e.position)) AS detail`
}

function toFinding({ detail, closedBy, closedAt, reason, ...finding }: FindingRow): Finding {
  const closed =
    closedBy === null || closedAt === null || reason === null ? null : { by: closedBy, reason, at: closedAt }
  return { ...finding, ...partsOfDetail(detail), closed }
}

/** Returns the parts of a detail, null for absent ones. */
export function partsOfDetail({ payment, entries, proposalId, returnEventId, note }: FindingDetail) {
  return {
    payment,
    entries,
    proposalId: proposalId ?? null,
    returnEventId: returnEventId ?? null,
    note: note ?? null,
  }
}

/** Position in the list of findings by severity. */
export interface FindingPlace {
  readonly severity: FindingSeverity
  /** Only findings older than this one. */
  readonly before?: string
}

/** Returns findings, the most severe first, and the newest first within a severity. */
export async function readFindingsBySeverity(
  role: Queryable,
  search: Omit<FindingSearch, 'severity' | 'before'> & { readonly after?: FindingPlace; readonly limit: number },
  detail: BankDetail = 'full',
): Promise<{ readonly items: readonly Finding[]; readonly next: Required<FindingPlace> | null }> {
  const { after = { severity: 'critical' }, limit, ...rest } = search
  const found: Finding[] = []
  for (const severity of FINDING_SEVERITIES.slice(FINDING_SEVERITIES.indexOf(after.severity))) {
    const place = severity === after.severity ? after : { severity }
    const { items, next } = await readFindings(role, { ...rest, ...place, limit: limit - found.length }, detail)
    found.push(...items)
    if (next !== null) return { items: found, next: { severity, before: next } }
  }
  return { items: found, next: null }
}

interface Conditions {
  readonly values: readonly unknown[]
  readonly where: readonly string[]
  readonly limit: number
}

function conditionsOf(id: string, search: FindingSearch, place = 'f'): Conditions {
  const { railType, before, state, kind, severity, runId, outboxId } = search
  const values: unknown[] = []
  const where = ['true']
  const require = (condition: string, value: unknown) => {
    values.push(value)
    where.push(`${condition} $${values.length}`)
  }
  if (railType !== undefined) require('r.rail_type =', requiredId('railType', railType))
  if (before !== undefined) require(`${id} <`, requiredUuid('before', before))
  if (runId !== undefined) require('f.run_id =', requiredUuid('runId', runId))
  if (outboxId !== undefined) require('f.outbox_id =', requiredUuid('outboxId', outboxId))
  if (kind !== undefined) require('f.kind =', oneOf('kind', kind, FINDING_KINDS))
  if (severity !== undefined) require(`${place}.severity =`, oneOf('severity', severity, FINDING_SEVERITIES))
  if (state !== undefined && oneOf('state', state, ['open', 'closed']) === 'closed')
    where.push('c.finding_id IS NOT NULL')
  return { values, where, limit: boundedInteger('limit', search.limit ?? 100, { min: 1, max: 1_000 }) }
}

function oneOf(argument: string, value: string, known: readonly string[]): string {
  if (known.includes(value)) return value
  throw new InvalidArgumentError(argument, `expected one of ${known.join(', ')}`)
}

/** DISPATCHED payment with the enqueued payload. */
export interface DispatchedPayment {
  readonly attemptId: string
  readonly outboxId: string
  readonly instructionId: string
  readonly idempotencyKey: string
  readonly payload: JsonObject
}

const PAYMENT_COLUMNS = `a.outbox_id AS "outboxId", a.instruction_id AS "instructionId",
  a.idempotency_key AS "idempotencyKey", a.payload`

/** Payment in any state, with the enqueued payload. */
export type LedgerPayment = Omit<DispatchedPayment, 'attemptId'>

export async function readPaymentsById(role: Queryable, outboxIds: readonly string[]): Promise<LedgerPayment[]> {
  const { rows } = await role.query<LedgerPayment>(
    `SELECT ${PAYMENT_COLUMNS} FROM ${qualify(role, 'payment_outbox_attempts')} a
     WHERE a.outbox_id = ANY ($1::uuid[]) AND a.state IN ('DISPATCHED', 'FAILED')
     UNION ALL
     SELECT ${PAYMENT_COLUMNS} FROM ${qualify(role, 'payment_outbox_pending')} a
     WHERE a.outbox_id = ANY ($1::uuid[])`,
    [outboxIds],
  )
  return rows
}

/**
 * Returns payments that were dispatched in the window, in the order of their attempt ids. `after` is the last attempt
 * of the previous page.
 */
export async function readPaymentsOf(
  role: Queryable,
  railType: string,
  { from, to }: ReconciliationWindow,
  after: string | null,
  limit: number,
): Promise<DispatchedPayment[]> {
  // Attempt ids are UUIDs of version 7, which begin with a time, so a range of ids limits the scan. The extra hour
  // covers a clock that was set back.
  const { rows } = await role.query<DispatchedPayment>(
    `SELECT a.attempt_id AS "attemptId", ${PAYMENT_COLUMNS} FROM ${qualify(role, 'payment_outbox_attempts')} a
     WHERE a.attempt_id >= ${minUuidV7At(`$2::timestamptz - interval '1 hour'`)}
       AND a.attempt_id < ${minUuidV7At(`$3::timestamptz + interval '1 hour'`)}
       AND ($4::uuid IS NULL OR a.attempt_id > $4::uuid)
       AND a.state = 'DISPATCHED' AND a.rail_type = $1 AND a.completed_at >= $2 AND a.completed_at < $3
     ORDER BY a.attempt_id LIMIT $5`,
    [railType, from, to, after, limit],
  )
  return rows
}
