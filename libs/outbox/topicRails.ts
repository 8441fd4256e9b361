import { InvalidArgumentError, isPermanentFailure, requiredId, type JsonObject } from '../core/index.js'
import type { Tx } from '../db/index.js'
import { guardListener } from '../worker/index.js'
import { isOutcomeMessage, OUTCOME_PREFIX } from './paymentOutcome.js'
import type { Rail, RailAnswer, RailContext, RailRequest, StandardSchema } from '../rails/index.js'

/**
 * Message as its handler receives it. A message may be delivered more than once, with the same id. A handler that
 * writes through `tx` needs no further care: its writes are committed once. Any other handler must be idempotent.
 */
export interface TopicMessage<Payload extends object = JsonObject> {
  readonly messageId: string
  readonly topic: string
  readonly key: string
  readonly payload: Payload
  /** Number of the attempt, from 1. */
  readonly attempt: number
}

/** Context of a topic handler. */
export interface TopicContext extends RailContext {
  /**
   * Transaction that also completes the message, in the application's role. It opens at the first query. Its writes are
   * committed exactly once, or rolled back if the handler throws, is aborted or loses the lease. Effects elsewhere may
   * happen again. Qualify names with their schema: the search path holds only `pg_catalog`.
   */
  readonly tx: Tx
}

/** Handles a message. Returning completes it; a throw leads to another attempt; `PermanentFailureError` fails it. */
export type TopicHandler<Payload extends object = JsonObject> = (
  message: TopicMessage<Payload>,
  context: TopicContext,
) => void | Promise<void>

interface TopicDeclaration<Payload extends object> {
  readonly handle: TopicHandler<Payload>
  /** Schema that checks the payload first. A refused message fails without a call of the handler. */
  readonly payload?: StandardSchema<Payload>
  readonly timeoutMs?: number
  readonly concurrency?: number
  readonly rate?: { readonly perSecond: number }
}

/** Constraint of the type parameter `Payloads`: an interface of payload types by topic. */
type PayloadsByTopic<Payloads> = { readonly [Topic in keyof Payloads]: object }

/** Handlers by topic: a function, or an object with schema and limits. */
export type TopicHandlers<Payloads extends PayloadsByTopic<Payloads>> = {
  readonly [Topic in keyof Payloads]: TopicHandler<Payloads[Topic]> | TopicDeclaration<Payloads[Topic]>
}

export interface TopicOptions {
  /**
   * Topics that this process should serve although it may have no handler, for example after an incomplete deployment.
   * Their messages are retried, and `onMissingHandler` is called for each.
   */
  readonly expected?: {
    readonly topics: readonly string[]
    readonly onMissingHandler: (message: TopicMessage) => void
  }
}

/**
 * Turns handlers by topic into rails for an `OutboxRelayer`. Messages have the same claims, leases, retries, circuit
 * breaker and ledger as payments, without the checks of money. Messages are delivered at least once; writes of a
 * handler through `tx` happen once.
 */
export function topicRails<Payloads extends PayloadsByTopic<Payloads>>(
  handlers: TopicHandlers<Payloads>,
  { expected }: TopicOptions = {},
): Rail[] {
  const rails = Object.entries(handlers).map(([topic, handler]) => railOf(topic, declarationOf(topic, handler)))
  const missing = new Set(expected?.topics.map((topic) => requiredId('expected.topics', topic)))
  for (const { type } of rails) missing.delete(type)
  return [...rails, ...[...missing].map((topic) => unhandled(topic, expected?.onMissingHandler))]
}

function railOf(topic: string, { handle, ...bounds }: TopicDeclaration<JsonObject>): Rail {
  return {
    ...bounds,
    type: requiredId('topic', topic),
    onUnknown: 'resend',
    money: false,
    dispatch: async (request, context) => {
      try {
        await handle(messageOf(topic, request), requireTransaction(context))
        return { outcome: 'success', reference: messageIdOf(request) }
      } catch (error) {
        return refusal(error)
      }
    },
  }
}

/** Returns the context that a relayer passes to a rail without money. */
function requireTransaction(context: RailContext): TopicContext {
  if (!hasTransaction(context)) throw new InvalidArgumentError('context', 'expected the context of a relayer, with tx')
  return context
}

function hasTransaction(context: RailContext): context is TopicContext {
  return 'tx' in context
}

function refusal(error: unknown): RailAnswer {
  const message = error instanceof Error ? error.message : String(error)
  return isPermanentFailure(error)
    ? { outcome: 'terminal', code: 'PERMANENT_FAILURE', message }
    : { outcome: 'retryable', code: 'HANDLER_FAILED', message }
}

/** Creates the rail of a topic without a handler here. Another process, or the next deployment, may have one. */
function unhandled(topic: string, onMissingHandler: ((message: TopicMessage) => void) | undefined): Rail {
  if (typeof onMissingHandler !== 'function') {
    throw new InvalidArgumentError('expected.onMissingHandler', 'expected a function')
  }
  const report = guardListener(onMissingHandler)
  return {
    type: topic,
    onUnknown: 'resend',
    money: false,
    dispatch: (request) => {
      report(messageOf(topic, request))
      const message = `no handler for the topic ${topic}`
      // A retryable answer to the last attempt would be recorded as FAILED. An unknown outcome is held instead, because
      // no handler refused the message.
      if (request.attempt >= ATTEMPTS_MAX) return { outcome: 'unknown', code: 'NO_HANDLER', message }
      const retryAfterMs = Math.min(MINUTE_MS * 2 ** (request.attempt - 1), MISSING_HANDLER_DELAY_MAX_MS)
      return { outcome: 'retryable', code: 'NO_HANDLER', message, retryAfterMs }
    },
  }
}

function messageOf(topic: string, request: RailRequest): TopicMessage {
  const { participantId, payload, attempt } = request
  return { messageId: messageIdOf(request), topic, key: participantId, payload, attempt }
}

/**
 * Returns the id of a message, which its redrives keep. The id of an outcome message is the outbox id of the payment's
 * first item and the number of the outcome.
 */
export function messageIdOf({
  instructionId,
  idempotencyKey,
}: Pick<RailRequest, 'instructionId' | 'idempotencyKey'>): string {
  if (!isOutcomeMessage({ instructionId })) return instructionId
  return `${instructionId.slice(OUTCOME_PREFIX.length)}/${Number.parseInt(idempotencyKey, 10)}`
}

function declarationOf<Payload extends object>(topic: string, handler: unknown): TopicDeclaration<Payload> {
  const declared = typeof handler === 'function' ? { handle: handler } : handler
  if (!isDeclaration<Payload>(declared)) {
    throw new InvalidArgumentError(`handlers.${topic}`, 'expected a function, or an object with handle')
  }
  return declared
}

function isDeclaration<Payload extends object>(value: unknown): value is TopicDeclaration<Payload> {
  return typeof value === 'object' && value !== null && typeof Reflect.get(value, 'handle') === 'function'
}

const MINUTE_MS = 60_000
/** Maximum delay of six hours, so that the 20 attempts last over a weekend. */
const MISSING_HANDLER_DELAY_MAX_MS = 6 * 60 * MINUTE_MS
/** Same as `outbox_attempt_ceiling()` in the database. */
const ATTEMPTS_MAX = 20
