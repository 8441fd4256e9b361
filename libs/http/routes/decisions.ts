import { Type, type Static, type TSchema } from '#typebox'
import {
  approveOutboxProposal,
  cancelOutboxItem,
  noteOutboxItem,
  placeOutboxHold,
  readFailedItems,
  readHeldItems,
  readProposal,
  readProposalPage,
  redriveOutboxItem,
  resolveOutboxHold,
  withdrawOutboxProposal,
  type ItemKind,
} from '../../outbox/index.js'
import type { Identity } from '../access/Identity.js'
import type { Api, ApiRoles, Role } from '../Api.js'
import { ProblemError, type ProblemCode } from '../Problem.js'
import { Id, oneOf } from '../shapes/common.js'
import {
  Approved,
  Cancelled,
  Decided,
  DlqPage,
  HoldPage,
  HoldPlaced,
  NoteAdded,
  NoteBody,
  ProposalPage,
  ReasonBody,
  ResolveBody,
  Withdrawn,
} from '../shapes/decisions.js'
import { ItemKindShape } from '../shapes/outbox.js'
import { EXAMPLE, FAILED_EXAMPLE, HELD_EXAMPLE, NOTED_EXAMPLE, PROPOSAL_EXAMPLE } from './examples.js'
import { requireItem } from './outbox.js'
import {
  decodeCursor,
  encodeCursor,
  LIMIT_DEFAULT,
  ofParticipants,
  outboxIdParam,
  page,
  participantsFor,
  proposalIdParam,
  range,
  sinceUntil,
  UUID_PART,
} from './parameters.js'
import { route, type RouteResponse, type Example, type Route } from './route.js'

const listQuery = {
  kind: Type.Optional(ItemKindShape),
  rail: Type.Optional(Id),
  participant: Type.Optional(Id),
  ...range,
  ...page,
}
const Assignee = Type.String({ minLength: 1, maxLength: 200, description: 'person whom the latest note names' })
const REASON = { reason: 'seen in the bank’s report' }

