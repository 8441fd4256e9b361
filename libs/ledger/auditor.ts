import type { Queryable } from '../db/index.js'
import {
  countLedger,
  findAttemptGaps,
  findDoubleEndings,
  findMisplacedItems,
  findOverdueLeases,
  findSequenceGaps,
  readEndings,
  readIdentityPage,
  type Ending,
  type LedgerCounts,
} from './db.js'
import { verifyChain, type ChainReport } from './verifyChain.js'

export type InvariantId = 'I1' | 'I2' | 'I3' | 'I4' | 'I5' | 'I6' | 'I7' | 'I8' | 'I9' | 'I10'

export interface InvariantVerdict {
  readonly id: InvariantId
  readonly sentence: string
  readonly ok: boolean
  /** What breaks it: ids, or what was counted. */
  readonly found: readonly string[]
}

/** What the rail did under our reference, from its own book. */
export interface RailEffect {
  readonly reference: string
  /** The rail's own name for the payment. */
  readonly railReference: string
}

export interface AuditOptions {
  /** The rail's book. Without it I3, I4 and I5 cannot be judged and are not reported. */
  readonly effects?: Iterable<RailEffect>
  /** How long after its end a lease may stand unrepaired. @default 120 */
  readonly leaseGraceSeconds?: number
  /** Judge I10: nothing but held items is left. @default false */
  readonly drained?: boolean
}

export interface AuditReport {
  readonly ok: boolean
  readonly counts: LedgerCounts
  readonly chain: ChainReport
  readonly railEffects: number
  readonly doublePaid: number
  readonly invariants: readonly InvariantVerdict[]
}

/** Holds our book against itself and, where it is given, against the rail's. Reads as symphony_auditor; changes nothing. */
export async function audit(role: Queryable, options: AuditOptions = {}): Promise<AuditReport> {
  const counts = await countLedger(role)
  const chain = await verifyChain(role)
  const invariants: InvariantVerdict[] = [
    verdict('I1', 'everything accepted is pending or has ended', await findMisplacedItems(role)),
    verdict('I2', 'a payment ends at most once', await findDoubleEndings(role)),
    verdict('I6', 'attempts are numbered 1, 2, 3 …', await findAttemptGaps(role)),
    verdict('I7', 'sequences have no gap', await findSequenceGaps(role)),
    verdict(
      'I8',
      'no lease stands long after its end',
      await findOverdueLeases(role, options.leaseGraceSeconds ?? 120),
    ),
    verdict(
      'I9',
      'no row of the ledger was changed',
      chain.breaks.map(({ table, subject, position, why }) => `${table} ${subject} ${position}: ${why}`),
    ),
  ]
  if (options.drained === true) {
    const left = counts.pending - counts.held
    invariants.push(verdict('I10', 'after healing, everything drains', left === 0n ? [] : [`${left} items are left`]))
  }
  const books = options.effects === undefined ? undefined : await compareBooks(role, options.effects)
  if (books !== undefined) invariants.push(...books.invariants)
  return {
    ok: invariants.every(({ ok }) => ok) && chain.breakCount === 0,
    counts,
    chain,
    railEffects: books?.effects ?? 0,
    doublePaid: books?.doublePaid ?? 0,
    invariants: invariants.toSorted((a, b) => Number(a.id.slice(1)) - Number(b.id.slice(1))),
  }
}

interface BookComparison {
  readonly invariants: InvariantVerdict[]
  readonly effects: number
  readonly doublePaid: number
}

async function compareBooks(role: Queryable, effects: Iterable<RailEffect>): Promise<BookComparison> {
  const paid = new Map<string, string[]>()
  let count = 0
  for (const { reference, railReference } of effects) {
    count += 1
    const references = paid.get(reference)
    if (references === undefined) paid.set(reference, [railReference])
    else references.push(railReference)
  }
  const twice = [...paid].filter(([, references]) => references.length > 1).map(([reference]) => reference)
  const unpaid: string[] = []
  const failedButPaid: string[] = []
  for await (const ending of endings(role)) {
    const references = paid.get(ending.outboxId) ?? []
    if (ending.state === 'DISPATCHED' && !references.includes(ending.railReference ?? '')) unpaid.push(ending.outboxId)
    // Two people may decide that a payment failed; a counter or a code may not, while the rail has paid it.
    if (ending.state === 'FAILED' && references.length > 0 && !ending.decidedByPeople)
      failedButPaid.push(ending.outboxId)
  }
  return {
    invariants: [
      verdict('I3', 'each DISPATCHED payment is in the rail’s book under its reference', unpaid),
      verdict('I4', 'the rail paid each reference at most once', twice),
      verdict('I5', 'no FAILED payment was paid', failedButPaid),
    ],
    effects: count,
    doublePaid: twice.length,
  }
}

async function* endings(role: Queryable): AsyncGenerator<Ending> {
  for (let afterId: string | null = null; ;) {
    const page = await readIdentityPage(role, afterId, PAGE_SIZE)
    yield* await readEndings(
      role,
      page.map(({ outboxId }) => outboxId),
    )
    if (page.length < PAGE_SIZE) return
    afterId = page.at(-1)?.outboxId ?? null
  }
}

function verdict(id: InvariantId, sentence: string, found: readonly string[]): InvariantVerdict {
  return { id, sentence, ok: found.length === 0, found: found.slice(0, FOUND_SHOWN_MAX) }
}

const PAGE_SIZE = 2_000
const FOUND_SHOWN_MAX = 10
