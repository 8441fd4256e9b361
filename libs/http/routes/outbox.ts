import { Type } from 'typebox'
import { ATTEMPT_FIELDS, numberOf, readItemChain, type LedgerRow } from '../../ledger/index.js'
import {
  findItems,
  readAttemptViews,
  readEventViews,
  readItemViews,
  readParticipantOf,
  readProposalsOf,
  readRedrives,
  searchItems,
  searchParticipant,
} from '../../outbox/index.js'
import type { Identity } from '../access/Identity.js'
import type { Api, Role, ShowPayload } from '../Api.js'
import { decodeCursor, encodeCursor, NUMBER_PART, UUID_PART } from '../cursor.js'
import { ProblemError } from '../Problem.js'
import { Id } from '../shapes/common.js'
import { Chain, ItemStateShape, OutboxPage, Timeline } from '../shapes/outbox.js'
import { ATTEMPT_EXAMPLE, EXAMPLE, ITEM_EXAMPLE } from './examples.js'
import { isVisible, LIMIT_DEFAULT, ofParticipants, outboxIdParam, page, participantsFor } from './parameters.js'
import { route, type Route } from './route.js'

const BY_ID = { list: 'outbox', parts: { id: UUID_PART } }
const BY_FAILURE = { list: 'failed', parts: { id: UUID_PART } }
const BY_SEQUENCE = { list: 'stream', parts: { number: NUMBER_PART } }

const LINK_EXAMPLE = {
  number: '1',
  fields: [EXAMPLE.attemptId, null],
  masked: false,
  prevHash: EXAMPLE.hash,
  rowHash: EXAMPLE.hash,
}

export function outboxRoutes({ roles, protection }: Api): readonly Route[] {
  return [
    route({
      method: 'GET',
      path: '/v1/outbox',
      tag: 'payments',
      summary:
        'Payments, newest first: all of them, or those in a state, on a rail, of a participant, or named by a word. Those that failed: the latest failure first.',
      access: 'read',
      participants: 'filtered',
      query: {
        q: Type.Optional(
          Type.String({
            minLength: 1,
            maxLength: 255,
            description:
              'an instruction, participant or rail reference, an idempotency key of this caller, or an outbox id or eight digits of its beginning: the newest matches, without further pages',
          }),
        ),
        state: Type.Optional(ItemStateShape),
        rail: Type.Optional(Id),
        participant: Type.Optional(Id),
        ...page,
      },
      answers: { 200: { description: 'A page of payments.', schema: OutboxPage } },
      problems: ['INVALID_QUERY', 'PARTICIPANT_REFUSED'],
      invalid: 'INVALID_QUERY',
      example: {
        query: { state: 'DISPATCHED', limit: '20' },
        status: 200,
        answer: { items: [ITEM_EXAMPLE], next: null },
      },
      handle: async ({ identity, query }) => {
        const { q, state, rail, participant, cursor, limit = LIMIT_DEFAULT } = query
        const participants = participantsFor(identity, participant)
        const found =
          q !== undefined
            ? await named(roles.readonly, q, { participants, keyScope: identity.keyScope, cursor, limit })
            : participant !== undefined && state === undefined && rail === undefined
              ? await streamOf(roles.readonly, participant, { cursor, limit })
              : await searched(roles.readonly, { participants, state, rail, cursor, limit })
        const items = await readItemViews(roles.readonly, found.ids)
        // With a word, the other filters choose among what it names.
        const kept =
          q === undefined
            ? items
            : items.filter((item) => (state ?? item.state) === item.state && (rail ?? item.railType) === item.railType)
        return { items: kept, next: found.next }
      },
    }),
    route({
      method: 'GET',
      path: '/v1/outbox/{outboxId}',
      tag: 'payments',
      summary: 'The whole story of one payment: its state, its lease, its attempts, events, decisions and redrives.',
      access: 'read',
      participants: 'filtered',
      params: outboxIdParam,
      answers: { 200: { description: 'Its timeline.', schema: Timeline } },
      problems: ['ITEM_NOT_FOUND', 'INVALID_ARGUMENT'],
      example: {
        params: { outboxId: EXAMPLE.paidId },
        status: 200,
        answer: { item: ITEM_EXAMPLE, attempts: [ATTEMPT_EXAMPLE], events: [], proposals: [], redrivenAs: [] },
      },
      handle: async ({ identity, params: { outboxId } }) => {
        const [item] = await readItemViews(roles.readonly, [outboxId])
        if (item === undefined || !isVisible(identity, item.participantId)) throw new ProblemError('ITEM_NOT_FOUND')
        const ids = [item.outboxId]
        const attempts = await readAttemptViews(roles.readonly, ids)
        return {
          item,
          attempts: attempts.map(({ outboxId: _of, ...attempt }) => attempt),
          events: await readEventViews(roles.readonly, outboxId),
          proposals: await readProposalsOf(roles.readonly, ids),
          redrivenAs: (await readRedrives(roles.readonly, ids)).map((redrive) => redrive.as),
        }
      },
    }),
    route({
      method: 'GET',
      path: '/v1/outbox/{outboxId}/chain',
      tag: 'payments',
      summary: 'The exact content that the hashes of one payment are taken over, so that a reader can recompute them.',
      access: 'audit',
      participants: 'filtered',
      params: outboxIdParam,
      query: {
        payloads: Type.Optional(
          Type.Union([Type.Literal('masked'), Type.Literal('plain')], {
            description:
              'masked, unless this says plain: as the rail’s classes of fields allow. A row of which a field is masked cannot be recomputed',
          }),
        ),
      },
      answers: {
        200: { description: 'Its chain, payloads included, masked unless they are asked for plain.', schema: Chain },
      },
      problems: ['ITEM_NOT_FOUND', 'INVALID_ARGUMENT', 'INVALID_QUERY'],
      example: {
        params: { outboxId: EXAMPLE.paidId },
        status: 200,
        answer: {
          outboxId: EXAMPLE.paidId,
          identity: { fields: [EXAMPLE.paidId, EXAMPLE.instructionId], rowHash: EXAMPLE.hash },
          attempts: [LINK_EXAMPLE],
          events: [],
        },
      },
      handle: async ({ identity, params: { outboxId }, query: { payloads = 'masked' } }) => {
        await requireItem(roles.auditor, identity, outboxId)
        const chain = await readItemChain(roles.auditor, outboxId)
        if (chain === undefined) throw new ProblemError('ITEM_NOT_FOUND')
        const { fields, rowHash } = chain.identity
        const railType = chain.attempts[0]?.fields[ATTEMPT_FIELDS.railType] ?? ''
        const show = payloads === 'plain' ? undefined : await protection?.showerOf(roles.auditor, railType)
        return {
          outboxId: chain.identity.id,
          identity: { fields, rowHash },
          attempts: chain.attempts.map((row) => linkOf(row, show)),
          events: chain.events.map((row) => linkOf(row)),
        }
      },
    }),
  ]
}

