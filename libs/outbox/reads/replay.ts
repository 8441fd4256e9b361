import { isoMicros, qualify, type Queryable } from '../../db/index.js'
import {
  changesBetween,
  foldTrail,
  type PendingColumn,
  type PendingIdentity,
  type PendingRow,
  type TrailEvent,
  type TrailStep,
} from '../foldTrail.js'

/** Columns of `payment_outbox_pending` (p) as SQL expressions of a `PendingRow`; i is the identity. */
export const PENDING_COLUMNS: Readonly<Record<PendingColumn, string>> = {
  outbox_id: 'p.outbox_id',
  instruction_id: 'p.instruction_id',
  participant_id: 'p.participant_id',
  sequence_id: 'p.sequence_id::text',
  idempotency_key: 'p.idempotency_key',
  rail_type: 'p.rail_type',
  // Computes the same hash as outbox_content_hash, which symphony_auditor may not call. Participant and rail are taken
  // from the identity.
  payload: `'sha256:' || encode(sha256(convert_to(concat(octet_length(i.participant_id), ':', i.participant_id, ',',
    octet_length(i.rail_type), ':', i.rail_type, ',', octet_length(p.payload::text), ':', p.payload::text, ','), 'UTF8')), 'hex')`,
  attempt_count: 'p.attempt_count',
  next_attempt_at: isoMicros('p.next_attempt_at'),
  created_at: isoMicros('p.created_at'),
  claimed_by: 'p.claimed_by',
  lease_token: `'sha256:' || encode(sha256(uuid_send(p.lease_token)), 'hex')`,
  lease_expires_at: isoMicros('p.lease_expires_at'),
  claimed_at: isoMicros('p.claimed_at'),
  dispatch_mark: 'p.dispatch_mark',
  outcome_unknown: 'p.outcome_unknown',
  expiry_streak: 'p.expiry_streak',
  late_outcome: 'p.late_outcome::text',
  hold_reason: 'p.hold_reason',
  held_by: 'p.held_by',
  held_at: isoMicros('p.held_at'),
  ordered: 'p.ordered',
  blocked: 'p.blocked',
  block_unverified: 'p.block_unverified',
  trace_context: 'p.trace_context',
  is_message: 'p.is_message',
  stream_position: 'p.stream_position::text',
  outcome_topic: 'p.outcome_topic',
}

/**
 * Columns that are not compared, because no role may read a lease token. By a constraint the token is null exactly if
 * `claimed_by` is null, and `claimed_by` is compared.
 */
const UNREADABLE: readonly PendingColumn[] = ['lease_token']

const IDENTITY: Readonly<Record<keyof PendingIdentity, string>> = {
  outbox_id: 'i.outbox_id',
  instruction_id: 'i.instruction_id',
  participant_id: 'i.participant_id',
  sequence_id: 'i.sequence_id::text',
  idempotency_key: 'i.idempotency_key',
  rail_type: 'i.rail_type',
  payload: `'sha256:' || encode(i.content_hash, 'hex')`,
  created_at: isoMicros('i.created_at'),
  ordered: 'i.ordered',
  is_message: 'i.is_message',
  stream_position: 'i.stream_position::text',
  outcome_topic: 'i.outcome_topic',
}

/** Period of an item that its events do not cover. */
export interface TrailGap {
  /** Missing event; null if the full trail was off for a time, so the events are unknown. */
  readonly missing: string | null
  readonly since: string
  /** End of the gap; null if the trail of this item is still incomplete. */
  readonly until: string | null
}

/** Difference between the folded row and the pending row. The column is null if only one of the rows exists. */
export interface ReplayDifference {
  readonly column: PendingColumn | null
  readonly folded: PendingRow[PendingColumn]
  readonly pending: PendingRow[PendingColumn]
}

/** Fold of an item's events, with its pending row of the same moment. */
export interface ItemReplay {
  readonly outboxId: string
  readonly instructionId: string
  /** `incomplete`: the events have a gap, so there is no folded row and no comparison. */
  readonly verdict: 'equal' | 'different' | 'incomplete'
  readonly gap: TrailGap | null
  readonly steps: readonly TrailStep[]
  readonly folded: PendingRow | null
  readonly pending: Partial<PendingRow> | null
  readonly differences: readonly ReplayDifference[]
  readonly notCompared: readonly PendingColumn[]
}

interface ItemTrail {
  readonly identity: PendingIdentity
  readonly pending: Partial<PendingRow> | null
  readonly events: readonly TrailEvent[]
  readonly switches: readonly TrailSwitch[]
}

