import { Type, type Static } from '#typebox'
import {
  freezeDispatch,
  liftDispatchFreeze,
  describeFreezeCause,
  readDispatchEpoch,
  type DispatchEpoch,
} from '../../outbox/index.js'
import type { Api } from '../Api.js'
import { Changed, nullable, shape, Timestamp, WholeNumber } from '../shapes/common.js'
import { ReasonBody } from '../shapes/decisions.js'
import { FreezeCauseShape } from '../shapes/outbox.js'
import { EXAMPLE } from './examples.js'
import { route, type Route } from './route.js'

const Freeze = shape({
  at: Timestamp,
  by: Type.String({ description: 'person or worker that froze dispatch' }),
  cause: FreezeCauseShape,
  meaning: Type.String({ description: 'sentence that explains the cause' }),
  reason: Type.String({ description: 'finding of the worker, or reason of the person' }),
  itemsMarked: nullable(
    Type.String({
      ...WholeNumber,
      description: 'number of pending payments marked as of unknown outcome; null: not marked yet',
    }),
  ),
})

const Lifting = shape({ at: Timestamp, by: Type.String(), reason: Type.String() })

/** Current server epoch. A null field was not readable, so a check after a restore cannot compare it. */
const Epoch = shape({
  number: Type.Integer(),
  since: Timestamp,
  systemIdentifier: nullable(WholeNumber),
  timeline: nullable(Type.Integer()),
  heartbeatAt: Timestamp,
  synchronous: Type.Boolean({ description: 'true if commits waited for a standby at the last heartbeat' }),
})

export const Dispatch = shape({
  frozen: Type.Boolean(),
  freeze: nullable(Freeze),
  lifted: nullable(Lifting),
  epoch: nullable(Epoch),
})
export type Dispatch = Static<typeof Dispatch>

/** Routes that freeze dispatch, such as after a restore that may have lost commits, and that lift the freeze. */
export function dispatchRoutes({ roles }: Api): readonly Route[] {
  const common = { tag: 'dispatch', participants: 'refused' } as const
  return [
    route({
      ...common,
      method: 'POST',
      path: '/v1/dispatch/freeze',
      summary:
        'Freezes dispatch, after a restore that Symphony cannot detect. Outcomes of pending payments become unknown; current leases continue.',
      access: 'operate',
      body: ReasonBody,
      answers: { 200: { description: 'Dispatch is frozen.', schema: Changed } },
      problems: ['INVALID_ARGUMENT'],
      example: { body: { reason: 'the snapshot of 03:00 was restored' }, status: 200, answer: { changed: true } },
      handle: async ({ identity, body: { reason } }) => ({
        changed: await freezeDispatch(roles.control(identity), reason),
      }),
    }),
    route({
      ...common,
      method: 'GET',
      path: '/v1/dispatch',
      summary:
        'Shows whether dispatch is frozen and why, how the last freeze was lifted, and on which server dispatch runs.',
      access: 'read',
      answers: {
        200: { description: 'State of dispatch. Its parts are null before the first claim.', schema: Dispatch },
      },
      problems: [],
      example: {
        status: 200,
        answer: {
          frozen: true,
          freeze: {
            at: EXAMPLE.at,
            by: 'alice',
            cause: 'OPERATOR',
            meaning: describeFreezeCause('OPERATOR'),
            reason: 'the snapshot of 03:00 was restored',
            itemsMarked: null,
          },
          lifted: null,
          epoch: {
            number: 3,
            since: EXAMPLE.at,
            systemIdentifier: '7449371183520464958',
            timeline: 1,
            heartbeatAt: EXAMPLE.at,
            synchronous: false,
          },
        },
      },
      handle: async () => dispatchOf(await readDispatchEpoch(roles.readonly)),
    }),
    route({
      ...common,
      method: 'POST',
      path: '/v1/dispatch/lift',
      summary:
        'Lifts the freeze, after a comparison with the rails. Payments of unknown outcome are inquired about, resent or held, as their rails declare.',
      access: 'operate',
      body: ReasonBody,
      answers: { 200: { description: 'Dispatch is not frozen.', schema: Changed } },
      problems: ['INVALID_ARGUMENT'],
      example: {
        body: { reason: 'ledger and bank statement agree up to 11:40, OPS-812' },
        status: 200,
        answer: { changed: true },
      },
      handle: async ({ identity, body: { reason } }) => ({
        changed: await liftDispatchFreeze(roles.control(identity), reason),
      }),
    }),
  ]
}

function dispatchOf(epoch: DispatchEpoch | undefined): Dispatch {
  if (epoch === undefined) return { frozen: false, freeze: null, lifted: null, epoch: null }
  return {
    frozen: epoch.frozen,
    freeze: freezeIn(epoch),
    lifted: liftingIn(epoch),
    epoch: {
      number: epoch.epochNo,
      since: epoch.beganAt.toISOString(),
      systemIdentifier: epoch.systemIdentifier === null ? null : String(epoch.systemIdentifier),
      timeline: epoch.timeline,
      heartbeatAt: epoch.beatAt.toISOString(),
      synchronous: epoch.synchronous,
    },
  }
}

function freezeIn({ frozen, frozenAt, frozenBy, freezeCause, freezeReason, markedAt, itemsMarked }: DispatchEpoch) {
  if (!frozen || frozenAt === null || freezeCause === null) return null
  return {
    at: frozenAt.toISOString(),
    by: frozenBy ?? '',
    cause: freezeCause,
    meaning: describeFreezeCause(freezeCause),
    reason: freezeReason ?? '',
    itemsMarked: markedAt === null ? null : String(itemsMarked ?? 0),
  }
}

function liftingIn({ liftedAt, liftedBy, liftReason }: DispatchEpoch) {
  if (liftedAt === null) return null
  return { at: liftedAt.toISOString(), by: liftedBy ?? '', reason: liftReason ?? '' }
}
