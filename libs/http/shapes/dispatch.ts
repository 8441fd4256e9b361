import { Type, type Static } from 'typebox'
import { nullable, shape, Timestamp, WholeNumber } from './common.js'
import { FreezeCauseShape } from './outbox.js'

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