export function decisionRoutes({ roles }: Api): readonly Route[] {
  return [
    route({
      method: 'GET',
      path: '/v1/dlq',
      tag: 'decisions',
      summary:
        'Payments that ended as FAILED and were not cancelled, newest first, with redrives, replacement and proposal.',
      access: 'read',
      participants: 'filtered',
      query: listQuery,
      answers: { 200: { description: 'A page of dead letters.', schema: DlqPage } },
      problems: ['INVALID_QUERY', 'PARTICIPANT_REFUSED'],
      invalid: 'INVALID_QUERY',
      example: {
        query: { limit: '20' },
        status: 200,
        answer: {
          items: [
            { item: FAILED_EXAMPLE, errorMessage: 'account closed', proposal: null, redrivenAs: [], replacedBy: null },
          ],
          next: null,
        },
      },
      handle: async ({ identity, query }) => {
        const { items, next } = await readFailedItems(roles.readonly, searchIn(FAILED, identity, query))
        return { items, next: next === null ? null : encodeCursor(FAILED, { id: next }) }
      },
    }),
    route({
      method: 'GET',
      path: '/v1/holds',
      tag: 'decisions',
      summary: 'Held payments, newest first, with their open proposals, assignees and latest notes.',
      access: 'read',
      participants: 'filtered',
      query: { ...listQuery, assignee: Type.Optional(Assignee) },
      answers: { 200: { description: 'A page of held payments.', schema: HoldPage } },
      problems: ['INVALID_QUERY', 'PARTICIPANT_REFUSED'],
      invalid: 'INVALID_QUERY',
      example: {
        query: { limit: '20' },
        status: 200,
        answer: { items: [{ item: HELD_EXAMPLE, proposal: null, ...NOTED_EXAMPLE }], next: null },
      },
      handle: async ({ identity, query }) => {
        const { assignee, ...filter } = query
        const { items, next } = await readHeldItems(roles.readonly, {
          ...searchIn(HELD, identity, filter),
          ...(assignee === undefined ? {} : { assignee }),
        })
        return { items, next: next === null ? null : encodeCursor(HELD, { id: next }) }
      },
    }),
    route({
      method: 'GET',
      path: '/v1/proposals',
      tag: 'decisions',
      summary: 'Decisions about money, newest first: open, approved or withdrawn.',
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
    decisionAboutItem(roles, {
      path: '/v1/outbox/{outboxId}/hold',
      summary: 'Holds a payment: no worker claims it until the hold is resolved. A current lease continues.',
      body: ReasonBody,
      answer: { description: 'The payment is held.', schema: HoldPlaced },
      example: {
        params: { outboxId: EXAMPLE.waitingId },
        body: REASON,
        status: 200,
        answer: { outboxId: EXAMPLE.waitingId, eventId: EXAMPLE.eventId },
      },
      decide: async (control, outboxId, { reason }) => ({
        outboxId,
        eventId: await placeOutboxHold(control, outboxId, reason),
      }),
    }),
    decisionAboutItem(roles, {
      path: '/v1/outbox/{outboxId}/notes',
      summary: 'Adds a note to a payment in any state, and sets or clears its assignee. The payment does not change.',
      body: NoteBody,
      answer: { description: 'The note is recorded.', schema: NoteAdded },
      example: {
        params: { outboxId: EXAMPLE.heldId },
        body: { note: NOTED_EXAMPLE.latestNote.note, assignee: NOTED_EXAMPLE.assignee },
        status: 200,
        answer: { outboxId: EXAMPLE.heldId, eventId: EXAMPLE.eventId },
      },
      decide: async (control, outboxId, { note, assignee }) => ({
        outboxId,
        eventId: await noteOutboxItem(control, outboxId, note, assignee),
      }),
    }),
    route({
      ...DECISION,
      path: '/v1/outbox/{outboxId}/cancel',
      summary: 'Cancels a payment that no call can still pay. It ends as FAILED with the error code CANCELLED.',
      access: 'ingest or operate',
      params: outboxIdParam,
      body: ReasonBody,
      answers: { 200: { description: 'The payment is cancelled.', schema: Cancelled } },
      problems: ['ITEM_NOT_FOUND', 'NOT_CANCELLABLE', 'INVALID_ARGUMENT'],
      example: {
        params: { outboxId: EXAMPLE.cancellableId },
        body: { reason: 'the order was cancelled' },
        status: 200,
        answer: { outboxId: EXAMPLE.cancellableId, attemptId: EXAMPLE.attemptId },
      },
      handle: async ({ identity, params: { outboxId }, body: { reason } }) => {
        await requireItem(roles.readonly, identity, outboxId)
        return cancelOutboxItem(roles.ingestFor(identity), outboxId, reason)
      },
    }),
    decisionAboutItem(roles, {
      path: '/v1/outbox/{outboxId}/redrive',
      summary: 'Proposes to send a FAILED payment again as a new item. Another person must approve it.',
      body: ReasonBody,
      answer: { description: 'The redrive is proposed.', schema: Decided },
      example: {
        params: { outboxId: EXAMPLE.failedId },
        body: REASON,
        status: 200,
        answer: { outboxId: EXAMPLE.failedId, status: 'PROPOSED', proposalId: EXAMPLE.proposalId },
      },
      decide: async (control, outboxId, { reason }) => ({
        outboxId,
        ...(await redriveOutboxItem(control, outboxId, reason)),
      }),
    }),
    decisionAboutItem(roles, {
      path: '/v1/holds/{outboxId}/resolve',
      summary:
        'Decides a held payment. A RETRY takes effect at once if the outcome is known and the hold does not require two people; every other decision is proposed.',
      body: ResolveBody,
      answer: { description: 'The decision is applied or proposed.', schema: Decided },
      example: {
        params: { outboxId: EXAMPLE.heldId },
        body: { decision: 'DISPATCHED', railReference: 'TX-18', ...REASON },
        status: 200,
        answer: { outboxId: EXAMPLE.heldId, status: 'PROPOSED', proposalId: EXAMPLE.proposalId },
      },
      decide: async (control, outboxId, { decision, reason, railReference = null }) => ({
        outboxId,
        ...(await resolveOutboxHold(control, outboxId, decision, reason, railReference)),
      }),
    }),
    decisionAboutProposal(roles, {
      path: '/v1/proposals/{proposalId}/approve',
      summary: 'Approves a proposal, and applies it if no second approval is required. Its proposer cannot approve it.',
      answer: { description: 'The proposal is approved.', schema: Approved },
      problems: ['SECOND_PERSON_REQUIRED', 'ALREADY_ENDED'],
      example: {
        params: { proposalId: EXAMPLE.approvableId },
        status: 200,
        answer: {
          proposalId: EXAMPLE.approvableId,
          outboxId: EXAMPLE.heldId,
          decision: 'FAILED',
          redrivenAs: null,
          applied: true,
        },
      },
      decide: async (control, proposalId) => ({ proposalId, ...(await approveOutboxProposal(control, proposalId)) }),
    }),
    decisionAboutProposal(roles, {
      path: '/v1/proposals/{proposalId}/withdraw',
      summary: 'Withdraws a proposal of any person. The payment stays as it is.',
      body: ReasonBody,
      answer: { description: 'The proposal is withdrawn.', schema: Withdrawn },
      problems: [],
      example: {
        params: { proposalId: EXAMPLE.withdrawableId },
        body: REASON,
        status: 200,
        answer: { proposalId: EXAMPLE.withdrawableId },
      },
      decide: async (control, proposalId, { reason }) => {
        await withdrawOutboxProposal(control, proposalId, reason)
        return { proposalId }
      },
    }),
  ]
}

interface Decision<Body extends TSchema> {
  readonly path: string
  readonly summary: string
  readonly body?: Body
  readonly answer: RouteResponse
  readonly example: Example
  /** Applies the decision as the caller, to an item that the caller may see. */
  readonly decide: (control: Role, id: string, body: Static<Body>) => Promise<object>
}

const DECISION = { method: 'POST', tag: 'decisions', access: 'operate', participants: 'filtered' } as const

function decisionAboutItem<Body extends TSchema>(roles: ApiRoles, decision: Decision<Body>): Route {
  const { answer, decide, ...described } = decision
  return route({
    ...DECISION,
    ...described,
    params: outboxIdParam,
    answers: { 200: answer },
    problems: ['ITEM_NOT_FOUND', 'ALREADY_ENDED', 'DECISION_REFUSED', 'INVALID_ARGUMENT'],
    handle: async ({ identity, params: { outboxId }, body }) => {
      const control = roles.control(identity)
      await requireItem(control, identity, outboxId)
      return decide(control, outboxId, body)
    },
  })
}

function decisionAboutProposal<Body extends TSchema>(
  roles: ApiRoles,
  decision: Decision<Body> & { readonly problems: readonly ProblemCode[] },
): Route {
  const { answer, decide, problems, ...described } = decision
  return route({
    ...DECISION,
    ...described,
    params: proposalIdParam,
    answers: { 200: answer },
    problems: ['PROPOSAL_NOT_FOUND', ...problems, 'DECISION_REFUSED', 'INVALID_ARGUMENT'],
    handle: async ({ identity, params: { proposalId }, body }) => {
      const control = roles.control(identity)
      await requireProposal(control, identity, proposalId)
      return decide(control, proposalId, body)
    },
  })
}

const FAILED = { list: 'FAILED', parts: { id: UUID_PART } }
const HELD = { list: 'HELD', parts: { id: UUID_PART } }
const PROPOSALS = { list: 'proposals', parts: { id: UUID_PART } }

interface ListQuery {
  readonly kind?: ItemKind
  readonly rail?: string
  readonly participant?: string
  readonly from?: string
  readonly to?: string
  readonly cursor?: string
  readonly limit?: number
}

/** Returns the search options of a list, limited to the participants that the caller may see. */
function searchIn(list: typeof FAILED, identity: Identity, query: ListQuery) {
  const { kind, rail, participant, cursor, limit = LIMIT_DEFAULT } = query
  const before = decodeCursor(list, cursor)?.id
  return {
    limit,
    ...ofParticipants(participantsFor(identity, participant)),
    ...(kind === undefined ? {} : { kind }),
    ...(rail === undefined ? {} : { railType: rail }),
    ...sinceUntil(query),
    ...(before === undefined ? {} : { before }),
  }
}

async function requireProposal(role: Role, identity: Identity, proposalId: string): Promise<void> {
  const proposal = await readProposal(role, proposalId)
  if (proposal === undefined) throw new ProblemError('PROPOSAL_NOT_FOUND')
  try {
    await requireItem(role, identity, proposal.outboxId)
  } catch (error) {
    throw error instanceof ProblemError ? new ProblemError('PROPOSAL_NOT_FOUND') : error
  }
}
