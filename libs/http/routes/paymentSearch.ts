import { Type } from '#typebox'
import {
  countProjected,
  findItems,
  isByAmount,
  narrowProjected,
  OTHER_KEY,
  readHashing,
  searchItems,
  searchParticipant,
  searchProjected,
  type ItemSearch,
  type ProjectedFilter,
  type ProjectedState,
  type StateCounts,
} from '../../outbox/index.js'
import type { Identity } from '../access/Identity.js'
import type { Api, Role } from '../Api.js'
import { ProblemError } from '../Problem.js'
import { Id, oneOf } from '../shapes/common.js'
import { ItemKindShape, ItemStateShape, type OutboxItem } from '../shapes/outbox.js'
import {
  createdBetween,
  decodeCursor,
  encodeCursor,
  LIMIT_DEFAULT,
  NUMBER_PART,
  ofParticipants,
  participantsFor,
  range,
  UUID_PART,
} from './parameters.js'

/**
 * Lists payments by filters. Queue and ledger contain a payment as soon as it commits. The filters by currency, amount
 * and destination and the option `sort` need the search table, which is a few seconds behind.
 */

const BY_ID = { list: 'outbox', parts: { id: UUID_PART } }
const BY_FAILURE = { list: 'failed', parts: { id: UUID_PART } }
const BY_SEQUENCE = { list: 'stream', parts: { number: NUMBER_PART } }

const BY_AMOUNT = { list: 'amount', parts: { id: UUID_PART, amount: /^\d{1,40}(?:\.\d{1,40})?$/ } }
const BY_PROJECTED = { list: 'projected', parts: { id: UUID_PART } }

const Decimal = Type.String({ pattern: '^(?:0|[1-9][0-9]{0,17})(?:[.][0-9]{1,4})?$', description: 'a decimal amount' })

/** Filters that a list and its counts share. */
export const filters = {
  kind: Type.Optional(ItemKindShape),
  state: Type.Optional(ItemStateShape),
  returned: Type.Optional(oneOf(['true'], 'only payments of which the rail returned money')),
  rail: Type.Optional(Id),
  participant: Type.Optional(Id),
  ...range,
  currency: Type.Optional(Type.String({ pattern: '^[A-Z]{3}$', description: 'an ISO 4217 code; sorts by amount' })),
  amountMin: Type.Optional(Decimal),
  amountMax: Type.Optional(Decimal),
  destination: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 255,
      description: 'whole destination; spaces and letter case do not matter. Also needs the scope audit',
    }),
  ),
}

interface ListQuery extends FilterQuery {
  readonly q?: string
  readonly cursor?: string
  readonly limit?: number
}

/**
 * Returns the ids of one page of payments. Reads the search table only if a filter or the order needs it, because that
 * table is a few seconds behind the ledger.
 */
export async function findPayments(api: Api, identity: Identity, query: ListQuery): Promise<Found> {
  const { q, state, cursor, limit = LIMIT_DEFAULT } = query
  const { roles } = api
  const filter = await filterOf(api, identity, query)
  if (q !== undefined) return named(roles, q, { filter, keyScope: identity.keyScope, cursor, limit })
  const page = { state, cursor, limit }
  return isProjected(filter) ? projected(roles, filter, page) : listed(roles.readonly, filter, page)
}

export async function countPayments(api: Api, identity: Identity, query: FilterQuery): Promise<StateCounts> {
  const filter = await filterOf(api, identity, query)
  return countProjected(roleFor(api.roles, filter), { ...filter, ...ofState(query.state) })
}

interface Page {
  readonly cursor: string | undefined
  readonly limit: number
}

interface Found {
  readonly ids: readonly string[]
  readonly next: string | null
}

type Filter = Omit<ProjectedFilter, 'states'>
type State = ItemSearch['state'] | undefined

interface FilterQuery {
  readonly kind?: 'payment' | 'message'
  readonly state?: ItemSearch['state']
  readonly returned?: string
  readonly rail?: string
  readonly participant?: string
  readonly from?: string
  readonly to?: string
  readonly currency?: string
  readonly amountMin?: string
  readonly amountMax?: string
  readonly destination?: string
  readonly sort?: ProjectedFilter['sort']
}

async function filterOf(api: Api, identity: Identity, query: FilterQuery): Promise<Filter> {
  const { kind, rail, participant, currency, amountMin, amountMax, sort, destination } = query
  return {
    returned: query.returned === 'true',
    ...ofParticipants(participantsFor(identity, participant)),
    ...createdBetween(query),
    ...(kind === undefined ? {} : { kind }),
    ...(rail === undefined ? {} : { railType: rail }),
    ...(currency === undefined ? {} : { currency }),
    ...(amountMin === undefined ? {} : { amountMin }),
    ...(amountMax === undefined ? {} : { amountMax }),
    ...(sort === undefined ? {} : { sort }),
    ...(destination === undefined ? {} : { destinationHmac: await hashOf(api, identity, destination) }),
  }
}

/**
 * Returns the hash of a destination. Requires the scope audit, because a search would confirm a guessed destination.
 */
