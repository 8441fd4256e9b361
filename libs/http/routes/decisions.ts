import { Type } from 'typebox'
import {
  approveOutboxProposal,
  placeOutboxHold,
  readFailures,
  readItemViews,
  readProposalItem,
  readProposalPage,
  readProposalsOf,
  readRedrives,
  redriveOutboxItem,
  resolveOutboxHold,
  searchItems,
  withdrawOutboxProposal,
  type ItemView,
  type ProposalView,
} from '../../outbox/index.js'
import type { Identity } from '../access/Identity.js'
import type { Api, Role } from '../Api.js'
import { decodeCursor, encodeCursor, UUID_PART } from '../cursor.js'
import { ProblemError } from '../Problem.js'
import { Id, oneOf } from '../shapes/common.js'
import {
  Approved,
  Decided,
  DlqPage,
  HoldPage,
  HoldPlaced,
  ProposalPage,
  ReasonBody,
  ResolveBody,
  Withdrawn,
} from '../shapes/decisions.js'
import { EXAMPLE, FAILED_EXAMPLE, HELD_EXAMPLE, PROPOSAL_EXAMPLE } from './examples.js'
import { requireItem } from './outbox.js'
import { LIMIT_DEFAULT, ofParticipants, outboxIdParam, page, participantsFor, proposalIdParam } from './parameters.js'
import { route, type Route } from './route.js'

const listQuery = { rail: Type.Optional(Id), participant: Type.Optional(Id), ...page }
const REASON = { reason: 'seen in the bank’s report' }

