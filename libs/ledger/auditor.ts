import type { Queryable } from '../db/index.js'
import { bookVerdicts, RailBookComparison, type Ending, type RailEffect } from './bookComparison.js'
import { describeBreak } from './breaks.js'
import type { LedgerRow } from './chain.js'
import { databaseSource } from './databaseSource.js'
import {
  countLedger,
  findAttemptGaps,
  findDoubleEndings,
  findMisplacedItems,
  findOverdueLeases,
  findSequenceGaps,
  type LedgerCounts,
} from './db.js'
import type { LedgerSource } from './LedgerSource.js'
import { Sequences } from './Sequences.js'
import { verdict, type InvariantId, type InvariantVerdict } from './verdicts.js'
import { verifyLedger, type LedgerReport, type VerifyOptions } from './verifyLedger.js'

export interface AuditOptions extends Pick<VerifyOptions, 'checkpoints' | 'onProgress'> {
  /** The rail's book. Without it I3, I4 and I5 cannot be judged and are not reported. */
  readonly effects?: Iterable<RailEffect>
  /** How long after its end a lease may stand unrepaired. @default 120 */
  readonly leaseGraceSeconds?: number
  /** Judge I10: nothing but held items is left. @default false */
  readonly drained?: boolean
}

export interface AuditReport {
  readonly ok: boolean
  /** Of an export, what is pending and held is not known. */
  readonly counts: LedgerCounts
  readonly chain: LedgerReport
  readonly railEffects: number
  readonly doublePaid: number
  readonly invariants: readonly InvariantVerdict[]
  /** For want of a book, of a queue, or because it was not asked. */
  readonly notJudged: readonly InvariantId[]
}

/** Holds our book against itself and, where it is given, against the rail's. Reads as symphony_auditor; changes nothing. */
export async function audit(role: Queryable, options: AuditOptions = {}): Promise<AuditReport> {
  const counts = await countLedger(role)
  const books = options.effects === undefined ? undefined : new RailBookComparison(options.effects)
  const onRow = books === undefined ? {} : { onRow: (row: LedgerRow) => seeEnding(row, books) }
  const chain = await verifyLedger(databaseSource(role), { ...options, ...onRow })
  const invariants: InvariantVerdict[] = [
    verdict('I1', await findMisplacedItems(role)),
    verdict('I2', await findDoubleEndings(role)),
    verdict('I6', await findAttemptGaps(role)),
    verdict('I7', await findSequenceGaps(role)),
    verdict('I8', await findOverdueLeases(role, options.leaseGraceSeconds ?? 120)),
  ]
  if (options.drained === true) {
    const left = (counts.pending ?? 0n) - (counts.held ?? 0n)
    invariants.push(verdict('I10', left === 0n ? [] : [`${left} items are left`]))
  }
  return report(counts, chain, invariants, books)
}

/** The same of an export, without the queue: what is pending, and whose lease is overdue, is not in it. */
export async function auditExport(
  source: LedgerSource,
  options: Pick<AuditOptions, 'checkpoints' | 'onProgress' | 'effects'> = {},
): Promise<AuditReport> {
  const books = options.effects === undefined ? undefined : new RailBookComparison(options.effects)
  const sequences = new Sequences()
  const ended = { DISPATCHED: 0n, FAILED: 0n }
  const chain = await verifyLedger(source, {
    ...options,
    onRow: (row) => {
      const ending = seeEnding(row, books)
      if (ending !== undefined) ended[ending.state] += 1n
      sequences.see(row)
    },
  })
  const counts: LedgerCounts = {
    accepted: BigInt(chain.identities),
    pending: undefined,
    held: undefined,
    dispatched: ended.DISPATCHED,
    failed: ended.FAILED,
  }
  const attempts = chain.breaks.filter(({ table, block }) => table === 'payment_outbox_attempts' && block === null)
  const subjectsOf = (word: string) => attempts.filter(({ why }) => why.startsWith(word)).map(({ subject }) => subject)
  const invariants = [
    verdict('I2', subjectsOf('ends')),
    verdict('I6', subjectsOf('number missing')),
    verdict('I7', sequences.gaps()),
  ]
  return report(counts, chain, invariants, books)
}

function report(
  counts: LedgerCounts,
  chain: LedgerReport,
  judged: readonly InvariantVerdict[],
  books: RailBookComparison | undefined,
): AuditReport {
  const invariants = [
    ...judged,
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

/** An attempt that ends its item is also held against the rail's book. */
function seeEnding(row: LedgerRow, books: RailBookComparison | undefined): Ending | undefined {
  if (!row.ends) return undefined
  const { fields } = row
  const [outboxId, state] = [fields[1], fields[9]]
  if (typeof outboxId !== 'string' || (state !== 'DISPATCHED' && state !== 'FAILED')) return undefined
  const ending = {
    outboxId,
    state,
    railReference: fields[12] ?? null,
    decidedByPeople: fields[14] === 'OPERATOR_DECISION',
  } as const
  books?.see(ending)
  return ending
}

const ALL: readonly InvariantId[] = ['I1', 'I2', 'I3', 'I4', 'I5', 'I6', 'I7', 'I8', 'I9', 'I10']
