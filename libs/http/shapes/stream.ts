import { Type, type Static } from 'typebox'
import { Id, shape, Timestamp, Uuid } from './common.js'
import { ItemStateShape } from './outbox.js'
import { Status } from './status.js'

/** The event `status`: the same as GET /v1/status, at most about once per second, and only when it changed. */
export const StatusEvent = Status
export type StatusEvent = Static<typeof StatusEvent>

/** The event `items`: what changed since the last one. `truncated`: more changed than is listed; read the page anew. */
export const ItemsEvent = shape({
  items: Type.Array(shape({ outboxId: Uuid, instructionId: Id, state: ItemStateShape })),
  truncated: Type.Boolean(),
})
export type ItemsEvent = Static<typeof ItemsEvent>

/** The event `looked`: the server has read the database, about once per second. Without it, whatever was told may be old. */
export const LookedEvent = shape({ at: Timestamp })
export type LookedEvent = Static<typeof LookedEvent>