/** What is not the key's to see is not there. */
export async function requireItem(role: Role, identity: Identity, outboxId: string): Promise<void> {
  if (!isVisible(identity, await readParticipantOf(role, outboxId))) throw new ProblemError('ITEM_NOT_FOUND')
}

interface Page {
  readonly cursor: string | undefined
  readonly limit: number
}

interface Found {
  readonly ids: readonly string[]
  readonly next: string | null
}

async function searched(
  role: Role,
  { participants, state, rail, cursor, limit }: Page & SearchedBy & { readonly rail: string | undefined },
): Promise<Found> {
  // What has failed is listed in another order, so a place in one of the lists is none in the other.
  const kind = state === 'FAILED' ? BY_FAILURE : BY_ID
  const before = decodeCursor(kind, cursor)?.id
  const { ids, next } = await searchItems(role, {
    limit,
    ...ofParticipants(participants),
    ...(state === undefined ? {} : { state }),
    ...(rail === undefined ? {} : { railType: rail }),
    ...(before === undefined ? {} : { before }),
  })
  return { ids, next: next === null ? null : encodeCursor(kind, { id: next }) }
}

interface SearchedBy {
  readonly participants: readonly string[] | undefined
  readonly state: Parameters<typeof searchItems>[1]['state'] | undefined
}

async function streamOf(role: Role, participant: string, { cursor, limit }: Page): Promise<Found> {
  const number = decodeCursor(BY_SEQUENCE, cursor)?.number
  const before = number === undefined ? {} : { before: BigInt(number) }
  const { ids, next } = await searchParticipant(role, participant, { ...before, limit })
  return { ids, next: next === null ? null : encodeCursor(BY_SEQUENCE, { number: String(next) }) }
}

async function named(
  role: Role,
  word: string,
  {
    participants,
    keyScope,
    cursor,
    limit,
  }: Page & { readonly participants: readonly string[] | undefined; readonly keyScope: string },
): Promise<Found> {
  if (cursor !== undefined) {
    throw new ProblemError('INVALID_QUERY', 'cursor: a search by word has one page', { argument: 'cursor' })
  }
  return { ids: await findItems(role, word, { ...ofParticipants(participants), keyScope, limit }), next: null }
}

function linkOf(row: LedgerRow, show?: ShowPayload) {
  const { fields, prevHash, rowHash } = row
  const shown = show === undefined ? undefined : showFields(fields, show)
  return {
    number: String(numberOf(row)),
    fields: shown?.fields ?? fields,
    masked: shown?.masked ?? false,
    prevHash,
    rowHash,
  }
}

function showFields(fields: LedgerRow['fields'], show: ShowPayload) {
  const { text, masked } = show(fields[ATTEMPT_FIELDS.payload] ?? '')
  return { masked, fields: fields.map((field, at) => (at === ATTEMPT_FIELDS.payload ? text : field)) }
}
