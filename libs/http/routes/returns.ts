import { recordOutboxReturn } from '../../outbox/index.js'
import type { Api } from '../Api.js'
import { ReturnBody, ReturnRecorded } from '../shapes/decisions.js'
import { EXAMPLE } from './examples.js'
import { requireItem } from './outbox.js'
import { outboxIdParam, parseTime } from './parameters.js'
import { route, type Route } from './route.js'

export function returnRoutes({ roles }: Api): readonly Route[] {
  return [
    route({
      method: 'POST',
      path: '/v1/outbox/{outboxId}/returns',
      tag: 'decisions',
      summary:
        'Records that the rail returned money of a DISPATCHED payment, once per reference. The payment stays DISPATCHED.',
      access: 'operate',
      participants: 'filtered',
      params: outboxIdParam,
      body: ReturnBody,
      answers: { 200: { description: 'The return is recorded.', schema: ReturnRecorded } },
      problems: [
        'ITEM_NOT_FOUND',
        'ALREADY_ENDED',
        'DECISION_REFUSED',
        'IDEMPOTENCY_CONFLICT',
        'RETURN_EXCEEDS_PAYMENT',
        'INVALID_ARGUMENT',
      ],
      example: {
        params: { outboxId: EXAMPLE.contradictedId },
        body: { amount: '12.50', currency: 'EUR', code: 'AC04', reference: 'RT-17' },
        status: 200,
        answer: { outboxId: EXAMPLE.contradictedId, eventId: EXAMPLE.eventId, created: true, returnedTotal: '12.50' },
      },
      handle: async ({ identity, params: { outboxId }, body }) => {
        const control = roles.control(identity)
        await requireItem(control, identity, outboxId)
        const { amount, currency, code, reference, occurredAt } = body
        const recorded = await recordOutboxReturn(control, {
          outboxId,
          amount,
          currency,
          code,
          reference,
          ...(occurredAt === undefined ? {} : { occurredAt: parseTime('occurredAt', occurredAt) }),
        })
        return { outboxId, ...recorded }
      },
    }),
  ]
}
