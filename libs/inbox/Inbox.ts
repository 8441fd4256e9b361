import { createWorkerId, requiredId, requireKnownOptions } from '../core/index.js'
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
  /** Seconds of the claim. @default 60 */
  readonly leaseSeconds?: number
  /** Maximum number of attempts. @default 20 */
  readonly attemptsMax?: number
}

export interface InboxRetentionOptions {
  /** Retention of messages that are done or were only sighted. After it, a duplicate counts as a new message. */
  readonly keepSeconds: number
  readonly batchSize: number
}

/**
 * Inbox of one database. Each method uses the role that it needs. `enqueue` stores a message, which a worker gets by
 * `claim`. An application that handles messages itself calls `alreadyProcessed`, `markProcessing`, then `markProcessed`
 * or `markDead`. To commit such a mark together with other work, call the function in `db.ts` in the transaction of
 * that work.
 *
 * A key belongs to one content as long as the message is kept.
 *
 * `ack`, `abandon` and `fail` return the keys that they changed, those with a live claim of this worker. They ignore
 * repeated, empty and unknown keys, and keys that another worker has claimed.
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

  /**
   * Stores a message and commits. `contentDiffers` in the result means that the message is known with different
   * content.
   */
  enqueue(message: InboxMessage): Promise<ReceivedMessage> {
    return enqueueInboxMessage(this.#ingest, message)
  }

  /** Stores up to 1000 messages in one transaction. Returns the results in the same order. */
  enqueueMany(messages: readonly InboxMessage[]): Promise<ReceivedMessage[]> {
    return enqueueInboxMessages(this.#ingest, messages)
  }

  /**
   * Returns whether the message was handled. Counts a sighting, and stores an unknown message. Throws
   * `InboxContentDiffersError` if `content` is given and differs from the first content of this key.
   */
  async alreadyProcessed(key: InboxKey, content?: MessageContent): Promise<boolean> {
    const { state, contentDiffers } = await recordInboxSighting(this.#executor, key, content)
    if (contentDiffers) throw new InboxContentDiffersError(key)
    return state === 'done'
  }

  /** Marks a message as processing. A repeated call, such as after a crash, counts another attempt. */
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
  async claim(options: InboxClaimOptions): Promise<InboxClaim[]> {
    requireKnownOptions(options, CLAIM_OPTIONS)
    const { batchSize, leaseSeconds = LEASE_SECONDS_DEFAULT, attemptsMax } = options
    return claimInboxBatch(this.#executor, batchSize, this.workerId, leaseSeconds, attemptsMax)
  }

  ack(claims: readonly InboxClaimRef[]): Promise<InboxKey[]> {
    return ackInboxMessages(this.#executor, claims, this.workerId)
  }

  abandon(claims: readonly (InboxClaimRef & ClaimRetry)[]): Promise<AbandonedMessage[]> {
    return abandonInboxMessages(this.#executor, claims, this.workerId)
  }

  fail(claims: readonly (InboxClaimRef & ClaimFailure)[]): Promise<InboxKey[]> {
    return failInboxMessages(this.#executor, claims, this.workerId)
  }

  /** Makes a dead message due again. The actor is the login. Returns the event id. */
  revive(key: InboxKey, reason: string): Promise<string> {
    return reviveInboxMessage(this.#control, key, reason)
  }

  /**
   * Deletes one batch of messages past their retention. Returns their number; fewer than `batchSize` means that none
   * are left.
   */
  purge({ keepSeconds, batchSize }: InboxRetentionOptions): Promise<number> {
    return purgeInboxMessages(this.#executor, keepSeconds, batchSize)
  }
}

const LEASE_SECONDS_DEFAULT = 60
const CLAIM_OPTIONS = Object.keys({
  batchSize: true,
  leaseSeconds: true,
  attemptsMax: true,
} satisfies Record<keyof InboxClaimOptions, true>)
