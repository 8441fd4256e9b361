import { hash } from 'node:crypto'
import { isObject } from '../core/index.js'
import type { Queryable } from '../db/index.js'
import { readFindingRecords } from './db.js'
import { readRow, writeRow } from './exportLines.js'
import { DIGESTED, NEWEST_FORMAT } from './formats.js'
import type { LedgerRow } from './LedgerRow.js'
import { isProven, readReconciliationProofs, type RowProof } from './proof.js'
import { columnText } from './record.js'

/**
 * Runs of reconciliation in an evidence bundle. `reconciliations.ndjson` contains the findings, and the events of runs
 * and closings with the proofs of their blocks. `reconciliations.json` shows the same facts to people; the check
 * derives it again and compares.
 */
export interface BundledRuns {
  readonly events: readonly BundledEvent[]
  /** Findings, in the order of their ids. */
  readonly findings: readonly Finding[]
}

/** JSON object of unknown content. */
type Details = Readonly<Record<string, unknown>>

interface BundledEvent {
  readonly row: LedgerRow
  /** Block that covers the event; null if no block covers it. */
  readonly block: string | null
  readonly proof: Pick<RowProof, 'entries' | 'nodes'>
}

/** Reads runs, findings and closings as symphony_auditor. */
export async function readRuns(role: Queryable): Promise<BundledRuns> {
  const events: BundledEvent[] = []
  for await (const { row, proof } of readReconciliationProofs(role)) {
    events.push({ row, block: proof === undefined ? null : String(proof.block.no), proof: proof ?? UNPROVEN })
  }
  const findings: Finding[] = []
  for (;;) {
    const page = await readFindingRecords(role, findings.at(-1)?.id ?? null, FINDINGS_PER_PAGE)
    findings.push(...page.map(findingOf))
    if (page.length < FINDINGS_PER_PAGE) return { events, findings }
  }
}

const UNPROVEN: BundledEvent['proof'] = { entries: undefined, nodes: [] }
const FINDINGS_PER_PAGE = 1_000

export function writeRuns({ events, findings }: BundledRuns): string {
  return [...events.map(writeEvent), ...findings.map(writeFinding)].map((line) => `${line}\n`).join('')
}

function writeEvent({ row, block, proof: { entries, nodes } }: BundledEvent): string {
  const proof = { entries: entries?.toString('base64') ?? null, nodes: nodes.map((node) => node.toString('base64')) }
  return JSON.stringify({ event: writeRow(row), block, ...proof })
}

function writeFinding({ record }: Finding): string {
  return JSON.stringify({ finding: record.toString('base64') })
}

/** Parses `reconciliations.ndjson`. Accepts only the bytes that `writeRuns` writes; otherwise returns undefined. */
export function parseRuns(text: string): BundledRuns | undefined {
  const events: BundledEvent[] = []
  const findings: Finding[] = []
  for (const line of text.split('\n').slice(0, -1)) {
    const { event, block, entries, nodes, finding } = parseLine(line)
    if (typeof finding === 'string') findings.push(findingOf(Buffer.from(finding, 'base64')))
    const row = typeof event === 'string' ? readRow(event, NEWEST_FORMAT) : undefined
    if (row === undefined) continue
    const groups = Array.isArray(nodes) ? nodes.map((node) => Buffer.from(String(node), 'base64')) : []
    const leaf = typeof entries === 'string' ? Buffer.from(entries, 'base64') : undefined
    events.push({ row, block: typeof block === 'string' ? block : null, proof: { entries: leaf, nodes: groups } })
  }
  const runs = { events, findings }
  return writeRuns(runs) === text ? runs : undefined
}

function parseLine(line: string): Details {
  try {
    const value: unknown = JSON.parse(line)
    return isObject(value) ? value : {}
  } catch {
    return {}
  }
}

/**
 * Compares runs, findings and closings with their sealed events. Returns the first difference as a sentence; undefined
 * if there is none.
 * @param roots root of each block, by number
 */
