import { Type, type Static } from 'typebox'
import { Id, JsonObjectShape, nullable, oneOf, pageOf, shape, Timestamp, Uuid, WholeNumber } from './common.js'

export const ItemStateShape = oneOf(
  ['DUE', 'SCHEDULED', 'LEASED', 'EXPIRED', 'BLOCKED', 'HELD', 'DISPATCHED', 'FAILED'],
  'as a person would say it: DISPATCHED and FAILED have ended, all others are pending',
)

export const AttemptStateShape = oneOf(['DISPATCHED', 'FAILED', 'RETRYABLE', 'ZOMBIE_REQUEUE'])

export const AttemptActionShape = oneOf(
  ['sent', 'inquired', 'not_sent', 'decided', 'expired'],
  'sent: the rail was called; inquired: nothing was sent, the outcome of an earlier send was looked up; not_sent: the attempt ended before the call; decided: two people decided; expired: the lease expired',
)

export const DecisionShape = oneOf(['DISPATCHED', 'FAILED', 'RETRY', 'REDRIVE'])

const moneyFields = {
  amount: nullable(
    Type.String({ description: 'as in the payload; null where the rail’s field classes keep it secret' }),
  ),
  currency: nullable(Type.String()),
  destination: nullable(
    Type.String({ description: 'masked, with the last four characters of a destination of twelve or more' }),
  ),
  destinationWithheld: nullable(
    oneOf(
      ['encrypted', 'forbidden', 'undeclared'],
      'why no destination is shown; undeclared: no process has declared the rail',
    ),
  ),
}

export const FreezeCauseShape = oneOf([
  'ANOTHER_SERVER',
  'ANOTHER_DATABASE',
  'LOWER_TIMELINE',
  'NEW_TIMELINE',
  'LOST_COMMITS',
  'OPERATOR',
])

const ItemFreeze = shape(
  { epochNo: Type.Integer(), cause: FreezeCauseShape, reason: Type.String(), frozenAt: Timestamp },
  { description: 'the freeze that made the outcome unknown, unless an attempt was made since' },
)

const itemFields = {
  outboxId: Uuid,
  instructionId: Id,
  idempotencyKey: Type.String(),
  participantId: Id,
  sequenceId: WholeNumber,
  railType: Id,
  createdAt: Timestamp,
  ordered: Type.Boolean(),
  redriveOf: nullable(Uuid),
  state: ItemStateShape,
  nextAttemptAt: nullable(Timestamp),
  claimedBy: nullable(Type.String()),
  claimedAt: nullable(Timestamp),
  leaseExpiresAt: nullable(Timestamp),
  outcomeUnknown: Type.Boolean({ description: 'the rail may have acted, and nobody knows' }),
  expiryStreak: Type.Integer({ description: 'how many leases in a row expired' }),
  holdReason: nullable(Type.String()),
  heldBy: nullable(Type.String()),
  heldAt: nullable(Timestamp),
  lastAttemptNo: nullable(Type.Integer()),
  lastAttemptState: nullable(AttemptStateShape),
  lastAttemptAt: nullable(Timestamp),
  lastRailReference: nullable(Type.String()),
  lastRailCode: nullable(Type.String()),
  lastErrorCode: nullable(Type.String()),
  isMessage: Type.Boolean({ description: 'a message, not a payment' }),
  lastAttemptAction: nullable(AttemptActionShape),
  ...moneyFields,
  freeze: nullable(ItemFreeze),
}

/** One item, pending or ended. Never a lease token; of the payload only amount, currency and a masked destination. */
export const OutboxItem = shape(itemFields)
export type OutboxItem = Static<typeof OutboxItem>

export const OutboxPage = pageOf(OutboxItem)
export type OutboxPage = Static<typeof OutboxPage>

export const Attempt = shape({
  attemptId: Uuid,
  attemptNo: Type.Integer(),
  state: AttemptStateShape,
  claimedAt: nullable(Timestamp),
  completedAt: nullable(Timestamp),
  railReference: nullable(Type.String()),
  railCode: nullable(Type.String()),
  errorCode: nullable(Type.String()),
  errorMessage: nullable(Type.String()),
  latencyMs: nullable(Type.Integer()),
  workerId: nullable(Type.String({ description: 'the worker, or the person who decided' })),
  action: AttemptActionShape,
  outcomeUnknown: Type.Boolean({
    description: 'the rail may have paid, and the outcome was unknown after this attempt',
  }),
})
export type Attempt = Static<typeof Attempt>

export const OutboxEvent = shape({
  eventNo: WholeNumber,
  eventType: Type.String(),
  actor: Type.String({ description: 'a worker or a person' }),
  detail: JsonObjectShape,
  createdAt: Timestamp,
})
export type OutboxEvent = Static<typeof OutboxEvent>

/** A decision about money, with both of its people. */
export const Proposal = shape({
  proposalId: Uuid,
  outboxId: Uuid,
  instructionId: Id,
  decision: DecisionShape,
  reason: Type.String(),
  railReference: nullable(Type.String()),
  status: oneOf(['OPEN', 'APPROVED', 'WITHDRAWN']),
  proposedBy: Type.String(),
  proposedAt: Timestamp,
  decidedBy: nullable(Type.String()),
  decidedAt: nullable(Timestamp),
  ...moneyFields,
})
export type Proposal = Static<typeof Proposal>

export const InstructionItem = shape({ ...itemFields, attempts: Type.Array(Attempt) })
export type InstructionItem = Static<typeof InstructionItem>

/** The whole story of one item. */
export const Timeline = shape({
  item: OutboxItem,
  attempts: Type.Array(Attempt),
  events: Type.Array(OutboxEvent),
  proposals: Type.Array(Proposal),
  redrivenAs: Type.Array(Uuid, { description: 'the items as which this one was sent again, oldest first' }),
  // What was learned after a lease was lost is among the events: LATE_OUTCOME, and TERMINAL_BLOCKED where it contradicts.
})
export type Timeline = Static<typeof Timeline>

const Fields = Type.Array(nullable(Type.String()), {
  description:
    'in canonical order: hash each as its length in UTF-8 bytes, a colon, the bytes, a comma; a null field as ":,"',
})
const Hash = nullable(Type.String({ pattern: '^[0-9a-f]{64}$' }))

/** A row that chains to the one before it: the hash is taken over prevHash and then the fields. */
const Link = shape({
  /** attemptNo or eventNo */
  number: WholeNumber,
  fields: Fields,
  masked: Type.Boolean({
    description: 'the payload among the fields is masked: its hash cannot be recomputed from it',
  }),
  prevHash: Hash,
  rowHash: Hash,
})

/** Everything the hashes of one item are taken over, payloads included, so that whoever reads it can recompute them. */
export const Chain = shape({
  outboxId: Uuid,
  identity: shape({ fields: Fields, rowHash: Hash }),
  attempts: Type.Array(Link, { description: 'the first follows the identity: its prevHash is the identity’s rowHash' }),
  events: Type.Array(Link, { description: 'a chain of their own: the first has no prevHash' }),
})
export type Chain = Static<typeof Chain>
export type ChainLink = Static<typeof Link>
