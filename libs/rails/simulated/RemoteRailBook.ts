import { parseStrictJson } from '../../core/index.js'
import { ExchangeBrokenError, HttpTransport } from '../http/HttpTransport.js'
import { NotSentError } from '../NotSentError.js'
import type { BookPage, BookPayment, BookReceipt, RailBook } from './RailBook.js'

/** Client of a rail book in another process (`startRailBook`). As with a real rail, the connection can break. */
export class RemoteRailBook implements RailBook {
  readonly #url: string
  readonly #transport = new HttpTransport({
    connectionsMax: 128,
    keepAlive: true,
    connectTimeoutMs: 5_000,
    responseBytesMax: 1_048_576,
  })

  constructor(url: string) {
    this.#url = url
  }

  async pay(payment: BookPayment, signal: AbortSignal): Promise<BookReceipt> {
    const { status, body } = await this.#transport.exchange(
      {
        method: 'POST',
        url: this.#address('/payments'),
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(payment),
      },
      signal,
    )
    if (status === 410) return { paid: false }
    if (status !== 200) throw new ExchangeBrokenError(`the rail book answered ${status}`)
    return { paid: true, railReference: readReference(body), repeated: readMember(body, 'repeated') === true }
  }

  async find(reference: string, signal: AbortSignal): Promise<string | undefined> {
    const url = this.#address(`/payments/${encodeURIComponent(reference)}`)
    const { status, body } = await this.#transport.exchange({ method: 'GET', url, headers: {} }, signal)
    if (status === 404) return undefined
    if (status !== 200) throw new ExchangeBrokenError(`the rail book answered ${status}`)
    return readReference(body)
  }

  async page(from: number, signal: AbortSignal): Promise<BookPage> {
    const url = this.#address(`/payments?from=${from}`)
    const { status, body } = await this.#transport.exchange({ method: 'GET', url, headers: {} }, signal)
    if (status !== 200) throw new ExchangeBrokenError(`the rail book answered ${status}`)
    return JSON.parse(body.toString())
  }

  close(): Promise<void> {
    return this.#transport.close()
  }

  #address(path: string): URL {
    if (!URL.canParse(path, this.#url)) throw new NotSentError('the address of the rail book is invalid')
    return new URL(path, this.#url)
  }
}

function readReference(body: Buffer): string {
  const railReference = readMember(body, 'railReference')
  if (typeof railReference !== 'string') throw new ExchangeBrokenError('the rail book answered without a reference')
  return railReference
}

function readMember(body: Buffer, name: string): unknown {
  const document = parseStrictJson(body)
  return typeof document === 'object' && document !== null ? Reflect.get(document, name) : undefined
}
