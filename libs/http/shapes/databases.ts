import { Type, type Static } from 'typebox'
import { nullable, oneOf, shape } from './common.js'

/** A database that this process serves. No address, no login. */
export const DatabaseView = shape({
  name: Type.String(),
  schema: Type.String(),
  state: oneOf(['up', 'down']),
  pendingCount: nullable(Type.String({ description: 'null while it does not answer' })),
  oldestPendingAgeSeconds: nullable(Type.Number()),
  heldCount: nullable(Type.String()),
  serverVersion: nullable(Type.String()),
})
export type DatabaseView = Static<typeof DatabaseView>

export const Databases = shape({ databases: Type.Array(DatabaseView) })
export type Databases = Static<typeof Databases>
