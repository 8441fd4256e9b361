import type { OutboxInstruction, TopicHandler } from '../outbox/index.js'
import type { PaymentPayload, PayloadOf, RailContract, TopicContracts, TopicPayload } from '../rails/index.js'

/**
 * Payment instruction. The Symphony's rails define `railType` and `payload`. Without rails: any name, any JSON object.
 */
export type Instruction<Rails extends readonly RailContract[]> = Omit<
  OutboxInstruction,
  'railType' | 'payload' | 'idempotencyKey'
> & {
  /** @default the instruction id */
  readonly idempotencyKey?: string
} & {
    [Index in keyof Rails]: {
      readonly railType: Rails[Index]['type']
      readonly payload: OrInterface<PayloadOf<Rails[Index]>>
    }
  }[number]

/**
 * Adds the plain fields of a payment to a payload type with an index signature. Otherwise TypeScript would not accept a
 * value whose type is an interface. A payload type without an index signature stays unchanged.
 */
type OrInterface<Payload> = string extends keyof Payload
  ? PaymentPayload extends Payload
    ? Payload | Pick<PaymentPayload, 'amount' | 'currency' | 'destination'>
    : Payload
  : Payload

/** Handlers by topic. With contracts, `payload` has the type of the topic's schema. */
export type TopicHandlersOf<Topics extends TopicContracts> = {
  readonly [Topic in keyof Topics]?: TopicHandler<TopicPayload<Topics[Topic]>>
}
