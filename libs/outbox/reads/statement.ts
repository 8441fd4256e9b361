import { InvalidArgumentError, minorUnitsOf, requiredId } from '../../core/index.js'
import { isoMicros, qualify, type Queryable } from '../../db/index.js'
import { readItemViews } from './items.js'
import { UnknownNameError } from './pausable.js'
import { searchParticipant, STRETCH } from './search.js'

/** Participant and period of a statement. The period contains `from` and ends before `to`. */
export interface StatementSearch {
  readonly participantId: string
  readonly from: Date
  readonly to: Date
}

/** State at the end of the period. */
type StatementState = 'PENDING' | 'DISPATCHED' | 'FAILED' | 'CANCELLED'

/**
 * Line of a statement.
 *
 * - `payment`: a payment that was pending at the beginning of the period, or was created in it.
 * - `return`: money that the rail returned in the period.
 * - `opening`, `closing`: sum of the payments that were pending at the beginning or at the end, per currency.
 * - `created`: sum of the payments that were created in the period, per currency.
 * - `total`: sum of the payments per state, and of the returns, per currency.
 */
export interface StatementLine {
  readonly type: 'payment' | 'return' | 'opening' | 'created' | 'total' | 'closing'
  /**
   * Time of the end of the payment, or of the return; null for sums, and for a payment that is pending at the end of
   * the period.
   */
  readonly at: string | null
  readonly outboxId: string | null
  readonly instructionId: string | null
  readonly railType: string | null
  readonly createdAt: string | null
  readonly state: StatementState | 'RETURNED' | null
  readonly reference: string | null
  /** Number of payments or returns. */
  readonly count: number
  /** Currency; null if the field classes of the rail hide the amount. */
  readonly currency: string | null
  readonly amount: string | null
}

/** Fields of a line, in the order of the columns. */
export const STATEMENT_FIELDS = [
  'type',
  'at',
  'outboxId',
  'instructionId',
  'railType',
  'createdAt',
  'state',
  'reference',
  'count',
  'currency',
  'amount',
] as const satisfies readonly (keyof StatementLine)[]

/**
 * Yields the statement of a participant in pages: payments and returns by sequence number, then the sums. Opening plus
 * created minus ended payments are the closing ones, per currency. Reads page by page, so memory is bounded. Throws
 * `UnknownNameError` for a participant without payments.
 */
export async function* readStatement(
  role: Queryable,
  { participantId, from, to }: StatementSearch,
): AsyncGenerator<readonly StatementLine[], void> {
  requiredId('participant', participantId)
  if (from >= to) throw new InvalidArgumentError('to', 'expected a time after `from`')
  const { ids } = await searchParticipant(role, participantId, { limit: 1 })
  if (ids.length === 0) throw new UnknownNameError('participant', participantId, undefined, 'filter')
  const sums = new Sums()
  for (let after: bigint | null = 0n; after !== null;) {
    const { rows, next } = await readPage(role, { participantId, from, to }, after)
    const lines = await linesOf(role, rows, { from, to }, sums)
    if (lines.length > 0) yield lines
    after = next
  }
  yield sums.lines()
}

interface ItemRow {
  readonly id: string
  readonly number: bigint
  /** Whether the payment was created before the period. */
  readonly isOld: boolean
  /** State at the end of the period. */
  readonly state: StatementState
  /** End of the payment, if it ended before the end of the period. */
  readonly endedAt: string | null
  /** Whether the payment was pending at the beginning or created in the period. Otherwise only its returns count. */
  readonly isListed: boolean
}

const PAGE_ROWS = 500

async function readPage(
  role: Queryable,
  { participantId, from, to }: StatementSearch,
  after: bigint,
): Promise<{ readonly rows: readonly ItemRow[]; readonly next: bigint | null }> {
  const identities = qualify(role, 'payment_outbox_identities')
  const stretch = `SELECT i.outbox_id, i.sequence_id, i.created_at, i.is_message FROM ${identities} i
    WHERE i.participant_id = $1 AND i.sequence_id > $2::bigint ORDER BY i.sequence_id`
  const { rows } = await role.query<ItemRow>(
    `SELECT s.outbox_id AS id, s.sequence_id AS number, s.created_at < $3 AS "isOld",
       CASE WHEN a.completed_at IS NULL OR a.completed_at >= $4 THEN 'PENDING'
         WHEN a.action = 'cancelled' THEN 'CANCELLED' ELSE a.state::text END AS state,
       CASE WHEN a.completed_at < $4 THEN ${isoMicros('a.completed_at')} END AS "endedAt",
       a.completed_at IS NULL OR a.completed_at >= $3 AS "isListed"
     FROM (${stretch} LIMIT ${STRETCH}) s
     LEFT JOIN ${qualify(role, 'payment_outbox_attempts')} a
       ON a.outbox_id = s.outbox_id AND a.state IN ('DISPATCHED', 'FAILED')
     WHERE NOT s.is_message AND s.created_at < $4
       AND (a.completed_at IS NULL OR a.completed_at >= $3 OR EXISTS (
         SELECT FROM ${qualify(role, 'payment_outbox_events')} e
         WHERE e.outbox_id = s.outbox_id AND e.event_type = 'RETURN_RECORDED'
           AND e.created_at >= $3 AND e.created_at < $4))
     ORDER BY s.sequence_id LIMIT ${PAGE_ROWS}`,
    [participantId, after, from, to],
  )
  if (rows.length === PAGE_ROWS) return { rows, next: rows.at(-1)?.number ?? null }
  const { rows: ends } = await role.query<{ number: bigint }>(
    `SELECT s.sequence_id AS number FROM (${stretch} OFFSET ${STRETCH - 1} LIMIT 1) s`,
    [participantId, after],
  )
  return { rows, next: ends[0]?.number ?? null }
}