/** What waits for people, and what people decide. */
export function decisionRoutes({ roles }: Api): readonly Route[] {
  return [
    route({
      method: 'GET',
      path: '/v1/dlq',
      tag: 'decisions',
      summary: 'Payments that ended as FAILED, newest first, with what was or may be done about them.',
      access: 'read',
      participants: 'filtered',
      query: listQuery,
      answers: { 200: { description: 'A page of them.', schema: DlqPage } },
      problems: ['INVALID_QUERY', 'PARTICIPANT_REFUSED'],
      example: {
        query: { limit: '20' },
        status: 200,
        answer: {
          items: [{ item: FAILED_EXAMPLE, errorMessage: 'account closed', proposal: null, redrivenAs: [] }],
          next: null,
        },
      },
      handle: async ({ identity, query }) => {
        const { ids, items, next } = await listed(roles.readonly, identity, 'FAILED', query)
        const open = openIn(await readProposalsOf(roles.readonly, ids))
        const failures = await readFailures(roles.readonly, ids)
        const redrives = await readRedrives(roles.readonly, ids)
        return {
          items: items.map((item) => ({
            item,
            errorMessage: failures.get(item.outboxId) ?? null,
            proposal: open.get(item.outboxId) ?? null,
            redrivenAs: redrives.flatMap((redrive) => (redrive.of === item.outboxId ? [redrive.as] : [])),
          })),
          next,
        }
      },
    }),
    route({
      method: 'GET',
      path: '/v1/holds',
      tag: 'decisions',
      summary: 'Payments that wait for a person, newest first, with what is proposed.',
      access: 'read',
      participants: 'filtered',
      query: listQuery,
      answers: { 200: { description: 'A page of them.', schema: HoldPage } },
      problems: ['INVALID_QUERY', 'PARTICIPANT_REFUSED'],
      example: {
        query: { limit: '20' },
        status: 200,
        answer: { items: [{ item: HELD_EXAMPLE, proposal: null }], next: null },
      },
      handle: async ({ identity, query }) => {
        const { ids, items, next } = await listed(roles.readonly, identity, 'HELD', query)
        const open = openIn(await readProposalsOf(roles.readonly, ids))
        return { items: items.map((item) => ({ item, proposal: open.get(item.outboxId) ?? null })), next }
      },
    }),
    route({
      method: 'GET',
      path: '/v1/proposals',
      tag: 'decisions',
      summary: 'Decisions about money, newest first: those that wait for their second person, or those that had one.',
      access: 'read',
      participants: 'filtered',
      query: {
        status: Type.Optional(oneOf(['OPEN', 'APPROVED', 'WITHDRAWN'], 'default OPEN')),
        ...page,
      },
      answers: { 200: { description: 'A page of proposals.', schema: ProposalPage } },
      problems: ['INVALID_QUERY'],
      example: { query: { status: 'OPEN' }, status: 200, answer: { items: [PROPOSAL_EXAMPLE], next: null } },
      handle: async ({ identity, query: { status = 'OPEN', cursor, limit = LIMIT_DEFAULT } }) => {
        const before = decodeCursor(PROPOSALS, cursor)?.id
        const items = await readProposalPage(roles.readonly, {
          status,
          limit,
          ...ofParticipants(identity.participants ?? undefined),
          ...(before === undefined ? {} : { before }),
        })
        const last = items.length === limit ? items.at(-1) : undefined
        return { items, next: last === undefined ? null : encodeCursor(PROPOSALS, { id: last.proposalId }) }
      },
    }),
    route({
      method: 'POST',
      path: '/v1/outbox/{outboxId}/hold',
      tag: 'decisions',
      summary: 'Keeps a payment from being claimed until somebody resolves the hold. A lease in hand goes on.',
      access: 'operate',
      participants: 'filtered',
      params: outboxIdParam,
      body: ReasonBody,
      answers: { 200: { description: 'It is held.', schema: HoldPlaced } },
      problems: ['ITEM_NOT_FOUND', 'ALREADY_ENDED', 'DECISION_REFUSED', 'INVALID_ARGUMENT'],
      example: {
        params: { outboxId: EXAMPLE.waitingId },
        body: REASON,
        status: 200,
        answer: { outboxId: EXAMPLE.waitingId, eventId: EXAMPLE.eventId },
      },
      handle: async ({ identity, params: { outboxId }, body: { reason } }) => {
        const control = roles.control(identity.owner)
        await requireItem(control, identity, outboxId)
        return { outboxId, eventId: await placeOutboxHold(control, outboxId, reason) }
      },
    }),
    route({
      method: 'POST',
      path: '/v1/outbox/{outboxId}/redrive',
      tag: 'decisions',
      summary: 'Proposes to send a FAILED payment again, as a new item that names it. Somebody else must approve.',
      access: 'operate',
      participants: 'filtered',
      params: outboxIdParam,
      body: ReasonBody,
      answers: { 200: { description: 'It is proposed.', schema: Decided } },
      problems: ['ITEM_NOT_FOUND', 'ALREADY_ENDED', 'DECISION_REFUSED', 'INVALID_ARGUMENT'],
      example: {
        params: { outboxId: EXAMPLE.failedId },
        body: REASON,
        status: 200,
        answer: { outboxId: EXAMPLE.failedId, status: 'PROPOSED', proposalId: EXAMPLE.proposalId },
      },
      handle: async ({ identity, params: { outboxId }, body: { reason } }) => {
        const control = roles.control(identity.owner)
        await requireItem(control, identity, outboxId)
        return { outboxId, ...(await redriveOutboxItem(control, outboxId, reason)) }
      },
    }),
    route({
      method: 'POST',
      path: '/v1/holds/{outboxId}/resolve',
      tag: 'decisions',
      summary:
        'Decides about a held payment: at once where nothing is unknown and it is sent again, else as a proposal.',
      access: 'operate',
      participants: 'filtered',
      params: outboxIdParam,
      body: ResolveBody,
      answers: { 200: { description: 'It is applied or proposed.', schema: Decided } },
      problems: ['ITEM_NOT_FOUND', 'ALREADY_ENDED', 'DECISION_REFUSED', 'INVALID_ARGUMENT'],
      example: {
        params: { outboxId: EXAMPLE.heldId },
        body: { decision: 'DISPATCHED', railReference: 'TX-18', ...REASON },
        status: 200,
        answer: { outboxId: EXAMPLE.heldId, status: 'PROPOSED', proposalId: EXAMPLE.proposalId },
      },
      handle: async ({ identity, params: { outboxId }, body: { decision, reason, railReference = null } }) => {
        const control = roles.control(identity.owner)
        await requireItem(control, identity, outboxId)
        return { outboxId, ...(await resolveOutboxHold(control, outboxId, decision, reason, railReference)) }
      },
    }),
    route({
      method: 'POST',
      path: '/v1/proposals/{proposalId}/approve',
      tag: 'decisions',
      summary: 'The second person’s yes: what was proposed happens. Whoever proposed it cannot.',
      access: 'operate',
      participants: 'filtered',
      params: proposalIdParam,
      answers: { 200: { description: 'It is applied.', schema: Approved } },
      problems: [
        'PROPOSAL_NOT_FOUND',
        'SECOND_PERSON_REQUIRED',
        'ALREADY_ENDED',
        'DECISION_REFUSED',
        'INVALID_ARGUMENT',
      ],
      example: {
        params: { proposalId: EXAMPLE.approvableId },
        status: 200,
        answer: { proposalId: EXAMPLE.approvableId, outboxId: EXAMPLE.heldId, decision: 'FAILED', redrivenAs: null },
      },
      handle: async ({ identity, params: { proposalId } }) => {
        const control = roles.control(identity.owner)
        await requireProposal(control, identity, proposalId)
        return { proposalId, ...(await approveOutboxProposal(control, proposalId)) }
      },
    }),
    route({
      method: 'POST',
      path: '/v1/proposals/{proposalId}/withdraw',
      tag: 'decisions',
      summary: 'Takes a proposal back, one’s own or another’s. The payment stays as it is.',
      access: 'operate',
      participants: 'filtered',
      params: proposalIdParam,
      body: ReasonBody,
      answers: { 200: { description: 'It is withdrawn.', schema: Withdrawn } },
      problems: ['PROPOSAL_NOT_FOUND', 'DECISION_REFUSED', 'INVALID_ARGUMENT'],
      example: {
        params: { proposalId: EXAMPLE.withdrawableId },
        body: REASON,
        status: 200,
        answer: { proposalId: EXAMPLE.withdrawableId },
      },
      handle: async ({ identity, params: { proposalId }, body: { reason } }) => {
        const control = roles.control(identity.owner)
        await requireProposal(control, identity, proposalId)
        await withdrawOutboxProposal(control, proposalId, reason)
        return { proposalId }
      },
    }),
  ]
}

