import { createWorkerId } from '../core/index.js'
import { Inbox } from '../inbox/index.js'
import { Leases } from '../lease/index.js'
import { LedgerSealer, LedgerVerifier } from '../ledger/index.js'
import { OutboxStore } from '../outbox/index.js'
import { SchedulerStore } from '../scheduler/index.js'
import { guardListener } from '../worker/index.js'
import { CleanupWorker } from './CleanupWorker.js'
import { DatabaseSet, type Member } from './DatabaseSet.js'
import { PlatformDiscovery } from './discovery.js'
import type { OnPlatformEvent } from './events.js'
import { Fleet, toFleetWorker, type FleetWorker, type WorkerFactory } from './Fleet.js'
import {
  PlatformOptionsError,
  resolvePlatformOptions,
  type PlatformOptions,
  type ResolvedPlatformOptions,
} from './options.js'
import {
  InboxWorkStoreProvider,
  LeaseProvider,
  OutboxStoreProvider,
  SchedulerStoreProvider,
  type PlatformServices,
} from './services.js'

/** What was registered, as a whole: opened with `start`, closed with `stop`. */
export class PostgresPlatform {
  readonly databases: DatabaseSet
  readonly #options: ResolvedPlatformOptions
  readonly #onEvent: OnPlatformEvent
  readonly #fleets = new Set<Fleet>()

  constructor(options: ResolvedPlatformOptions, onEvent: OnPlatformEvent) {
    this.#options = options
    this.#onEvent = guardListener(onEvent)
    this.databases = new DatabaseSet(options, this.#onEvent)
  }

  /** Asks discovery; from then on the providers know the databases, and follow them as they come and go. */
  async start(): Promise<void> {
    await this.databases.start()
  }

  /** Workers for every database there is or will be; beside them sealing and verification of its ledger, and the removal of rows past their retention. */
  async serve(workersOf: ServePlatform): Promise<Fleet> {
    const { leaseSeconds } = this.#options
    const serve: WorkerFactory = (member) => [
      ...workersOf(member, { leaseSeconds }),
      this.#sealer(member),
      this.#verifier(member),
      this.#cleanup(member),
    ]
    const fleet = new Fleet(this.databases, serve, this.#options, this.#onEvent)
    this.#fleets.add(fleet)
    await fleet.start()
    return fleet
  }

  async stop(): Promise<void> {
    await Promise.all([...this.#fleets].map((fleet) => fleet.stop()))
    this.#fleets.clear()
    await this.databases.stop()
  }

  #sealer({ database }: Member): FleetWorker {
    const { sealIntervalMs: intervalMs } = this.#options
    const worker = new LedgerSealer(database.as('symphony_executor'), { intervalMs })
    return toFleetWorker('sealer', worker, ({ more }) => more, intervalMs)
  }

  #verifier({ database }: Member): FleetWorker {
    const worker = new LedgerVerifier(database.as('symphony_executor'))
    return toFleetWorker('verifier', worker, (verified) => verified !== undefined, VERIFY_INTERVAL_MS)
  }

  #cleanup({ database }: Member): FleetWorker {
    const { cleanupIntervalMs: intervalMs, retention } = this.#options
    const worker = new CleanupWorker(database.as('symphony_executor'), { intervalMs, retention })
    return toFleetWorker('cleanup', worker, ({ more }) => more, intervalMs)
  }
}

/** The database bounds the rate. */
const VERIFY_INTERVAL_MS = 10_000

/** Makes the workers of one database, with what the platform was told about leases. */
export type ServePlatform = (member: Member, settings: { readonly leaseSeconds: number }) => readonly FleetWorker[]

/**
 * Registers outbox, inbox, scheduler and leases for one database or for hundreds: each provider gives the store of a database
 * by name or by key. Everything is checked before anything is registered, and everything that is wrong is said at once.
 */
export function addPostgresPlatform(
  services: PlatformServices,
  given: PlatformOptions,
  onEvent: OnPlatformEvent = () => {},
): PostgresPlatform {
  const taken = PROVIDED.filter((service) => services.has(service))
  if (taken.length > 0) {
    throw new PlatformOptionsError(
      taken.map(({ name }) => ({ option: 'services', message: `${name} is registered already` })),
    )
  }
  const registered = services.has(PlatformDiscovery) ? services.resolve(PlatformDiscovery) : undefined
  const options = resolvePlatformOptions(given, registered)
  const platform = new PostgresPlatform(options, onEvent)
  const { databases } = platform
  const { leaseSeconds } = options
  const owner = createWorkerId()
  const outboxes = new OutboxStoreProvider(
    databases,
    ({ database }) => new OutboxStore(database, { owner, leaseSeconds }),
  )
  const inboxes = new InboxWorkStoreProvider(databases, ({ database }) => new Inbox(database, { workerId: owner }))
  const schedulers = new SchedulerStoreProvider(databases, ({ database }) => new SchedulerStore(database))
  const leases = new LeaseProvider(databases, ({ database }) => new Leases(database.as('symphony_executor')))
  if (registered === undefined) services.add(PlatformDiscovery, options.discovery)
  services.add(OutboxStoreProvider, outboxes)
  services.add(InboxWorkStoreProvider, inboxes)
  services.add(SchedulerStoreProvider, schedulers)
  services.add(LeaseProvider, leases)
  services.add(PostgresPlatform, platform)
  return platform
}

const PROVIDED = [PostgresPlatform, OutboxStoreProvider, InboxWorkStoreProvider, SchedulerStoreProvider, LeaseProvider]
