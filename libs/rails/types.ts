import type { JsonObject, JsonValue } from '../core/index.js'
import type { FieldClasses } from './fields/fieldRules.js'

/**
 * Policy for an unknown outcome: the call may have reached the rail, and no definitive answer exists. There is no
 * default, because only the author of the adapter knows the safe policy, and a wrong one pays twice.
 *
 * - `resend`: the rail is idempotent under our reference; sending again is safe.
 * - `inquire`: the relayer asks the rail (`queryStatus`) before it sends again.
 * - `hold`: neither is possible; an operator decides.
 */
export type UnknownPolicy = 'resend' | 'inquire' | 'hold'

/**
 * Rail as a producer knows it: its name and its payloads. A `Rail` is also a contract. Keep the contract in a module
 * that both producer and worker import.
 */
export interface RailContract {
  readonly type: string
  /**
   * Schema of the payload. The type omits the schema's `types`. With them, TypeScript would infer the payload type
   * `object` for a rail that is defined inside `rails: […]`.
   */
  readonly payload?: { readonly '~standard': Omit<StandardSchema['~standard'], 'types'> } | undefined
  readonly money?: boolean | undefined
  readonly destination?: DestinationKind | DestinationValidator | undefined
  readonly fields?: FieldClasses | undefined
  readonly subject?: string | undefined
  /**
   * Function `accountOf` of a rail. Typed `unknown` to keep it out of the inference of the payload type, as at
   * `payload`.
   */
  readonly accountOf?: unknown
  readonly settlementDays?: number | undefined
}

/** Payload of a rail that moves money and has no schema. */
export interface PaymentPayload {
  /** Decimal text, such as `12.50`. A number would lose digits. */
  readonly amount: string
  readonly currency: string
  readonly destination: string
  readonly [key: string]: JsonValue
}

/** Payload of a rail without a schema. */
export type DefaultPayload<Money extends boolean> = Money extends false ? JsonObject : PaymentPayload

/**
 * Payload type of a rail: the type of its adapter's requests, else of its schema, else the default with or without
 * money.
 */
export type PayloadOf<Contract extends RailContract> = string extends Contract['type']
  ? JsonObject
  : Contract extends { dispatch(request: RailRequest<infer Payload>, ...rest: never): unknown }
    ? Payload
    : Contract extends { readonly payload: StandardSchema<infer Payload> }
      ? Payload
      : Contract extends { readonly money: false }
        ? JsonObject
        : PaymentPayload

/** Rail with its adapter: a plain object. `onUnknown: 'inquire'` requires `queryStatus`. */
export type Rail<Type extends string = string, Payload extends object = JsonObject> = RailDeclaration<Type, Payload> &
  (
    | { readonly onUnknown: Exclude<UnknownPolicy, 'inquire'> }
    | { queryStatus(request: RailRequest<Payload>, context: RailContext): RailStatus | Promise<RailStatus> }
  )