interface ReturnRow {
  readonly id: string
  readonly at: string
  readonly amount: string
  readonly reference: string
}

async function linesOf(
  role: Queryable,
  rows: readonly ItemRow[],
  period: Omit<StatementSearch, 'participantId'>,
  sums: Sums,
): Promise<readonly StatementLine[]> {
  const ids = rows.map(({ id }) => id)
  const items = new Map((await readItemViews(role, ids)).map((item) => [item.outboxId, item]))
  const returns = await readReturns(role, ids, period)
  return rows.flatMap((row) => {
    const item = items.get(row.id)
    if (item === undefined) return []
    const { outboxId, instructionId, railType, createdAt, currency, amount } = item
    const common = { outboxId, instructionId, railType, createdAt, count: 1, currency }
    const { state, endedAt, isOld } = row
    const reference = state === 'DISPATCHED' ? item.lastRailReference : null
    const lines: StatementLine[] = row.isListed
      ? [{ type: 'payment', at: endedAt, ...common, state, reference, amount }]
      : []
    if (row.isListed) {
      sums.add(isOld ? 'opening' : 'created', null, currency, amount)
      sums.add('total', state, currency, amount)
      if (state === 'PENDING') sums.add('closing', null, currency, amount)
    }
    for (const back of returns.filter(({ id }) => id === row.id)) {
      // If the amount is secret, the view shows no sum of the returns, so this line shows no amount either.
      const returned = item.returnedAmount === null ? null : back.amount
      sums.add('total', 'RETURNED', currency, returned)
      lines.push({
        type: 'return',
        at: back.at,
        ...common,
        state: 'RETURNED',
        reference: back.reference,
        amount: returned,
      })
    }
    return lines
  })
}

async function readReturns(
  role: Queryable,
  ids: readonly string[],
  { from, to }: Omit<StatementSearch, 'participantId'>,
): Promise<readonly ReturnRow[]> {
  const { rows } = await role.query<ReturnRow>(
    `SELECT e.outbox_id AS id, ${isoMicros('e.created_at')} AS at, e.detail ->> 'amount' AS amount,
       e.detail ->> 'reference' AS reference
     FROM ${qualify(role, 'payment_outbox_events')} e
     WHERE e.outbox_id = ANY ($1::uuid[]) AND e.event_type = 'RETURN_RECORDED' AND e.created_at >= $2 AND e.created_at < $3
     ORDER BY e.outbox_id, e.event_no`,
    [ids, from, to],
  )
  return rows
}

type SumType = Exclude<StatementLine['type'], 'payment' | 'return'>

/** Counts and sums per type, state and currency. */
class Sums {
  readonly #sums = new Map<string, { line: StatementLine; count: number; total: bigint }>()

  add(type: SumType, state: StatementLine['state'], currency: string | null, amount: string | null): void {
    // Payments without a shown amount are counted apart, because a sum without them would be wrong.
    const shown = amount === null ? null : currency
    const key = `${TYPES.indexOf(type)} ${state} ${shown}`
    const sum = this.#sums.get(key) ?? { line: { ...NO_ITEM, type, state, currency: shown }, count: 0, total: 0n }
    this.#sums.set(key, { ...sum, count: sum.count + 1, total: sum.total + (amount === null ? 0n : unitsOf(amount)) })
  }

  lines(): readonly StatementLine[] {
    const sums = [...this.#sums].toSorted(([one], [other]) => (one < other ? -1 : 1))
    return sums.map(([, { line, count, total }]) => {
      const amount = line.currency === null ? null : amountOf(total, line.currency)
      return Object.assign({}, line, { count, amount })
    })
  }
}

const TYPES: readonly SumType[] = ['opening', 'created', 'total', 'closing']
const NO_ITEM = {
  at: null,
  outboxId: null,
  instructionId: null,
  railType: null,
  createdAt: null,
  reference: null,
  count: 0,
  amount: null,
}

/** Maximum number of digits after the point of a shown amount. */
const SCALE = 18

function unitsOf(amount: string): bigint {
  const [whole = '0', fraction = ''] = amount.split('.')
  return BigInt(`${whole}${fraction.padEnd(SCALE, '0')}`)
}

/** Returns a sum with the digits of its currency, or more if an amount has more. */
function amountOf(units: bigint, currency: string): string {
  const sign = units < 0n ? '-' : ''
  const digits = String(units < 0n ? -units : units).padStart(SCALE + 1, '0')
  const fraction = digits
    .slice(-SCALE)
    .replace(/0+$/, '')
    .padEnd(minorUnitsOf(currency) ?? 0, '0')
  return `${sign}${digits.slice(0, -SCALE)}${fraction === '' ? '' : `.${fraction}`}`
}
