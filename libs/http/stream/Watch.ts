import { systemClock } from '../../core/index.js'
import { readItemViews, readRecentlyChanged, type ItemView } from '../../outbox/index.js'
import { PollLoop, Wakeup } from '../../worker/index.js'
import type { Role } from '../Api.js'
import type { ItemsEvent, LookedEvent, Status } from '../shapes/overview.js'
import type { StatusBoard } from '../StatusBoard.js'
import type { Listener } from './Listener.js'

export interface WatchOptions {
  readonly role: Role
  /** Null for those who are bound to participants: the figures are everybody's. */
  readonly board: StatusBoard | null
  /** Of these participants alone. */
  readonly participants: readonly string[] | undefined
  readonly pollMs: number
}

/**
 * One look at the database for all who may see the same: about once per second while anybody listens, and never otherwise.
 * What changed is told to each of them.
 */
export class Watch {
  readonly #options: WatchOptions
  readonly #listeners = new Set<Listener>()
  readonly #loop: PollLoop
  #status: { readonly json: string; readonly fingerprint: string } | undefined
  /** What was last told of each item that changed lately. */
  #told = new Map<string, string>()
  #looked = false

  constructor(options: WatchOptions) {
    this.#options = options
    this.#loop = new PollLoop({
      poll: async () => {
        await this.#look()
        return { pollAgain: false }
      },
      pollMs: options.pollMs,
      wakeup: new Wakeup(0, systemClock),
      // A database that is away changes nothing that could be told. The streams stay, and are kept alive.
      onError: () => void this.#beat(),
      errorDelayMs: options.pollMs,
      errorDelayMaxMs: options.pollMs,
    })
  }

  get isEmpty(): boolean {
    return this.#listeners.size === 0
  }

  add(listener: Listener): void {
    this.#listeners.add(listener)
    if (this.#status !== undefined) listener.send('status', this.#status.json)
    this.#loop.start()
  }

  remove(listener: Listener): void {
    this.#listeners.delete(listener)
  }

  /** Ends every stream, and waits for the look in hand. */
  async stop(): Promise<void> {
    for (const listener of this.#listeners) listener.end()
    await this.#loop.stop()
  }

  async #look(): Promise<void> {
    // Items first: who has heard the status hears of every change from then on.
    await this.#lookAtItems()
    await this.#lookAtStatus()
    const event: LookedEvent = { at: systemClock.now().toISOString() }
    const json = JSON.stringify(event)
    for (const listener of this.#listeners) listener.send('looked', json)
    await this.#beat()
  }

  async #lookAtStatus(): Promise<void> {
    const status = await this.#options.board?.read()
    if (status === undefined) return
    const fingerprint = fingerprintOf(status)
    if (fingerprint === this.#status?.fingerprint) return
    const json = JSON.stringify(status)
    this.#status = { json, fingerprint }
    for (const listener of this.#listeners) listener.send('status', json)
  }

  async #lookAtItems(): Promise<void> {
    const { role, participants } = this.#options
    const recent = { seconds: RECENT_SECONDS, limit: CHANGES_MAX }
    const ids = await readRecentlyChanged(role, { ...recent, ...(participants === undefined ? {} : { participants }) })
    const items = await readItemViews(role, ids)
    const before = this.#told
    this.#told = new Map(items.map((item) => [item.outboxId, appearanceOf(item)]))
    const changed = items.filter((item) => before.get(item.outboxId) !== appearanceOf(item))
    // The first look only learns what there is: whoever listens has just read the page.
    const isFirst = !this.#looked
    this.#looked = true
    if (isFirst || changed.length === 0) return
    const event: ItemsEvent = {
      items: changed.map(({ outboxId, instructionId, state }) => ({ outboxId, instructionId, state })),
      truncated: ids.length === CHANGES_MAX,
    }
    const json = JSON.stringify(event)
    for (const listener of this.#listeners) listener.send('items', json)
  }

  async #beat(): Promise<void> {
    await Promise.all([...this.#listeners].map((listener) => listener.beat()))
  }
}

/** Time passing is not a change: ages count by tens of seconds. */
function fingerprintOf(status: Status): string {
  return JSON.stringify({ ...status, at: '' }, (name, value: unknown) =>
    name.endsWith('AgeSeconds') && typeof value === 'number' ? Math.floor(value / 10) : value,
  )
}

function appearanceOf({ state, lastAttemptNo, claimedBy, holdReason }: ItemView): string {
  return JSON.stringify([state, lastAttemptNo, claimedBy, holdReason])
}

/** Longer than a transaction that enqueues should take: its ids are older than its commit. */
const RECENT_SECONDS = 10
const CHANGES_MAX = 200
