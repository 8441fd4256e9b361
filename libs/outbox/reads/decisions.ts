import { boundedInteger, requiredUuid } from '../../core/index.js'
import { isoMicros, qualify, type Queryable } from '../../db/index.js'
import type { Page } from '../statusTypes.js'
import type {
  ContradictionView,
  FailedItemView,
  HeldItemView,
  ItemView,
  NoteView,
  ProposalStatus,
  ProposalView,
} from '../views.js'
import { readItemViews, readRedrives, readReplacements, SHOWN_MONEY } from './items.js'
import { LAST_UUID, PAGE } from './search.js'
import { searchItems, type ItemSearch } from './search.js'

/** Reads the items that wait for a decision, and the decisions, for the commands and the API. */

/**
 * Returns FAILED items, latest failure first, each with its error, open proposal, redrives and replacement. Omits
 * cancelled items, which need no decision.
 */
export async function readFailedItems(
  role: Queryable,
  search: Omit<ItemSearch, 'state'>,
): Promise<Page<FailedItemView>> {
  const { ids, items, open, next } = await readPage(role, { ...search, state: 'FAILED' }, { omitCancelled: true })
  const messages = await readFailureMessages(role, ids)
  const redrives = await readRedrives(role, ids)
  const replacements = await readReplacements(role, ids)
  return {
    items: items.map((item) => ({
      item,
      errorMessage: messages.get(item.outboxId) ?? null,
      proposal: open.get(item.outboxId) ?? null,
      redrivenAs: redrives.flatMap((redrive) => (redrive.of === item.outboxId ? [redrive.as] : [])),
      replacedBy: replacements.get(item.outboxId) ?? null,
    })),
    next,
  }
}

export interface HeldItemSearch extends Omit<ItemSearch, 'state'> {
  /** Assignee in the latest note of an item. @default all */
  readonly assignee?: string
}

/** Returns held items, newest first, each with its open proposal, its assignee and its latest note. */
export async function readHeldItems(
  role: Queryable,
  { assignee, ...search }: HeldItemSearch,
): Promise<Page<HeldItemView>> {
  const { ids, items, open, next } = await readPage(role, { ...search, state: 'HELD' }, { assignee })
  const noted = await readLatestNotes(role, ids)
  return {
    items: items.map((item) => ({
      item,
      proposal: open.get(item.outboxId) ?? null,
      assignee: noted.get(item.outboxId)?.assignee ?? null,
      latestNote: noted.get(item.outboxId)?.latestNote ?? null,
    })),
    next,
  }
}

/** Returns the latest note of each item. LATERAL makes one index lookup per item. */
async function readLatestNotes(
  role: Queryable,
  ids: readonly string[],
): Promise<ReadonlyMap<string, Pick<HeldItemView, 'assignee' | 'latestNote'>>> {
  const { rows } = await role.query<{ id: string; assignee: string | null; latestNote: NoteView }>(
    `SELECT given.id, e.detail ->> 'assignee' AS assignee, json_build_object('note', e.detail ->> 'note',
       'actor', e.actor, 'createdAt', ${isoMicros('e.created_at')}) AS "latestNote"
     FROM unnest($1::uuid[]) AS given(id) CROSS JOIN LATERAL (
       SELECT n.* FROM ${qualify(role, 'payment_outbox_events')} n
       WHERE n.outbox_id = given.id AND n.event_type = 'NOTE_ADDED' ORDER BY n.event_no DESC LIMIT 1) e`,
    [ids],
  )
  return new Map(rows.map(({ id, ...noted }) => [id, noted]))
}

interface DecisionPage {
  readonly ids: readonly string[]
  readonly items: readonly ItemView[]
  /** Open proposals by item, at most one per item. */
  readonly open: ReadonlyMap<string, ProposalView>
  readonly next: string | null
}

async function readPage(
  role: Queryable,
  search: ItemSearch,
  options?: Parameters<typeof searchItems>[2],
): Promise<DecisionPage> {
  const { ids, next } = await searchItems(role, search, options)
  const items = await readItemViews(role, ids)
  const proposals = await readProposalsOf(role, ids)
  const open = new Map(proposals.flatMap((one) => (one.status === 'OPEN' ? [[one.outboxId, one]] : [])))
  return { ids, items, open, next }
}

