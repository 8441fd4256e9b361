import { Type, type Static } from '#typebox'
import { Id, JsonObjectShape, nullable, oneOf, shape, Timestamp, Uuid, WholeNumber } from './common.js'
import { InstructionItem } from './outbox.js'

const instructionFields = {
  /** Instruction id. @default the idempotency key */
  instructionId: Type.Optional(Id),
  participantId: Id,
  railType: Id,
  payload: JsonObjectShape,
  notBefore: Type.Optional(Type.String({ description: 'earliest time of dispatch: RFC 3339 with offset' })),
  ordered: Type.Optional(
    Type.Boolean({
      description: 'dispatched one at a time, in sequence with the participant’s other ordered payments',
    }),
  ),
  outcomeTopic: Type.Optional({
    ...Id,
    description:
      'topic that receives the outcomes of the payment as messages; default: that of the payment in replaces',
  }),
  replaces: Type.Optional({
    ...Uuid,
    description: 'outbox id of the returned or failed payment that this payment replaces',
  }),
}

/** Body of POST /v1/instructions. The idempotency key is in the header Idempotency-Key. */
export const Instruction = shape(instructionFields)
export type Instruction = Static<typeof Instruction>

/**
 * Batch of up to 1000 items, accepted or refused as a whole. An item needs an instruction id or a key; each defaults to
 * the other.
 */
export const InstructionBatch = shape({
  instructions: Type.Array(shape({ ...instructionFields, idempotencyKey: Type.Optional(Id) }), {
    minItems: 1,
    maxItems: 1_000,
  }),
})
export type InstructionBatch = Static<typeof InstructionBatch>

const acceptedFields = {
  instructionId: Id,
  outboxId: Uuid,
  sequenceId: WholeNumber,
  createdAt: Timestamp,
  state: oneOf(['PENDING', 'DISPATCHED', 'FAILED']),
  created: Type.Boolean({ description: 'false: the same payment was accepted before; this is its current state' }),
}

/** Warnings for the sender. The payments are committed despite them. */
const Warnings = Type.Optional(
  Type.Array(
    shape({
      code: oneOf(['RAIL_NOT_SERVED']),
      message: Type.String({ description: 'cause and remedy, for people' }),
    }),
    { description: 'absent if there is none; RAIL_NOT_SERVED: no worker has served the rail within a day' },
  ),
)

export const Accepted = shape({ ...acceptedFields, warnings: Warnings })
export type Accepted = Static<typeof Accepted>

/** Accepted items in the order of the request, and one warning per rail that no worker has served within a day. */
export const AcceptedBatch = shape({ items: Type.Array(shape(acceptedFields)), warnings: Warnings })
export type AcceptedBatch = Static<typeof AcceptedBatch>

/** Body of POST /v1/instructions/propose. */
export const ProposedInstruction = shape({
  instructionId: instructionFields.instructionId,
  participantId: Id,
  railType: Id,
  payload: JsonObjectShape,
  replaces: instructionFields.replaces,
  outcomeTopic: instructionFields.outcomeTopic,
  reason: Type.String({ minLength: 1, maxLength: 1_000, description: 'why the payment is needed, for the approver' }),
})
export type ProposedInstruction = Static<typeof ProposedInstruction>

export const ProposedPayment = shape({
  ...acceptedFields,
  proposalId: nullable({ ...Uuid, description: 'open proposal; null if it was decided before' }),
})
export type ProposedPayment = Static<typeof ProposedPayment>

/** All items of one instruction, newest first. */
export const InstructionView = shape({ instructionId: Id, items: Type.Array(InstructionItem) })
export type InstructionView = Static<typeof InstructionView>
