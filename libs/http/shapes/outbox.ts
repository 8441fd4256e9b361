import { Type, type Static } from '#typebox'
import { Cursor, Id, JsonObjectShape, nullable, oneOf, pageOf, shape, Timestamp, Uuid, WholeNumber } from './common.js'
import { Finding } from './reconciliation.js'

export const ItemStateShape = oneOf(
  ['DUE', 'SCHEDULED', 'LEASED', 'EXPIRED', 'BLOCKED', 'HELD', 'DISPATCHED', 'FAILED'],
  'DISPATCHED and FAILED are terminal, all others are pending',
)

const AttemptStateShape = oneOf(['DISPATCHED', 'FAILED', 'RETRYABLE', 'ZOMBIE_REQUEUE'])

const AttemptActionShape = oneOf(
  ['sent', 'inquired', 'not_sent', 'decided', 'expired', 'cancelled'],
  'sent: the rail was called; inquired: nothing was sent, the rail was asked about an earlier send; not_sent: the attempt ended before the call; decided: two people decided; expired: the lease expired; cancelled: it was cancelled before it was sent',
)

export const ItemKindShape = oneOf(['payment', 'message'], 'payments (the default) or messages')
export const DecisionShape = oneOf(['DISPATCHED', 'FAILED', 'RETRY', 'REDRIVE'])

const moneyFields = {
  amount: nullable(Type.String({ description: 'as in the payload; null if the rail’s field classes withhold it' })),
  currency: nullable(Type.String()),
  destination: nullable(
    Type.String({ description: 'masked; shows the last four characters if there are twelve or more' }),
  ),
  destinationWithheld: nullable(
    oneOf(
      ['encrypted', 'forbidden', 'undeclared'],
      'reason why no destination is shown; undeclared: no process has declared the rail',
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
  { description: 'freeze that made the outcome unknown, unless an attempt was made since' },
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
  outcomeUnknown: Type.Boolean({ description: 'the rail may have acted, and no definitive answer exists' }),
  expiryStreak: Type.Integer({ description: 'number of leases in a row that expired' }),
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
  returned: Type.Boolean({ description: 'the rail returned money of the payment' }),
  returnedAmount: nullable(
    Type.String({ description: 'sum of the returns; null if the rail’s field classes withhold the amount' }),
  ),
  replaces: nullable({ ...Uuid, description: 'payment that this one replaces' }),
  ...moneyFields,
  freeze: nullable(ItemFreeze),
}

/**
 * Pending or terminal item, without lease token. Of the payload it has only amount, currency and a masked destination.
 */
export const OutboxItem = shape(itemFields)
export type OutboxItem = Static<typeof OutboxItem>

/** Number of payments per state in the search table. */
export const OutboxCounts = shape({
  states: shape({
    PENDING: Type.Integer({ description: 'in the queue and not held' }),
    HELD: Type.Integer(),
    DISPATCHED: Type.Integer(),
    FAILED: Type.Integer({ description: 'without cancelled ones' }),
    CANCELLED: Type.Integer(),
  }),
  returned: Type.Integer({ description: 'payments among them of which the rail returned money' }),
  truncated: Type.Boolean({ description: 'more match: only 20000 entries are counted, in the order of the list' }),
})
export type OutboxCounts = Static<typeof OutboxCounts>

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
  workerId: nullable(Type.String({ description: 'worker, or person who decided' })),
  action: AttemptActionShape,
  outcomeUnknown: Type.Boolean({
    description: 'the rail may have paid: the outcome was unknown after this attempt',
  }),
})
export type Attempt = Static<typeof Attempt>

export const OutboxEvent = shape({
  eventNo: WholeNumber,
  eventType: Type.String(),
  actor: Type.String({ description: 'worker or person' }),
  detail: JsonObjectShape,
  createdAt: Timestamp,
})
export type OutboxEvent = Static<typeof OutboxEvent>

/** Two-person decision about money. */
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

const DateText = Type.String({ pattern: '^\\d{4}-\\d{2}-\\d{2}$' })

const BankEntry = shape(
  {
    runId: { ...Uuid, description: 'first reconciliation that saw the entry' },
    seenAt: Timestamp,
    kind: oneOf(
      ['payout', 'reversal', 'debit_reversal'],
      'payout: the bank paid; reversal: it sent the money back; debit_reversal: a debit that it marks as a reversal',
    ),
    amount: nullable(Type.String({ description: 'null if the rail’s field classes withhold it' })),
    currency: nullable(Type.String()),
    bookedOn: nullable(DateText),
    valuedOn: nullable(DateText),
    returnCode: nullable(Type.String()),
  },
  { description: 'entry of a bank statement about this payment' },
)

export const Timeline = shape({
  item: OutboxItem,
  attempts: Type.Array(Attempt),
  events: Type.Array(OutboxEvent),
  bankEntries: Type.Array(BankEntry),
  proposals: Type.Array(Proposal),
  redrivenAs: Type.Array(Uuid, { description: 'redrives of this item, oldest first' }),
  replacedBy: nullable({ ...Uuid, description: 'payment that replaces this one' }),
  findings: Type.Array(Finding, { description: 'differences between bank statements and the payment' }),
  // Late outcomes are not a separate field. They are in `events`: LATE_OUTCOME, or TERMINAL_BLOCKED if they contradict
  // the ledger.
})
export type Timeline = Static<typeof Timeline>

function base64(description: string) {
  return Type.String({ pattern: '^[A-Za-z0-9+/]*={0,2}$', description })
}

/** Ledger row, with the path of hashes to the root of its block. */
const ProofRow = shape({
  kind: Type.Union([Type.Literal('identity'), Type.Literal('attempt'), Type.Literal('event')]),
  number: Type.String({ pattern: '^\\d{1,18}$', description: 'attemptNo or eventNo; 0 for the identity' }),
  id: Uuid,
  transaction: Type.String({ pattern: '^-?\\d{1,19}$', description: 'transaction that wrote the row' }),
  record: nullable(
    base64('row in PostgreSQL’s binary form of a record, which its SHA-256 covers; null if its payload is masked'),
  ),
  payload: nullable(Type.String({ description: 'masked payload of a row without a record' })),
  block: nullable(
    Type.String({ pattern: '^\\d{1,19}$', description: 'block that covers the row; null while none does' }),
  ),
  entries: nullable(
    base64(
      'up to four entries of the block, including that of the row: kind (2 bytes), id (16), transaction (8), SHA-256 of the record (32); null if the block has none',
    ),
  ),
  nodes: Type.Array(
    base64(
      'the first contains the SHA-256 of the entries, each next one that of the node before; the SHA-256 of the last is the root',
    ),
  ),
})

/** Head of a block. Its SHA-256 is the hash of the block, which checkpoints sign. */
const ProofBlock = shape({
  no: Type.String({ pattern: '^\\d{1,19}$' }),
  hash: Type.String({ pattern: '^[0-9a-f]*$' }),
  head: base64(
    'record of block number, format, hash of the block before, row count, last transaction, last kind, last id, root, time of sealing',
  ),
})

/** Ledger rows of one payment and their blocks, to recompute the hashes. */
export const Proof = shape({
  outboxId: Uuid,
  rows: Type.Array(ProofRow, { description: 'identity, then attempts, then events, each by number' }),
  blocks: Type.Array(ProofBlock),
  next: nullable(Cursor),
})
export type Proof = Static<typeof Proof>
export type ProofRow = Static<typeof ProofRow>
export type ProofBlock = Static<typeof ProofBlock>
