import { randomUUID } from 'node:crypto'
import {
  BATCH_SIZE,
  boundedInteger,
  createWorkerId,
  InvalidArgumentError,
  isUuid,
  LEASE_SECONDS,
  requiredId,
  requireKnownOptions,
  type JsonObject,
} from '../core/index.js'
import type { Queryable, Tx } from '../db/index.js'
import {
  loadTopics,
  requireTopicPayload,
  type KnownContracts,
  type TopicContracts,
  type TopicWithPayload,
} from '../rails/index.js'
import { claimOutboxBatch, completeOutboxAttempts } from './db.js'
import { enqueueMessage } from './enqueue.js'
import { messageIdOf } from './topicRails.js'
import type { AttemptOutcome, ClaimedItem, EnqueuedItem } from './types.js'

/** Message for the handler of its topic: an outbox item without money. */
export type Message<Topics extends TopicContracts = TopicContracts> = TopicWithPayload<Topics> & MessageFields

interface MessageFields {
  /** Permanent id of the message. A second enqueue with the same id adds no second message. @default a random UUID */
  readonly messageId?: string
  /** Id of the stream. Messages of one key share a sequence row. @default the message id */
  readonly key?: string
  /** Earliest time of a claim. @default now */
  readonly dueAt?: Date
  /** Whether the message waits for earlier ordered messages of its key. @default false */
  readonly ordered?: boolean
}

/** Reference to a leased message, for `ack`, `abandon` and `fail`: its ids and the token of its lease. */
export interface MessageLeaseRef {
  readonly id: string
  readonly messageId: string
  readonly leaseToken: string
}

export interface ClaimedMessage extends MessageLeaseRef {
  readonly topic: string
  readonly key: string
  readonly payload: JsonObject
  /** Number of attempts recorded so far, at most 20. */
  readonly attempts: number
  /** Number of consecutive leases that expired before this one. */
  readonly expiries: number
  readonly leaseExpiresAt: Date
}

export interface ClaimRequest {
  readonly batchSize: number
  /** Seconds of the lease. @default the store's `leaseSeconds` */
  readonly leaseSeconds?: number
  /** Topics to claim. @default all topics */
  readonly topics?: readonly string[]
}

export interface OutboxStoreOptions<Topics extends TopicContracts = TopicContracts> {
  /** Schemas by topic. `enqueue` refuses other topics and payloads that do not match their schema. @default no check */
  readonly topics?: Topics
  /** Name of this owner in leases and in the ledger. @default host, pid and a UUID made here */
  readonly owner?: string
  /** Seconds of a lease, unless a `claim` sets its own. @default 60 */
  readonly leaseSeconds?: number
}

export interface AbandonOptions {
  readonly error?: string
  /** Seconds until the next attempt. @default the database's backoff */
  readonly delaySeconds?: number
}

export interface OutboxStoreDatabase {
  as(role: string): Queryable
}

/**
 * Uses the outbox as a plain message queue: claim, ack, abandon, fail. It shares the rows, functions and ledger of the
 * payment outbox, but never enqueues, leases or completes a payment. `ack`, `abandon` and `fail` return the ids that
 * they changed. They skip terminal messages, messages whose lease is lost, messages of another owner, unknown or
 * repeated ids, and payments.
 */
export class OutboxStore<const Topics extends TopicContracts = TopicContracts> {
  readonly owner: string
  readonly #executor: Queryable
  readonly #ingest: () => Queryable
  readonly #leaseSeconds: number
  readonly #topics: KnownContracts

  constructor(database: OutboxStoreDatabase, options: OutboxStoreOptions<Topics> = {}) {
    this.owner = options.owner === undefined ? createWorkerId() : requiredId('owner', options.owner)
    this.#leaseSeconds = boundedInteger('leaseSeconds', options.leaseSeconds ?? LEASE_SECONDS_DEFAULT, LEASE_SECONDS)
    this.#topics = loadTopics(options.topics ?? {})
    this.#executor = database.as('symphony_executor')
    this.#ingest = () => database.as('symphony_ingest')
  }

