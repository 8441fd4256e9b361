import type { IncomingHttpHeaders } from 'node:http'
import type { Agent, Dispatcher } from 'undici'
import { SymphonyError } from '../../core/index.js'
import { NotSentError } from '../NotSentError.js'

interface TransportOptions {
  /** Maximum number of connections to one host. Further requests wait unsent. */
  readonly connectionsMax: number
  /** Whether several requests use one connection, one after the other. */
  readonly keepAlive: boolean
  readonly connectTimeoutMs: number
  readonly responseBytesMax: number
  readonly tls?: TlsMaterial | undefined
}

/** TLS material as PEM, as for `node:tls`. The server is always verified. */
export interface TlsMaterial {
  /** Trusted authorities, instead of the public ones. */
  readonly ca?: string | Buffer | readonly (string | Buffer)[]
  /** Client certificate and key, for rails that require them. */
  readonly cert?: string | Buffer
  readonly key?: string | Buffer
  readonly passphrase?: string
}

export interface HttpRequest {
  readonly method: 'GET' | 'POST' | 'PUT'
  readonly url: URL
  readonly headers: Readonly<Record<string, string>>
  readonly body?: string
}

export interface HttpResponse {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  /** Whole body. A truncated or too long answer is an error. */
  readonly body: Buffer
}

/** The request was started, and no whole answer arrived: the rail may have acted. */
export class ExchangeBrokenError extends SymphonyError {
  constructor(message: string, options: { readonly cause?: unknown } = {}) {
    super('HTTP_EXCHANGE_BROKEN', message, options)
  }
}

/**
 * Sends one request and returns its answer. Distinguishes errors before anything was sent from later ones, after which
 * the rail may have paid. undici calls `onRequestStart` just before it writes to the socket. An error without that call
 * (a refused connection, an unresolved name, a wrong certificate) is a `NotSentError`. Redirects are answers and are
 * not followed.
 */
export class HttpTransport {
  readonly #responseBytesMax: number
  readonly #agent: Promise<Agent>

  constructor(options: TransportOptions) {
    this.#responseBytesMax = options.responseBytesMax
    this.#agent = createAgent(options)
    // Prevents an unhandled rejection. `exchange` awaits the same promise and throws the error.
    this.#agent.catch(() => {})
  }

  async exchange({ method, url, headers, body }: HttpRequest, signal: AbortSignal): Promise<HttpResponse> {
    const agent = await this.#agent
    if (signal.aborted) throw new NotSentError('aborted before it was sent')
    return new Promise((resolve, reject) => {
      const exchange = new Exchange(this.#responseBytesMax, signal, resolve, reject)
      agent.dispatch(
        { origin: url.origin, path: url.pathname + url.search, method, headers, body: body ?? null },
        exchange,
      )
    })
  }

  async close(): Promise<void> {
    await (await this.#agent).close()
  }
}

/**
 * Creates the agent. Loads undici only in a process with such a rail, so that a process that only enqueues starts
 * faster.
 */
async function createAgent({ connectionsMax, keepAlive, connectTimeoutMs, tls }: TransportOptions): Promise<Agent> {
  const undici = await import('undici')
  return new undici.Agent({
    connections: connectionsMax,
    // 1 sends one request at a time per connection; 0 closes the connection after each. With several requests at a
    // time, one broken connection would leave many unknown outcomes.
    pipelining: keepAlive ? 1 : 0,
    connect: { ...tls, timeout: connectTimeoutMs, rejectUnauthorized: true, minVersion: 'TLSv1.2' },
    // The caller's signal bounds the exchange. undici's own timers are coarse and would end the exchange with another
    // error.
    headersTimeout: 0,
    bodyTimeout: 0,
  })
}

class Exchange implements Dispatcher.DispatchHandler {
  readonly #responseBytesMax: number
  readonly #signal: AbortSignal
  readonly #resolve: (response: HttpResponse) => void
  readonly #reject: (error: Error) => void
  readonly #chunks: Buffer[] = []
  #controller: Dispatcher.DispatchController | undefined
  #bytes = 0
  #status = 0
  #headers: IncomingHttpHeaders = {}

  constructor(
    responseBytesMax: number,
    signal: AbortSignal,
    resolve: (response: HttpResponse) => void,
    reject: (error: Error) => void,
  ) {
    this.#responseBytesMax = responseBytesMax
    this.#signal = signal
    this.#resolve = resolve
    this.#reject = reject
    signal.addEventListener('abort', this.#onAbort)
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    // The request was aborted while it waited for a connection. The caller already counts it as not sent, so it must
    // not be sent now.
    if (this.#signal.aborted) controller.abort(new NotSentError('aborted while waiting for a connection'))
    else this.#controller = controller
  }

  onResponseStart(_: Dispatcher.DispatchController, status: number, headers: IncomingHttpHeaders): void {
    this.#status = status
    this.#headers = headers
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#bytes += chunk.length
    if (this.#bytes > this.#responseBytesMax) {
      controller.abort(new RangeError(`the answer is longer than ${this.#responseBytesMax} bytes`))
    } else {
      this.#chunks.push(chunk)
    }
  }

  onResponseEnd(): void {
    this.#signal.removeEventListener('abort', this.#onAbort)
    this.#resolve({ status: this.#status, headers: this.#headers, body: Buffer.concat(this.#chunks) })
  }

  onResponseError(_: Dispatcher.DispatchController, error: Error): void {
    this.#signal.removeEventListener('abort', this.#onAbort)
    this.#reject(this.#describe(error))
  }

  readonly #onAbort = () => {
    const error = new Error('aborted before it was answered', { cause: this.#signal.reason })
    if (this.#controller === undefined) this.#reject(this.#describe(error))
    else this.#controller.abort(error)
  }

  #describe(error: Error): Error {
    return this.#controller === undefined
      ? new NotSentError('the request could not be sent', { cause: error })
      : new ExchangeBrokenError('no whole answer arrived', { cause: error })
  }
}
