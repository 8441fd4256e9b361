import { boundedInteger, requiredId, requiredText, requiredUuid } from '../core/index.js'
import { firstUuidAt, isoMicros, qualify, type Queryable } from '../db/index.js'
import { onlyRow } from './rows.js'
import type {
  ItemView,
  AttemptView,
  EventView,
  ItemState,
  LatencyView,
  ErrorView,
  PauseView,
  ProposalStatus,
  ProposalView,
  RailQueue,
  ThroughputView,
  WorkerReport,
} from './views.js'

/**
 * What people ask of the outbox: searches, pages, figures. As symphony_readonly, symphony_auditor or symphony_control; never
 * a payload, never a token. Times come as text, to the microsecond.
 *
 * Ids of items, attempts and events are UUIDs version 7, so "newest first" is their order downwards, and a page begins below
 * the id at which the one before it ended.
 */

export interface ItemSearch {
  readonly state?: ItemState
  readonly rail?: string
  /** Of these participants alone. */
  readonly participants?: readonly string[]
  /** Below this id. */
  readonly before?: string
  readonly limit: number
}

/** The ids of a page, and from where to look on; null: there is nothing more. */
export interface IdPage {
  readonly ids: readonly string[]
  readonly next: string | null
}

/**
 * Newest first. What no index answers (a rail, some participants) is looked for in a bounded stretch of what an index does
 * answer, so that no question reads the whole ledger: then a page may be short and still have a next one.
 */
export async function searchItems(role: Queryable, search: ItemSearch): Promise<IdPage> {
  const limit = boundedInteger('limit', search.limit, PAGE)
  const before = requiredUuid('before', search.before ?? LAST_UUID)
  const rail = search.rail === undefined ? null : requiredId('rail', search.rail)
  const participants = search.participants?.map((id, index) => requiredId(`participants[${index}]`, id)) ?? null
  const stretch = stretchOf(role, search.state)
  const { rows } = await role.query<{ id: string }>(
    `SELECT s.id FROM (${stretch} LIMIT ${STRETCH}) s
     WHERE ($2::text IS NULL OR s.rail_type = $2) AND ($3::text[] IS NULL OR s.participant_id = ANY ($3))
     ORDER BY s.id DESC LIMIT $4`,
    [before, rail, participants, limit],
  )
  const ids = rows.map(({ id }) => id)
  if (ids.length === limit) return { ids, next: ids.at(-1) ?? null }
  const { rows: ends } = await role.query<{ id: string }>(
    `SELECT s.id FROM (${stretch} OFFSET ${STRETCH - 1} LIMIT 1) s`,
    [before],
  )
  return { ids, next: ends[0]?.id ?? null }
}

/** Everything in a state, or everything there is, below an id; downwards. */
function stretchOf(role: Queryable, state: ItemState | undefined): string {
  if (state === 'DISPATCHED' || state === 'FAILED') {
    // The second condition is always true: the index of FAILED items asks for it, so that no function takes it by mistake.
    return `SELECT a.outbox_id AS id, a.rail_type, a.participant_id FROM ${qualify(role, 'payment_outbox_attempts')} a
      WHERE a.state = '${state}' AND a.attempt_no >= 1 AND ${below('a.outbox_id')}`
  }
  if (state === undefined) {
    return `SELECT i.outbox_id AS id, i.rail_type, i.participant_id FROM ${qualify(role, 'payment_outbox_identities')} i
      WHERE ${below('i.outbox_id')}`
  }
  return `SELECT p.outbox_id AS id, p.rail_type, p.participant_id FROM ${qualify(role, 'payment_outbox_pending')} p
    WHERE ${PENDING_STATES[state]} AND ${below('p.outbox_id')}`
}

function below(id: string): string {
  return `${id} < $1::uuid ORDER BY ${id} DESC`
}

/** As the view outbox_operational_status says them; a lease is all there or not at all. */
const PENDING_STATES: Readonly<Record<Exclude<ItemState, 'DISPATCHED' | 'FAILED'>, string>> = {
  EXPIRED: 'p.lease_expires_at <= statement_timestamp()',
  LEASED: 'p.lease_expires_at > statement_timestamp()',
  HELD: 'p.lease_expires_at IS NULL AND p.hold_reason IS NOT NULL',
  BLOCKED: 'p.lease_expires_at IS NULL AND p.hold_reason IS NULL AND p.blocked',
  SCHEDULED:
    'p.lease_expires_at IS NULL AND p.hold_reason IS NULL AND NOT p.blocked AND p.next_attempt_at > statement_timestamp()',
  DUE: 'p.lease_expires_at IS NULL AND p.hold_reason IS NULL AND NOT p.blocked AND p.next_attempt_at <= statement_timestamp()',
}