async function readFailureMessages(
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

const PROPOSAL_COLUMNS = `q.proposal_id AS "proposalId", q.outbox_id AS "outboxId", q.decision, q.reason,
  q.rail_reference AS "railReference", q.status, q.proposed_by AS "proposedBy",
  ${isoMicros('q.proposed_at')} AS "proposedAt", q.decided_by AS "decidedBy", ${isoMicros('q.decided_at')} AS "decidedAt",
  shown.*`

/**
 * Returns the FROM clause of proposals with their payments. LIMIT keeps PostgreSQL from flattening the subquery, so
 * that it uses an index for each proposal.
 */
function proposalsIn(role: Queryable): string {
  return `${qualify(role, 'payment_outbox_proposals')} q CROSS JOIN LATERAL (
    SELECT instruction_id AS "instructionId", ${SHOWN_MONEY} FROM ${qualify(role, 'outbox_operational_status')}
    WHERE outbox_id = q.outbox_id LIMIT 1) shown`
}

/** Returns the proposals of these items, newest first. */
export async function readProposalsOf(role: Queryable, ids: readonly string[]): Promise<ProposalView[]> {
  const { rows } = await role.query<ProposalView>(
    `SELECT ${PROPOSAL_COLUMNS} FROM ${proposalsIn(role)}
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

/** Returns a page of proposals, newest first. People make proposals, so there are few enough to scan. */
export async function readProposalPage(role: Queryable, search: ProposalSearch): Promise<ProposalView[]> {
  const { status, participants, before, limit } = search
  const { rows } = await role.query<ProposalView>(
    `SELECT ${PROPOSAL_COLUMNS} FROM ${proposalsIn(role)}
     JOIN ${qualify(role, 'payment_outbox_identities')} i ON i.outbox_id = q.outbox_id
     WHERE q.status = $1 AND ($2::text[] IS NULL OR i.participant_id = ANY ($2))
       AND q.proposal_id < $3::uuid
     ORDER BY q.proposal_id DESC LIMIT $4`,
    [status, participants ?? null, requiredUuid('before', before ?? LAST_UUID), boundedInteger('limit', limit, PAGE)],
  )
  return rows
}

/** Returns a proposal, or undefined if there is no such proposal. */
export async function readProposal(role: Queryable, proposalId: string): Promise<ProposalView | undefined> {
  const { rows } = await role.query<ProposalView>(
    `SELECT ${PROPOSAL_COLUMNS} FROM ${proposalsIn(role)} WHERE q.proposal_id = $1`,
    [requiredUuid('proposalId', proposalId)],
  )
  return rows[0]
}

export interface ContradictionSearch {
  readonly reviewed: boolean
  readonly participants?: readonly string[]
  readonly before?: string
  readonly limit: number
}

/** Returns a page of contradictions, newest first. */
export async function readContradictionPage(
  role: Queryable,
  { reviewed, participants, before, limit }: ContradictionSearch,
): Promise<ContradictionView[]> {
  const { rows } = await role.query<ContradictionView>(
    `${contradictions(role)}
     WHERE (c.reviewed_at IS NOT NULL) = $1 AND ($2::text[] IS NULL OR i.participant_id = ANY ($2)) AND c.event_id < $3::uuid
     ORDER BY c.event_id DESC LIMIT $4`,
    [reviewed, participants ?? null, requiredUuid('before', before ?? LAST_UUID), boundedInteger('limit', limit, PAGE)],
  )
  return rows
}

/** Returns a contradiction, or undefined if the event does not exist or is no contradiction. */
export async function readContradiction(role: Queryable, eventId: string): Promise<ContradictionView | undefined> {
  const { rows } = await role.query<ContradictionView>(`${contradictions(role)} WHERE c.event_id = $1`, [
    requiredUuid('eventId', eventId),
  ])
  return rows[0]
}

function contradictions(role: Queryable): string {
  return `SELECT c.event_id AS "eventId", c.outbox_id AS "outboxId", i.instruction_id AS "instructionId",
      i.participant_id AS "participantId", i.rail_type AS "railType", ${isoMicros('c.recorded_at')} AS "recordedAt", e.actor,
      json_build_object('state', a.state, 'railReference', a.rail_reference) AS recorded,
      json_build_object('state', e.detail ->> 'state', 'railReference', e.detail ->> 'rail_reference') AS reported,
      ${isoMicros('c.reviewed_at')} AS "reviewedAt", c.reviewed_by AS "reviewedBy", c.review_reason AS "reviewReason"
    FROM ${qualify(role, 'outbox_contradictions')} c
    JOIN ${qualify(role, 'payment_outbox_identities')} i ON i.outbox_id = c.outbox_id
    JOIN ${qualify(role, 'payment_outbox_events')} e ON e.event_id = c.event_id
    JOIN ${qualify(role, 'payment_outbox_attempts')} a ON a.attempt_id = e.attempt_id`
}
