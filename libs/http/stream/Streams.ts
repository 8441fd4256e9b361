import type { ServerResponse } from 'node:http'
import type { Identity } from '../access/Identity.js'
import type { Role } from '../Api.js'
import { ProblemError } from '../Problem.js'
import type { StatusBoard } from '../StatusBoard.js'
import { Listener } from './Listener.js'
import { Watch } from './Watch.js'

export interface StreamsOptions {
  readonly role: Role
  readonly board: StatusBoard
  readonly streamsMax: number
  /** @default 1000 */
  readonly pollMs?: number
}

/** All open streams of a server: bounded in number, and ended when it closes. */
export class Streams {
  readonly #options: StreamsOptions
  /** By the participants that may be seen. */
  readonly #watches = new Map<string, Watch>()
  #open = 0
  #closed = false

  constructor(options: StreamsOptions) {
    this.#options = options
  }

  /** Throws the problem of a stream that is one too many, before anything is written. */
  requireRoom(): void {
    if (!this.#closed && this.#open < this.#options.streamsMax) return
    throw new ProblemError('STREAMS_EXHAUSTED', undefined, { retryAfterSeconds: 5 })
  }

  add(identity: Identity, response: ServerResponse, isStillAllowed: () => Promise<boolean>): void {
    const name = JSON.stringify(identity.participants)
    const watch = this.#watches.get(name) ?? this.#createWatch(name, identity)
    this.#open += 1
    let ended = false
    const listener = new Listener(response, isStillAllowed, (one) => {
      if (ended) return
      ended = true
      this.#open -= 1
      watch.remove(one)
      if (!watch.isEmpty) return
      this.#watches.delete(name)
      void watch.stop()
    })
    watch.add(listener)
  }

  /** Ends them all: a server that closes would wait for them for ever. */
  async close(): Promise<void> {
    this.#closed = true
    await Promise.all([...this.#watches.values()].map((watch) => watch.stop()))
  }

  #createWatch(name: string, { participants }: Identity): Watch {
    const { role, board, pollMs = 1_000 } = this.#options
    const watch = new Watch({
      role,
      board: participants === null ? board : null,
      participants: participants ?? undefined,
      pollMs,
    })
    this.#watches.set(name, watch)
    return watch
  }
}