/** Every field of a rail, without the rule that `inquire` requires `queryStatus`. */
export interface RailDeclaration<Type extends string = string, Payload extends object = JsonObject> {
  /** Name that instructions give as `railType`. Printable ASCII without spaces, at most 128 characters. */
  readonly type: Type
  readonly onUnknown: UnknownPolicy
  /**
   * Sends the payment under `request.reference`, and returns the rail's answer. A throw means *unknown*; throw
   * `NotSentError` if it is certain that nothing was sent. `signal` aborts at the timeout, at the end of the lease or
   * at the stop of the worker: stop then, because no caller waits for the answer.
   */
  dispatch(request: RailRequest<Payload>, context: RailContext): RailAnswer | Promise<RailAnswer>
  /** Asks for the outcome of `request.reference`. Required if `onUnknown` is `inquire`. */
  queryStatus?(request: RailRequest<Payload>, context: RailContext): RailStatus | Promise<RailStatus>
  /**
   * Schema that checks the payload before each dispatch. The schema cannot change the payload: the rail receives it as
   * committed.
   */
  readonly payload?: StandardSchema<Payload>
  /**
   * Whether the rail moves money. False for message topics: amount, currency and destination are not checked. @default
   * true
   */
  readonly money?: boolean
  /**
   * Kind of `payload.destination`. @default text that starts with `+` must be a phone number, text that looks like an
   * IBAN must be one, and other text must be an account
   */
  readonly destination?: DestinationKind | DestinationValidator
  /** Maximum wait for one answer. A lease must outlast it by more than 2 s. @default RAIL_TIMEOUT_MS, 30000 */
  readonly timeoutMs?: number
  /**
   * Time after the end of a lease during which one of its requests may still arrive at the rail. Only after this time
   * does "absent" mean that nothing was paid. At least `timeoutMs`. @default timeoutMs
   */
  readonly settleMs?: number
  /** Maximum number of concurrent calls of this rail, per process. @default the worker's own limit */
  readonly concurrency?: number
  /** Maximum number of calls of this rail started per second, per process. @default unlimited */
  readonly rate?: { readonly perSecond: number }
  /**
   * Every code of the rail, with its outcome. An answer that contradicts the table, or a code that the table does not
   * list, is unknown. @default none: the answer's own outcome counts
   */
  readonly codes?: RailCodes
  /**
   * Classes of payload fields by JSON pointer: `{ '/destination': 'encrypted', '/memo': 'forbidden' }`. A star stands
   * for every element of a list or member of an object. A field without a class is public. @default {}
   */
  readonly fields?: FieldClasses
  /**
   * JSON pointer to the subject of the data, such as `/customerId`. Each subject has its own key for encrypted fields;
   * they are unreadable after the key is destroyed. @default the participant
   */
  readonly subject?: string
  /**
   * Lists the payments and reversals of the rail, from `from` until before `to`. `symphony reconcile` then needs no
   * statement. `signal` aborts when the caller stops.
   */
  listPayments?(period: { readonly from: Date; readonly to: Date }, context: RailContext): AsyncIterable<RailPayment>
  /**
   * Returns the account that pays a payload, spelt as in statements. The reconciliation of one account then expects
   * only the payments of that account. @default every payment of the rail is expected on every statement
   */
  accountOf?(payload: Payload): string
  /** Days until a statement must show a dispatched payment, from 0 to 60. @default 1 */
  readonly settlementDays?: number
  /** Closes connections. Called once, after the worker has stopped. */
  close?(): void | Promise<void>
}

/** Payment or reversal in the rail's own records. */
export interface RailPayment {
  /** Our reference as the rail shows it: `reference` or `compactReference` of the request. Null if it shows none. */
  readonly reference: string | null
  /** Id of this entry at the rail. The same entry in a later list has the same id. */
  readonly bankReference: string
  /** Decimal text, such as `12.50`. */
  readonly amount: string | null
  readonly currency: string | null
  /** Date as YYYY-MM-DD. */
  readonly bookedOn: string
  /** Account of the rail that paid. @default none */
  readonly account?: string
  /** True if the money came back. @default false */
  readonly reversal?: boolean
  /** Reason of a reversal, such as `AC04`. @default none */
  readonly returnCode?: string
}

export type DestinationKind = 'iban' | 'phone' | 'account'

/** Returns whether the rail can pay to this value of `payload.destination`. */
export type DestinationValidator = (destination: unknown) => boolean | Promise<boolean>

export interface RailRequest<Payload extends object = JsonObject> {
  /** Outbox id, the same on every attempt. A rail with `resend` must be idempotent under it. */
  readonly reference: string
  /** `reference` as 32 hexadecimal digits, for fields that hold fewer than 36 characters, such as `EndToEndId`. */
  readonly compactReference: string
  readonly instructionId: string
  readonly participantId: string
  /** Sequence number in the participant's stream. A bigint: write it to JSON as a string. */
  readonly sequenceId: bigint
  readonly idempotencyKey: string
  /**
   * Number of the attempt, from 1. For logs only: do not send it, because a rail may take a request with other content
   * for another payment.
   */
  readonly attempt: number
  readonly payload: Payload
  /** End of the lease of this call. If the rail can, it should refuse the request after this time. */
  readonly notAfter: Date
  /** W3C Trace Context: the span of this attempt, or without a tracer the context of the instruction. */
  readonly traceparent?: string
  /** W3C tracestate: at most 512 printable characters, and only with a traceparent. */
  readonly tracestate?: string
}

