import { systemClock } from '../../core/index.js'
import { readItemViews, readRecentlyChanged, type ItemView } from '../../outbox/index.js'
import { PollLoop, Wakeup } from '../../worker/index.js'
import type { Role } from '../Api.js'
import type { ItemsEvent, LookedEvent, Status } from '../shapes/overview.js'
import type { StatusCache } from '../StatusCache.js'
import type { SseConnection } from './SseConnection.js'

interface ChangePollerOptions {
  readonly role: Role
  /** Status cache; null for a caller restricted to participants, because the status covers all participants. */
  readonly statusCache: Pick<StatusCache, 'read'> | null
  /** Participants of the caller; undefined for all. */
  readonly participants: readonly string[] | undefined
  readonly pollMs: number
}

/**
 * Polls the database about once per second, for all connections with the same participants. Sends each change to every
 * connection.
 */
export class ChangePoller {
  readonly #options: ChangePollerOptions
  readonly #connections = new Set<SseConnection>()
  readonly #loop: PollLoop
  #status: { readonly json: string; readonly fingerprint: string } | undefined
  /** Appearance of each recently changed item at the last poll. An item with another appearance is sent. */
  #sent = new Map<string, string>()
  #hasPolled = false

  constructor(options: ChangePollerOptions) {
    this.#options = options
    this.#loop = new PollLoop({
      poll: async () => {
        await this.#poll()
        return { pollAgain: false }
      },
      pollMs: options.pollMs,
      wakeup: new Wakeup(0, systemClock),
      // While the database does not answer, the connections stay open and get heartbeats.
      onError: () => this.#beat(),
      errorDelayMs: options.pollMs,
      errorDelayMaxMs: options.pollMs,
    })
  }

  get isEmpty(): boolean {
    return this.#connections.size === 0
  }

  add(connection: SseConnection): void {
    this.#connections.add(connection)
    if (this.#status !== undefined) connection.send('status', this.#status.json)
    this.#loop.start()
  }

  remove(connection: SseConnection): void {
    this.#connections.delete(connection)
  }

  async stop(): Promise<void> {
    for (const connection of this.#connections) connection.end()
    await this.#loop.stop()
  }

  async #poll(): Promise<void> {
    // The first poll records the items before it sends a status. So a client that has received a status also receives
    // every later change of an item.
    await this.#pollItems()
    await this.#pollStatus()
    const event: LookedEvent = { at: systemClock.now().toISOString() }
    const json = JSON.stringify(event)
    for (const connection of this.#connections) connection.send('looked', json)
    this.#beat()
  }

  async #pollStatus(): Promise<void> {
    const status = await this.#options.statusCache?.read()
    if (status === undefined) return
    const fingerprint = fingerprintOf(status)
    if (fingerprint === this.#status?.fingerprint) return
    const json = JSON.stringify(status)
    this.#status = { json, fingerprint }
    for (const connection of this.#connections) connection.send('status', json)
  }

  async #pollItems(): Promise<void> {
    const { role, participants } = this.#options
    const recent = { seconds: RECENT_SECONDS, limit: CHANGES_MAX }
    const ids = await readRecentlyChanged(role, { ...recent, ...(participants === undefined ? {} : { participants }) })
    const items = await readItemViews(role, ids)
    const before = this.#sent
    this.#sent = new Map(items.map((item) => [item.outboxId, appearanceOf(item)]))
    const changed = items.filter((item) => before.get(item.outboxId) !== appearanceOf(item))
    // The first poll only records the items: the client has just read them.
    const isFirst = !this.#hasPolled
    this.#hasPolled = true
    if (isFirst || changed.length === 0) return
    const event: ItemsEvent = {
      items: changed.map(({ outboxId, instructionId, state }) => ({ outboxId, instructionId, state })),
      truncated: ids.length === CHANGES_MAX,
    }
    const json = JSON.stringify(event)
    for (const connection of this.#connections) connection.send('items', json)
  }

  /** Does not wait: a slow identity provider of one connection must not delay the events of all. */
  #beat(): void {
    for (const connection of this.#connections) void connection.beat()
  }
}

/**
 * Returns a text that differs if the status differs. Rounds ages down to 10 s, so that passing time alone changes the
 * text at most every 10 s per age.
 */
function fingerprintOf(status: Status): string {
  return JSON.stringify({ ...status, at: '' }, (name, value: unknown) =>
    name.endsWith('AgeSeconds') && typeof value === 'number' ? Math.floor(value / 10) : value,
  )
}

function appearanceOf({ state, lastAttemptNo, claimedBy, holdReason }: ItemView): string {
  return JSON.stringify([state, lastAttemptNo, claimedBy, holdReason])
}

/**
 * Maximum age of a change that a poll reads. Longer than an enqueuing transaction should take, because the age counts
 * from the creation of the item's id, before COMMIT.
 */
const RECENT_SECONDS = 10
const CHANGES_MAX = 200
