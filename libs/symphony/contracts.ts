import type { JsonObject, JsonValue } from '../core/index.js'
import type {
  DestinationKind,
  DestinationValidator,
  FieldClasses,
  RailRequest,
  StandardSchema,
} from '../rails/index.js'
import type { OutboxInstruction, TopicHandler } from '../outbox/index.js'

/**
 * A rail as a producer knows it: its name and the payloads that it takes. A `Rail` of a worker is one, too. Keep the
 * contract in a module that both import.
 */
export interface RailContract {
  readonly type: string
  readonly payload?: StandardSchema | undefined
  readonly money?: boolean | undefined
  readonly destination?: DestinationKind | DestinationValidator | undefined
  readonly fields?: FieldClasses | undefined
  readonly subject?: string | undefined
}

/** Payload of a rail that moves money and has no schema of its own. */
export interface PaymentPayload {
  /** Decimal text, such as `12.50`. A number would lose digits. */
  readonly amount: string
  readonly currency: string
  readonly destination: string
  readonly [key: string]: JsonValue
}

/** The payload that a rail takes: by its adapter, by its schema, else by whether it moves money. */
export type PayloadOf<Contract extends RailContract> = string extends Contract['type']
  ? JsonObject
  : Contract extends { dispatch(request: RailRequest<infer Payload>, ...rest: never): unknown }
    ? Payload
    : Contract extends { readonly payload: StandardSchema<infer Payload> }
      ? Payload
      : Contract extends { readonly money: false }
        ? JsonObject
        : PaymentPayload

/**
 * A payment instruction. Its rails, and the payload of each, come from the Symphony it is given to. Without rails: any name,
 * any JSON object.
 */
export type Instruction<Rails extends readonly RailContract[]> = Omit<
  OutboxInstruction,
  'railType' | 'payload' | 'idempotencyKey'
> & {
  /** @default the instruction id */
  readonly idempotencyKey?: string
} & {
    [Index in keyof Rails]: { readonly railType: Rails[Index]['type']; readonly payload: PayloadOf<Rails[Index]> }
  }[number]

/** Messages by topic: the schema of each payload. */
export type TopicContracts = Readonly<Record<string, StandardSchema>>

/** The payload that the schema of a topic accepts. */
export type TopicPayload<Schema> =
  Schema extends StandardSchema<infer Payload> ? (Payload extends object ? Payload : never) : JsonObject

/** Handlers by topic. With contracts, `payload` has the type of the topic's schema. */
export type TopicHandlersOf<Topics extends TopicContracts> = {
  readonly [Topic in keyof Topics]?: TopicHandler<TopicPayload<Topics[Topic]>>
}
