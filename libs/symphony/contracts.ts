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
 * Payload, or an interface with the fields of a payment, which would not be assignable to an index signature. A payload
 * of a schema has no index signature and stays as it is.
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
