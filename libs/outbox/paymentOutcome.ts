import { isObject } from '../core/index.js'
import type { StandardSchema } from '../rails/index.js'

/** Outcome of a payment: the payload of each message to the `outcomeTopic` of its instruction. */
export interface PaymentOutcome {
  readonly instructionId: string
  readonly idempotencyKey: string
  readonly outboxId: string
  /** Outbox id of the item that this one redrives; null for the first item of a payment. */
  readonly redriveOf: string | null
  /** Outbox id of the item that the payment replaces; null if it replaces none. */
  readonly replaces: string | null
  readonly participantId: string
  readonly sequenceId: number
  readonly railType: string
  /** HELD and RELEASED may repeat. RETURNED follows DISPATCHED. */
  readonly state: 'DISPATCHED' | 'FAILED' | 'HELD' | 'RELEASED' | 'RETURNED'
  readonly railReference: string | null
  /** Reason of a failure, such as CANCELLED. */
  readonly errorCode: string | null
  readonly holdReason: string | null
  /** Number of the last attempt; null if there was none. */
  readonly attemptNo: number | null
  /** Time in ISO 8601. */
  readonly occurredAt: string
  /**
   * Number that grows with each outcome of the payment, across redrives. An application may ignore an outcome with a
   * smaller number than one it has handled.
   */
  readonly outcomeNo: number
  /** Money that the bank sent back, in whole or in part. Present only if the state is RETURNED. */
  readonly returned?: { readonly amount: string; readonly currency: string; readonly reference: string }
}

/**
 * Schema of a topic that receives outcomes: `topics: { orders: outcomeSchema }`. The handler of the topic gets a
 * `PaymentOutcome`. The schema accepts further states and fields, so that a worker also handles messages of a newer
 * database.
 */
export const outcomeSchema: StandardSchema<PaymentOutcome> = Object.freeze({
  '~standard': Object.freeze({
    version: 1,
    vendor: 'symphony',
    validate: (value: unknown) =>
      isOutcome(value) ? { value } : { issues: [{ message: 'expected the outcome of a payment' }] },
  }),
})

/** Returns whether Symphony itself sent a message about an outcome: enqueue refuses such ids from others. */
export function isOutcomeMessage({ instructionId }: { readonly instructionId: string }): boolean {
  return instructionId.startsWith(OUTCOME_PREFIX)
}

/** Prefix of the instruction id of outcome messages. The key is the number of the outcome. */
export const OUTCOME_PREFIX = '~outcomes~'

function isOutcome(value: unknown): boolean {
  return (
    isObject(value) &&
    typeof value['outboxId'] === 'string' &&
    typeof value['state'] === 'string' &&
    typeof value['outcomeNo'] === 'number'
  )
}
