import type { ServerResponse } from 'node:http'

/** One open event stream. Disconnects a client that does not read, or whose key is no longer valid. */
export class SseConnection {
  readonly #response: ServerResponse
  readonly #isStillAllowed: () => Promise<boolean>
  readonly #onEnd: () => void
  #quietPolls = 0
  #pollsSinceCheck = 0
  #isChecking = false

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
      // Without this header, some proxies would buffer the stream.
      'x-accel-buffering': 'no',
    })
    // Tells the client to reconnect one second after a lost connection.
    response.write('retry: 1000\n\n')
  }

  /** Sends an event as one line of data. JSON.stringify writes no line breaks. */
  send(event: string, json: string): void {
    this.#write(`event: ${event}\ndata: ${json}\n\n`)
  }

  /**
   * Runs after each poll. Sends a heartbeat after several polls without an event, so that both sides notice a dead
   * connection.
   */
  async beat(): Promise<void> {
    this.#quietPolls += 1
    if (this.#quietPolls >= HEARTBEAT_POLLS) this.#write(': heartbeat\n\n')
    this.#pollsSinceCheck += 1
    if (this.#pollsSinceCheck < CHECK_POLLS || this.#isChecking) return
    this.#pollsSinceCheck = 0
    this.#isChecking = true
    // Ends the connection of a revoked or expired key.
    if (!(await this.#isStillAllowed())) this.end()
    this.#isChecking = false
  }

  /** Ends the connection. Safe to call twice. */
  end(): void {
    if (!this.#response.writableEnded) this.#response.end()
    this.#onEnd()
  }

  #write(text: string): void {
    this.#quietPolls = 0
    // Unread events would fill the memory.
    if (this.#response.writableLength > UNREAD_BYTES_MAX) this.#response.destroy()
    else this.#response.write(text)
  }
}

const HEARTBEAT_POLLS = 10
/**
 * Number of polls between two checks of the key. A poll takes about a second and credentials are cached for 2 s, so a
 * revocation ends the stream within 5 s.
 */
const CHECK_POLLS = 2
const UNREAD_BYTES_MAX = 1_048_576
