import { Type, type Static } from 'typebox'
import { Id, nullable, oneOf, shape, Timestamp } from './common.js'

export const BreakerShape = oneOf(['closed', 'open', 'half-open'])

const WorkerRail = shape({ railType: Id, breaker: BreakerShape, calls: Type.Integer() })

/** A worker as it last reported. One that stopped cleanly is not listed; one that was killed is dead since its last report. */
export const WorkerView = shape({
  workerId: Type.String(),
  alive: Type.Boolean({ description: 'reported within the last 30 seconds' }),
  deadSince: nullable(Timestamp),
  startedAt: Timestamp,
  lastSeenAt: Timestamp,
  running: nullable(Type.Integer({ description: 'calls to rails in progress' })),
  waiting: nullable(Type.Integer({ description: 'leased, and waiting for a slot' })),
  completing: nullable(Type.Integer({ description: 'outcomes that are being recorded' })),
  leases: Type.Integer({ description: 'items that are leased to it now, as the queue says' }),
  rails: Type.Array(WorkerRail),
})
export type WorkerView = Static<typeof WorkerView>

export const Workers = shape({ workers: Type.Array(WorkerView) })
export type Workers = Static<typeof Workers>

/** A pause of a rail, a participant, a participant's ordered stream, or everything. */
export const Pause = shape({
  kind: oneOf(['rail', 'participant', 'stream', 'all']),
  name: Id,
  reason: Type.String(),
  pausedBy: Type.String(),
  pausedAt: Timestamp,
})
export type Pause = Static<typeof Pause>

export const Pauses = shape({
  pauses: Type.Array(Pause),
  rails: Type.Array(Id, { description: 'rails that a process declared, that items wait for or that are paused' }),
})
export type Pauses = Static<typeof Pauses>

/** A rail: what the queue holds for it, and what living workers say of it. */
export const Rail = shape({
  railType: Id,
  pending: Type.Integer(),
  due: Type.Integer(),
  inFlight: Type.Integer({ description: 'leased items' }),
  held: Type.Integer(),
  oldestDueAgeSeconds: Type.Number(),
  workers: Type.Integer({ description: 'living workers that serve it' }),
  calls: Type.Integer({ description: 'calls in progress, as those workers last said' }),
  breakers: shape({ closed: Type.Integer(), halfOpen: Type.Integer(), open: Type.Integer() }),
  pause: nullable(Pause),
})
export type Rail = Static<typeof Rail>

export const Rails = shape({ rails: Type.Array(Rail) })
export type Rails = Static<typeof Rails>
