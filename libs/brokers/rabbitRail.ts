import { InvalidArgumentError, type JsonObject } from '../core/index.js'
import { NotSentError, rejectOnAbort, type DefaultPayload, type Rail, type RailRequest } from '../rails/index.js'
import {
  MESSAGE_KEYS,
  messageWriter,
  traceHeaders,
  type BrokerMessageOptions,
  throwIfAborted,
  abortedError,
} from './brokerMessage.js'
import { fieldsOf, readAtLeastOnce, type AtLeastOncePolicy, type BrokerDeclaration } from './brokerOptions.js'
import { type RabbitConnection, RabbitLink, type RabbitMessage } from './RabbitLink.js'

/** Rail declaration that has `rabbit` instead of `dispatch` and `queryStatus`. The rail closes its connection. */
export type RabbitRailOptions<Type extends string = string, Payload extends object = JsonObject> = Omit<
  BrokerDeclaration<Type, Payload>,
  'close'
> &
  AtLeastOncePolicy & { readonly rabbit: RabbitOptions<Payload> }

export interface RabbitOptions<Payload extends object = JsonObject> extends BrokerMessageOptions<Payload> {
  /**
   * Opens a connection: `() => connect(url)` of `amqplib`, without its `recovery`. Called for the first payment, and
   * again after a lost connection.
   */
  readonly connect: () => Promise<RabbitConnection>
  /** Existing exchange, or an empty text for the default exchange. */
  readonly exchange: string
  /** @default '' */
  readonly routingKey?: string | ((request: RailRequest<Payload>) => string)
}

/**
 * Publishes persistent, mandatory messages to RabbitMQ. A payment is DISPATCHED when the broker has confirmed its
 * message. RabbitMQ keeps every copy. `message-id` is the outbox id on every attempt. Consumers must handle each id
 * once; `consumersDeduplicate` declares that they do.
 */
export function rabbitRail<
  const Type extends string,
  const Money extends boolean = true,
  Payload extends object = DefaultPayload<Money>,
>(options: RabbitRailOptions<Type, Payload> & { readonly money?: Money }): Rail<Type, Payload> {
  const given = options.rabbit
  const field = fieldsOf(options.type, 'rabbit', given, KEYS)
  if (typeof given.connect !== 'function') {
    throw new InvalidArgumentError(field('connect'), 'expected a function that opens a connection')
  }
  const exchange = readName(field('exchange'), given.exchange)
  const routingKeyOf = readRoutingKey(field('routingKey'), given.routingKey ?? '')
  const write = messageWriter(field, given)
  const publisher = new RabbitPublisher(given.connect, exchange)
  const { rabbit: _, ...declaration } = readAtLeastOnce(options)
  return {
    ...declaration,
    dispatch: async (request, { signal }) => {
      const text = write(request, signal)
      const routingKey = routingKeyOf(request)
      await publisher.publish(
        { routingKey, text, messageId: request.reference, headers: traceHeaders(request) },
        signal,
      )
      // RabbitMQ assigns no id to a message, so the rail reference is the outbox id, which consumers see.
      return { outcome: 'success', reference: request.reference }
    },
    close: () => publisher.close(),
  }
}

const KEYS: readonly (keyof RabbitOptions)[] = ['connect', 'exchange', 'routingKey', ...MESSAGE_KEYS]

/** Maximum size of AMQP's short strings. */
const NAME_BYTES_MAX = 255

function readName(field: string, value: unknown): string {
  if (typeof value !== 'string') throw new InvalidArgumentError(field, `expected text, got ${typeof value}`)
  if (Buffer.byteLength(value) > NAME_BYTES_MAX) {
    throw new InvalidArgumentError(field, `expected at most ${NAME_BYTES_MAX} bytes`)
  }
  if (value.includes('\0')) throw new InvalidArgumentError(field, 'expected text without NUL')
  return value
}

function readRoutingKey<Payload extends object>(
  field: string,
  given: string | ((request: RailRequest<Payload>) => string),
): (request: RailRequest<Payload>) => string {
  if (typeof given !== 'function') {
    const routingKey = readName(field, given)
    return () => routingKey
  }
  return (request) => {
    try {
      return readName(field, given(request))
    } catch (error) {
      throw new NotSentError('the routing key could not be created', { cause: error })
    }
  }
}

/**
 * Opens a link for the first message, and again after it broke. RabbitMQ closes a channel at the first error, which
 * leaves the outcome of every unconfirmed message unknown.
 */
class RabbitPublisher {
  readonly #connect: () => Promise<RabbitConnection>
  readonly #exchange: string
  #link: Promise<RabbitLink> | undefined
  #isClosed = false

  constructor(connect: () => Promise<RabbitConnection>, exchange: string) {
    this.#connect = connect
    this.#exchange = exchange
  }

  async publish(message: RabbitMessage, signal: AbortSignal): Promise<void> {
    const link = await rejectOnAbort(this.#open(), signal, () => new NotSentError('aborted while connecting'))
    throwIfAborted(signal)
    await rejectOnAbort(link.publish(message), signal, abortedError)
  }

  async close(): Promise<void> {
    this.#isClosed = true
    const link = await this.#link?.catch(() => undefined)
    await link?.close()
  }

  #open(): Promise<RabbitLink> {
    if (this.#isClosed) return Promise.reject(new NotSentError('the rail was closed'))
    this.#link ??= this.#openLink()
    return this.#link
  }

  async #openLink(): Promise<RabbitLink> {
    const dropLink = () => (this.#link = undefined)
    try {
      return await RabbitLink.open(this.#connect, this.#exchange, dropLink)
    } catch (error) {
      dropLink()
      throw new NotSentError('no channel could be opened', { cause: error })
    }
  }
}
