import type { ServerResponse } from 'node:http'
import type { Identity } from '../access/Identity.js'
import type { Role } from '../Api.js'
import { ProblemError } from '../Problem.js'
import type { StatusCache } from '../StatusCache.js'
import { SseConnection } from './SseConnection.js'
import { ChangePoller } from './ChangePoller.js'

interface SseConnectionsOptions {
  readonly role: Role
  readonly statusCache: Pick<StatusCache, 'read'>
  readonly streamsMax: number
  /** @default 1000 */
  readonly pollMs?: number
}

/** Open event streams (SSE) of a server: at most `streamsMax`, ended when the server closes. */
export class SseConnections {
  readonly #options: SseConnectionsOptions
  /** Pollers, one per set of visible participants. */
  readonly #pollers = new Map<string, ChangePoller>()
  #open = 0
  #closed = false

  constructor(options: SseConnectionsOptions) {
    this.#options = options
  }

  /** Throws STREAMS_EXHAUSTED at the limit, before the response starts. */
  requireCapacity(): void {
    if (!this.#closed && this.#open < this.#options.streamsMax) return
    throw new ProblemError('STREAMS_EXHAUSTED', undefined, { retryAfterSeconds: 5 })
  }

  add(
    identity: Pick<Identity, 'participants'>,
    response: ServerResponse,
    isStillAllowed: () => Promise<boolean>,
  ): void {
    const name = JSON.stringify(identity.participants)
    const poller = this.#pollers.get(name) ?? this.#createPoller(name, identity)
    this.#open += 1
    let ended = false
    const connection = new SseConnection(response, isStillAllowed, (one) => {
      if (ended) return
      ended = true
      this.#open -= 1
      poller.remove(one)
      if (!poller.isEmpty) return
      this.#pollers.delete(name)
      void poller.stop()
    })
    poller.add(connection)
  }

  /** Ends all connections, for which a closing server would otherwise wait. */
  async close(): Promise<void> {
    this.#closed = true
    await Promise.all([...this.#pollers.values()].map((poller) => poller.stop()))
  }

  #createPoller(name: string, { participants }: Pick<Identity, 'participants'>): ChangePoller {
    const { role, statusCache, pollMs = 1_000 } = this.#options
    const poller = new ChangePoller({
      role,
      statusCache: participants === null ? statusCache : null,
      participants: participants ?? undefined,
      pollMs,
    })
    this.#pollers.set(name, poller)
    return poller
  }
}