export function findRunProblem(
  { events, findings }: BundledRuns,
  roots: ReadonlyMap<string, string>,
): string | undefined {
  for (const { row, block, proof } of events) {
    if (block !== null && !isProven(row, proof, roots.get(block) ?? '')) {
      return `event ${row.id} of a reconciliation is not in block ${block}`
    }
  }
  const byRun = groupByRun(findings)
  for (const run of detailsOf(events, 'RECONCILED')) {
    const id = String(run['run_id'])
    if (digestOf(byRun.get(id) ?? []) !== run['findings_sha256']) {
      return `the findings of run ${id} are not those that it recorded`
    }
    byRun.delete(id)
  }
  const [stray] = byRun.keys()
  if (stray !== undefined) return `there are findings of run ${stray}, but not its event`
  const known = new Set(findings.map(({ id }) => id))
  for (const { finding_id: id } of detailsOf(events, 'FINDING_CLOSED')) {
    if (!known.has(String(id))) return `finding ${String(id)} was closed and is missing`
  }
  return undefined
}

/** Returns the runs with their findings and closings, for people. Times are microseconds since 1970. */
export function describeRuns({ events, findings }: BundledRuns): readonly object[] {
  const closings = new Map(
    events.filter(isOf('FINDING_CLOSED')).map((event) => [String(detailOf(event)['finding_id']), factsOf(event)]),
  )
  const byRun = groupByRun(findings)
  return events.filter(isOf('RECONCILED')).map((event) => {
    const own = byRun.get(String(detailOf(event)['run_id'])) ?? []
    return { run: factsOf(event), findings: own.map((finding) => describeFinding(finding, closings.get(finding.id))) }
  })
}

function factsOf({ row, block }: BundledEvent): object {
  return { actor: row.field('actor'), createdAt: row.field('created_at'), block, detail: detailOf({ row }) }
}

function isOf(eventType: string): (event: BundledEvent) => boolean {
  return ({ row }) => row.field('event_type') === eventType
}

function detailsOf(events: readonly BundledEvent[], eventType: string): Details[] {
  return events.filter(isOf(eventType)).map(detailOf)
}

function detailOf({ row }: Pick<BundledEvent, 'row'>): Details {
  return parseLine(row.field('detail') ?? '')
}

interface Finding {
  readonly id: string
  readonly runId: string
  /** Row in the binary form of a record, which the digest of its run covers. */
  readonly record: Buffer
}

function findingOf(record: Buffer): Finding {
  return { id: columnOf(record, 'finding_id') ?? '', runId: columnOf(record, 'run_id') ?? '', record }
}

function columnOf(record: Buffer, name: (typeof DIGESTED.reconciliation_findings)[number]): string | null {
  return columnText(record, DIGESTED.reconciliation_findings.indexOf(name))
}

function describeFinding({ id, record }: Finding, closing: object | undefined): object {
  return {
    findingId: id,
    kind: columnOf(record, 'kind'),
    severity: columnOf(record, 'severity'),
    outboxId: columnOf(record, 'outbox_id'),
    createdAt: columnOf(record, 'created_at'),
    detail: parseLine(columnOf(record, 'detail') ?? ''),
    closing: closing ?? null,
  }
}

function groupByRun(findings: readonly Finding[]): Map<string, Finding[]> {
  const groups = new Map<string, Finding[]>()
  for (const finding of findings) {
    const group = groups.get(finding.runId)
    if (group === undefined) groups.set(finding.runId, [finding])
    else group.push(finding)
  }
  return groups
}

/** Returns the digest of a run's findings: the SHA-256 over the SHA-256 of each finding, by id. */
function digestOf(findings: readonly Finding[]): string {
  const sorted = findings.toSorted((left, right) => (left.id < right.id ? -1 : 1))
  const hashes = sorted.map(({ record }) => hash('sha256', record)).join('')
  return hash('sha256', Buffer.from(hashes, 'hex'))
}
