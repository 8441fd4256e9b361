import { createHash } from 'node:crypto'
import { SymphonyError, requiredText, systemClock } from '../core/index.js'
import { DatabaseClosedError, openDatabase, type Database } from '../db/index.js'
import { PollLoop, Wakeup } from '../worker/index.js'
import { checkDatabases, type CheckedDatabase, type PlatformDatabase } from './discovery.js'
import type { OnPlatformEvent } from './events.js'
import { PlatformOptionsError, type ResolvedPlatformOptions } from './options.js'

export interface Member {
  readonly name: string
  readonly database: Database
  /**
   * Server, database and schema as one text. Members with the same identity are the same database, whatever their
   * names.
   */
  readonly identity: string
}

/** Member with its URL, which stays in this module, because it contains a password. */
interface OpenMember extends Member {
  readonly url: string
}

/** Callbacks for added and removed databases. A database is closed after every `removed` has resolved. */
export interface DatabaseObserver {
  readonly added: (member: Member) => Promise<void>
  readonly removed: (member: Member) => Promise<void>
}

export class UnknownDatabaseError extends SymphonyError {
  constructor(message: string) {
    super('UNKNOWN_DATABASE', message, { remedy: 'Check the name, and that discovery lists the database.' })
  }
}

/**
 * Current databases of the platform, refreshed from discovery. A refresh keeps unchanged databases open, opens new
 * ones, and closes removed ones after their observers have stopped. The set changes in one step, so an unchanged
 * database is never missing. A member may be unreachable.
 */
export class DatabaseSet {
  readonly #options: ResolvedPlatformOptions
  readonly #onEvent: OnPlatformEvent
  readonly #members = new Map<string, OpenMember>()
  readonly #observers = new Set<DatabaseObserver>()
  readonly #loop: PollLoop
  readonly #stopping = new AbortController()
  #refreshing: Promise<void> | undefined

  constructor(options: ResolvedPlatformOptions, onEvent: OnPlatformEvent) {
    this.#options = options
    this.#onEvent = onEvent
    this.#loop = new PollLoop({
      poll: async () => {
        await this.refresh()
        return { pollAgain: false }
      },
      pollMs: options.refreshMs,
      wakeup: new Wakeup(0, systemClock),
      onError: (error) => {
        // A stop ends a running refresh with an error.
        if (!this.#stopping.signal.aborted) onEvent({ type: 'platform.discoveryFailed', error })
      },
      // A failed refresh is repeated after the usual interval, without an additional backoff.
      errorDelayMs: options.refreshMs,
      errorDelayMaxMs: options.refreshMs,
    })
  }

  /** Refreshes the set at once, and later at each interval. Throws if the first refresh fails. */
  async start(): Promise<void> {
    await this.refresh()
    this.#stopping.signal.throwIfAborted()
    this.#loop.start()
  }

  /** Closes every database. A stopped set cannot start or refresh again. */
  async stop(): Promise<void> {
    this.#stopping.abort(new DatabaseClosedError())
    await this.#loop.stop()
    const gone = [...this.#members.values()]
    this.#members.clear()
    await Promise.all(gone.map((member) => this.#notifyRemoved(member)))
  }

  /** Refreshes the set now. Throws, and changes nothing, if discovery fails or returns an invalid list. */
  refresh(): Promise<void> {
    this.#refreshing ??= this.#refresh().finally(() => {
      this.#refreshing = undefined
    })
    return this.#refreshing
  }

  get members(): readonly Member[] {
    return [...this.#members.values()]
  }

  get(name: string): Member {
    const member = this.#members.get(keyOf({ name: requiredText('name', name, NAME_LENGTH_MAX) }))
    if (member === undefined) throw new UnknownDatabaseError(`no database has the name "${name}"`)
    return member
  }

  /**
   * Returns the database of a key by rendezvous hashing: the same in every process for the same key and set of names.
   * When a database is added or removed, only the keys of that database move.
   */
  forKey(key: string): Member {
    requiredText('key', key, KEY_LENGTH_MAX)
    let chosen: { readonly member: Member; readonly weight: string } | undefined
    for (const [name, member] of this.#members) {
      const weight = createHash('sha256').update(`${name}\n${key}`).digest('hex')
      if (chosen === undefined || weight > chosen.weight) chosen = { member, weight }
    }
    if (chosen === undefined) throw new UnknownDatabaseError('the platform has no database')
    return chosen.member
  }

  /** Calls the observer for each current database, then for every change, until the returned function is called. */
  async follow(observer: DatabaseObserver): Promise<() => Promise<void>> {
    this.#observers.add(observer)
    await Promise.all(this.members.map((member) => observer.added(member)))
    return async () => {
      this.#observers.delete(observer)
      await Promise.all(this.members.map((member) => observer.removed(member)))
    }
  }

  async #refresh(): Promise<void> {
    const check = checkDatabases(await this.#discover(), this.#options.schema)
    if (!check.ok) throw new PlatformOptionsError(check.failures)
    const wanted = new Map(check.databases.map((entry) => [keyOf(entry), entry]))
    const gone = [...this.#members.values()].filter((member) => !isSame(member, wanted.get(keyOf(member))))
    const fresh = check.databases.filter((entry) => !isSame(this.#members.get(keyOf(entry)), entry))
    const added = fresh.map((entry) => this.#open(entry))
    for (const member of gone) this.#members.delete(keyOf(member))
    for (const member of added) this.#members.set(keyOf(member), member)
    // Notifies in parallel, because the stop of a removed database waits for its running rounds and must not delay new
    // databases.
    await Promise.all([
      ...added.map((member) => this.#notifyAdded(member)),
      ...gone.map((member) => this.#notifyRemoved(member)),
    ])
  }

  /** Calls discovery. Rejects when the set stops, because discovery is code of the application and may never return. */
  #discover(): Promise<readonly PlatformDatabase[]> {
    const { signal } = this.#stopping
    return new Promise((resolve, reject) => {
      signal.throwIfAborted()
      const stop = () => reject(new DatabaseClosedError())
      signal.addEventListener('abort', stop, { once: true })
      void this.#options.discovery
        .databases()
        .then(resolve, reject)
        .finally(() => signal.removeEventListener('abort', stop))
    })
  }

  #open({ name, url, schema, identity }: CheckedDatabase): OpenMember {
    const connectionsMax = this.#options.connectionsPerDatabase
    const database = openDatabase({ url, schema, connectionsMax, applicationName: APPLICATION_NAME })
    return { name, identity, url, database }
  }

  async #notifyAdded(member: Member): Promise<void> {
    this.#onEvent({ type: 'platform.databaseAdded', database: member.name })
    await Promise.all([...this.#observers].map((observer) => observer.added(member)))
  }

  /** Stops and closes a database that is no longer a member. */
  async #notifyRemoved(member: Member): Promise<void> {
    await Promise.all([...this.#observers].map((observer) => observer.removed(member)))
    await member.database.close()
    this.#onEvent({ type: 'platform.databaseRemoved', database: member.name })
  }
}

/** True if identity and URL are unchanged. A new password makes another URL. */
function isSame(member: OpenMember | undefined, entry: CheckedDatabase | undefined): boolean {
  return member !== undefined && member.identity === entry?.identity && member.url === entry.url
}

/** Returns the map key of a name. Names are case-insensitive. */
function keyOf({ name }: Pick<Member, 'name'>): string {
  return name.toLowerCase()
}

/** Application name of the connections, for DBAs. */
const APPLICATION_NAME = 'symphony fleet'
const NAME_LENGTH_MAX = 255
const KEY_LENGTH_MAX = 255
