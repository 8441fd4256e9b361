import type { Queryable } from '../db/index.js'
import type { Block } from './blocks.js'
import {
  bookVerdicts,
  type TerminalOutcome,
  type InvariantId,
  type InvariantVerdict,
  RailBookComparison,
  type RailEffect,
  Returns,
  RowNumbers,
  Sequences,
  verdict,
} from './invariants.js'
import { describeBreak } from './breaks.js'
import { databaseSource, type LedgerSource } from './LedgerSource.js'
import {
  countLedger,
  findDoubleTerminals,
  findMisplacedItems,
  findNumberGaps,
  findOverdueLeases,
  findOverReturned,
  findSequenceGaps,
  type LedgerCounts,
} from './db.js'
import { FORMATS, NEWEST_FORMAT } from './formats.js'
import type { LedgerRow } from './LedgerRow.js'
import { verifyLedger, type LedgerReport, type VerifyOptions } from './verifyLedger.js'

export interface AuditOptions extends Pick<VerifyOptions, 'checkpoints' | 'onProgress'> {
  /** Rail book. Without it I3, I4 and I5 are not checked. */
  readonly effects?: Iterable<RailEffect>
  /** Seconds within which an expired lease must be repaired. @default 120 */
  readonly leaseGraceSeconds?: number
  /** Whether to check I10: every pending item is held. @default false */
  readonly drained?: boolean
}

export interface AuditReport {
  readonly ok: boolean
  /** Counts; of an export, pending and held are unknown. */
  readonly counts: LedgerCounts
  readonly chain: LedgerReport
  readonly railEffects: number
  readonly doublePaid: number
  readonly invariants: readonly InvariantVerdict[]
  /** Invariants that were not checked, because a rail book, a queue or an option is missing. */
  readonly notJudged: readonly InvariantId[]
}

/**
 * Verifies the hashes and numbers of the ledger, and compares it with the rail book if given. Reads as
 * symphony_auditor.
 */
export async function auditDatabase(role: Queryable, options: AuditOptions = {}): Promise<AuditReport> {
  const counts = await countLedger(role)
  const books = options.effects === undefined ? undefined : new RailBookComparison(options.effects)
  const onRow = books === undefined ? {} : { onRow: (row: LedgerRow) => readTerminalOutcome(row, books) }
  const chain = await verifyLedger(databaseSource(role), { ...options, ...onRow })
  const invariants: InvariantVerdict[] = [
    verdict('I1', await findMisplacedItems(role)),
    verdict('I2', await findDoubleTerminals(role)),
    verdict('I6', await findNumberGaps(role)),
    verdict('I7', await findSequenceGaps(role)),
    verdict('I8', await findOverdueLeases(role, options.leaseGraceSeconds ?? 120)),
    verdict('I11', await findOverReturned(role)),
  ]
  if (options.drained === true) {
    const left = (counts.pending ?? 0n) - (counts.held ?? 0n)
    invariants.push(verdict('I10', left === 0n ? [] : [`${left} items are left`]))
  }
  return report(counts, chain, invariants, books)
}

/** Audits an export. An export has no queue, so pending items and overdue leases are not checked. */
export async function auditExport(
  source: LedgerSource,
  options: Pick<AuditOptions, 'checkpoints' | 'onProgress' | 'effects'> = {},
): Promise<AuditReport> {
  const books = options.effects === undefined ? undefined : new RailBookComparison(options.effects)
  const sequences = new Sequences()
  const numbers = new RowNumbers()
  const returns = new Returns()
  const ended = { DISPATCHED: 0n, FAILED: 0n }
  const chain = await verifyLedger(source, {
    ...options,
    onRow: (row) => {
      const outcome = readTerminalOutcome(row, books)
      if (outcome !== undefined) ended[outcome.state] += 1n
      sequences.add(row)
      numbers.add(row)
      returns.addReturn(row)
    },
  })
  const counts: LedgerCounts = {
    accepted: BigInt(chain.identities),
    pending: undefined,
    held: undefined,
    dispatched: ended.DISPATCHED,
    failed: ended.FAILED,
  }
  const checked = await readAgain(source, numbers, returns)
  const invariants = [
    verdict('I2', checked.doubleTerminals()),
    verdict('I6', checked.gaps()),
    verdict('I7', sequences.gaps()),
    verdict('I11', returns.violations()),
  ]
  return report(counts, chain, invariants, books)
}

function report(
  counts: LedgerCounts,
  chain: LedgerReport,
  checked: readonly InvariantVerdict[],
  books: RailBookComparison | undefined,
): AuditReport {
  const invariants = [
    ...checked,
    verdict('I9', chain.breaks.map(describeBreak)),
    ...(books === undefined ? [] : bookVerdicts(books)),
  ].toSorted((left, right) => ALL.indexOf(left.id) - ALL.indexOf(right.id))
  return {
    ok: invariants.every(({ ok }) => ok) && chain.breakCount === 0,
    counts,
    chain,
    railEffects: books?.effects ?? 0,
    doublePaid: books?.paidTwice.length ?? 0,
    invariants,
    notJudged: ALL.filter((id) => invariants.every((one) => one.id !== id)),
  }
}

/** Reads an export a second time if the first pass found suspects or returned payments. */
async function readAgain(source: LedgerSource, numbers: RowNumbers, returns: Returns): Promise<RowNumbers> {
  const suspects = numbers.suspects()
  if (suspects.size === 0 && returns.isEmpty) return numbers
  const checked = new RowNumbers(suspects)
  const add = (row: LedgerRow) => {
    checked.add(row)
    returns.addPayment(row)
  }
  let previous: Block | undefined
  for await (const block of source.blocks(0n)) {
    const format = FORMATS.get(block.format) ?? NEWEST_FORMAT
    for await (const rows of source.rowsBetween(previous?.last ?? null, block.last, format)) rows.forEach(add)
    previous = block
  }
  for await (const rows of source.openRows(previous?.last ?? null)) rows.forEach(add)
  return checked
}

/** Returns the terminal outcome of an attempt and adds it to the comparison with the rail book. */
function readTerminalOutcome(row: LedgerRow, books: RailBookComparison | undefined): TerminalOutcome | undefined {
  // The identity of an item precedes its attempts.
  if (row.kind === 'identity' && row.field('is_message') === 'true') books?.addMessage(row.subject)
  if (!row.ends) return undefined
  const state = row.field('state') === 'FAILED' ? 'FAILED' : 'DISPATCHED'
  const outcome = {
    outboxId: row.subject,
    state,
    railReference: row.field('rail_reference'),
    decidedByPeople: row.field('action') === 'decided',
  } as const
  books?.add(outcome)
  return outcome
}

const ALL: readonly InvariantId[] = ['I1', 'I2', 'I3', 'I4', 'I5', 'I6', 'I7', 'I8', 'I9', 'I10', 'I11']
