import { Type, type Static } from 'typebox'
import { nullable, oneOf, pageOf, shape, Timestamp, Uuid, WholeNumber } from './common.js'

export const InboxStateShape = oneOf(['seen', 'processing', 'done', 'dead'])

/** A message of another system. Never its payload. */
export const InboxMessageView = shape({
  source: Type.String(),
  messageId: Type.String(),
  topic: nullable(Type.String({ description: 'null: known only for deduplication' })),
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
