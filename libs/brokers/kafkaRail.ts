import { InvalidArgumentError, requiredText, type JsonObject } from '../core/index.js'
import {
  NotSentError,
  rejectOnAbort,
  type DefaultPayload,
  type Rail,
  type RailAnswer,
  type RailRequest,
} from '../rails/index.js'
import {
  MESSAGE_KEYS,
  messageWriter,
  traceHeaders,
  type BrokerMessageOptions,
  abortedError,
  UnconfirmedError,
} from './brokerMessage.js'
import {
  fieldsOf,
  readAtLeastOnce,
  requireMethods,
  type AtLeastOncePolicy,
  type BrokerDeclaration,
} from './brokerOptions.js'

/** Rail declaration that has `kafka` instead of `dispatch` and `queryStatus`. */
export type KafkaRailOptions<Type extends string = string, Payload extends object = JsonObject> = BrokerDeclaration<
  Type,
  Payload
> &
  AtLeastOncePolicy & { readonly kafka: KafkaOptions<Payload> }

export interface KafkaOptions<Payload extends object = JsonObject> extends BrokerMessageOptions<Payload> {
  /**
   * Connected `kafka.producer({ idempotent: true })` of `kafkajs`. The rail does not close it; use `close` for that.
   */
  readonly producer: KafkaProducer
  readonly topic: string
  /** Returns the key of a message. Kafka keeps messages with the same key in order. @default the participant */
  readonly key?: (request: RailRequest<Payload>) => string
}

export interface KafkaProducer {
  send(record: KafkaRecord): Promise<readonly KafkaRecordMetadata[]>
}

export interface KafkaRecord {
  topic: string
  /** -1: all in-sync replicas. */
  acks: -1
  messages: { key: string; value: string; headers: Record<string, string> }[]
}

export interface KafkaRecordMetadata {
  readonly errorCode: number
}

/**
 * Publishes to Kafka, with the participant as key and the outbox id in the header `outbox-id`. All in-sync replicas
 * must acknowledge the record.
 *
 * An idempotent producer recognises only its own copies within one session. A payment that another process resends is a
 * new record, so consumers must deduplicate by the header. `consumersDeduplicate` declares that they do.
 *
 * Every error of the client means an unknown outcome. The client retries and reports only the last failure, so an
 * earlier try may have written the record even after a refused connection.
 */
export function kafkaRail<
  const Type extends string,
  const Money extends boolean = true,
  Payload extends object = DefaultPayload<Money>,
>(options: KafkaRailOptions<Type, Payload> & { readonly money?: Money }): Rail<Type, Payload> {
  const given = options.kafka
  const field = fieldsOf(options.type, 'kafka', given, KEYS)
  requireMethods(field('producer'), given.producer, ['send'])
  const topic = requiredText(field('topic'), given.topic, TOPIC_LENGTH_MAX)
  if (!TOPIC.test(topic)) throw new InvalidArgumentError(field('topic'), 'expected letters, digits, ".", "_" and "-"')
  if (given.key !== undefined && typeof given.key !== 'function') {
    throw new InvalidArgumentError(field('key'), `expected a function, got ${typeof given.key}`)
  }
  const write = messageWriter(field, given)
  const keyOf = given.key ?? participantOf
  const { producer } = given
  const { kafka: _, ...declaration } = readAtLeastOnce(options)
  return {
    ...declaration,
    dispatch: (request, { signal }) => {
      const value = write(request, signal)
      const headers = { ...traceHeaders(request), [OUTBOX_ID_HEADER]: request.reference }
      const messages = [{ key: makeKey(keyOf, request), value, headers }]
      const answer = producer.send({ topic, acks: -1, messages }).then(
        (records) => answerOf(records, request),
        (error: unknown) => {
          throw new UnconfirmedError('Kafka has not confirmed the message', { cause: error })
        },
      )
      return rejectOnAbort(answer, signal, abortedError)
    },
  }
}

/** Header with the outbox id, for consumers. */
export const OUTBOX_ID_HEADER = 'outbox-id'

const KEYS: readonly (keyof KafkaOptions)[] = ['producer', 'topic', 'key', ...MESSAGE_KEYS]
const TOPIC_LENGTH_MAX = 249
const TOPIC = /^(?!\.{1,2}$)[A-Za-z0-9._-]+$/

function participantOf({ participantId }: RailRequest<object>): string {
  return participantId
}

function makeKey<Payload extends object>(
  keyOf: (request: RailRequest<Payload>) => unknown,
  request: RailRequest<Payload>,
): string {
  let key: unknown
  try {
    key = keyOf(request)
  } catch (error) {
    throw new NotSentError('the key could not be created', { cause: error })
  }
  if (typeof key !== 'string') throw new NotSentError(`the key could not be created: expected text, got ${typeof key}`)
  return key
}

/** Returns success if the record was written. Any other result is an unknown outcome. */
function answerOf(records: readonly KafkaRecordMetadata[], { reference }: RailRequest<object>): RailAnswer {
  if (records.length === 1 && records[0]?.errorCode === 0) return { outcome: 'success', reference }
  throw new UnconfirmedError('Kafka has not confirmed the message')
}
