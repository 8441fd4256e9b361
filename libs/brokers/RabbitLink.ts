import { NotSentError } from '../rails/index.js'
import { UnconfirmedError } from './brokerMessage.js'

/** Methods of `amqplib` that the rail calls. */
export interface RabbitConnection {
  createConfirmChannel(): Promise<RabbitChannel>
  close(): Promise<void>
  on(event: 'error' | 'close' | 'blocked' | 'unblocked', listener: (detail: unknown) => void): unknown
}

export interface RabbitChannel {
  checkExchange(exchange: string): Promise<unknown>
  publish(
    exchange: string,
    routingKey: string,
    content: Buffer,
    options: RabbitPublishOptions,
    confirmed: (error: unknown) => void,
  ): boolean
  on(event: 'error' | 'close' | 'return', listener: (detail: unknown) => void): unknown
}

export interface RabbitPublishOptions {
  readonly mandatory: boolean
  readonly persistent: boolean
  readonly messageId: string
  readonly contentType: string
  readonly headers: Record<string, string>
}

export interface RabbitMessage {
  readonly routingKey: string
  readonly text: string
  readonly messageId: string
  readonly headers: Record<string, string>
}

/**
 * One connection with one confirm channel. Nothing is sent before `publish` of the channel is called. A message that
 * the broker returned is in no queue. A broken channel or a nack leaves the outcome unknown, because one of several
 * bound queues may have accepted the message.
 */
export class RabbitLink {
  readonly #connection: RabbitConnection
  readonly #channel: RabbitChannel
  readonly #exchange: string
  readonly #onBroken: () => void
  /** Unconfirmed messages by message id. */
  readonly #waiting = new Map<string, Copy>()
  #blockedBecause: string | undefined
  #isBroken = false

  private constructor(connection: RabbitConnection, channel: RabbitChannel, exchange: string, onBroken: () => void) {
    this.#connection = connection
    this.#channel = channel
    this.#exchange = exchange
    this.#onBroken = onBroken
    connection.on('close', () => this.#break())
    connection.on(
      'blocked',
      (reason) => (this.#blockedBecause = typeof reason === 'string' ? reason : 'no reason given'),
    )
    connection.on('unblocked', () => (this.#blockedBecause = undefined))
    channel.on('close', () => this.#break())
    channel.on('return', (message) => this.#returned(message))
  }

  /** @param onBroken called once, when the link can no longer publish */
  static async open(
    connect: () => Promise<RabbitConnection>,
    exchange: string,
    onBroken: () => void,
  ): Promise<RabbitLink> {
    const connection = await connect()
    // An 'error' event without a listener would end the process. A 'close' event follows, which has a listener.
    connection.on('error', () => {})
    try {
      const channel = await connection.createConfirmChannel()
      channel.on('error', () => {})
      // Publishing to a missing exchange would break the channel and leave the outcome of all unconfirmed messages
      // unknown.
      if (exchange !== '') await channel.checkExchange(exchange)
      return new RabbitLink(connection, channel, exchange, onBroken)
    } catch (error) {
      closeQuietly(connection)
      throw error
    }
  }

  /**
   * Resolves when the broker has confirmed the message. Rejects with `NotSentError` if the message is certainly in no
   * queue, and with `UnconfirmedError` otherwise.
   */
  async publish({ routingKey, text, messageId, headers }: RabbitMessage): Promise<void> {
    if (this.#blockedBecause !== undefined) {
      throw new NotSentError(`the broker accepts no messages now: ${this.#blockedBecause}`)
    }
    // The broker identifies a returned message only by its id, so two unconfirmed messages must not share an id.
    if (this.#waiting.has(messageId)) throw new NotSentError('an earlier copy of this message is still unconfirmed')
    if (this.#waiting.size >= WAITING_MAX) throw new NotSentError(`${WAITING_MAX} messages are still unconfirmed`)
    const options = { mandatory: true, persistent: true, messageId, contentType: 'application/json', headers }
    const copy: Copy = { returnedBecause: undefined }
    this.#waiting.set(messageId, copy)
    await new Promise<void>((resolve, reject) => {
      const confirmed = (error: unknown) => {
        this.#waiting.delete(messageId)
        if (error !== null && error !== undefined) {
          reject(new UnconfirmedError('the broker has not confirmed the message', { cause: error }))
        } else if (copy.returnedBecause === undefined) resolve()
        else reject(new NotSentError(`no queue accepts the message: ${copy.returnedBecause}`))
      }
      try {
        this.#channel.publish(this.#exchange, routingKey, Buffer.from(text), options, confirmed)
      } catch (error) {
        this.#waiting.delete(messageId)
        // Closes the link, because older versions of amqplib have already counted the message and would assign later
        // confirms to the wrong messages.
        this.#break()
        reject(new NotSentError('the channel cannot publish', { cause: error }))
      }
    })
  }

  async close(): Promise<void> {
    if (this.#isBroken) return
    this.#isBroken = true
    await this.#connection.close()
  }

  /** Records the reason of a returned message. The broker returns a message before it confirms it. */
  #returned(message: unknown): void {
    const copy = this.#waiting.get(textAt(message, 'properties', 'messageId'))
    if (copy !== undefined) copy.returnedBecause = textAt(message, 'fields', 'replyText') || 'it was returned'
  }

  #break(): void {
    if (this.#isBroken) return
    this.#isBroken = true
    closeQuietly(this.#connection)
    this.#onBroken()
  }
}

interface Copy {
  returnedBecause: string | undefined
}

/**
 * Maximum number of unconfirmed messages, so that a broker that confirms nothing gets no more. No worker has that many
 * in flight.
 */
const WAITING_MAX = 10_000

function closeQuietly(connection: RabbitConnection): void {
  connection.close().catch(() => {
    // The connection is already closed, or its heartbeat will close it.
  })
}

function textAt(value: unknown, ...path: readonly string[]): string {
  let found = value
  for (const key of path) found = typeof found === 'object' && found !== null ? Reflect.get(found, key) : undefined
  return typeof found === 'string' ? found : ''
}
