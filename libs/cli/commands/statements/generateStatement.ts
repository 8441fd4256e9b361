import { createHash } from 'node:crypto'
import { formatMoney, parseMoney } from '../../../core/index.js'
import type { StatementFormat } from '../../../reconciliation/index.js'
import { between, seededRandom, type Random } from '../demo/seededRandom.js'
import { writeCamt } from './writeCamt.js'
import { writeCsv, writeNdjson } from './writeRows.js'

export interface StatementPayment {
  readonly outboxId: string
  readonly amount: string
  readonly currency: string
  /** DISPATCHED, FAILED, or any other text for a payment without a terminal outcome. */
  readonly state: string
  /** Time of the terminal outcome; null without one. */
  readonly completedAt: Date | null
}

export const PLANTED_KINDS = [
  'paidTwice',
  'paidNotRecorded',
  'recordedNotPaid',
  'amountDiffers',
  'reversed',
  'unknownEntry',
] as const
export type PlantedKind = (typeof PLANTED_KINDS)[number]

export interface GenerateStatementOptions {
  readonly payments: readonly StatementPayment[]
  /** Number of planted errors of each kind. */
  readonly errors: Readonly<Partial<Record<PlantedKind, number>>>
  readonly format: StatementFormat
  /** Seed of all random choices. The same seed and payments give the same file. */
  readonly seed: string
  /** @default 1 */
  readonly settlementDays?: number
  /** First day of the statement. Earlier payments may be absent. @default the day of the first outcome */
  readonly from?: Date
  /** First day after the statement. @default the day from which every dispatched payment must be on the statement */
  readonly to?: Date
}

/** Finding that a run over the statement must report. */
export interface ExpectedFinding {
  readonly kind: PlantedKind
  /** Null for an unknown entry. */
  readonly outboxId: string | null
  /** Bank's own reference, for an unknown entry. */
  readonly bankReference: string | null
}

export interface GeneratedStatement {
  /** Yields the file in parts. */
  readonly text: () => Iterable<string>
  readonly counts: Readonly<Record<'matched' | PlantedKind, number>>
  readonly findings: readonly ExpectedFinding[]
  /** Number of entries in the file, pending entries and credits included. */
  readonly entries: number
}

/** Field of an entry that contains the reference. */
export type ReferenceField = 'endToEndId' | 'instructionId' | 'servicerReference' | 'creditorReference' | 'text'

interface EntryReference {
  readonly field: ReferenceField
  readonly text: string
}

/** Entry, independent of the file format. */
export interface PlannedEntry {
  readonly account: string
  readonly bankReference: string
  /** Null for an entry without a reference. */
  readonly reference: EntryReference | null
  readonly party: string
  readonly amount: string
  readonly currency: string
  /** Amount in the account's currency, if the bank exchanged the payment. */
  readonly exchanged: { readonly amount: string; readonly currency: string } | null
  readonly direction: 'debit' | 'credit'
  readonly status: 'booked' | 'pending' | 'information'
  readonly reversal: boolean
  readonly returnCode: string | null
  readonly bookedOn: string
  readonly valuedOn: string
  /** Whether the bank may book the entry as a part of a batch. */
  readonly batchable: boolean
}

/** One statement of the file, with its own id and period. */
export interface PlannedStatement {
  readonly id: string
  readonly account: string
  readonly from: Date
  readonly to: Date
  readonly entries: readonly PlannedEntry[]
}

/**
 * Plans a file of bank statements for the payments, with planted errors. Like a real file, it has one or more
 * statements, batch bookings, pending entries, credits, and references in every field that banks use.
 */
export function generateStatement(options: GenerateStatementOptions): GeneratedStatement {
  const plan = new StatementPlan(options)
  const statements = plan.statements()
  const random = seededRandom(`text ${options.seed}`)
  const writers = { camt053: writeCamt, camt054: writeCamt, csv: writeCsv, ndjson: writeNdjson }
  return {
    text: () => writers[options.format](statements, options.format, random),
    counts: plan.counts,
    findings: plan.findings,
    entries: statements.reduce((sum, { entries }) => sum + entries.length, 0),
  }
}

const DAY_MS = 86_400_000
const ACCOUNT = 'DE89370400440532013000'
const ACCOUNT_CURRENCY = 'EUR'
const CURRENCIES = ['EUR', 'USD', 'GBP', 'CHF', 'JPY']
const RETURN_CODES = ['AC01', 'AC04', 'AC06', 'MS03', 'RR04']
/** Debits unrelated to the rail: payee and text. */
const OTHER_DEBITS = [
  ['Maria Huber', 'Salary'],
  ['Bank fees', 'Account fee of the month'],
  ['Office rent Ltd', 'Rent & utilities'],
  ['City of Berlin', 'Business tax <2nd quarter>'],
  ['Jörg Weiß', 'Expenses "Lyon"'],
] as const

