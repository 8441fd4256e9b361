import { boundedInteger, InvalidArgumentError, PERSON_LENGTH_MAX, requiredId, requiredUuid } from '../../core/index.js'
import { qualify, type Queryable } from '../../db/index.js'
import { optionalText } from '../arguments.js'
import type { ItemKind, ItemState } from '../statusTypes.js'

/**
 * Searches for item ids. Ids of items, attempts and events are UUIDs version 7, so descending id is newest first. A
 * page starts below the last id of the page before it.
 */

/** Range of the time at which items were enqueued. */
export interface CreatedRange {
  readonly createdFrom?: Date
  /** End, exclusive. */
  readonly createdTo?: Date
}

export interface ItemSearch extends CreatedRange {
  /** Kind of the items. @default payment */
  readonly kind?: ItemKind
  readonly state?: ItemState
  readonly railType?: string
  /** Participants to search. @default all */
  readonly participants?: readonly string[]
  /** Earliest time at which the item ended or was held. Items in other states have no such time. */
  readonly since?: Date
  /** Time before which the item ended or was held. */
  readonly until?: Date
  /** Error code of the terminal attempt. */
  readonly errorCode?: string
  /** Whether to omit items with a redrive, a replacement or an open proposal. @default false */
  readonly undecided?: boolean
  /**
   * Whether to find only DISPATCHED payments of which the rail returned money. `since` and `until` then apply to the
   * latest return. @default false
   */
  readonly returned?: boolean
  /** Value `next` of the previous page. @default the first page */
  readonly before?: string
  readonly limit: number
}

interface SearchOptions {
  /** Whether to omit cancelled items. @default false */
  readonly omitCancelled?: boolean
  /** Assignee in the latest note of the item. @default all */
  readonly assignee?: string | undefined
}

/** Ids of a page, and the start of the next page; null if there is none. */
export interface IdPage {
  readonly ids: readonly string[]
  readonly next: string | null
}

/**
 * Returns items newest first, and FAILED items latest failure first. Filters without an index (such as the rail,
 * participants and the states DUE, SCHEDULED and BLOCKED) apply to a bounded range of an index, so no search reads the
 * whole ledger or queue. A page may therefore be short and still have a next one.
 */
export async function searchItems(
  role: Queryable,
  search: ItemSearch,
  { omitCancelled = false, assignee }: SearchOptions = {},
): Promise<IdPage> {
  const { kind = 'payment', state, railType, participants, since, until, errorCode } = search
  const { undecided = false, returned = false } = search
  if (kind !== 'payment' && kind !== 'message') throw new InvalidArgumentError('kind', 'expected payment or message')
  if (returned && state !== undefined && state !== 'DISPATCHED') {
    throw new InvalidArgumentError('returned', 'expected no state, or DISPATCHED: no other payment can be returned')
  }
  const limit = boundedInteger('limit', search.limit, PAGE)
  const [first, end] = createdBounds(search)
  const last = requiredUuid('before', search.before ?? LAST_UUID)
  // FAILED items are sorted by the time of failure, so `createdTo` does not bound the start of the page: an item may
  // fail long after it was created.
  const before = state !== 'FAILED' && end < last ? end : last
  const stretch = returned ? returnedStretch(role) : stretchOf(role, state, kind)
  const { rows } = await role.query<{ id: string; place: string }>(
    `SELECT s.id, s.place FROM (${stretch} LIMIT ${STRETCH}) s
     WHERE s.matches AND s.is_message = $10::boolean AND ($3::text IS NULL OR s.rail_type = $3) AND ($4::text[] IS NULL OR s.participant_id = ANY ($4))
       AND ($5::timestamptz IS NULL OR s.at >= $5) AND ($6::timestamptz IS NULL OR s.at < $6)
       AND ($7::text IS NULL OR s.error_code = $7) AND NOT ($9::boolean AND s.cancelled)
       AND s.id >= $2::uuid AND s.id < $11::uuid AND ($12::text IS NULL OR $12 = (
         SELECT e.detail ->> 'assignee' FROM ${qualify(role, 'payment_outbox_events')} e
         WHERE e.outbox_id = s.id AND e.event_type = 'NOTE_ADDED' ORDER BY e.event_no DESC LIMIT 1))
       AND (NOT $8::boolean OR NOT (
         EXISTS (SELECT FROM ${qualify(role, 'payment_outbox_identities')} i WHERE i.redrive_of = s.id)
         OR EXISTS (SELECT FROM ${qualify(role, 'payment_outbox_identities')} i WHERE i.replaces = s.id)
         OR EXISTS (SELECT FROM ${qualify(role, 'payment_outbox_proposals')} q
                    WHERE q.outbox_id = s.id AND q.status = 'OPEN')))
     ORDER BY s.place DESC LIMIT ${limit}`,
    [
      before,
      first,
      railType === undefined ? null : requiredId('railType', railType),
      participants?.map((id, index) => requiredId(`participants[${index}]`, id)) ?? null,
      since ?? null,
      until ?? null,
      errorCode ?? null,
      undecided,
      omitCancelled,
      kind === 'message',
      end,
      optionalText('assignee', assignee, PERSON_LENGTH_MAX),
    ],
  )
  const ids = rows.map(({ id }) => id)
  if (ids.length === limit) return { ids, next: rows.at(-1)?.place ?? null }
  const { rows: ends } = await role.query<{ place: string }>(
    `SELECT s.place FROM (${stretch} OFFSET ${STRETCH - 1} LIMIT 1) s`,
    [before, first],
  )
  return { ids, next: ends[0]?.place ?? null }
}

