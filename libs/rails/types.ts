import type { JsonObject } from '../core/index.js'
import type { FieldClasses } from './fields/fieldRules.js'

/**
 * What to do when a call may have reached the rail and nobody knows what came of it. There is no default: only who
 * wrote the adapter knows, and a wrong guess pays twice.
 *
 * - `resend`: the rail is idempotent under our reference; sending again is safe.
 * - `inquire`: the rail can be asked (`queryStatus`), and is, before anything is sent again.
 * - `hold`: neither; a person decides.
 */
export type UnknownPolicy = 'resend' | 'inquire' | 'hold'

/** A rail, declared. A plain object: nothing to extend, nothing to register. `onUnknown: 'inquire'` requires `queryStatus`. */
export type Rail<Payload extends object = JsonObject> = RailDeclaration<Payload> &
  (
    | { readonly onUnknown: Exclude<UnknownPolicy, 'inquire'> }
    | { queryStatus(request: RailRequest<Payload>, context: RailContext): RailStatus | Promise<RailStatus> }
  )

/** Every field of a rail, whether they fit together or not. */
export interface RailDeclaration<Payload extends object = JsonObject> {
  /** The name that instructions give as `railType`. Printable ASCII without spaces, at most 128 characters. */
  readonly type: string
  readonly onUnknown: UnknownPolicy
  /**
   * Sends the payment, under `request.reference`, and reports what the rail said. A throw means *unknown*; throw
   * `NotSentError` where it is certain that nothing left. `signal` aborts at the timeout: stop then, the answer will no
   * longer be waited for.
   */
  dispatch(request: RailRequest<Payload>, context: RailContext): RailAnswer | Promise<RailAnswer>
  /** Asks what became of `request.reference`. Required where `onUnknown` is `inquire`. */
  queryStatus?(request: RailRequest<Payload>, context: RailContext): RailStatus | Promise<RailStatus>
  /** Checks the payload before each dispatch. The rail receives the payload as it was committed, not a transformed one. */
  readonly payload?: StandardSchema<Payload>
  /** False for topics that carry messages, not money: amount, currency and destination are not checked. @default true */
  readonly money?: boolean
  /**
   * What `payload.destination` must be. @default what starts with `+` must be a phone number, what is shaped like an
   * IBAN must be one, anything else an account
   */
  readonly destination?: DestinationKind | DestinationValidator
  /** Longest wait for one answer. A lease must outlast it by more than 2 s. @default RAIL_TIMEOUT_MS, 30000 */
  readonly timeoutMs?: number
  /**
   * How long after the end of a lease a request of it may still arrive at the rail. Only then does "absent" mean that
   * nothing was paid. At least `timeoutMs`. @default timeoutMs
   */
  readonly settleMs?: number
  /** Most calls of this rail at once, per process. @default the worker's own bound */
  readonly concurrency?: number
  /** Most calls of this rail begun per second, per process. @default unbounded */
  readonly rate?: { readonly perSecond: number }
  /**
   * Every code the rail may answer with, and what it means. Where it is given, it decides: an answer that disagrees
   * with it, or a code that is not in it, is unknown. @default the answer's own outcome stands
   */
  readonly codes?: RailCodes
  /**
   * What the fields of the payload may show, by place: `{ '/destination': 'encrypted', '/memo': 'forbidden' }`. A key that is a
   * star stands for every element of a list or member of an object. What is not named is public. @default {}
   */
  readonly fields?: FieldClasses
  /**
   * Where the payload names whose data it is, such as `/customerId`. Encrypted fields have a key for each subject, and are
   * unreadable once it is destroyed. @default the participant
   */
  readonly subject?: string
  /** Called once when the worker has stopped: close connections here. */
  close?(): void | Promise<void>
}

export type DestinationKind = 'iban' | 'phone' | 'account'

/** True if the rail can pay to this value of `payload.destination`. */
export type DestinationValidator = (destination: unknown) => boolean | Promise<boolean>

/** One payment on its way to the rail. */
export interface RailRequest<Payload extends object = JsonObject> {
  /** The outbox id: the same on every attempt, and what the rail must be idempotent under if it is declared so. */
  readonly reference: string
  readonly instructionId: string
  readonly participantId: string
  /** The place in the participant's stream. A bigint: write it to JSON as a string. */
  readonly sequenceId: bigint
  readonly idempotencyKey: string
  /** 1 for the first. For logs only: what is sent must not depend on it, or a repeat is another request to the rail. */
  readonly attempt: number
  readonly payload: Payload
  /** When the lease behind this call ends. Rails that can should refuse the request after it. */
  readonly notAfter: Date
  /** W3C Trace Context: the span of this attempt, or what was kept with the instruction where nothing traces here. */
  readonly traceparent?: string
  /** At most 512 printable characters, and only beside a traceparent. */
  readonly tracestate?: string
}

export interface RailContext {
  /** Aborts at the rail's timeout, at the end of the lease or when the worker must stop. */
  readonly signal: AbortSignal
}

export type RailOutcome = 'success' | 'terminal' | 'retryable' | 'unknown'

/** What the rail said to a dispatch. */
export type RailAnswer =
  /** Paid, or surely going to be. `reference` is the rail's own, by which it knows the payment. */
  | { readonly outcome: 'success'; readonly reference: string; readonly code?: string }
  | {
      /**
       * `terminal`: refused, and will be refused again. `retryable`: not done this time, and surely not done.
       * `unknown`: it may have been done.
       */
      readonly outcome: 'terminal' | 'retryable' | 'unknown'
      readonly code: string
      readonly message?: string
      readonly retryAfterMs?: number
    }

/** What the rail said to a question about a reference. */
export type RailStatus =
  | { readonly outcome: 'success'; readonly reference: string; readonly code?: string }
  /** It was refused, and nothing will be paid under this reference. */
  | { readonly outcome: 'terminal'; readonly code?: string; readonly message?: string }
  /** The rail has never seen this reference. If it might only not have seen it yet, say `unknown`. */
  | { readonly outcome: 'absent'; readonly code?: string; readonly message?: string }
  | {
      readonly outcome: 'unknown'
      readonly code?: string
      readonly message?: string
      readonly retryAfterMs?: number
    }

export type RailCodes = Readonly<Record<string, RailOutcome | 'absent'>>

/**
 * Part of Standard Schema (version 1) that Symphony reads. zod, valibot, arktype and others implement it, so a rail can use any
 * of them and Symphony depends on none.
 */
export interface StandardSchema<Input = unknown> {
  readonly '~standard': {
    readonly version: 1
    readonly vendor: string
    readonly validate: (value: unknown) => StandardResult | Promise<StandardResult>
    /** Absent at run time. Holds the type that the schema accepts. */
    readonly types?: { readonly input: Input; readonly output: unknown } | undefined
  }
}

export type StandardResult =
  | { readonly value: unknown; readonly issues?: undefined }
  | { readonly issues: readonly StandardIssue[] }

export interface StandardIssue {
  /** Not used: validators quote the offending value here. */
  readonly message: string
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined
}

/** Returns the rail unchanged. Only adds types: `request.payload` has the type that the `payload` schema accepts. */
export function defineRail<Payload extends object = JsonObject>(rail: Rail<Payload>): Rail<Payload> {
  return rail
}

/** Returns the default body of a request: the fields that are the same on every attempt. */
export function requestBody(request: RailRequest<object>): object {
  const { reference, instructionId, participantId, sequenceId, idempotencyKey, payload } = request
  return { reference, instructionId, participantId, sequenceId: String(sequenceId), idempotencyKey, payload }
}
