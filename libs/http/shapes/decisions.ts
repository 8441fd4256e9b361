import { Type, type Static } from '#typebox'
import { Id, nullable, oneOf, pageOf, shape, Timestamp, Uuid } from './common.js'
import { DecisionShape, OutboxItem, Proposal } from './outbox.js'

const Reason = Type.String({ minLength: 1, maxLength: 1_000, description: 'reason, stored for ever' })

export const Hold = shape({
  item: OutboxItem,
  proposal: nullable(Proposal),
  assignee: nullable(Type.String({ description: 'person who cares for the payment, as the latest note names them' })),
  latestNote: nullable(shape({ note: Type.String(), actor: Type.String(), createdAt: Timestamp })),
})
export type Hold = Static<typeof Hold>

export const HoldPage = pageOf(Hold)
export type HoldPage = Static<typeof HoldPage>

/** Item that ended FAILED, with its redrives, its replacement and its open proposal. */
export const DeadLetter = shape({
  item: OutboxItem,
  errorMessage: nullable(Type.String()),
  proposal: nullable(Proposal),
  redrivenAs: Type.Array(Uuid),
  replacedBy: nullable(Uuid),
})
export type DeadLetter = Static<typeof DeadLetter>

export const DlqPage = pageOf(DeadLetter)
export type DlqPage = Static<typeof DlqPage>

export const ProposalPage = pageOf(Proposal)
export type ProposalPage = Static<typeof ProposalPage>

export const ReasonBody = shape({ reason: Reason })
export type ReasonBody = Static<typeof ReasonBody>

export const Cancelled = shape({ outboxId: Uuid, attemptId: Uuid })
export type Cancelled = Static<typeof Cancelled>

export const HoldPlaced = shape({ outboxId: Uuid, eventId: Uuid })
export type HoldPlaced = Static<typeof HoldPlaced>

export const NoteBody = shape({
  note: Type.String({ minLength: 1, maxLength: 1_000, description: 'note, stored for ever' }),
  assignee: Type.Optional(
    Type.String({ maxLength: 200, description: 'person who cares for the payment; empty: nobody; absent: no change' }),
  ),
})
export type NoteBody = Static<typeof NoteBody>

export const NoteAdded = shape({ outboxId: Uuid, eventId: Uuid })
export type NoteAdded = Static<typeof NoteAdded>

export const ResolveBody = shape({
  decision: oneOf(
    ['DISPATCHED', 'FAILED', 'RETRY'],
    'DISPATCHED: it was paid; FAILED: it was not; RETRY: send it again',
  ),
  reason: Reason,
  railReference: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 255,
      description: 'reference under which the rail paid; required for DISPATCHED',
    }),
  ),
})
export type ResolveBody = Static<typeof ResolveBody>

/** Result of a decision: APPLIED at once, or PROPOSED until another person approves. */
export const Decided = shape({
  outboxId: Uuid,
  status: oneOf(['APPLIED', 'PROPOSED']),
  proposalId: nullable(Uuid),
})
export type Decided = Static<typeof Decided>

export const Approved = shape({
  proposalId: Uuid,
  outboxId: Uuid,
  decision: DecisionShape,
  redrivenAs: nullable(Uuid),
  applied: Type.Boolean({ description: 'false if a second person must approve it too' }),
})
export type Approved = Static<typeof Approved>

export const Withdrawn = shape({ proposalId: Uuid })
export type Withdrawn = Static<typeof Withdrawn>

export const ReturnBody = shape({
  amount: Type.String({
    pattern: '^(?:0|[1-9][0-9]{0,17})(?:\\.[0-9]{1,4})?$',
    description: 'returned amount as a decimal string, such as 12.50',
  }),
  currency: Type.String({ pattern: '^[A-Z]{3}$', description: 'an ISO 4217 code' }),
  code: Type.String({ minLength: 1, maxLength: 128, description: 'reason code of the rail, such as AC04' }),
  reference: Type.String({ minLength: 1, maxLength: 255, description: 'the rail’s own id of the return' }),
  occurredAt: Type.Optional(
    Type.String({ maxLength: 40, description: 'time with its offset, such as 2026-01-31T12:00:00Z; default now' }),
  ),
})
export type ReturnBody = Static<typeof ReturnBody>

export const ReturnRecorded = shape({
  outboxId: Uuid,
  eventId: Uuid,
  created: Type.Boolean({ description: 'false: this return was recorded before' }),
  returnedTotal: Type.String({ description: 'sum of the returns of the payment' }),
})
export type ReturnRecorded = Static<typeof ReturnRecorded>

const pauseFields = {
  kind: oneOf(['rail', 'participant', 'stream', 'all']),
  name: Type.Optional(Id),
  reason: Reason,
}

export const PauseBody = shape({
  ...pauseFields,
  force: Type.Optional(Type.Boolean({ description: 'accept a name that the database does not know yet' })),
})
export type PauseBody = Static<typeof PauseBody>

export const ResumeBody = shape(pauseFields)
export type ResumeBody = Static<typeof ResumeBody>

const ReportedOutcome = shape({
  state: oneOf(['DISPATCHED', 'FAILED']),
  railReference: nullable(Type.String()),
})

/** Payment for which a worker reported a different outcome than the ledger records. */
export const Contradiction = shape({
  eventId: Uuid,
  outboxId: Uuid,
  instructionId: Id,
  participantId: Id,
  railType: Id,
  recordedAt: Timestamp,
  actor: Type.String({ description: 'worker or operator whose call recorded the contradiction' }),
  recorded: ReportedOutcome,
  reported: ReportedOutcome,
  reviewedAt: nullable(Timestamp),
  reviewedBy: nullable(Type.String()),
  reviewReason: nullable(Type.String()),
})
export type Contradiction = Static<typeof Contradiction>

export const ContradictionPage = pageOf(Contradiction)
export type ContradictionPage = Static<typeof ContradictionPage>

export const Reviewed = shape({ eventId: Uuid, reviewId: Uuid })
export type Reviewed = Static<typeof Reviewed>
