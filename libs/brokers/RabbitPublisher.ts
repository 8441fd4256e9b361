import { NotSentError } from '../rails/index.js'
import { throwIfAborted } from './brokerMessage.js'
import { RabbitLink, type RabbitConnection, type RabbitMessage } from './RabbitLink.js'
import { abortedError } from './UnconfirmedError.js'
import { rejectOnAbort } from './rejectOnAbort.js'

/**
 * A link when it is needed: opened for the first message, and anew for the first one after it broke. A channel is closed by
 * the first thing the broker dislikes, and everything on its way is then unknown; who retries what is for the row to say.
 */
export class RabbitPublisher {
  readonly #connect: () => Promise<RabbitConnection>
  readonly #exchange: string
  #link: Promise<RabbitLink> | undefined
  #isClosed = false

  constructor(connect: () => Promise<RabbitConnection>, exchange: string) {
    this.#connect = connect
    this.#exchange = exchange
  }

  async publish(message: RabbitMessage, signal: AbortSignal): Promise<void> {
    const link = await rejectOnAbort(this.#open(), signal, () => new NotSentError('given up while connecting'))
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
    this.#link ??= this.#openAnew()
    return this.#link
  }

  async #openAnew(): Promise<RabbitLink> {
    const forget = () => (this.#link = undefined)
    try {
      return await RabbitLink.open(this.#connect, this.#exchange, forget)
    } catch (error) {
      forget()
      throw new NotSentError('no channel could be opened', { cause: error })
    }
  }
}
