import { SymphonyError } from '../core/index.js'
import type { LedgerRow } from './LedgerRow.js'
import { integerOf } from './record.js'

export type InvariantId = 'I1' | 'I2' | 'I3' | 'I4' | 'I5' | 'I6' | 'I7' | 'I8' | 'I9' | 'I10' | 'I11'

export interface InvariantVerdict {
  readonly id: InvariantId
  readonly sentence: string
  readonly ok: boolean
  /** First ten violations: ids or counts. */
  readonly found: readonly string[]
}

const INVARIANTS: Readonly<Record<InvariantId, string>> = Object.freeze({
  I1: 'every accepted payment is pending or has ended',
  I2: 'a payment ends at most once',
  I3: 'each DISPATCHED payment is in the rail book under its reference',
  I4: 'the rail paid each reference at most once',
  I5: 'no FAILED payment was paid',
  I6: 'attempts and events are numbered 1, 2, 3 …',
  I7: 'sequences have no gap',
  I8: 'no expired lease stays unrepaired for long',
  I9: 'no row of the ledger was changed',
  I10: 'only held items are pending after a drain',
  I11: 'only DISPATCHED payments were returned, and no more than was paid',
})

export function verdict(id: InvariantId, found: readonly string[]): InvariantVerdict {
  return { id, sentence: INVARIANTS[id], ok: found.length === 0, found: found.slice(0, FOUND_SHOWN_MAX) }
}

const FOUND_SHOWN_MAX = 10

/** Payment in the rail book, by Symphony's reference. */
export interface RailEffect {
  readonly reference: string
  /** Rail's own id of the payment. */
  readonly railReference: string
}

/** Terminal outcome of an item, to compare with the rail book. */
export interface TerminalOutcome {
  readonly outboxId: string
  readonly state: 'DISPATCHED' | 'FAILED'
  readonly railReference: string | null
  readonly decidedByPeople: boolean
}

/** Compares terminal outcomes with the rail book, one at a time. */
export class RailBookComparison {
  readonly #paid = new Map<string, string[]>()
  readonly unpaid: string[] = []
  readonly failedButPaid: string[] = []
  /** Messages without a terminal outcome so far. They are not compared, because no rail pays a message. */
  readonly #messages = new Set<string>()
  effects = 0

  constructor(effects: Iterable<RailEffect>) {
    for (const { reference, railReference } of effects) {
      this.effects += 1
      const references = this.#paid.get(reference)
      if (references === undefined) this.#paid.set(reference, [railReference])
      else references.push(railReference)
    }
  }

