import { Type, type Static } from 'typebox'
import { Id, nullable, oneOf, shape, Timestamp } from './common.js'

export const ScopeShape = oneOf(['ingest', 'read', 'audit', 'operate'])
export type Scope = Static<typeof ScopeShape>

/** Who is asking, as this API sees it. */
export const Me = shape({
  owner: Type.String({ description: 'the person of two-person actions' }),
  scopes: Type.Array(ScopeShape),
  participants: nullable(Type.Array(Id, { description: 'the only ones it sees and pays for' })),
  via: oneOf(['token', 'key', 'jwt']),
  keyId: nullable(Type.String()),
  expiresAt: nullable(Timestamp),
})
export type Me = Static<typeof Me>
