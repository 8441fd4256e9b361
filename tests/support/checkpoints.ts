import { once } from 'node:events'
import { createServer, type Server, type ServerResponse } from 'node:http'
import { portOf } from './portOf.js'

/** A worker that reached a checkpoint, with its payment if known. */
export interface Arrival {
  readonly worker: string
  readonly point: string
  readonly reference: string
}

/**
 * Points at which a test can stop other processes. A process sends a request here before it continues. The answer comes
 * at once, unless the test has closed the point for this process.
 */
export class Checkpoints {
  readonly arrivals: Arrival[] = []
  readonly #server: Server
  readonly #closed = new Set<string>()
  readonly #waiting: { readonly arrival: Arrival; readonly answer: ServerResponse }[] = []

  private constructor() {
    this.#server = createServer((request, answer) => {
      const { searchParams } = new URL(request.url ?? '/', 'http://checkpoints')
      const word = (name: string) => searchParams.get(name) ?? ''
      const arrival = { worker: word('worker'), point: word('point'), reference: word('reference') }
      this.arrivals.push(arrival)
      if (this.#closed.has(placeOf(arrival))) this.#waiting.push({ arrival, answer })
      else answer.end()
    })
  }

  static async open(): Promise<Checkpoints> {
    const checkpoints = new Checkpoints()
    checkpoints.#server.listen(0, '127.0.0.1')
    await once(checkpoints.#server, 'listening')
    return checkpoints
  }

  /** URL for the processes. */
  get url(): string {
    return `http://127.0.0.1:${portOf(this.#server)}`
  }

  /** Makes this worker wait at this point. */
  close(worker: string, point: string): void {
    this.#closed.add(placeOf({ worker, point }))
  }

  /** Lets waiting workers continue: those with this payment, or all. */
  release(reference?: string): void {
    for (const { arrival, answer } of this.#waiting) {
      if (reference === undefined || arrival.reference === reference) answer.end()
    }
  }

  openAll(): void {
    this.#closed.clear()
    this.release()
  }

  count(worker: string, point: string): number {
    return this.arrivals.filter((arrival) => placeOf(arrival) === placeOf({ worker, point })).length
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections()
    this.#server.close()
    await once(this.#server, 'close')
  }
}

function placeOf({ worker, point }: Pick<Arrival, 'worker' | 'point'>): string {
  return `${worker} at ${point}`
}