/** One participant's items, by its own sequence: found at once however rare they are. */
export async function searchParticipant(
  role: Queryable,
  participantId: string,
  { before, limit }: { readonly before?: bigint; readonly limit: number },
): Promise<{ readonly ids: readonly string[]; readonly next: bigint | null }> {
  const size = boundedInteger('limit', limit, PAGE)
  const { rows } = await role.query<{ id: string; number: bigint }>(
    `SELECT i.outbox_id AS id, i.sequence_id AS number FROM ${qualify(role, 'payment_outbox_identities')} i
     WHERE i.participant_id = $1 AND i.sequence_id < $2::bigint
     ORDER BY i.sequence_id DESC LIMIT $3`,
    [requiredId('participantId', participantId), before ?? LAST_SEQUENCE, size],
  )
  return { ids: rows.map(({ id }) => id), next: rows.length === size ? (rows.at(-1)?.number ?? null) : null }
}

/**
 * The newest items that a word names: an instruction, an idempotency key, a participant, the rail's reference, or an outbox
 * id or the beginning of one. Each is looked up by an index, and no more than a page of each is read.
 */
export async function findItems(
  role: Queryable,
  word: string,
  { participants, limit }: { readonly participants?: readonly string[]; readonly limit: number },
): Promise<readonly string[]> {
  const { rows } = await role.query<{ id: string }>(
    `SELECT DISTINCT f.id FROM (
       (SELECT i.outbox_id AS id FROM ${qualify(role, 'payment_outbox_identities')} i
        WHERE i.instruction_id = $1 ORDER BY i.outbox_id DESC LIMIT $3)
       UNION ALL
       (SELECT i.outbox_id FROM ${qualify(role, 'payment_outbox_identities')} i
        WHERE i.idempotency_key = $1 AND i.sequence_id >= 1 ORDER BY i.outbox_id DESC LIMIT $3)
       UNION ALL
       (SELECT i.outbox_id FROM ${qualify(role, 'payment_outbox_identities')} i
        WHERE i.participant_id = $1 ORDER BY i.sequence_id DESC LIMIT $3)
       UNION ALL
       (SELECT a.outbox_id FROM ${qualify(role, 'payment_outbox_attempts')} a
        WHERE a.rail_reference = $1 ORDER BY a.attempt_id DESC LIMIT $3)
       UNION ALL
       (SELECT i.outbox_id FROM ${qualify(role, 'payment_outbox_identities')} i
        WHERE i.outbox_id BETWEEN $4::uuid AND $5::uuid ORDER BY i.outbox_id DESC LIMIT $3)
     ) f JOIN ${qualify(role, 'payment_outbox_identities')} o ON o.outbox_id = f.id
     WHERE $2::text[] IS NULL OR o.participant_id = ANY ($2)
     ORDER BY f.id DESC LIMIT $3`,
    [
      requiredText('word', word, WORD_LENGTH_MAX),
      participants ?? null,
      boundedInteger('limit', limit, PAGE),
      ...uuidRange(word),
    ],
  )
  return rows.map(({ id }) => id)
}

/** The ids that begin so; none, for what cannot be the beginning of one. Eight digits at least: fewer name nothing. */
function uuidRange(word: string): readonly [string | null, string | null] {
  const digits = word.toLowerCase().replaceAll('-', '')
  if (!/^[0-9a-f]{8,32}$/.test(digits)) return [null, null]
  return [digits.padEnd(32, '0'), digits.padEnd(32, 'f')]
}

/** In the order of the ids given; an id that names nothing is left out. */
export async function readItemViews(role: Queryable, ids: readonly string[]): Promise<ItemView[]> {
  if (ids.length === 0) return []
  const { rows } = await role.query<ItemView>(
    `SELECT outbox_id AS "outboxId", instruction_id AS "instructionId", idempotency_key AS "idempotencyKey",
       participant_id AS "participantId", sequence_id::text AS "sequenceId", rail_type AS "railType",
       ${isoMicros('created_at')} AS "createdAt", ordered, redrive_of AS "redriveOf", state,
       ${isoMicros('next_attempt_at')} AS "nextAttemptAt", claimed_by AS "claimedBy",
       ${isoMicros('claimed_at')} AS "claimedAt", ${isoMicros('lease_expires_at')} AS "leaseExpiresAt",
       COALESCE(outcome_unknown, false) AS "outcomeUnknown", COALESCE(expiry_streak, 0) AS "expiryStreak",
       hold_reason AS "holdReason", held_by AS "heldBy", ${isoMicros('held_at')} AS "heldAt",
       last_attempt_no AS "lastAttemptNo", last_attempt_state AS "lastAttemptState",
       ${isoMicros('last_attempt_at')} AS "lastAttemptAt", last_rail_reference AS "lastRailReference",
       last_rail_code AS "lastRailCode", last_error_code AS "lastErrorCode"
     FROM ${qualify(role, 'outbox_operational_status')} WHERE outbox_id = ANY ($1::uuid[])`,
    [ids.map((id, index) => requiredUuid(`ids[${index}]`, id))],
  )
  const found = new Map(rows.map((row) => [row.outboxId, row]))
  return ids.flatMap((id) => found.get(id.toLowerCase()) ?? [])
}

