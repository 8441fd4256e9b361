import { createHash } from 'node:crypto'
import { AppError, requiredText, systemClock } from '../core/index.js'
import { openDatabase, type Database } from '../db/index.js'
import { PollLoop, Wakeup } from '../worker/index.js'
import { checkDatabases, type CheckedDatabase } from './checkDatabases.js'
import type { OnPlatformEvent } from './events.js'
import { PlatformOptionsError, type ResolvedPlatformOptions } from './options.js'

/** A database of the platform, open. */
export interface Member {
  readonly name: string
  readonly database: Database
  /** What makes it the one it is, however it is called. */
  readonly identity: string
}

/** Its URL stays in here: it holds a password. */
interface OpenMember extends Member {
  readonly url: string
}

/** Told of databases that come and go. A database is closed only when everybody who was told has let go of it. */
export interface Follower {
  readonly added: (member: Member) => Promise<void>
  readonly removed: (member: Member) => Promise<void>
}

export class UnknownDatabaseError extends AppError {
  constructor(message: string) {
    super('UNKNOWN_DATABASE', message, { remedy: 'Check the name, and that discovery lists the database.' })
  }
}

/**
 * The databases there are now, kept up to date from discovery. What stays stays open; what is new is opened; what is gone is
 * closed after its followers have let go. It does not promise that a database can be reached.
 */
export class DatabaseSet {
  readonly #options: ResolvedPlatformOptions
  readonly #onEvent: OnPlatformEvent
  readonly #members = new Map<string, OpenMember>()
  readonly #followers = new Set<Follower>()
  readonly #loop: PollLoop
  #refreshing: Promise<void> | undefined

  constructor(options: ResolvedPlatformOptions, onEvent: OnPlatformEvent) {
    this.#options = options
    this.#onEvent = onEvent
    this.#loop = new PollLoop({
      turn: async () => {
        await this.refresh()
        return { again: false }
      },
      pollMs: options.refreshMs,
      wakeup: new Wakeup(0, systemClock),
      onError: (error) => onEvent({ type: 'discoveryFailed', error }),
      // Whoever waits for a database waits for the next refresh, not for a backoff on top of it.
      errorDelayMs: options.refreshMs,
      errorDelayMaxMs: options.refreshMs,
    })
  }

  /** Asks discovery once, and fails if it does; then again and again. */
  async start(): Promise<void> {
    await this.refresh()
    this.#loop.start()
  }

  async stop(): Promise<void> {
    await this.#loop.stop()
    await Promise.all([...this.#members.values()].map((member) => this.#remove(member)))
  }

  /** Brings the set up to date now. Throws, and changes nothing, if discovery fails or contradicts itself. */
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
    const member = this.#members.get(requiredText('name', name, NAME_LENGTH_MAX).toLowerCase())
    if (member === undefined) throw new UnknownDatabaseError(`no database is called "${name}"`)
    return member
  }

  /**
   * The database that a key belongs to: the same for the same key and the same set of names, wherever it is asked. When a
   * database comes or goes, only the keys that move to it or from it change.
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

  /** Tells of all that are there now, then of every change, until the returned function is called. */
  async follow(follower: Follower): Promise<() => Promise<void>> {
    this.#followers.add(follower)
    await Promise.all(this.members.map((member) => follower.added(member)))
    return async () => {
      this.#followers.delete(follower)
      await Promise.all(this.members.map((member) => follower.removed(member)))
    }
  }

  async #refresh(): Promise<void> {
    const check = checkDatabases(await this.#options.discovery.databases(), this.#options.schema)
    if (!check.ok) throw new PlatformOptionsError(check.failures)
    const wanted = new Map(check.databases.map((entry) => [entry.name.toLowerCase(), entry]))
    // Also one that is reached in another way now: with another password, say.
    const gone = [...this.#members].filter(([name, { identity, url }]) => {
      const entry = wanted.get(name)
      return entry?.identity !== identity || entry.url !== url
    })
    await Promise.all(gone.map(([, member]) => this.#remove(member)))
    const fresh = [...wanted].filter(([name]) => !this.#members.has(name))
    await Promise.all(fresh.map(([, entry]) => this.#add(entry)))
  }

  async #add({ name, url, schema, identity }: CheckedDatabase): Promise<void> {
    const { connectionsPerDatabase } = this.#options
    const member: OpenMember = {
      name,
      identity,
      url,
      database: openDatabase({
        url,
        schema,
        connectionsMax: connectionsPerDatabase,
        applicationName: APPLICATION_NAME,
      }),
    }
    this.#members.set(name.toLowerCase(), member)
    this.#onEvent({ type: 'databaseAdded', database: name })
    await Promise.all([...this.#followers].map((follower) => follower.added(member)))
  }

  async #remove(member: Member): Promise<void> {
    this.#members.delete(member.name.toLowerCase())
    await Promise.all([...this.#followers].map((follower) => follower.removed(member)))
    await member.database.close()
    this.#onEvent({ type: 'databaseRemoved', database: member.name })
  }
}

/** Tells a DBA whose budget a connection counts against. */
const APPLICATION_NAME = 'symphony fleet'
const NAME_LENGTH_MAX = 255
const KEY_LENGTH_MAX = 255
