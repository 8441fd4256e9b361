import { InvalidArgumentError, kindOf, requiredObject, requireKnownOptions, type Clock } from '../core/index.js'
import { DatabaseError } from '../db/index.js'
import {
  DatabaseSet,
  Fleet,
  resolvePlatformOptions,
  type Member,
  type PlatformEvent,
  type PlatformOptions,
  type ResolvedPlatformOptions,
} from '../platform/index.js'
import type { MasterKeys } from '../protection/index.js'
import type { RailContract, TopicContracts } from '../rails/index.js'
import type { SchedulerOptions } from '../scheduler/index.js'
import { settleWithin } from '../worker/index.js'
import { Events, FLEET_EVENT_TYPES, type SymphonyEvent } from './Events.js'
import { checkInboxAndScheduler, WORKER_OPTIONS, type WorkerOptions } from './options.js'
import { adaptersOf, symphonyOver, type Symphony } from './Symphony.js'
import { closeRails, roundsOf, runUntilAborted, WorkerStoppedError, type InboxWork } from './SymphonyWorker.js'

/** Databases, their budget of connections, and their common rails and topics. */
export interface SymphonyFleetOptions<
  Rails extends readonly RailContract[] = readonly RailContract[],
  Topics extends TopicContracts = TopicContracts,
> extends PlatformOptions {
  /** Rails of every database. @default any rail, unchecked */
  readonly rails?: Rails
  /** Schemas of messages, by topic. @default any topic, any JSON object */
  readonly topics?: Topics
  /** Master keys, for rails that encrypt fields. */
  readonly vault?: MasterKeys
  /** Clock, for tests. @default the system's */
  readonly clock?: Clock
}

/** Returns the databases of a fleet, for the providers of `addPostgresPlatform`. */
export let databasesOf: (fleet: Pick<SymphonyFleet, 'names'>) => DatabaseSet

/** Event of the fleet, or of one of its databases. */
export type FleetEvent = PlatformEvent | (SymphonyEvent & { readonly database: string })

/**
 * Options of the workers of a fleet. A fleet takes no epoch file, because such a file belongs to one database. The
 * intervals of polling, sealing and retention are options of the fleet itself.
 */
export type FleetWorkerOptions<Topics extends TopicContracts> = Omit<
  WorkerOptions<Topics>,
  Polling | 'leaseSeconds' | 'epochFile' | 'inbox' | 'scheduler' | 'maintenance'
> & {
  /** Handlers of inbox messages, by topic. Its `leaseSeconds` has the fleet's as its default. @default none */
  readonly inbox?: Omit<InboxWork, Polling>
  /** Whether to turn due timers and jobs into messages, or the options for it. @default false */
  readonly scheduler?: boolean | Omit<SchedulerOptions, Polling>
  /** Whether to run lease repair, sealing, verification and retention. @default true */
  readonly maintenance?: boolean
}

type Polling = 'listen' | 'poll' | 'pollMs' | 'debounceMs'

/** Fleet with any rails and topics. */
export type AnyFleet = Pick<SymphonyFleet, 'names' | 'events' | 'close'>

/**
 * Many databases, each with its own Symphony. Discovery lists the databases; the fleet opens new ones and closes
 * removed ones. All workers share one budget of connections. There is no order between databases.
 */
export class SymphonyFleet<
  const Rails extends readonly RailContract[] = readonly RailContract[],
  const Topics extends TopicContracts = TopicContracts,