interface TrailSwitch {
  readonly at: string
  readonly on: boolean
}

/** Folds the full trail of each item and compares the result with its pending row, as symphony_auditor. */
export async function readReplays(auditor: Queryable, ids: readonly string[]): Promise<ItemReplay[]> {
  return (await readTrails(auditor, ids)).map(replay)
}

/**
 * Reads the identity, the events and the pending row of each item in one statement, so that they belong to the same
 * moment.
 */
export async function readTrails(
  role: Queryable,
  ids: readonly string[],
  except: readonly PendingColumn[] = UNREADABLE,
): Promise<readonly ItemTrail[]> {
  const { rows } = await role.query<ItemTrail>(
    `SELECT ${objectOf(IDENTITY)} AS identity,
       (SELECT ${objectOf(PENDING_COLUMNS, except)} FROM ${qualify(role, 'payment_outbox_pending')} p
         WHERE p.outbox_id = i.outbox_id) AS pending,
       (SELECT COALESCE(json_agg(json_build_object('eventNo', e.event_no, 'at', ${isoMicros('e.created_at')},
           'eventType', e.event_type, 'actor', e.actor, 'detail', e.detail, 'detailText', e.detail::text) ORDER BY e.event_no), '[]')
         FROM ${qualify(role, 'payment_outbox_events')} e WHERE e.outbox_id = i.outbox_id) AS events,
       (SELECT COALESCE(json_agg(json_build_object('at', ${isoMicros('e.created_at')},
           'on', (e.detail ->> 'full_trail')::boolean) ORDER BY e.event_no), '[]')
         FROM ${qualify(role, 'payment_outbox_events')} e WHERE e.scope = 'full_trail') AS switches
     FROM ${qualify(role, 'payment_outbox_identities')} i
     WHERE i.outbox_id = ANY ($1::uuid[]) ORDER BY i.created_at DESC, i.outbox_id DESC`,
    [ids],
  )
  return rows
}

function objectOf(columns: Readonly<Record<string, string>>, except: readonly string[] = []): string {
  const fields = Object.entries(columns).filter(([column]) => !except.includes(column))
  return `json_build_object(${fields.map(([column, value]) => `'${column}', ${value}`).join(', ')})`
}

function replay({ identity, pending, events, switches }: ItemTrail): ItemReplay {
  const { steps, row: folded } = foldTrail(identity, events)
  const gap = findGap(identity, steps, switches)
  const about = {
    outboxId: identity.outbox_id,
    instructionId: identity.instruction_id,
    notCompared: UNREADABLE,
    gap,
    pending,
  }
  if (gap !== null) return { ...about, verdict: 'incomplete', steps: [], folded: null, differences: [] }
  const differences = compare(folded, pending)
  return { ...about, verdict: differences.length === 0 ? 'equal' : 'different', steps, folded, differences }
}

function compare(folded: PendingRow | null, pending: Partial<PendingRow> | null): readonly ReplayDifference[] {
  if (folded === null && pending === null) return []
  if (folded === null || pending === null) {
    return [{ column: null, folded: folded === null ? NO_ROW : A_ROW, pending: pending === null ? NO_ROW : A_ROW }]
  }
  return changesBetween(folded, pending).map(({ column, before, after }) => ({
    column,
    folded: before,
    pending: after,
  }))
}

const NO_ROW = 'no pending row'
const A_ROW = 'a pending row'

/** Returns the first gap in the events of an item, or null. */
function findGap(
  { created_at: createdAt }: PendingIdentity,
  steps: readonly TrailStep[],
  switches: readonly TrailSwitch[],
): TrailGap | null {
  const untilAfter = (since: string) => switches.find(({ at, on }) => on && at > since)?.at ?? null
  const removed = steps.findIndex(({ event }, index) => event.eventNo !== index + 1)
  if (removed >= 0) {
    const { at } = steps[removed]!.event
    return { missing: `number ${removed + 1}`, since: steps[removed - 1]?.event.at ?? createdAt, until: at }
  }
  const [first] = steps
  if (first?.event.eventType !== 'ENQUEUED') {
    return { missing: 'ENQUEUED', since: createdAt, until: untilAfter(createdAt) }
  }
  const end = steps.find(({ ends }) => ends)?.event.at
  const off = switches.find(
    ({ at, on }, index) =>
      // The last switch counts even if it precedes the first event. The transaction of that event may have an old
      // snapshot, in which the trail was still on.
      !on && (at > first.event.at || index === switches.length - 1) && (end === undefined || at < end),
  )
  return off === undefined ? null : { missing: null, since: off.at, until: untilAfter(off.at) }
}