/**
 * Returns the query of the items in a state (by default all items) below a position, in descending order. No index
 * finds DUE, SCHEDULED and BLOCKED items by their ids: the query returns all pending items and says which match.
 */
function stretchOf(role: Queryable, state: ItemState | undefined, kind: ItemKind): string {
  if (state === 'DISPATCHED' || state === 'FAILED') {
    // FAILED items have their own index, in the order of failure. Only queries that repeat its condition `attempt_no >=
    // 1`, which is always true, use it.
    const place = state === 'FAILED' ? 'a.attempt_id' : 'a.outbox_id'
    return `SELECT a.outbox_id AS id, ${place} AS place, a.rail_type, a.participant_id, a.completed_at AS at, a.error_code,
        a.action = 'cancelled' AS cancelled, true AS matches, (
          SELECT i.is_message FROM ${qualify(role, 'payment_outbox_identities')} i WHERE i.outbox_id = a.outbox_id
        ) AS is_message
      FROM ${qualify(role, 'payment_outbox_attempts')} a
      WHERE a.state = '${state}' AND a.attempt_no >= 1 AND ${below(place)}`
  }
  if (state === undefined) {
    return `SELECT i.outbox_id AS id, i.outbox_id AS place, i.rail_type, i.participant_id, i.is_message, ${NOT_ENDED},
        true AS matches
      FROM ${qualify(role, 'payment_outbox_identities')} i WHERE ${below('i.outbox_id')}`
  }
  if (state === 'HELD') return heldStretch(role, kind)
  const isLeased = state === 'LEASED' || state === 'EXPIRED'
  return `SELECT p.outbox_id AS id, p.outbox_id AS place, p.rail_type, p.participant_id, p.is_message, ${NOT_ENDED},
      ${isLeased ? 'true' : PENDING_STATES[state]} AS matches
    FROM ${qualify(role, 'payment_outbox_pending')} p
    WHERE ${isLeased ? `${PENDING_STATES[state]} AND ` : ''}${below('p.outbox_id')}`
}

/**
 * Returns the query of the held items. The search table has the holds of projected blocks, and the events after the
 * last of these blocks have the others.
 */
function heldStretch(role: Queryable, kind: ItemKind): string {
  const search = qualify(role, 'payment_search')
  return `SELECT p.outbox_id AS id, p.outbox_id AS place, p.rail_type, p.participant_id, p.is_message, p.held_at AS at,
      NULL::text AS error_code, false AS cancelled, true AS matches
    FROM (
      SELECT s.outbox_id FROM ${search} s WHERE s.is_message = ${kind === 'message'} AND s.state = 'HELD'
      UNION ALL
      SELECT DISTINCT e.outbox_id FROM ${qualify(role, 'payment_outbox_events')} e
      WHERE e.event_type = 'HOLD_PLACED' AND e.recorded_xid >= COALESCE((
          SELECT b.last_xid FROM ${qualify(role, 'ledger_projection')} l
          JOIN ${qualify(role, 'payment_outbox_blocks')} b ON b.block_no = l.last_block), 0)
        AND NOT EXISTS (SELECT FROM ${search} s WHERE s.outbox_id = e.outbox_id AND s.state = 'HELD')
    ) h
    JOIN ${qualify(role, 'payment_outbox_pending')} p ON p.outbox_id = h.outbox_id
    WHERE ${PENDING_STATES.HELD} AND ${below('h.outbox_id')}`
}

/**
 * Returns the query of the payments with a return, each with the time of its latest return. OFFSET 0 keeps PostgreSQL
 * from flattening a subquery, so that it makes one index lookup per row.
 */
