import { Type, type Static } from '#typebox'
import { requiredInboxId } from '../../core/index.js'
import { readInboxPage, reviveInboxMessage } from '../../inbox/index.js'
import type { Api } from '../Api.js'
import { nullable, oneOf, pageOf, shape, Timestamp, Uuid, WholeNumber } from '../shapes/common.js'
import { ReasonBody } from '../shapes/decisions.js'
import { EXAMPLE } from './examples.js'
import {
  decodeCursor,
  encodeCursor,
  LIMIT_DEFAULT,
  MICROS_PART,
  page,
  range,
  sinceUntil,
  TEXT_PART,
} from './parameters.js'
import { route, type Route } from './route.js'

export const InboxStateShape = oneOf(['seen', 'processing', 'done', 'dead'])

/** Message of another system, without its payload. */
export const InboxMessageView = shape({
  source: Type.String(),
  messageId: Type.String(),
  topic: nullable(Type.String({ description: 'null: recorded only for deduplication' })),
  state: InboxStateShape,
  sightings: WholeNumber,
  attemptCount: Type.Integer(),
  attemptsMax: Type.Integer(),
  dueAt: nullable(Timestamp),
  firstSeenAt: Timestamp,
  lastSeenAt: Timestamp,
  endedAt: nullable(Timestamp),
  lastError: nullable(Type.String()),
  claimedBy: nullable(Type.String()),
  claimExpiresAt: nullable(Timestamp),
})
export type InboxMessageView = Static<typeof InboxMessageView>

export const InboxPage = pageOf(InboxMessageView)
export type InboxPage = Static<typeof InboxPage>

export const Revived = shape({ source: Type.String(), messageId: Type.String(), eventId: Uuid })
export type Revived = Static<typeof Revived>

const MESSAGES = { list: 'inbox', parts: { micros: MICROS_PART, source: TEXT_PART, messageId: TEXT_PART } }
const InboxId = Type.String({ minLength: 1, maxLength: 510 })

export function inboxRoutes({ roles }: Api): readonly Route[] {
  return [
    route({
      method: 'GET',
      path: '/v1/inbox',
      tag: 'inbox',
      summary: 'Messages from other systems in a state, newest first; ended messages by the time of their end.',
      access: 'read',
      participants: 'refused',
      query: { state: Type.Optional(InboxStateShape), ...range, ...page },
      answers: { 200: { description: 'A page of messages; dead ones by default.', schema: InboxPage } },
      problems: ['INVALID_QUERY'],
      invalid: 'INVALID_QUERY',
      example: {
        query: { state: 'dead' },
        status: 200,
        answer: {
          items: [
            {
              source: EXAMPLE.source,
              messageId: EXAMPLE.messageId,
              topic: 'credit',
              state: 'dead',
              sightings: '2',
              attemptCount: 20,
              attemptsMax: 20,
              dueAt: EXAMPLE.at,
              firstSeenAt: EXAMPLE.at,
              lastSeenAt: EXAMPLE.at,
              endedAt: EXAMPLE.at,
              lastError: 'no such account',
              claimedBy: null,
              claimExpiresAt: null,
            },
          ],
          next: null,
        },
      },
      handle: async ({ query: { state = 'dead', cursor, limit = LIMIT_DEFAULT, ...times } }) => {
        const after = decodeCursor(MESSAGES, cursor)
        const rows = await readInboxPage(roles.readonly, { state, after, limit, ...sinceUntil(times) })
        const last = rows.length === limit ? rows.at(-1) : undefined
        return {
          items: rows.map(({ view }) => view),
          next: last === undefined ? null : encodeCursor(MESSAGES, { ...last.cursor }),
        }
      },
    }),
    route({
      method: 'POST',
      path: '/v1/inbox/{source}/{messageId}/revive',
      tag: 'inbox',
      summary: 'Makes a dead message due again and resets its attempts.',
      access: 'operate',
      participants: 'refused',
      params: { source: InboxId, messageId: InboxId },
      body: ReasonBody,
      answers: { 200: { description: 'The message is due again.', schema: Revived } },
      problems: ['MESSAGE_NOT_FOUND', 'MESSAGE_NOT_DEAD', 'INVALID_ARGUMENT'],
      example: {
        params: { source: EXAMPLE.source, messageId: EXAMPLE.messageId },
        body: { reason: 'the account exists now' },
        status: 200,
        answer: { source: EXAMPLE.source, messageId: EXAMPLE.messageId, eventId: EXAMPLE.eventId },
      },
      handle: async ({ identity, params, body: { reason } }) => {
        const key = {
          source: requiredInboxId('source', params.source),
          messageId: requiredInboxId('messageId', params.messageId),
        }
        return { ...key, eventId: await reviveInboxMessage(roles.control(identity), key, reason) }
      },
    }),
  ]
}