const PROPOSALS = { list: 'proposals', parts: { id: UUID_PART } }

interface ListQuery {
  readonly rail?: string
  readonly participant?: string
  readonly cursor?: string
  readonly limit?: number
}

async function listed(
  role: Role,
  identity: Identity,
  state: 'FAILED' | 'HELD',
  { rail, participant, cursor, limit = LIMIT_DEFAULT }: ListQuery,
): Promise<{ readonly ids: readonly string[]; readonly items: readonly ItemView[]; readonly next: string | null }> {
  const kind = { list: state, parts: { id: UUID_PART } }
  const before = decodeCursor(kind, cursor)?.id
  const { ids, next } = await searchItems(role, {
    state,
    limit,
    ...ofParticipants(participantsFor(identity, participant)),
    ...(rail === undefined ? {} : { rail }),
    ...(before === undefined ? {} : { before }),
  })
  const items = await readItemViews(role, ids)
  return { ids, items, next: next === null ? null : encodeCursor(kind, { id: next }) }
}

function openIn(proposals: readonly ProposalView[]): ReadonlyMap<string, ProposalView> {
  return new Map(proposals.flatMap((one) => (one.status === 'OPEN' ? [[one.outboxId, one]] : [])))
}

async function requireProposal(role: Role, identity: Identity, proposalId: string): Promise<void> {
  const outboxId = await readProposalItem(role, proposalId)
  if (outboxId === undefined) throw new ProblemError('PROPOSAL_NOT_FOUND')
  try {
    await requireItem(role, identity, outboxId)
  } catch (error) {
    throw error instanceof ProblemError ? new ProblemError('PROPOSAL_NOT_FOUND') : error
  }
}
