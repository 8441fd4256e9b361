import type { ServerResponse } from 'node:http'
import { rateLimitKey, type Identity } from '../access/Identity.js'
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
  /** Open streams per caller. */
  readonly #openOf = new Map<string, number>()
  #closed = false

  constructor(options: SseConnectionsOptions) {
    this.#options = options
  }

  /**
   * Throws STREAMS_EXHAUSTED at the limit, before the response starts. A caller restricted to participants may open a
   * quarter of the streams, so that it cannot take them all.
   */
  requireCapacity(identity: Identity): void {
    const { streamsMax } = this.#options
    const own = identity.participants === null ? 0 : (this.#openOf.get(rateLimitKey(identity)) ?? 0)
    if (!this.#closed && this.#open < streamsMax && own < Math.ceil(streamsMax / RESTRICTED_SHARE)) return
    throw new ProblemError('STREAMS_EXHAUSTED', undefined, { retryAfterSeconds: 5 })
  }

  add(identity: Identity, response: ServerResponse, isStillAllowed: () => Promise<boolean>): void {
    const name = JSON.stringify(identity.participants)
    const poller = this.#pollers.get(name) ?? this.#createPoller(name, identity)
    const caller = rateLimitKey(identity)
    const count = (by: 1 | -1) => {
      this.#open += by
      const own = (this.#openOf.get(caller) ?? 0) + by
      if (own === 0) this.#openOf.delete(caller)
      else this.#openOf.set(caller, own)
    }
    count(1)
    let ended = false
    const connection = new SseConnection(response, isStillAllowed, (one) => {
      if (ended) return
      ended = true
      count(-1)
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

  #createPoller(name: string, { participants }: Identity): ChangePoller {
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

const RESTRICTED_SHARE = 4