class StatementPlan {
  readonly findings: ExpectedFinding[] = []
  readonly counts = {
    matched: 0,
    paidTwice: 0,
    paidNotRecorded: 0,
    recordedNotPaid: 0,
    amountDiffers: 0,
    reversed: 0,
    unknownEntry: 0,
  }
  readonly #options: GenerateStatementOptions
  readonly #random: Random
  readonly #from: number
  readonly #to: number
  /** A payment that was completed before this time must be on the statement. */
  readonly #settledUntil: number
  readonly #days = new Map<string, PlannedEntry[]>()
  #entries = 0

  constructor(options: GenerateStatementOptions) {
    const { payments, settlementDays = 1, seed } = options
    this.#options = options
    this.#random = seededRandom(`statement ${seed}`)
    const outcomes = payments.flatMap(({ completedAt }) => (completedAt === null ? [] : [completedAt.getTime()]))
    const [first, last] = outcomes.reduce(
      ([low, high], time) => [Math.min(low, time), Math.max(high, time)],
      outcomes.length === 0 ? [Date.UTC(2026, 0, 5), Date.UTC(2026, 0, 5)] : [Infinity, -Infinity],
    )
    this.#from = options.from?.getTime() ?? startOfDay(first)
    this.#to = options.to?.getTime() ?? startOfDay(last) + (1 + settlementDays) * DAY_MS
    this.#settledUntil = this.#to - settlementDays * DAY_MS
  }

  /** Plans the entries of every payment and returns them by statement. */
  statements(): readonly PlannedStatement[] {
    const { payments, errors } = this.#options
    const planted = this.#choose()
    for (const [index, payment] of payments.entries()) this.#plan(payment, planted.get(index))
    for (let left = errors.unknownEntry ?? 0; left > 0; left -= 1) this.#addUnknown()
    // The period of a CSV or NDJSON file is that of its entries. Credits on the first and last day make it the whole
    // period.
    for (const time of [this.#from, this.#to - DAY_MS]) this.#addCredit(time)
    for (let left = Math.ceil(payments.length / 50); left > 0; left -= 1) this.#addCredit(this.#anyTime())
    return this.#split()
  }

  /** Chooses the payments that get an error. */
  #choose(): ReadonlyMap<number, PlantedKind> {
    const { payments, errors } = this.#options
    const isChecked = ({ state, completedAt }: StatementPayment) =>
      state === 'DISPATCHED' && this.#isCovered(completedAt) && !this.#isRecent(completedAt)
    const paid = indexesOf(payments, isChecked)
    const unpaid = indexesOf(payments, ({ state }) => state !== 'DISPATCHED')
    const chosen = new Map<number, PlantedKind>()
    for (const kind of PLANTED_KINDS) {
      if (kind === 'unknownEntry') continue
      const [from, what] = kind === 'paidNotRecorded' ? [unpaid, 'not DISPATCHED'] : [paid, 'DISPATCHED in the period']
      for (let left = errors[kind] ?? 0; left > 0; left -= 1) {
        const index = takeAny(from, this.#random)
        if (index === undefined) throw new RangeError(`${kind}: expected more payments that are ${what}`)
        chosen.set(index, kind)
      }
    }
    return chosen
  }

  #plan(payment: StatementPayment, kind: PlantedKind | undefined): void {
    if (kind !== undefined) {
      this.counts[kind] += 1
      this.findings.push({ kind, outboxId: payment.outboxId, bankReference: null })
    }
    switch (kind) {
      case undefined:
        return this.#planWithoutError(payment)
      case 'paidTwice':
        return this.#payTwice(payment)
      case 'recordedNotPaid':
        return this.#addIneffective(payment)
      case 'amountDiffers':
        return this.#pay(payment, this.#otherMoney(payment))
      case 'reversed':
        this.counts.matched += 1
        return this.#reverse(payment)
      case 'paidNotRecorded':
        return this.#pay(payment)
      case 'unknownEntry':
        throw new Error('an unknown entry has no payment')
    }
  }

  #planWithoutError(payment: StatementPayment): void {
    const { state, completedAt } = payment
    const mayBeAbsent = state !== 'DISPATCHED' || !this.#isCovered(completedAt) || this.#isRecent(completedAt)
    if (state !== 'DISPATCHED' || (mayBeAbsent && this.#random() < 0.5)) return this.#addIneffective(payment)
    this.counts.matched += 1
    this.#pay(payment)
    // Some banks announce a booked entry by an earlier entry without effect, such as a pending one.
    if (this.#random() < 0.05) this.#addIneffective(payment)
  }

  /** Adds one booked debit of the payment, with the amount `money` if given. */
  #pay(payment: StatementPayment, money: Money = payment, reference = this.#referenceTo(payment.outboxId)): void {
    const { amount, currency } = money
    this.#add(this.#timeOf(payment), { reference, amount, currency, exchanged: this.#exchange(money) })
  }

  #payTwice(payment: StatementPayment): void {
    const times = this.#random() < 0.1 ? 3 : 2
    for (let left = times; left > 0; left -= 1) {
      // Two entries with the same servicer reference are one entry, so a doubled payment must not use it.
      this.#pay(payment, payment, this.#referenceTo(payment.outboxId, { unlike: 'servicerReference' }))
    }
  }

  #reverse(payment: StatementPayment): void {
    this.#pay(payment)
    const { amountMinor, currency } = parseMoney(payment.amount, payment.currency)
    const isPartial = amountMinor > 1n && this.#random() < 0.2
    const amount = isPartial ? formatMoney({ amountMinor: amountMinor / 2n, currency }) : payment.amount
    this.#add(this.#timeOf(payment), {
      reference: this.#referenceTo(payment.outboxId, { unlike: 'servicerReference' }),
      amount,
      currency,
      direction: 'credit',
      reversal: true,
      returnCode: RETURN_CODES[between(this.#random, 0, RETURN_CODES.length - 1)] ?? null,
    })
  }

