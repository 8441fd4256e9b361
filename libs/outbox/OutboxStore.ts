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
import type { AttemptOutcome, ClaimedItem, EnqueuedItem } from './types.js'

/** A message for the handler of its topic: an outbox item without money in it. */
export type Message<Topics extends TopicContracts = TopicContracts> = TopicWithPayload<Topics> & MessageFields

interface MessageFields {
  /** Names the message for ever: enqueued again, it is the same one. @default a random UUID */
  readonly messageId?: string
  /** Whose stream it belongs to. Messages of one key share a row that numbers them. @default the message id */
  readonly key?: string
  /** Not to be claimed before this time. @default now */
  readonly dueAt?: Date
  /** One at a time, in the order of enqueueing, with the other ordered messages of the key. @default false */
  readonly ordered?: boolean
}

/** Leased message, as `ack`, `abandon` and `fail` need it: its id, and the token that fences its lease. */
export interface MessageLeaseRef {
  readonly id: string
  readonly messageId: string
  readonly leaseToken: string
}

export interface ClaimedMessage extends MessageLeaseRef {
  readonly topic: string
  readonly key: string
  readonly payload: JsonObject
  /** Attempts recorded so far, at most 20. */
  readonly attempts: number
  /** How many leases in a row expired before this one. */
  readonly expiries: number
  readonly leaseExpiresAt: Date
}

export interface ClaimRequest {
  readonly batchSize: number
  /** @default the store's */
  readonly leaseSeconds?: number
  /** @default all topics */
  readonly topics?: readonly string[]
}

export interface OutboxStoreOptions<Topics extends TopicContracts = TopicContracts> {
  /** Schemas by topic: `enqueue` refuses other topics, and payloads that their schema refuses. @default no check */
  readonly topics?: Topics
  /** Names this owner in leases and in the ledger. @default host, pid and a UUID made here */
  readonly owner?: string
  /** How long `claimDue` leases for, and `claim` unless it says otherwise. @default 60 */
  readonly leaseSeconds?: number
}

export interface AbandonOptions {
  /** Kept in the ledger with the attempt. */
  readonly error?: string
  /** When to try again. @default the database's backoff */
  readonly delaySeconds?: number
}

/** What the store needs of a database. */
export interface OutboxStoreDatabase {
  as(role: string): Queryable
}

/**
 * The outbox as a plain message queue: claim, ack, abandon, fail. It uses the rows, functions and ledger of the payment
 * outbox, and sees messages only: no verb enqueues, leases or ends a payment. Each verb returns the ids that it changed. It
 * leaves out ids that another owner holds, that have ended, that do not exist, that are payments, and repeats.
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

  /** Queues a message, in the caller's transaction where one is given. Its topic checks the payload before any I/O. */
  async enqueue(
    given: Message<Topics>,
    { tx }: { readonly tx?: Tx } = {},
  ): Promise<EnqueuedItem & { readonly messageId: string }> {
    requireKnownOptions(given, MESSAGE_FIELDS, 'message.')
    const message: Message = given
    if (this.#topics.size > 0) await requireTopicPayload(this.#topics, message)
    const messageId = message.messageId ?? randomUUID()
    const item = await enqueueMessage(
      {
        instructionId: requiredId('messageId', messageId),
        idempotencyKey: messageId,
        participantId: requiredId('key', message.key ?? messageId),
        railType: requiredId('topic', message.topic),
        payload: message.payload,
        ...(message.dueAt === undefined ? {} : { notBefore: message.dueAt }),
        ...(message.ordered === undefined ? {} : { ordered: message.ordered }),
      },
      { tx: tx ?? this.#ingest() },
    )
    return { ...item, messageId }
  }

  /** Leases ready messages to this owner, first in, first out, at most `batchSize`. Payments are left alone. */
  async claim({ batchSize, leaseSeconds = this.#leaseSeconds, topics }: ClaimRequest): Promise<ClaimedMessage[]> {
    boundedInteger('batchSize', batchSize, BATCH_SIZE)
    boundedInteger('leaseSeconds', leaseSeconds, LEASE_SECONDS)
    const filter = { isMessage: true, ...(topics === undefined ? {} : { rails: topics }) }
    return (await claimOutboxBatch(this.#executor, batchSize, this.owner, leaseSeconds, filter)).map(toMessage)
  }

  /** Leases due messages of any topic, by the database's clock, for the store's own lease length. */
  async claimDue(batchSize: number): Promise<ClaimedMessage[]> {
    return this.claim({ batchSize })
  }

  /** Done: the message ends as DISPATCHED, with its own id as the reference. */
  async ack(messages: readonly MessageLeaseRef[]): Promise<string[]> {
    return this.#complete(messages, ({ id, leaseToken, messageId }) => ({
      outboxId: id,
      leaseToken,
      state: 'DISPATCHED',
      railReference: messageId,
    }))
  }

  /** Not done this time: back to the queue, to be tried again later. The twentieth time it fails. */
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

  /** Will never be done: the message ends as FAILED, with the error kept. */
  async fail(messages: readonly MessageLeaseRef[], error: string): Promise<string[]> {
    if (typeof error !== 'string' || error.trim() === '') {
      throw new InvalidArgumentError('error', 'expected text that says why, for whoever reads the ledger')
    }
    // A message may be handled twice, so its handler's refusal speaks for every attempt before.
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
    // What is no id at all belongs to nobody: as quietly not changed as an id that nobody has.
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
    messageId: item.instructionId,
    topic: item.railType,
    key: item.participantId,
    payload: item.payload,
    attempts: item.attemptCount,
    expiries: item.expiryStreak,
    leaseToken: item.leaseToken,
    // A date of its own: the items of one claim share theirs.
    leaseExpiresAt: new Date(item.leaseExpiresAt),
  }
}

const LEASE_SECONDS_DEFAULT = 60
const MESSAGE_FIELDS = Object.keys({
  topic: true,
  payload: true,
  messageId: true,
  key: true,
  dueAt: true,
  ordered: true,
} satisfies Record<keyof Message, true>)
