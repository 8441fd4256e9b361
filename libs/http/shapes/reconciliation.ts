import { Type, type Static } from '#typebox'
import { FINDING_KINDS, FINDING_SEVERITIES } from '../../reconciliation/index.js'
import { Id, nullable, oneOf, pageOf, shape, Timestamp, Uuid } from './common.js'

export const FindingKindShape = oneOf(
  FINDING_KINDS,
  'paid_twice: two booked entries of one payment; paid_not_recorded: the bank paid, our payment is not DISPATCHED; recorded_not_paid: DISPATCHED and in no statement; reversed: the bank returned the money; unknown_entry: a debit without a reference of ours',
)

const Day = Type.String({ pattern: '^[0-9]{4}-[0-9]{2}-[0-9]{2}$' })
const Count = Type.Integer({ minimum: 0 })

const runFields = {
  railType: Id,
  format: Type.String({ description: 'format of the statement; rail: entries that the rail’s API listed' }),
  fileSha256: Type.String({ pattern: '^[0-9a-f]{64}$' }),
  statementIds: Type.Array(Type.String()),
  accounts: Type.Array(Type.String()),
  periodFrom: Timestamp,
  periodTo: { ...Timestamp, description: 'end of the period, exclusive' },
  settlementDays: Type.Integer(),
  entries: Type.Integer({ minimum: 0, description: 'booked debits and reversals in the statement' }),
  counts: shape({
    matched: Count,
    paidTwice: Count,
    paidNotRecorded: Count,
    recordedNotPaid: Count,
    amountDiffers: Count,
    reversed: Count,
    unknownEntry: Count,
  }),
  otherRails: Type.Integer({ minimum: 0, description: 'entries that name payments of other rails' }),
  unknownSums: Type.Record(Type.String(), Type.String(), { description: 'sum of the unknown entries per currency' }),
}

/** Comparison of a bank statement with the ledger. */
export const Run = shape({
  runId: Uuid,
  ...runFields,
  openFindings: Count,
  actor: Type.String(),
  createdAt: Timestamp,
})
export type Run = Static<typeof Run>

export const RunPage = pageOf(Run)
export type RunPage = Static<typeof RunPage>

/** Booked entry of a statement. Accounts and references are null without the scope audit. */
export const BankEntry = shape({
  kind: oneOf(['payout', 'reversal', 'debit_reversal'], 'reversal: it returns the money of a payout'),
  account: nullable(Type.String()),
  bankReference: nullable(Type.String({ description: 'the bank’s own id of the entry' })),
  reference: nullable(Type.String({ description: 'reference text of the entry' })),
  amount: nullable(Type.String()),
  currency: nullable(Type.String()),
  bookedOn: nullable(Day),
  valuedOn: nullable(Day),
})
export type BankEntry = Static<typeof BankEntry>

const FindingPayment = shape(
  {
    state: oneOf(['DISPATCHED', 'FAILED', 'HELD', 'PENDING']),
    amount: nullable(Type.String()),
    currency: nullable(Type.String()),
    instructionId: Id,
    idempotencyKey: Type.String(),
    participantId: Id,
    railReference: nullable(Type.String()),
    completedAt: nullable(Timestamp),
  },
  { description: 'the payment when the run compared it; without the scope audit as it is now' },
)

/** Difference between a bank statement and the ledger. */
export const Finding = shape({
  findingId: nullable({ ...Uuid, description: 'null in a dry run' }),
  runId: nullable(Uuid),
  railType: Id,
  kind: FindingKindShape,
  severity: oneOf(FINDING_SEVERITIES),
  outboxId: nullable(Uuid),
  payment: nullable(FindingPayment),
  entries: Type.Array(BankEntry, { description: 'what the bank says' }),
  proposalId: nullable({ ...Uuid, description: 'decision that the run proposed for a held payment' }),
  returnEventId: nullable({ ...Uuid, description: 'return that the run recorded' }),
  note: nullable(Type.String({ description: 'why the run recorded no return or proposed no decision' })),
  createdAt: nullable(Timestamp),
  closed: nullable(shape({ by: Type.String(), reason: Type.String(), at: Timestamp })),
})
export type Finding = Static<typeof Finding>

export const FindingPage = pageOf(Finding)
export type FindingPage = Static<typeof FindingPage>

export const FindingClosed = shape({ findingId: Uuid, eventId: Uuid })
export type FindingClosed = Static<typeof FindingClosed>

/** Result of an upload. A dry run has an id only if the same statement was compared before. */
export const Reconciled = shape({
  runId: nullable(Uuid),
  repeated: Type.Boolean({ description: 'the same statement was compared before; this is that run' }),
  dryRun: Type.Boolean(),
  ...runFields,
  findings: Type.Array(Finding, { description: 'at most 100, critical ones first; all: GET /v1/findings' }),
})
export type Reconciled = Static<typeof Reconciled>