function returnedStretch(role: Queryable): string {
  const events = qualify(role, 'payment_outbox_events')
  return `SELECT e.outbox_id AS id, e.outbox_id AS place, i.rail_type, i.participant_id, e.created_at AS at,
      NULL::text AS error_code, false AS cancelled, false AS is_message, true AS matches
    FROM ${events} e
    CROSS JOIN LATERAL (
      SELECT i.rail_type, i.participant_id FROM ${qualify(role, 'payment_outbox_identities')} i
      WHERE i.outbox_id = e.outbox_id OFFSET 0) i
    WHERE e.event_type = 'RETURN_RECORDED' AND NOT EXISTS (
        SELECT 1 FROM ${events} n WHERE n.outbox_id = e.outbox_id AND n.event_type = 'RETURN_RECORDED'
          AND n.event_no > e.event_no OFFSET 0)
      AND ${below('e.outbox_id')}`
}

const NOT_ENDED = 'NULL::timestamptz AS at, NULL::text AS error_code, false AS cancelled'

/**
 * Returns the range and the order of a query. The lower bound of item ids also bounds ids of attempts, which are later
 * than the enqueue.
 */
function below(place: string): string {
  return `${place} < $1::uuid AND ${place} >= $2::uuid ORDER BY ${place} DESC`
}

/** Returns the smallest id of the range, and the first id after the range. */
function createdBounds({ createdFrom, createdTo }: CreatedRange): readonly [string, string] {
  return [
    createdFrom === undefined ? FIRST_UUID : minUuidAt(createdFrom),
    createdTo === undefined ? LAST_UUID : minUuidAt(createdTo),
  ]
}

/** Returns an id below every id of this millisecond or later. */
export function minUuidAt(time: Date): string {
  const ms = time.getTime()
  if (Number.isNaN(ms)) throw new InvalidArgumentError('created', 'expected a valid Date')
  const digits = Math.min(Math.max(ms, 0), MS_MAX).toString(16).padStart(12, '0')
  return `${digits.slice(0, 8)}-${digits.slice(8)}-0000-0000-000000000000`
}

/** Conditions of the states in the view outbox_operational_status. Either all lease columns are set or none. */
const PENDING_STATES: Readonly<Record<Exclude<ItemState, 'DISPATCHED' | 'FAILED'>, string>> = {
  EXPIRED: 'p.lease_expires_at <= statement_timestamp()',
  LEASED: 'p.lease_expires_at > statement_timestamp()',
  HELD: 'p.lease_expires_at IS NULL AND p.hold_reason IS NOT NULL',
  BLOCKED: 'p.lease_expires_at IS NULL AND p.hold_reason IS NULL AND p.blocked',
  SCHEDULED:
    'p.lease_expires_at IS NULL AND p.hold_reason IS NULL AND NOT p.blocked AND p.next_attempt_at > statement_timestamp()',
  DUE: 'p.lease_expires_at IS NULL AND p.hold_reason IS NULL AND NOT p.blocked AND p.next_attempt_at <= statement_timestamp()',
}

/**
 * Returns one participant's items, highest sequence number first. The index finds them at once, however rare they are.
 */
export async function searchParticipant(
  role: Queryable,
  participantId: string,
  { kind, before, limit }: Pick<ItemSearch, 'kind' | 'limit'> & { readonly before?: bigint },
): Promise<{ readonly ids: readonly string[]; readonly next: bigint | null }> {
  const size = boundedInteger('limit', limit, PAGE)
  const { rows } = await role.query<{ id: string; number: bigint }>(
    `SELECT i.outbox_id AS id, i.sequence_id AS number FROM ${qualify(role, 'payment_outbox_identities')} i
     WHERE i.participant_id = $1 AND i.sequence_id < $2::bigint AND i.is_message = $4::boolean
     ORDER BY i.sequence_id DESC LIMIT $3`,
    [requiredId('participantId', participantId), before ?? LAST_SEQUENCE, size, kind === 'message'],
  )
  return { ids: rows.map(({ id }) => id), next: rows.length === size ? (rows.at(-1)?.number ?? null) : null }
}

const LAST_SEQUENCE = 9_223_372_036_854_775_807n
/** Maximum number of rows that one page scans. */
export const STRETCH = 50_000

export const PAGE = Object.freeze({ min: 1, max: 1_000 })

/**
 * Upper bound of all ids, below which the first page starts. With an optional condition instead, the query could not
 * use an index.
 */
export const LAST_UUID = 'ffffffff-ffff-ffff-ffff-ffffffffffff'
/** Largest time of a UUID version 7. */
const MS_MAX = 0xffff_ffff_ffff
const FIRST_UUID = '00000000-0000-0000-0000-000000000000'
