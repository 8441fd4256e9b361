import { boundedInteger, InvalidArgumentError, requiredId, requiredUuid } from '../../core/index.js'
import { qualify, type Queryable } from '../../db/index.js'
import type { ItemKind } from '../statusTypes.js'
import { minUuidAt, PAGE, STRETCH, type CreatedRange } from './search.js'

/**
 * Searches of the table payment_search, which is a few seconds behind the ledger. Each search reads a bounded range of
 * one index; the other filters apply to that range. A page may therefore be short and still have a next one.
 */

/** State in the search table. PENDING covers all states of the queue except HELD. */
export type ProjectedState = 'PENDING' | 'HELD' | 'DISPATCHED' | 'FAILED' | 'CANCELLED'

/** Order of a list. `largest` and `smallest` sort by amount, in one currency. */
export type SearchSort = 'newest' | 'oldest' | 'largest' | 'smallest'

export interface ProjectedFilter extends CreatedRange {
  /** @default payment */
  readonly kind?: ItemKind
  readonly states?: readonly ProjectedState[]
  readonly railType?: string
  /** @default all */
  readonly participants?: readonly string[]
  /** Whether to find only payments of which the rail returned money. @default false */
  readonly returned?: boolean
  /** Required with an amount, and to sort by amount. Needs the role auditor or control. */
  readonly currency?: string
  /** Smallest amount, as a decimal. */
  readonly amountMin?: string
  /** Largest amount, included. */
  readonly amountMax?: string
  /** Hash of the destination, see `DestinationHash`. Needs the role auditor. */
  readonly destinationHmac?: Buffer
  /** @default `newest`; with a `currency`, `largest`, unless `amountMin` and `amountMax` are equal */
  readonly sort?: SearchSort
}

export interface ProjectedCursor {
  readonly id: string
  /** Amount of the last payment, if the list is sorted by amount; else empty. */
  readonly amount: string
}

export interface ProjectedSearch extends ProjectedFilter {
  /** Value `next` of the previous page. @default the first page */
  readonly after?: ProjectedCursor
  readonly limit: number
}

/** Returns a page of ids. Leaves out rails with hidden amounts if the search names a currency. */
export async function searchProjected(
  role: Queryable,
  search: ProjectedSearch,
): Promise<{ readonly ids: readonly string[]; readonly next: ProjectedCursor | null }> {
  const limit = boundedInteger('limit', search.limit, PAGE)
  const { range, rangeValues, rest, values, order } = prepare(role, search)
  const { rows } = await role.query<ProjectedCursor>(
    `SELECT s.outbox_id AS id, s.amount::text AS amount FROM (${range} ${order} LIMIT ${STRETCH}) s
     WHERE ${rest} ${order} LIMIT ${limit}`,
    values,
  )
  const ids = rows.map(({ id }) => id)
  if (ids.length === limit) return { ids, next: rows.at(-1) ?? null }
  const { rows: ends } = await role.query<ProjectedCursor>(
    `SELECT s.outbox_id AS id, s.amount::text AS amount FROM (${range} ${order} OFFSET ${STRETCH - 1} LIMIT 1) s`,
    rangeValues,
  )
  return { ids, next: ends[0] ?? null }
}

export interface StateCounts {
  readonly states: Readonly<Record<ProjectedState, number>>
  /** Number of matching payments of which the rail returned money. */
  readonly returned: number
  /** Whether the counts may be incomplete: only the first 20,000 entries of an index are counted. */
  readonly truncated: boolean
}

