import { Type } from '#typebox'
import { readContradiction, readContradictionPage, reviewOutboxContradiction } from '../../outbox/index.js'
import type { Api } from '../Api.js'
import { ProblemError } from '../Problem.js'
import { oneOf, Uuid } from '../shapes/common.js'
import { ContradictionPage, ReasonBody, Reviewed } from '../shapes/decisions.js'
import { EXAMPLE } from './examples.js'
import { decodeCursor, encodeCursor, isVisible, LIMIT_DEFAULT, ofParticipants, page, UUID_PART } from './parameters.js'
import { route, type Route } from './route.js'

export function contradictionRoutes({ roles }: Api): readonly Route[] {
  const common = { tag: 'decisions', participants: 'filtered' } as const
  return [
    route({
      ...common,
      method: 'GET',
      path: '/v1/contradictions',
      summary: 'Payments for which a worker reported a different outcome than the ledger records, newest first.',
      access: 'read',
      query: { reviewed: Type.Optional(oneOf(['true', 'false'], 'default false')), ...page },
      answers: { 200: { description: 'A page of contradictions.', schema: ContradictionPage } },
      problems: ['INVALID_QUERY'],
      example: {
        query: { reviewed: 'false' },
        status: 200,
        answer: {
          items: [
            {
              eventId: EXAMPLE.contradictionId,
              outboxId: EXAMPLE.contradictedId,
              instructionId: 'invoice-2047',
              participantId: EXAMPLE.participantId,
              railType: EXAMPLE.railType,
              recordedAt: EXAMPLE.at,
              actor: 'worker-1',
              recorded: { state: 'DISPATCHED', railReference: 'TX-47' },
              reported: { state: 'DISPATCHED', railReference: 'TX-48' },
              reviewedAt: null,
              reviewedBy: null,
              reviewReason: null,
            },
          ],
          next: null,
        },
      },
      handle: async ({ identity, query: { reviewed = 'false', cursor, limit = LIMIT_DEFAULT } }) => {
        const before = decodeCursor(CONTRADICTIONS, cursor)?.id
        const items = await readContradictionPage(roles.readonly, {
          reviewed: reviewed === 'true',
          limit,
          ...ofParticipants(identity.participants ?? undefined),
          ...(before === undefined ? {} : { before }),
        })
        const last = items.length === limit ? items.at(-1) : undefined
        return { items, next: last === undefined ? null : encodeCursor(CONTRADICTIONS, { id: last.eventId }) }
      },
    }),
    route({
      ...common,
      method: 'POST',
      path: '/v1/contradictions/{eventId}/review',
      summary:
        'Records that an operator compared both outcomes with the rail. The alert ends; the recorded outcome stays.',
      access: 'operate',
      params: { eventId: Uuid },
      body: ReasonBody,
      answers: { 200: { description: 'The review is recorded.', schema: Reviewed } },
      problems: ['CONTRADICTION_NOT_FOUND', 'DECISION_REFUSED', 'INVALID_ARGUMENT'],
      example: {
        params: { eventId: EXAMPLE.contradictionId },
        body: { reason: 'the bank shows one payment, OPS-812' },
        status: 200,
        answer: { eventId: EXAMPLE.contradictionId, reviewId: EXAMPLE.eventId },
      },
      handle: async ({ identity, params: { eventId }, body: { reason } }) => {
        const control = roles.control(identity)
        const contradiction = await readContradiction(control, eventId)
        if (!isVisible(identity, contradiction?.participantId)) throw new ProblemError('CONTRADICTION_NOT_FOUND')
        return { eventId, reviewId: await reviewOutboxContradiction(control, eventId, reason) }
      },
    }),
  ]
}

const CONTRADICTIONS = { list: 'contradictions', parts: { id: UUID_PART } }
