import { createWorkerId, requiredId } from '../core/index.js'
import type { Database, Queryable } from '../db/index.js'
import {
  abandonInboxMessages,
  ackInboxMessages,
  claimInboxBatch,
  enqueueInboxMessage,
  enqueueInboxMessages,
  failInboxMessages,
  markInboxDead,
  markInboxProcessed,
  markInboxProcessing,
  purgeInboxMessages,
  recordInboxSighting,
  reviveInboxMessage,
} from './db.js'
import { InboxContentDiffersError } from './errors.js'
import type {
  AbandonedMessage,
  ClaimFailure,
  ClaimRetry,
  InboxClaim,
  InboxClaimRef,
  InboxKey,
  InboxMessage,
  MessageContent,
  ReceivedMessage,
} from './types.js'

export interface InboxOptions {
  /** Name of this worker in its claims. @default host, pid and a UUID */
  readonly workerId?: string
}

export interface InboxClaimOptions {
  readonly batchSize: number
  /** @default 60 */
  readonly leaseSeconds?: number
  /** The attempt that is the last. @default 20 */
  readonly attemptsMax?: number
}

export interface InboxRetentionOptions {
  /** Retention of messages that are done. A duplicate that arrives later is a new message. */
  readonly keepSeconds: number
  readonly batchSize: number
}

/**
 * The inbox of one database, each verb in the role that may call it. `enqueue` stores a message for the workers, which `claim` it.
 * An application that handles messages itself records them by `alreadyProcessed`, `markProcessing`, then `markProcessed` or
 * `markDead`.
 *
 * A key stands for one content for as long as the message is kept. To commit a mark together with its work, call the function of
 * the same name in `db.ts` in the transaction of that work.
 *
 * `ack`, `abandon` and `fail` return the keys that they changed: those with a live claim of this worker. They ignore foreign,
 * unknown, repeated and empty keys.
 */
export class Inbox {
  readonly workerId: string
  readonly #ingest: Queryable
  readonly #executor: Queryable
  readonly #control: Queryable

  constructor(database: Pick<Database, 'as'>, options: InboxOptions = {}) {
    this.workerId = options.workerId === undefined ? createWorkerId() : requiredId('workerId', options.workerId)
    this.#ingest = database.as('symphony_ingest')
    this.#executor = database.as('symphony_executor')
    this.#control = database.as('symphony_control')
  }

  /** Committed when it returns. `contentDiffers` in the result: the message is known, and this is not what it said. */
  enqueue(message: InboxMessage): Promise<ReceivedMessage> {
    return enqueueInboxMessage(this.#ingest, message)
  }

  /** Up to 1000, in one transaction; answers come in the order given. */
  enqueueMany(messages: readonly InboxMessage[]): Promise<ReceivedMessage[]> {
    return enqueueInboxMessages(this.#ingest, messages)
  }

  /**
   * Whether the message was handled. Counts a sighting, and remembers a message that is new. Given its content, it is
   * compared with what came first under this key: another one is an `InboxContentDiffersError`.
   */
  async alreadyProcessed(key: InboxKey, content?: MessageContent): Promise<boolean> {
    const { state, contentDiffers } = await recordInboxSighting(this.#executor, key, content)
    if (contentDiffers) throw new InboxContentDiffersError(key)
    return state === 'done'
  }

  /** Again after a crash, it counts another attempt. */
  markProcessing(key: InboxKey): Promise<void> {
    return markInboxProcessing(this.#executor, key)
  }

  markProcessed(key: InboxKey): Promise<void> {
    return markInboxProcessed(this.#executor, key)
  }

  markDead(key: InboxKey, error: string): Promise<void> {
    return markInboxDead(this.#executor, key, error)
  }
  /** Leases due messages to this worker, at most `batchSize`. */
  claim({ batchSize, leaseSeconds = LEASE_SECONDS_DEFAULT, attemptsMax }: InboxClaimOptions): Promise<InboxClaim[]> {
    return claimInboxBatch(this.#executor, batchSize, this.workerId, leaseSeconds, attemptsMax)
  }

  ack(claims: readonly InboxClaimRef[]): Promise<InboxKey[]> {
    return ackInboxMessages(this.#executor, claims, this.workerId)
  }

  /** Makes messages due again later, or dead after their last attempt. */
  abandon(claims: readonly (InboxClaimRef & ClaimRetry)[]): Promise<AbandonedMessage[]> {
    return abandonInboxMessages(this.#executor, claims, this.workerId)
  }

  /** Makes messages dead at once. */
  fail(claims: readonly (InboxClaimRef & ClaimFailure)[]): Promise<InboxKey[]> {
    return failInboxMessages(this.#executor, claims, this.workerId)
  }

  /** Makes a dead message due again, as an operator: the actor is the login. Returns the id of the event. */
  revive(key: InboxKey, reason: string): Promise<string> {
    return reviveInboxMessage(this.#control, key, reason)
  }

  /** Deletes one batch of messages past their retention. Returns their number: less than `batchSize` means that none is left. */
  purge({ keepSeconds, batchSize }: InboxRetentionOptions): Promise<number> {
    return purgeInboxMessages(this.#executor, keepSeconds, batchSize)
  }
}

const LEASE_SECONDS_DEFAULT = 60