/** Counts the items that match, by state. */
export async function countProjected(role: Queryable, filter: ProjectedFilter): Promise<StateCounts> {
  const { range, rest, values, order } = prepare(role, filter)
  const { rows } = await role.query<{ state: ProjectedState | null; items: number; returned: number }>(
    `SELECT CASE WHEN ${rest} THEN s.state END AS state, count(*)::integer AS items,
       count(*) FILTER (WHERE s.returned)::integer AS returned
     FROM (${range} ${order} LIMIT ${COUNTED_MAX}) s GROUP BY 1`,
    values,
  )
  const states: Record<ProjectedState, number> = { PENDING: 0, HELD: 0, DISPATCHED: 0, FAILED: 0, CANCELLED: 0 }
  let [returned, seen] = [0, 0]
  for (const row of rows) {
    seen += row.items
    if (row.state === null) continue
    states[row.state] = row.items
    returned += row.returned
  }
  return { states, returned, truncated: seen === COUNTED_MAX }
}

/** Returns the given ids that match the filter. */
export async function narrowProjected(
  role: Queryable,
  ids: readonly string[],
  filter: ProjectedFilter,
): Promise<readonly string[]> {
  const { range, rest, values } = prepare(role, filter)
  const { rows } = await role.query<{ id: string }>(
    `SELECT s.outbox_id AS id FROM (${range} AND s.outbox_id = ANY ($${values.length + 1}::uuid[])) s WHERE ${rest}`,
    [...values, ids],
  )
  const found = new Set(rows.map(({ id }) => id))
  return ids.filter((id) => found.has(id))
}

/** Returns whether the list is sorted by amount instead of time. */
export function isByAmount(filter: ProjectedFilter): boolean {
  return ['largest', 'smallest'].includes(sortOf(filter))
}

/** Returns the query of a range of one index, the conditions for the rows of that range, and the order. */
function prepare(role: Queryable, search: ProjectedFilter & { readonly after?: ProjectedCursor }) {
  const { kind = 'payment', states, railType, participants, returned = false, after } = search
  const sort = sortOf(search)
  const byAmount = isByAmount(search)
  const [direction, beyond] = sort === 'oldest' || sort === 'smallest' ? ['ASC', '>'] : ['DESC', '<']
  const values: unknown[] = []
  const bind = (value: unknown, type: string) => `$${values.push(value)}::${type}`
  const id = (time: Date) => bind(minUuidAt(time), 'uuid')
  // Filters with an index, the most selective first. The first one given decides the index.
  const filters = [
    search.destinationHmac === undefined && search.currency === undefined
      ? undefined
      : () => [...destinationCondition(), ...amountCondition(search, bind)].join(' AND '),
    participants?.length === 1
      ? () => `s.participant_id = ${bind(requiredId('participants[0]', participants[0]), 'text')}`
      : undefined,
    states?.length === 1 ? () => `s.state = ${bind(states[0], 'text')}` : undefined,
    railType === undefined ? undefined : () => `s.rail_type = ${bind(requiredId('railType', railType), 'text')}`,
  ]
  const [first, ...others] = filters.filter((filter) => filter !== undefined)
  const created = () => [
    ...(search.createdFrom === undefined ? [] : [`s.outbox_id >= ${id(search.createdFrom)}`]),
    ...(search.createdTo === undefined ? [] : [`s.outbox_id < ${id(search.createdTo)}`]),
  ]
  const position = (cursor: ProjectedCursor) => {
    const last = bind(requiredUuid('after.id', cursor.id), 'uuid')
    return byAmount
      ? `(s.amount, s.outbox_id) ${beyond} (${bind(cursor.amount, 'numeric')}, ${last})`
      : `s.outbox_id ${beyond} ${last}`
  }
  const further = () => (after === undefined ? [] : [position(after)])
  const destinationCondition = () =>
    search.destinationHmac === undefined ? [] : [`s.outbox_id = ANY (ARRAY(${destinations()}))`]
  // The ids become an array, so that the planner cannot choose an index by the ORDER BY of the search.
  const destinations = () => `SELECT s.outbox_id FROM ${qualify(role, 'payment_search_destinations')} s
    WHERE s.destination_hmac = ${bind(search.destinationHmac, 'bytea')}${byAmount ? '' : and([...created(), ...further()])}
    ORDER BY s.outbox_id ${byAmount ? 'DESC' : direction} LIMIT ${STRETCH}`
  const range = [
    `s.is_message = ${bind(kind === 'message', 'boolean')}`,
    ...(first === undefined ? [] : [first()]),
    ...(byAmount ? [] : created()),
    ...further(),
  ]
  const rangeValues = [...values]
  const rest = [
    returned ? 's.returned' : 'true',
    ...others.map((condition) => condition()),
    ...(byAmount ? created() : []),
    ...(states === undefined || states.length === 1 ? [] : [`s.state = ANY (${bind(states, 'text[]')})`]),
    ...(participants === undefined || participants.length === 1
      ? []
      : [`s.participant_id = ANY (${bind(participants, 'text[]')})`]),
    ...(search.currency === undefined ? [] : [publicAmount(role)]),
    ...(search.destinationHmac === undefined ? [] : [shownDestination(role)]),
  ]
  return {
    range: `SELECT s.outbox_id, ${byAmount ? 's.amount' : `'' AS amount`}, s.state, s.returned, s.rail_type, s.participant_id
      FROM ${qualify(role, 'payment_search')} s WHERE ${range.join(' AND ')}`,
    rangeValues,
    rest: rest.join(' AND '),
    values,
    order: `ORDER BY ${byAmount ? `s.amount ${direction}, ` : ''}s.outbox_id ${direction}`,
  }
}

