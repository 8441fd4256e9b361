import { Type, type Static } from 'typebox'
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
  by: Type.String({ description: 'the person, or the worker that found it' }),
  cause: FreezeCauseShape,
  meaning: Type.String({ description: 'the cause, in a sentence' }),
  reason: Type.String({ description: 'what was found, or said' }),
  itemsMarked: nullable(
    Type.String({
      ...WholeNumber,
      description: 'how many payments that waited are of unknown outcome now; null: not marked yet',
    }),
  ),
})

const Lifting = shape({ at: Timestamp, by: Type.String(), reason: Type.String() })

/** Which run of which server the work goes on at. What a server withholds cannot be compared after a restore. */
const Epoch = shape({
  number: Type.Integer(),
  since: Timestamp,
  systemIdentifier: nullable(WholeNumber),
  timeline: nullable(Type.Integer()),
  heartbeatAt: Timestamp,
  synchronous: Type.Boolean({ description: 'whether commits waited for a standby at the last heartbeat' }),
})

/** Whether anything may be dispatched, and why not. */
export const Dispatch = shape({
  frozen: Type.Boolean(),
  freeze: nullable(Freeze),
  lifted: nullable(Lifting),
  epoch: nullable(Epoch),
})
export type Dispatch = Static<typeof Dispatch>

/** After a restore or a failover that may have lost commits nothing is dispatched, until a person lifts the freeze. */
export function dispatchRoutes({ roles }: Api): readonly Route[] {
  const common = { tag: 'dispatch', participants: 'refused' } as const
  return [
    route({
      ...common,
      method: 'POST',
      path: '/v1/dispatch/freeze',
      summary:
        'Freezes dispatch, after a restore that nothing else can notice. What waits becomes of unknown outcome; leases in hand go on.',
      access: 'operate',
      body: ReasonBody,
      answers: { 200: { description: 'It is frozen.', schema: Changed } },
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
        'Whether dispatch is frozen and why, how the last freeze was lifted, and on which server the work goes on.',
      access: 'read',
      answers: {
        200: { description: 'All of it null before the first claim: nothing was ever dispatched.', schema: Dispatch },
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
        'Lets dispatch go on, after the books were compared. What is of unknown outcome stays so: it is asked about, sent again or held, as its rail declares.',
      access: 'operate',
      body: ReasonBody,
      answers: { 200: { description: 'It is not frozen any more.', schema: Changed } },
      problems: ['INVALID_ARGUMENT'],
      example: { body: { reason: 'both books agree up to 11:40, OPS-812' }, status: 200, answer: { changed: true } },
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

/** The one that stands. One that was lifted is told of by its lifting. */
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