/** The ids of an instruction's items, newest first. */
export async function readInstructionIds(role: Queryable, instructionId: string): Promise<readonly string[]> {
  const { rows } = await role.query<{ id: string }>(
    `SELECT i.outbox_id AS id FROM ${qualify(role, 'payment_outbox_identities')} i
     WHERE i.instruction_id = $1 ORDER BY i.created_at DESC, i.outbox_id DESC LIMIT 1000`,
    [requiredId('instructionId', instructionId)],
  )
  return rows.map(({ id }) => id)
}

export async function readAttemptViews(role: Queryable, ids: readonly string[]): Promise<AttemptView[]> {
  if (ids.length === 0) return []
  const { rows } = await role.query<AttemptView>(
    `SELECT outbox_id AS "outboxId", attempt_id AS "attemptId", attempt_no AS "attemptNo", state,
       ${isoMicros('claimed_at')} AS "claimedAt", ${isoMicros('completed_at')} AS "completedAt",
       rail_reference AS "railReference", rail_code AS "railCode", error_code AS "errorCode",
       error_message AS "errorMessage", latency_ms AS "latencyMs", worker_id AS "workerId"
     FROM ${qualify(role, 'payment_outbox_attempts')} WHERE outbox_id = ANY ($1::uuid[]) ORDER BY outbox_id, attempt_no`,
    [ids],
  )
  return rows
}

/** Why FAILED items ended so. */
export async function readFailures(
  role: Queryable,
  ids: readonly string[],
): Promise<ReadonlyMap<string, string | null>> {
  const { rows } = await role.query<{ id: string; message: string | null }>(
    `SELECT outbox_id AS id, error_message AS message FROM ${qualify(role, 'payment_outbox_attempts')}
     WHERE state = 'FAILED' AND outbox_id = ANY ($1::uuid[])`,
    [ids],
  )
  return new Map(rows.map(({ id, message }) => [id, message]))
}

export async function readEventViews(role: Queryable, outboxId: string): Promise<EventView[]> {
  const { rows } = await role.query<EventView>(
    `SELECT event_no::text AS "eventNo", event_type AS "eventType", actor, detail, ${isoMicros('created_at')} AS "createdAt"
     FROM ${qualify(role, 'payment_outbox_events')} WHERE outbox_id = $1 ORDER BY event_no LIMIT 5000`,
    [requiredUuid('outboxId', outboxId)],
  )
  return rows
}

const PROPOSAL_COLUMNS = `q.proposal_id AS "proposalId", q.outbox_id AS "outboxId", q.decision, q.reason,
  q.rail_reference AS "railReference", q.status, q.proposed_by AS "proposedBy",
  ${isoMicros('q.proposed_at')} AS "proposedAt", q.decided_by AS "decidedBy", ${isoMicros('q.decided_at')} AS "decidedAt"`

/** Of these items, newest first. */
export async function readProposalsOf(role: Queryable, ids: readonly string[]): Promise<ProposalView[]> {
  const { rows } = await role.query<ProposalView>(
    `SELECT ${PROPOSAL_COLUMNS} FROM ${qualify(role, 'payment_outbox_proposals')} q
     WHERE q.outbox_id = ANY ($1::uuid[]) ORDER BY q.proposal_id DESC`,
    [ids],
  )
  return rows
}

export interface ProposalSearch {
  readonly status: ProposalStatus
  readonly participants?: readonly string[]
  readonly before?: string
  readonly limit: number
}

/** Newest first. People make proposals: there are few enough to look through. */
export async function readProposalPage(role: Queryable, search: ProposalSearch): Promise<ProposalView[]> {
  const { status, participants, before, limit } = search
  const { rows } = await role.query<ProposalView>(
    `SELECT ${PROPOSAL_COLUMNS} FROM ${qualify(role, 'payment_outbox_proposals')} q
     JOIN ${qualify(role, 'payment_outbox_identities')} i ON i.outbox_id = q.outbox_id
     WHERE q.status = $1 AND ($2::text[] IS NULL OR i.participant_id = ANY ($2))
       AND q.proposal_id < $3::uuid
     ORDER BY q.proposal_id DESC LIMIT $4`,
    [status, participants ?? null, before ?? LAST_UUID, boundedInteger('limit', limit, PAGE)],
  )
  return rows
}