  /** Adds, for some payments, an entry without effect: pending, information or a credit. */
  #addIneffective(payment: StatementPayment): void {
    const dice = this.#random()
    if (dice < 0.6) return
    const { outboxId, amount, currency } = payment
    this.#add(this.#timeOf(payment), {
      reference: this.#referenceTo(outboxId),
      amount,
      currency,
      ...(dice < 0.85 ? { status: 'pending' } : dice < 0.93 ? { status: 'information' } : { direction: 'credit' }),
    })
  }

  #addUnknown(): void {
    const [party = '', text = ''] = OTHER_DEBITS[between(this.#random, 0, OTHER_DEBITS.length - 1)] ?? []
    const dice = this.#random()
    const id = uuidOf(`${this.#options.seed} unknown ${this.#entries}`)
    const foreign = this.#referenceTo(id, { unlike: 'servicerReference' })
    const entry = this.#add(this.#anyTime(), {
      reference: dice < 0.3 ? foreign : dice < 0.6 ? { field: 'text', text } : null,
      party,
      amount: `${between(this.#random, 1, 4_999)}.${between(this.#random, 10, 99)}`,
      currency: ACCOUNT_CURRENCY,
      batchable: false,
    })
    this.counts.unknownEntry += 1
    this.findings.push({ kind: 'unknownEntry', outboxId: null, bankReference: entry.bankReference })
  }

  #addCredit(time: number): void {
    const reference = { field: 'text', text: `Invoice ${between(this.#random, 1_000, 9_999)}` } as const
    const amount = `${between(this.#random, 1, 99_999)}.00`
    this.#add(time, { reference, party: 'A customer', amount, currency: ACCOUNT_CURRENCY, direction: 'credit' })
  }

  #add(time: number, entry: Partial<PlannedEntry> & Pick<PlannedEntry, 'reference' | 'amount' | 'currency'>) {
    this.#entries += 1
    const bookedOn = isoDay(time)
    const planned: PlannedEntry = {
      account: ACCOUNT,
      bankReference: `BANK${String(this.#entries).padStart(10, '0')}${digest(this.#options.seed).slice(0, 6)}`,
      party: 'A payee',
      exchanged: null,
      direction: 'debit',
      status: 'booked',
      reversal: false,
      returnCode: null,
      bookedOn,
      valuedOn: isoDay(time + between(this.#random, 0, 2) * DAY_MS),
      batchable: true,
      ...entry,
    }
    const day = this.#days.get(bookedOn)
    if (day === undefined) this.#days.set(bookedOn, [planned])
    else day.push(planned)
    return planned
  }

  /** Splits the days into one to four statements. */
  #split(): readonly PlannedStatement[] {
    const days = Array.from({ length: Math.round((this.#to - this.#from) / DAY_MS) }, (_, n) => this.#from + n * DAY_MS)
    const perStatement = Math.ceil(days.length / Math.min(days.length, between(this.#random, 1, 4)))
    const statements: PlannedStatement[] = []
    for (let first = 0; first < days.length; first += perStatement) {
      const own = days.slice(first, first + perStatement)
      const [from = 0, last = 0] = [own[0], own.at(-1)]
      statements.push({
        id: `${isoDay(from)}-${digest(`${this.#options.seed} ${first}`).slice(0, 12)}`,
        account: ACCOUNT,
        from: new Date(from),
        to: new Date(last + DAY_MS),
        entries: own.flatMap((day) => this.#days.get(isoDay(day)) ?? []),
      })
    }
    return statements
  }

  #isCovered(time: Date | null): boolean {
    return time !== null && time.getTime() >= this.#from && time.getTime() < this.#to
  }

  #isRecent(time: Date | null): boolean {
    return time !== null && time.getTime() >= this.#settledUntil
  }

  /** Returns a time inside the statement, and after the payment if the period allows it. */
  #timeOf({ completedAt }: StatementPayment): number {
    if (completedAt === null) return this.#anyTime()
    const { settlementDays = 1 } = this.#options
    const time = completedAt.getTime() + between(this.#random, 0, settlementDays) * DAY_MS
    return Math.min(Math.max(time, this.#from), this.#to - 1)
  }

  #anyTime(): number {
    return this.#from + Math.floor(this.#random() * (this.#to - this.#from))
  }

  #otherMoney({ amount, currency }: StatementPayment): Money {
    const { amountMinor } = parseMoney(amount, currency)
    if (this.#random() < 0.3 && currency !== 'JPY') return { amount, currency: currency === 'CHF' ? 'GBP' : 'CHF' }
    const change = BigInt(between(this.#random, 1, 500))
    const other = this.#random() < 0.5 && amountMinor > change ? amountMinor - change : amountMinor + change
    return { amount: formatMoney({ amountMinor: other, currency }), currency }
  }

  /** Returns, for half of the payments in other currencies, the amount in the account's currency. */
  #exchange({ amount, currency }: Money): PlannedEntry['exchanged'] {
    if (currency === ACCOUNT_CURRENCY || this.#random() < 0.5) return null
    const { amountMinor } = parseMoney(amount, currency)
    const booked = { amountMinor: (amountMinor * 93n) / 100n + 1n, currency: ACCOUNT_CURRENCY }
    return { amount: formatMoney(booked), currency: ACCOUNT_CURRENCY }
  }

  #referenceTo(outboxId: string, { unlike }: { readonly unlike?: ReferenceField } = {}): EntryReference {
    const dice = this.#random()
    const field = FIELDS.find(([upTo]) => dice < upTo)?.[1] ?? 'endToEndId'
    const form = Math.floor(dice * 1_000) % 4
    const compact = outboxId.replaceAll('-', '')
    const text = form === 0 ? outboxId : form === 1 ? compact.toUpperCase() : compact
    return { field: field === unlike ? 'endToEndId' : field, text }
  }
}

/**
 * Fields that may contain the reference, each chosen for random numbers below its bound. A number above every bound
 * chooses the EndToEndId, which most banks use.
 */
const FIELDS: readonly (readonly [number, ReferenceField])[] = [
  [0.1, 'instructionId'],
  [0.15, 'servicerReference'],
  [0.2, 'creditorReference'],
  [0.35, 'text'],
]

interface Money {
  readonly amount: string
  readonly currency: string
}

/** Builds payments with plausible states, for a statement without a ledger. */
export function buildStatementPayments(count: number, unpaid: number, seed: string): StatementPayment[] {
  const random = seededRandom(`payments ${seed}`)
  const first = Date.UTC(2026, 0, 5)
  return Array.from({ length: count }, (_, index) => {
    const currency = CURRENCIES[random() < 0.8 ? 0 : between(random, 1, CURRENCIES.length - 1)] ?? 'EUR'
    const isUnpaid = index < unpaid
    const isFailed = isUnpaid && random() < 0.5
    return {
      outboxId: uuidOf(`${seed} payment ${index}`),
      amount: formatMoney({ amountMinor: BigInt(between(random, 1, 999_999)), currency }),
      currency,
      state: isFailed ? 'FAILED' : isUnpaid ? 'PENDING' : 'DISPATCHED',
      completedAt: isUnpaid && !isFailed ? null : new Date(first + Math.floor(random() * 5 * DAY_MS)),
    }
  })
}

function indexesOf(payments: readonly StatementPayment[], isChosen: (payment: StatementPayment) => boolean): number[] {
  const indexes: number[] = []
  for (const [index, payment] of payments.entries()) if (isChosen(payment)) indexes.push(index)
  return indexes
}

/** Removes a random element and moves the last element to its place. */
function takeAny(indexes: number[], random: Random): number | undefined {
  if (indexes.length === 0) return undefined
  const place = between(random, 0, indexes.length - 1)
  const taken = indexes[place]
  const last = indexes.pop()
  if (last !== undefined && place < indexes.length) indexes[place] = last
  return taken
}

function startOfDay(time: number): number {
  return Math.floor(time / DAY_MS) * DAY_MS
}

function isoDay(time: number): string {
  return new Date(time).toISOString().slice(0, 10)
}

function digest(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}

/** Derives a UUID of version 8 from a text. */
function uuidOf(text: string): string {
  const hex = digest(text)
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-8${hex.slice(13, 16)}-a${hex.slice(17, 20)}-${hex.slice(20, 32)}`
}