/**
 * Returns the order, or refuses one without an index: the index on amounts covers one currency and sorts by amount,
 * then by id.
 */
function sortOf({ currency, amountMin, amountMax, sort }: ProjectedFilter): SearchSort {
  const wantsAmounts = sort === 'largest' || sort === 'smallest'
  if (currency === undefined) {
    if (amountMin !== undefined || amountMax !== undefined || wantsAmounts) {
      throw new InvalidArgumentError('currency', 'expected the currency of the amounts')
    }
    return sort ?? 'newest'
  }
  const isOneAmount = amountMin !== undefined && amountMin === amountMax
  if (sort === undefined) return isOneAmount ? 'newest' : 'largest'
  if (!wantsAmounts && !isOneAmount) {
    throw new InvalidArgumentError('sort', 'expected largest or smallest: a range of amounts is sorted by amount')
  }
  return sort
}

function amountCondition(
  { currency, amountMin, amountMax }: ProjectedFilter,
  bind: (value: unknown, type: string) => string,
): readonly string[] {
  if (currency === undefined) return []
  const of = ['s.amount IS NOT NULL', `s.currency = ${bind(currency, 'text')}`]
  if (amountMin !== undefined && amountMin === amountMax) return [...of, `s.amount = ${bind(amountMin, 'numeric')}`]
  return [
    ...of,
    ...(amountMin === undefined ? [] : [`s.amount >= ${bind(amountMin, 'numeric')}`]),
    ...(amountMax === undefined ? [] : [`s.amount <= ${bind(amountMax, 'numeric')}`]),
  ]
}

/**
 * Returns the condition under which outbox_operational_status shows a destination: the rail is declared, and the class
 * is public or masked.
 */
function shownDestination(role: Queryable): string {
  return `EXISTS (SELECT 1 FROM ${qualify(role, 'outbox_rails')} r WHERE r.rail_type = s.rail_type
    AND NOT COALESCE(ARRAY[r.fields ->> '/destination', r.fields ->> '/*'] && '{encrypted,forbidden}', false))`
}

/** Returns the condition that the amount is public. A declaration after the projection may have hidden it. */
function publicAmount(role: Queryable): string {
  return `NOT EXISTS (SELECT 1 FROM ${qualify(role, 'outbox_rails')} r WHERE r.rail_type = s.rail_type
    AND ARRAY[r.fields ->> '/amount', r.fields ->> '/currency', r.fields ->> '/*'] && '{masked,forbidden,encrypted}')`
}

function and(conditions: readonly string[]): string {
  return conditions.map((condition) => ` AND ${condition}`).join('')
}

const COUNTED_MAX = 20_000
