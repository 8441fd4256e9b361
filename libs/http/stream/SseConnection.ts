import type { ServerResponse } from 'node:http'

/** One open event stream. Disconnects a client that does not read, or whose key is no longer valid. */
export class SseConnection {
  readonly #response: ServerResponse
  readonly #isStillAllowed: () => Promise<boolean>
  readonly #onEnd: () => void
  #quietPolls = 0
  #pollsSinceCheck = 0

  constructor(
    response: ServerResponse,
    isStillAllowed: () => Promise<boolean>,
    onEnd: (connection: SseConnection) => void,
  ) {
    this.#response = response
    this.#isStillAllowed = isStillAllowed
    this.#onEnd = () => onEnd(this)
    response.once('close', this.#onEnd)
    response.writeHead(200, {
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-store',
      // Some proxies would buffer the response for ever.
      'x-accel-buffering': 'no',
    })
    // A client that lost the connection reconnects after a second.
    response.write('retry: 1000\n\n')
  }

  /** Sends an event as one line of data, because JSON contains no line break. */
  send(event: string, json: string): void {
    this.#write(`event: ${event}\ndata: ${json}\n\n`)
  }

  /** Called after each poll. Sends a heartbeat now and then, so that both sides notice a dead connection. */
  async beat(): Promise<void> {
    this.#quietPolls += 1
    if (this.#quietPolls >= HEARTBEAT_POLLS) this.#write(': heartbeat\n\n')
    this.#pollsSinceCheck += 1
    if (this.#pollsSinceCheck < CHECK_POLLS) return
    this.#pollsSinceCheck = 0
    // Ends the connection of a revoked or expired key.
    if (!(await this.#isStillAllowed())) this.end()
  }

  /** Ends the connection. Safe to call twice. */
  end(): void {
    if (!this.#response.writableEnded) this.#response.end()
    this.#onEnd()
  }

  #write(text: string): void {
    this.#quietPolls = 0
    // Disconnects a client that does not read, because its events would fill the memory.
    if (this.#response.writableLength > UNREAD_BYTES_MAX) this.#response.destroy()
    else this.#response.write(text)
  }
}

const HEARTBEAT_POLLS = 10
/** With about a second per poll and the cache of credentials, a revocation ends the stream within 5 s. */
const CHECK_POLLS = 2
const UNREAD_BYTES_MAX = 1_048_576