async function hashOf({ destinationHash, roles }: Api, { scopes }: Identity, destination: string): Promise<Buffer> {
  if (!scopes.includes('audit'))
    throw new ProblemError('SCOPE_MISSING', 'A filter by destination needs the scope audit.')
  if (destinationHash === undefined) throw noSearch('Start the API with a secret in SYMPHONY_SEARCH_KEY.')
  const { keyName, blocksBehind } = await readHashing(roles.auditor)
  if (keyName !== null && keyName !== destinationHash.keyName) throw noSearch(`SYMPHONY_SEARCH_KEY: ${OTHER_KEY}`)
  // Refuses the search while too many hashes are missing, because an empty page would mean "no such payment".
  if (blocksBehind > BLOCKS_BEHIND_MAX) {
    throw noSearch(`Destinations of ${blocksBehind} blocks are not hashed yet. Repeat the request later.`)
  }
  return destinationHash.of(destination)
}

function noSearch(detail: string): ProblemError {
  return new ProblemError('DESTINATION_SEARCH_UNAVAILABLE', detail)
}

/**
 * Maximum number of blocks whose destinations are not hashed yet, about a minute of sealing. If there are more, a
 * search by destination is refused.
 */
const BLOCKS_BEHIND_MAX = 60n

/** Returns whether the current state of an item matches the filters, except those of the search table. */
export function matchesLive(item: OutboxItem, { kind, state, returned, rail, from, to }: FilterQuery): boolean {
  const created = Date.parse(item.createdAt)
  return (
    (kind === undefined || (kind === 'message') === item.isMessage) &&
    (state ?? item.state) === item.state &&
    (returned === undefined || item.returned) &&
    (rail ?? item.railType) === item.railType &&
    (from === undefined || created >= Date.parse(from)) &&
    (to === undefined || created < Date.parse(to))
  )
}

/** Returns whether the filter needs the search table. `newest` is the order of a list without `sort`. */
function isProjected({ currency, amountMin, amountMax, sort = 'newest', destinationHmac }: Filter): boolean {
  return sort !== 'newest' || [currency, amountMin, amountMax, destinationHmac].some((value) => value !== undefined)
}

/** Returns the role that searches. Only auditors may search by amount or destination. */
function roleFor(roles: Api['roles'], { currency, destinationHmac }: Filter): Role {
  return currency === undefined && destinationHmac === undefined ? roles.readonly : roles.auditor
}

/** Returns the states that an item in this state may have in the search table. */
function ofState(state: State): { states?: readonly ProjectedState[] } {
  if (state === undefined) return {}
  if (state === 'FAILED') return { states: ['FAILED', 'CANCELLED'] }
  return { states: [state === 'DISPATCHED' || state === 'HELD' ? state : 'PENDING'] }
}

async function projected(
  roles: Api['roles'],
  filter: Filter,
  { state, cursor, limit }: Page & { readonly state: State },
): Promise<Found> {
  const list = isByAmount(filter) ? BY_AMOUNT : BY_PROJECTED
  const after = decodeCursor<string>(list, cursor)
  const search = { ...filter, ...ofState(state), limit }
  const { ids, next } = await searchProjected(roleFor(roles, filter), {
    ...search,
    ...(after === undefined ? {} : { after: { id: after['id'] ?? '', amount: after['amount'] ?? '' } }),
  })
  return { ids, next: next === null ? null : encodeCursor<string>(list, { ...next }) }
}

/** Returns a page of the queue and the ledger. */
async function listed(
  role: Role,
  { sort: _sort, participants, createdFrom, createdTo, ...filter }: Filter,
  { state, cursor, limit }: Page & { readonly state: State },
): Promise<Found> {
  const { kind, railType, returned = false } = filter
  const [participant, ...others] = participants ?? []
  const isStream = state === undefined && railType === undefined && !returned && createdFrom === undefined
  if (participant !== undefined && others.length === 0 && isStream && createdTo === undefined) {
    return streamOf(role, participant, { ...(kind === undefined ? {} : { kind }), cursor, limit })
  }
  // Failed items have another order, so the cursor of one list is invalid in the other.
  const list = state === 'FAILED' ? BY_FAILURE : BY_ID
  const before = decodeCursor(list, cursor)?.id
  const { ids, next } = await searchItems(role, {
    limit,
    returned,
    ...ofParticipants(participants),
    ...(kind === undefined ? {} : { kind }),
    ...(state === undefined ? {} : { state }),
    ...(railType === undefined ? {} : { railType }),
    ...(createdFrom === undefined ? {} : { createdFrom }),
    ...(createdTo === undefined ? {} : { createdTo }),
    ...(before === undefined ? {} : { before }),
  })
  return { ids, next: next === null ? null : encodeCursor(list, { id: next }) }
}

async function streamOf(
  role: Role,
  participant: string,
  { kind, cursor, limit }: Page & Pick<Filter, 'kind'>,
): Promise<Found> {
  const number = decodeCursor(BY_SEQUENCE, cursor)?.number
  const before = number === undefined ? {} : { before: BigInt(number) }
  const { ids, next } = await searchParticipant(role, participant, {
    ...before,
    ...(kind === undefined ? {} : { kind }),
    limit,
  })
  return { ids, next: next === null ? null : encodeCursor(BY_SEQUENCE, { number: String(next) }) }
}

async function named(
  roles: Api['roles'],
  word: string,
  { filter, keyScope, cursor, limit }: Page & { readonly filter: Filter; readonly keyScope: string },
): Promise<Found> {
  if (cursor !== undefined) {
    throw new ProblemError('INVALID_QUERY', 'cursor: a search by word has one page', { argument: 'cursor' })
  }
  const options = { ...ofParticipants(filter.participants), keyScope, limit }
  const ids = await findItems(roles.readonly, word, options)
  return { ids: isProjected(filter) ? await narrowProjected(roleFor(roles, filter), ids, filter) : ids, next: null }
}