> implements AsyncDisposable {
  static {
    databasesOf = (fleet) => {
      if (!(#databases in fleet)) throw new InvalidArgumentError('fleet', 'expected a SymphonyFleet of this package')
      return fleet.#databases
    }
  }

  readonly events = new Events<FleetEvent>(FLEET_EVENT_TYPES)
  readonly #options: ResolvedPlatformOptions
  readonly #shared: Pick<SymphonyFleetOptions<Rails, Topics>, 'rails' | 'topics' | 'vault' | 'clock'>
  readonly #databases: DatabaseSet
  readonly #symphonies = new WeakMap<Member, Symphony<Rails, Topics>>()
  readonly #workers = new Set<SymphonyFleetWorker>()
  #started: Promise<void> | undefined
  #closed: Promise<void> | undefined

  constructor({ rails, topics, vault, clock, ...platform }: SymphonyFleetOptions<Rails, Topics>) {
    this.#options = resolvePlatformOptions(platform, undefined)
    this.#shared = {
      ...(rails === undefined ? {} : { rails }),
      ...(topics === undefined ? {} : { topics }),
      ...(vault === undefined ? {} : { vault }),
      ...(clock === undefined ? {} : { clock }),
    }
    this.#databases = new DatabaseSet(this.#options, (event) => this.events.emit(event))
    // Checks the rails now, although no database is known yet.
    adaptersOf(rails ?? [])
  }

  /**
   * Reads the databases from discovery, and again every `refreshMs`. A worker of the fleet calls this method itself.
   */
  start(): Promise<void> {
    if (this.#closed !== undefined) return Promise.reject(new FleetClosedError())
    this.#started ??= this.#start()
    return this.#started
  }

  /** Names of the databases that discovery lists now. */
  get names(): readonly string[] {
    return this.#databases.members.map(({ name }) => name)
  }

  /** Returns the Symphony of the database with this case-insensitive name. */
  of(name: string): Symphony<Rails, Topics> {
    return this.#symphonyOf(this.#databases.get(name))
  }

  /** Returns the Symphony that serves a key. A key keeps its Symphony while the databases stay the same. */
  forKey(key: string): Symphony<Rails, Topics> {
    return this.#symphonyOf(this.#databases.forKey(key))
  }

  /** Creates workers for all current and future databases without starting them. `close` stops them. */
  worker(options: FleetWorkerOptions<Topics> = {}): SymphonyFleetWorker {
    const { maintenance = true, ...others } = requiredObject('options', options)
    // With the epoch file of another database, a worker would assume a restore and freeze dispatch.
    if ('epochFile' in others)
      throw new InvalidArgumentError('epochFile', 'expected none: an epoch file belongs to one database')
    requireKnownOptions(options, FLEET_WORKER_OPTIONS)
    checkInboxAndScheduler(options, POLLING)
    if (typeof maintenance !== 'boolean') {
      throw new InvalidArgumentError(
        'maintenance',
        `expected true or false, got ${kindOf(maintenance)}; intervals and retention are options of the fleet`,
      )
    }
    const { leaseSeconds, cleanupIntervalMs, sealIntervalMs, retention } = this.#options
    const inbox = options.inbox && { ...options.inbox, leaseSeconds: options.inbox.leaseSeconds ?? leaseSeconds }
    const fleet = new Fleet(
      this.#databases,
      (member) => {
        const worker = this.#symphonyOf(member).worker({
          ...others,
          ...(inbox === undefined ? {} : { inbox }),
          leaseSeconds,
          maintenance: maintenance ? { cleanupIntervalMs, sealIntervalMs, retention } : false,
        })
        return roundsOf(worker)
      },
      this.#options,
      (event) => this.events.emit(event),
      this.#shared.clock,
    )
    let isStopped = false
    const worker: SymphonyFleetWorker = new SymphonyFleetWorker(
      async () => {
        await this.start()
        // The stop waits for a late discovery only for a while.
        if (isStopped) throw new WorkerStoppedError('fleet.worker()')
        await fleet.start()
      },
      async () => {
        isStopped = true
        await fleet.stop()
        await closeRails(adaptersOf(options.rails ?? []))
        this.#workers.delete(worker)
      },
    )
    this.#workers.add(worker)
    return worker
  }

  /** Stops the workers, then closes the rails and every connection. Safe to call twice. */
  close(): Promise<void> {
    this.#closed ??= this.#close()
    return this.#closed
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close()
  }

  async #start(): Promise<void> {
    try {
      await this.#databases.start()
    } catch (error) {
      // Lets the next call of `start` read discovery again.
      this.#started = undefined
      throw this.#closed === undefined ? error : new FleetClosedError()
    }
    await this.#databases.follow({
      added: async () => {},
      // Before a removed database is closed, stops the workers that the application started on it.
      removed: async (member) => this.#symphonies.get(member)?.close(),
    })
  }

  async #close(): Promise<void> {
    await Promise.all([...this.#workers].map((worker) => worker.stop()))
    // Also ends a start that waits for discovery.
    await this.#databases.stop()
    await this.#started?.catch(() => {})
    await closeRails(adaptersOf(this.#shared.rails ?? []))
  }

  #symphonyOf(member: Member): Symphony<Rails, Topics> {
    const known = this.#symphonies.get(member)
    if (known !== undefined) return known
    const symphony = symphonyOver(member.database, this.#shared)
    symphony.events.on('*', (event: SymphonyEvent) => this.events.emit({ ...event, database: member.name }))
    this.#symphonies.set(member, symphony)
    return symphony
  }
}

const POLLING = new Set<string>(['listen', 'poll', 'pollMs', 'debounceMs'] satisfies Polling[])
const NOT_OF_FLEET = new Set([...POLLING, 'leaseSeconds', 'epochFile'])
const FLEET_WORKER_OPTIONS = WORKER_OPTIONS.filter((name) => !NOT_OF_FLEET.has(name))

/** Maximum wait of a stop for a running start, because discovery may never return. */
const START_MS = 5_000

/** Workers of every database of a fleet, started and stopped together. */
export class SymphonyFleetWorker implements AsyncDisposable {
  readonly #start: () => Promise<void>
  readonly #stop: () => Promise<void>
  #started: Promise<void> | undefined
  #stopped: Promise<void> | undefined

  constructor(start: () => Promise<void>, stop: () => Promise<void>) {
    this.#start = start
    this.#stop = stop
  }

  /** Starts the workers. Stopped ones cannot start again. */
  start(): Promise<void> {
    if (this.#stopped !== undefined) return Promise.reject(new WorkerStoppedError('fleet.worker()'))
    this.#started ??= this.#start().catch((error: unknown) => {
      // Lets the next call of `start` try again.
      this.#started = undefined
      throw error
    })
    return this.#started
  }

  /**
   * Stops the workers. Waits for running rounds, and at most 5 s for a running start. Safe to call before `start`, and
   * twice.
   */
  stop(): Promise<void> {
    this.#stopped ??= this.#stopAfterStart()
    return this.#stopped
  }

  /** Starts, waits until the signal aborts, and stops. */
  run(options: { readonly signal: AbortSignal }): Promise<void> {
    return runUntilAborted(this, options)
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.stop()
  }

  async #stopAfterStart(): Promise<void> {
    if (this.#started !== undefined) await settleWithin(this.#started, START_MS)
    await this.#stop()
  }
}

class FleetClosedError extends DatabaseError {
  constructor() {
    super('DATABASE_CLOSED', 'this fleet was closed, and cannot start again', {
      disposition: 'fatal',
      remedy: 'Create another SymphonyFleet.',
    })
  }
}