export interface RailContext {
  /** Signal that aborts at the rail's timeout, at the end of the lease or at the stop of the worker. */
  readonly signal: AbortSignal
}

export type RailOutcome = 'success' | 'terminal' | 'retryable' | 'unknown'

export type RailAnswer =
  /** Paid, or certain to be paid. `reference` is the rail's own id of the payment. */
  | { readonly outcome: 'success'; readonly reference: string; readonly code?: string }
  | {
      /**
       * `terminal`: the rail refused and would refuse again. `retryable`: the rail certainly did not pay this time.
       * `unknown`: the rail may have paid.
       */
      readonly outcome: 'terminal' | 'retryable' | 'unknown'
      readonly code: string
      readonly message?: string
      readonly retryAfterMs?: number
    }

/** Answer of a rail to an inquiry about a reference. */
export type RailStatus =
  | { readonly outcome: 'success'; readonly reference: string; readonly code?: string }
  /** Refused: nothing will be paid under this reference. */
  | { readonly outcome: 'terminal'; readonly code?: string; readonly message?: string }
  /** The rail has never seen this reference. If the request may still arrive, answer `unknown`. */
  | { readonly outcome: 'absent'; readonly code?: string; readonly message?: string }
  | {
      readonly outcome: 'unknown'
      readonly code?: string
      readonly message?: string
      readonly retryAfterMs?: number
    }

export type RailCodes = Readonly<Record<string, RailOutcome | 'absent'>>

/** Schemas of message payloads by topic. */
export type TopicContracts = Readonly<Record<string, StandardSchema>>

/** Payload that the schema of a topic accepts. */
export type TopicPayload<Schema> =
  Schema extends StandardSchema<infer Payload> ? (Payload extends object ? Payload : never) : JsonObject

/** Topic with a payload that its schema accepts. Without contracts: any topic, any JSON object. */
export type TopicWithPayload<Topics extends TopicContracts> = string extends keyof Topics
  ? {
      /**
       * Topic, which selects the handler. It is stored as the item's rail type, but a payment rail of the same name
       * does not get the message.
       */
      readonly topic: string
      readonly payload: JsonObject
    }
  : {
      [Topic in keyof Topics & string]: { readonly topic: Topic; readonly payload: TopicPayload<Topics[Topic]> }
    }[keyof Topics & string]

/**
 * Part of Standard Schema (version 1) that Symphony reads. zod, valibot, arktype and others implement it, so a rail can
 * use any of them, and Symphony depends on none.
 */
export interface StandardSchema<Input = unknown> {
  readonly '~standard': {
    readonly version: 1
    readonly vendor: string
    readonly validate: (value: unknown) => StandardResult | Promise<StandardResult>
    /** Type that the schema accepts, for the compiler only. Absent at run time. */
    readonly types?: { readonly input: Input; readonly output: unknown } | undefined
  }
}

export type StandardResult =
  | { readonly value: unknown; readonly issues?: undefined }
  | { readonly issues: readonly StandardIssue[] }

export interface StandardIssue {
  /** Not used, because validators quote the invalid value here. */
  readonly message: string
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined
}

/**
 * Returns the rail unchanged and only adds types. `request.payload` has the type that the `payload` schema accepts.
 * Without a schema it is a `PaymentPayload`, or any JSON object if `money` is false.
 */
export function defineRail<
  const Type extends string,
  const Money extends boolean = true,
  Payload extends object = DefaultPayload<Money>,
>(rail: Rail<Type, Payload> & { readonly money?: Money }): Rail<Type, Payload> {
  return rail
}

/** Returns the default body of a request: the fields that are the same on every attempt. */
export function requestBody(request: RailRequest<object>): object {
  const { reference, instructionId, participantId, sequenceId, idempotencyKey, payload } = request
  return { reference, instructionId, participantId, sequenceId: String(sequenceId), idempotencyKey, payload }
}
