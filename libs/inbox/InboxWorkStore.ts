import type { Database, Queryable } from '../db/index.js'
import {
  abandonInboxMessages,
  ackInboxMessages,
  claimInboxBatch,
  failInboxMessages,
  nextInboxEvent,
  purgeInboxMessages,
  reviveInboxMessage,
} from './db.js'
import type {
  AbandonedMessage,
  InboxClaim,
  ClaimFailure,
  ClaimRetry,
  InboxClaimRef,
  InboxKey,
  NextInboxEvent,
} from './types.js'

export interface InboxClaimOptions {
  readonly batchSize: number
  readonly leaseSeconds: number
  /** The attempt that is the last. @default 20 */
  readonly attemptsMax?: number
}

export interface InboxRetentionOptions {
  /** How long a message that is done is remembered: after that, its duplicate is a new message. */
  readonly keepSeconds: number
  readonly batchSize: number
}

/**
 * The inbox as a worker sees it. `ack`, `abandon` and `fail` return the keys that they changed: those whose live claim was
 * shown. Foreign, unknown, repeated and empty ones are not among them.
 */
export class InboxWorkStore {
  readonly workerId: string
  readonly #executor: Queryable
  readonly #control: Queryable

  constructor(database: Pick<Database, 'as'>, workerId: string) {
    this.workerId = workerId
    this.#executor = database.as('symphony_executor')
    this.#control = database.as('symphony_control')
  }

  claim({ batchSize, leaseSeconds, attemptsMax }: InboxClaimOptions): Promise<InboxClaim[]> {
    return claimInboxBatch(this.#executor, batchSize, this.workerId, leaseSeconds, attemptsMax)
  }

  ack(claims: readonly InboxClaimRef[]): Promise<InboxKey[]> {
    return ackInboxMessages(this.#executor, claims, this.workerId)
  }

  /** Due again later, or dead if that was the last attempt. */
  abandon(claims: readonly (InboxClaimRef & ClaimRetry)[]): Promise<AbandonedMessage[]> {
    return abandonInboxMessages(this.#executor, claims, this.workerId)
  }

  /** Dead at once. */
  fail(claims: readonly (InboxClaimRef & ClaimFailure)[]): Promise<InboxKey[]> {
    return failInboxMessages(this.#executor, claims, this.workerId)
  }

  /** An operator's action, in the role of operators: who acts is the login. Returns the id of the event. */
  revive(key: InboxKey, reason: string): Promise<string> {
    return reviveInboxMessage(this.#control, key, reason)
  }

  nextEvent(): Promise<NextInboxEvent | null> {
    return nextInboxEvent(this.#executor)
  }

  /** One batch of retention; returns how many were forgotten. Less than the batch: there are no more. */
  purge({ keepSeconds, batchSize }: InboxRetentionOptions): Promise<number> {
    return purgeInboxMessages(this.#executor, keepSeconds, batchSize)
  }
}