/** Which item a proposal is about; undefined: there is no such proposal. */
export async function readProposalItem(role: Queryable, proposalId: string): Promise<string | undefined> {
  const { rows } = await role.query<{ id: string }>(
    `SELECT q.outbox_id AS id FROM ${qualify(role, 'payment_outbox_proposals')} q WHERE q.proposal_id = $1`,
    [requiredUuid('proposalId', proposalId)],
  )
  return rows[0]?.id
}

/** Whose payment it is; undefined: there is no such item. */
export async function readParticipantOf(role: Queryable, outboxId: string): Promise<string | undefined> {
  const { rows } = await role.query<{ id: string }>(
    `SELECT i.participant_id AS id FROM ${qualify(role, 'payment_outbox_identities')} i WHERE i.outbox_id = $1`,
    [requiredUuid('outboxId', outboxId)],
  )
  return rows[0]?.id
}

/** The items as which these were sent again, oldest first. */
export async function readRedrives(role: Queryable, ids: readonly string[]): Promise<{ of: string; as: string }[]> {
  const { rows } = await role.query<{ of: string; as: string }>(
    `SELECT i.redrive_of AS of, i.outbox_id AS as FROM ${qualify(role, 'payment_outbox_identities')} i
     WHERE i.redrive_of = ANY ($1::uuid[]) ORDER BY i.outbox_id`,
    [ids],
  )
  return rows
}

export async function readPauses(role: Queryable): Promise<PauseView[]> {
  const { rows } = await role.query<PauseView>(
    `SELECT kind, name, reason, paused_by AS "pausedBy", ${isoMicros('paused_at')} AS "pausedAt"
     FROM ${qualify(role, 'outbox_pauses')} ORDER BY paused_at DESC, kind, name LIMIT 1000`,
  )
  return rows
}

/** Workers that were heard of within a day, the latest first, and how many items are leased to each. */
export async function readWorkerReports(role: Queryable): Promise<WorkerReport[]> {
  const { rows } = await role.query<WorkerReport>(
    `SELECT w.worker_id AS "workerId", w.last_seen_at > statement_timestamp() - interval '30 seconds' AS alive,
       ${isoMicros('w.started_at')} AS "startedAt", ${isoMicros('w.last_seen_at')} AS "lastSeenAt", w.detail,
       COALESCE(l.leases, 0)::integer AS leases
     FROM ${qualify(role, 'outbox_workers')} w
     LEFT JOIN (
       SELECT p.claimed_by, count(*) AS leases FROM ${qualify(role, 'payment_outbox_pending')} p
       WHERE p.claimed_by IS NOT NULL GROUP BY p.claimed_by
     ) l ON l.claimed_by = w.worker_id
     WHERE w.last_seen_at > statement_timestamp() - interval '1 day'
     ORDER BY w.last_seen_at DESC, w.worker_id LIMIT 1000`,
  )
  return rows
}

/** What the queue holds for each rail. */
export async function readRailQueues(role: Queryable): Promise<RailQueue[]> {
  const { rows } = await role.query<RailQueue>(
    `SELECT p.rail_type AS "railType", count(*)::integer AS pending,
       (count(*) FILTER (WHERE ${PENDING_STATES.DUE}))::integer AS due,
       (count(*) FILTER (WHERE p.lease_expires_at IS NOT NULL))::integer AS "inFlight",
       (count(*) FILTER (WHERE ${PENDING_STATES.HELD}))::integer AS held,
       COALESCE(extract(epoch FROM statement_timestamp() - min(p.next_attempt_at) FILTER (WHERE ${PENDING_STATES.DUE})), 0)
         ::double precision AS "oldestDueAgeSeconds"
     FROM ${qualify(role, 'payment_outbox_pending')} p GROUP BY p.rail_type ORDER BY p.rail_type LIMIT 1000`,
  )
  return rows
}

export async function readThroughput(role: Queryable): Promise<ThroughputView[]> {
  const { rows } = await role.query<ThroughputView>(
    `SELECT ${isoMicros('minute')} AS minute, dispatched::integer AS dispatched, retryable::integer AS retryable,
       failed::integer AS failed, zombie_requeue::integer AS "zombieRequeue"
     FROM ${qualify(role, 'outbox_throughput')} ORDER BY 1`,
  )
  return rows
}