  /**
   * Enqueues a message, in the caller's transaction if one is given. Checks the payload by its topic's schema before
   * any I/O.
   */
  async enqueue(
    given: Message<Topics>,
    options: { readonly tx?: Tx } = {},
  ): Promise<EnqueuedItem & { readonly messageId: string }> {
    requireKnownOptions(options, ['tx'], 'options.')
    const { tx = this.#ingest() } = options
    requireKnownOptions(given, MESSAGE_FIELDS, 'message.')
    const message: Message = given
    const checking = requireTopicPayload(this.#topics, message)
    if (checking !== undefined) await checking
    const { messageId = randomUUID(), key = messageId } = message
    const { schema } = this.#executor
    const item = await enqueueMessage(
      {
        instructionId: requiredId('messageId', messageId),
        idempotencyKey: messageId,
        participantId: requiredId('key', key),
        railType: requiredId('topic', message.topic),
        payload: message.payload,
        ...(message.dueAt === undefined ? {} : { notBefore: message.dueAt }),
        ...(message.ordered === undefined ? {} : { ordered: message.ordered }),
      },
      { tx, ...(schema === undefined ? {} : { schema }) },
    )
    return { ...item, messageId }
  }

  /** Leases ready messages to this owner, first in, first out, at most `batchSize`. Never leases payments. */
  async claim(request: ClaimRequest): Promise<ClaimedMessage[]> {
    requireKnownOptions(request, CLAIM_OPTIONS)
    const { batchSize, leaseSeconds = this.#leaseSeconds, topics } = request
    boundedInteger('batchSize', batchSize, BATCH_SIZE)
    boundedInteger('leaseSeconds', leaseSeconds, LEASE_SECONDS)
    const filter = { isMessage: true, ...(topics === undefined ? {} : { rails: topics }) }
    return (await claimOutboxBatch(this.#executor, batchSize, this.owner, leaseSeconds, filter)).map(toMessage)
  }

  /** Leases due messages of any topic for the store's `leaseSeconds`. */
  async claimDue(batchSize: number): Promise<ClaimedMessage[]> {
    return this.claim({ batchSize })
  }

  /** Completes the messages as DISPATCHED, with their message ids as the reference. */
  async ack(messages: readonly MessageLeaseRef[]): Promise<string[]> {
    return this.#complete(messages, ({ id, leaseToken, messageId }) => ({
      outboxId: id,
      leaseToken,
      state: 'DISPATCHED',
      railReference: messageId,
    }))
  }

  /** Returns the messages to the queue for a later attempt. The twentieth attempt ends as FAILED. */
  async abandon(messages: readonly MessageLeaseRef[], options: AbandonOptions = {}): Promise<string[]> {
    return this.#complete(messages, ({ id, leaseToken }) => ({
      outboxId: id,
      leaseToken,
      state: 'RETRYABLE',
      errorCode: 'ABANDONED',
      errorMessage: options.error ?? null,
      retryDelaySeconds: options.delaySeconds ?? null,
    }))
  }

  /** Completes the messages as FAILED and keeps the error. */
  async fail(messages: readonly MessageLeaseRef[], error: string): Promise<string[]> {
    if (typeof error !== 'string' || error.trim() === '') {
      throw new InvalidArgumentError('error', 'expected the reason of the failure as text')
    }
    // `outcomeUnknown` is false even after attempts with an unknown outcome: topics have the policy `resend`, so a
    // refusal by the handler settles those attempts too.
    return this.#complete(messages, ({ id, leaseToken }) => ({
      outboxId: id,
      leaseToken,
      state: 'FAILED',
      errorCode: 'FAILED',
      errorMessage: error,
      outcomeUnknown: false,
    }))
  }

  async #complete(
    messages: readonly MessageLeaseRef[],
    outcomeOf: (message: MessageLeaseRef) => AttemptOutcome,
  ): Promise<string[]> {
    // Skips malformed ids, as the database skips ids that do not exist.
    const known = messages.filter(({ id, leaseToken }) => isUuid(id) && isUuid(leaseToken))
    const changed: string[] = []
    for (let start = 0; start < known.length; start += BATCH_SIZE.max) {
      const outcomes = known.slice(start, start + BATCH_SIZE.max).map(outcomeOf)
      const verdicts = await completeOutboxAttempts(this.#executor, this.owner, outcomes, { isMessage: true })
      changed.push(...verdicts.filter(({ verdict }) => verdict === 'RECORDED').map(({ outboxId }) => outboxId))
    }
    return changed
  }
}

function toMessage(item: ClaimedItem): ClaimedMessage {
  return {
    id: item.outboxId,
    messageId: messageIdOf(item),
    topic: item.railType,
    key: item.participantId,
    payload: item.payload,
    attempts: item.attemptCount,
    expiries: item.expiryStreak,
    leaseToken: item.leaseToken,
    // Copies the date, because the items of one claim share theirs.
    leaseExpiresAt: new Date(item.leaseExpiresAt),
  }
}

const LEASE_SECONDS_DEFAULT = 60
const CLAIM_OPTIONS = Object.keys({
  batchSize: true,
  leaseSeconds: true,
  topics: true,
} satisfies Record<keyof ClaimRequest, true>)
const MESSAGE_FIELDS = Object.keys({
  topic: true,
  payload: true,
  messageId: true,
  key: true,
  dueAt: true,
  ordered: true,
} satisfies Record<keyof Message, true>)