  get paidTwice(): string[] {
    return [...this.#paid].filter(([, references]) => references.length > 1).map(([reference]) => reference)
  }

  addMessage(outboxId: string): void {
    this.#messages.add(outboxId)
  }

  add({ outboxId, state, railReference, decidedByPeople }: TerminalOutcome): void {
    if (this.#messages.delete(outboxId)) return
    const references = this.#paid.get(outboxId) ?? []
    if (state === 'DISPATCHED' && !references.includes(railReference ?? '')) this.unpaid.push(outboxId)
    // Two people may decide FAILED although the rail paid. A worker must never record FAILED then.
    if (state === 'FAILED' && references.length > 0 && !decidedByPeople) this.failedButPaid.push(outboxId)
  }
}

export function bookVerdicts({ unpaid, paidTwice, failedButPaid }: RailBookComparison): InvariantVerdict[] {
  return [verdict('I3', unpaid), verdict('I4', paidTwice), verdict('I5', failedButPaid)]
}

/** Finds participants with a missing sequence number. Keeps one entry per participant. */
export class Sequences {
  readonly #taken = new Map<string, { count: bigint; last: bigint }>()
  readonly #max: number

  constructor(max = ENTRIES_MAX) {
    this.#max = max
  }

  add(row: Pick<LedgerRow, 'kind' | 'field'>): void {
    if (row.kind !== 'identity') return
    const participant = row.field('participant_id') ?? ''
    const number = integerOf(row.field('sequence_id'))
    const taken = this.#taken.get(participant)
    if (taken === undefined) {
      requireRoom(this.#taken, this.#max, 'participants')
      this.#taken.set(participant, { count: 1n, last: number })
    } else {
      taken.count += 1n
      if (number > taken.last) taken.last = number
    }
  }

  /**
   * Returns participants with gaps. A constraint forbids duplicates, so without gaps the count equals the highest
   * number.
   */
  gaps(): string[] {
    return [...this.#taken].filter(([, { count, last }]) => count !== last).map(([participant]) => participant)
  }
}

/**
 * Checks that the attempts and events of each item, and the events of each scope, are numbered 1, 2, 3 …, and that an
 * item has at most one terminal attempt. Drops complete items to save memory, so the caller checks the suspects in a
 * second pass. With `among`, checks only those and drops none.
 */
export class RowNumbers {
  readonly #among: ReadonlySet<string> | undefined
  readonly #max: number
  /** Scopes, and items that are not complete. Items without attempts and events share one value. */
  readonly #subjects = new Map<string, SubjectNumbers>()

  constructor(among?: ReadonlySet<string>, max = ENTRIES_MAX) {
    this.#among = among
    this.#max = max
  }

  add(row: Pick<LedgerRow, 'kind' | 'subject' | 'number' | 'ends'>): void {
    const { kind, subject, ends } = row
    if (this.#among?.has(subject) === false) return
    const known = this.#subjects.get(subject)
    if (known === undefined) requireRoom(this.#subjects, this.#max, 'items without an outcome or with events')
    if (kind === 'identity') {
      this.#subjects.set(subject, known === undefined ? ONLY_IDENTITY : { ...known, isOpen: true })
      return
    }
    const number = Number(row.number)
    const numbers = known === undefined || known === ONLY_IDENTITY ? { ...NO_ROWS, isOpen: known !== undefined } : known
    if (kind === 'attempt') {
      numbers.attempts += 1
      numbers.lastAttempt = Math.max(numbers.lastAttempt, number)
      if (!numbers.isOpen) numbers.isLate = true
    } else {
      numbers.events += 1
      numbers.lastEvent = Math.max(numbers.lastEvent, number)
    }
    if (ends) {
      numbers.terminals += 1
      numbers.isOpen = false
    }
    // Drops an item with events only at an event: with the full trail, one follows the terminal attempt.
    const isLast = kind === 'event' || numbers.events === 0
    const isComplete = isLast && numbers.terminals === 1 && !numbers.isLate && !hasGap(numbers)
    if (this.#among === undefined && isComplete) this.#subjects.delete(subject)
    else if (numbers !== known) this.#subjects.set(subject, numbers)
  }

  /**
   * Returns items and scopes that a first pass cannot judge. A later row of a dropped item makes a gap, or is an attempt
   * of an item that is not open.
   */
  suspects(): Set<string> {
    const suspects = [...this.#subjects].filter(([, numbers]) => numbers.isLate || hasGap(numbers))
    return new Set(suspects.map(([subject]) => subject))
  }

  gaps(): string[] {
    return [...this.#subjects].filter(([, numbers]) => hasGap(numbers)).map(([subject]) => subject)
  }

  doubleTerminals(): string[] {
    return [...this.#subjects].filter(([, { terminals }]) => terminals > 1).map(([subject]) => subject)
  }
}

/**
 * A flat object of numbers, because an export may have millions of pending items. A number above 2^53 loses digits, but
 * still differs from every count.
 */
interface SubjectNumbers {
  attempts: number
  lastAttempt: number
  events: number
  lastEvent: number
  terminals: number
  /** Whether the item has an identity and no terminal attempt so far. */
  isOpen: boolean
  /** Whether an attempt came before the identity, or after a terminal attempt. */
  isLate: boolean
}

const NO_ROWS = { attempts: 0, lastAttempt: 0, events: 0, lastEvent: 0, terminals: 0, isOpen: false, isLate: false }
const ONLY_IDENTITY: SubjectNumbers = Object.freeze({ ...NO_ROWS, isOpen: true })

function hasGap({ attempts, lastAttempt, events, lastEvent }: SubjectNumbers): boolean {
  return attempts !== lastAttempt || events !== lastEvent
}

/** V8 refuses more than 2^24 entries in a Set or Map with a RangeError. */
const ENTRIES_MAX = 16_000_000

function requireRoom({ size }: { readonly size: number }, max: number, content: string): void {
  if (size < max) return
  throw new SymphonyError('EXPORT_TOO_LARGE', `The export has more than ${max} ${content}; it cannot be verified.`, {
    remedy: 'Verify the database, which has no such limit: symphony ledger verify, without --export.',
  })
}

/**
 * Checks that only DISPATCHED payments were returned, and at most the paid amount. A first pass finds the returns, a
 * second pass the amounts of their payments, so that memory grows only with the returns.
 */
export class Returns {
  readonly #items = new Map<string, ReturnedItem>()

  get isEmpty(): boolean {
    return this.#items.size === 0
  }

  addReturn(row: LedgerRow): void {
    if (row.kind !== 'event' || row.field('event_type') !== 'RETURN_RECORDED') return
    const { amount, currency } = moneyIn(row.field('detail'))
    const item = this.#items.get(row.subject) ?? { returned: 0n, currency }
    item.returned += amount ?? 0n
    this.#items.set(row.subject, item)
  }

  addPayment(row: LedgerRow): void {
    if (row.kind !== 'attempt' || row.field('state') !== 'DISPATCHED') return
    const item = this.#items.get(row.subject)
    if (item !== undefined) item.paid = moneyIn(row.field('payload'))
  }

  /** Returns the violating items. A payload without a readable amount sets no bound. */
  violations(): string[] {
    return [...this.#items].filter(([, item]) => isOverReturned(item)).map(([outboxId]) => outboxId)
  }
}

interface ReturnedItem {
  returned: bigint
  readonly currency: string | null
  /** Money in the DISPATCHED attempt; undefined without one. */
  paid?: PayloadMoney
}

function isOverReturned({ returned, currency, paid }: ReturnedItem): boolean {
  return paid === undefined || (paid.currency === currency && paid.amount !== undefined && paid.amount < returned)
}

/** Money of a payload. The amount is in units of 10^-40, so that sums are exact; undefined if it is 0 or unreadable. */
interface PayloadMoney {
  readonly amount: bigint | undefined
  readonly currency: string | null
}

/** Reads amount and currency of a JSON object, by the rules of the SQL function payload_amount. */
function moneyIn(json: string | null): PayloadMoney {
  const { amount, currency } = objectIn(json)
  const parts = typeof amount === 'string' && amount.length <= 40 ? /^(0|[1-9]\d*)(?:\.(\d+))?$/.exec(amount) : null
  const [, whole = '', fraction = ''] = parts ?? []
  const value = parts === null ? 0n : BigInt(whole + fraction.padEnd(40, '0'))
  return { amount: value === 0n ? undefined : value, currency: typeof currency === 'string' ? currency : null }
}

/** Returns the JSON object; an empty one for other text. The hashes of the ledger report a changed row. */
function objectIn(json: string | null): { readonly amount?: unknown; readonly currency?: unknown } {
  try {
    const value: unknown = JSON.parse(json ?? 'null')
    return typeof value === 'object' && value !== null ? value : {}
  } catch {
    return {}
  }
}