/** The latest attempts of the last hour, bounded: enough for percentiles, and the same cost at any rate. */
const latestAttempts = (role: Queryable) =>
  `SELECT a.latency_ms, a.rail_type, a.state, a.error_code FROM ${qualify(role, 'payment_outbox_attempts')} a
   WHERE a.attempt_id >= ${firstUuidAt(`statement_timestamp() - interval '1 hour'`)}
   ORDER BY a.attempt_id DESC LIMIT 5000`

export async function readLatencies(role: Queryable): Promise<LatencyView> {
  const { rows } = await role.query<LatencyView>(
    `SELECT count(*)::integer AS sampled,
       percentile_disc(0.5) WITHIN GROUP (ORDER BY a.latency_ms) AS "p50Ms",
       percentile_disc(0.9) WITHIN GROUP (ORDER BY a.latency_ms) AS "p90Ms",
       percentile_disc(0.99) WITHIN GROUP (ORDER BY a.latency_ms) AS "p99Ms", max(a.latency_ms) AS "maxMs"
     FROM (${latestAttempts(role)}) a WHERE a.latency_ms IS NOT NULL`,
  )
  return onlyRow(rows)
}

export async function readErrorMix(role: Queryable): Promise<ErrorView[]> {
  const { rows } = await role.query<ErrorView>(
    `SELECT a.rail_type AS "railType", a.state::text AS state, a.error_code AS "errorCode", count(*)::integer AS count
     FROM (${latestAttempts(role)}) a WHERE a.state <> 'DISPATCHED'
     GROUP BY 1, 2, 3 ORDER BY 4 DESC, 1, 2, 3 LIMIT 50`,
  )
  return rows
}

/** Items to which something happened within the last seconds, newest first. `as_of` is the database's clock. */
export async function readRecentlyChanged(
  role: Queryable,
  {
    seconds,
    participants,
    limit,
  }: { readonly seconds: number; readonly participants?: readonly string[]; readonly limit: number },
): Promise<readonly string[]> {
  const since = `statement_timestamp() - make_interval(secs => $1::integer)`
  const first = firstUuidAt(since)
  const { rows } = await role.query<{ id: string }>(
    `SELECT DISTINCT c.id FROM (
       (SELECT i.outbox_id AS id FROM ${qualify(role, 'payment_outbox_identities')} i
        WHERE i.outbox_id >= ${first} ORDER BY i.outbox_id DESC LIMIT $3)
       UNION ALL
       (SELECT a.outbox_id FROM ${qualify(role, 'payment_outbox_attempts')} a
        WHERE a.attempt_id >= ${first} ORDER BY a.attempt_id DESC LIMIT $3)
       UNION ALL
       (SELECT e.outbox_id FROM ${qualify(role, 'payment_outbox_events')} e
        WHERE e.event_id >= ${first} AND e.outbox_id IS NOT NULL ORDER BY e.event_id DESC LIMIT $3)
       UNION ALL
       (SELECT p.outbox_id FROM ${qualify(role, 'payment_outbox_pending')} p
        WHERE p.claimed_at >= ${since} ORDER BY p.claimed_at DESC LIMIT $3)
     ) c JOIN ${qualify(role, 'payment_outbox_identities')} o ON o.outbox_id = c.id
     WHERE $2::text[] IS NULL OR o.participant_id = ANY ($2)
     ORDER BY c.id DESC LIMIT $3`,
    [boundedInteger('seconds', seconds, RECENT_SECONDS), participants ?? null, boundedInteger('limit', limit, PAGE)],
  )
  return rows.map(({ id }) => id)
}

/** The database's clock, to the microsecond. */
export async function readNow(role: Queryable): Promise<string> {
  const { rows } = await role.query<{ now: string }>(`SELECT ${isoMicros('statement_timestamp()')} AS now`)
  return onlyRow(rows).now
}

export async function readServerVersion(role: Queryable): Promise<string> {
  const { rows } = await role.query<{ version: string }>(`SELECT current_setting('server_version') AS version`)
  return onlyRow(rows).version
}

/** Above every id and number there is: a first page begins below them. A condition that may be absent could use no index. */
const LAST_UUID = 'ffffffff-ffff-ffff-ffff-ffffffffffff'
const LAST_SEQUENCE = 9_223_372_036_854_775_807n
const PAGE = Object.freeze({ min: 1, max: 501 })
const RECENT_SECONDS = Object.freeze({ min: 1, max: 3_600 })
/** How far one page looks: some fifty milliseconds' worth. */
const STRETCH = 50_000
const WORD_LENGTH_MAX = 255
