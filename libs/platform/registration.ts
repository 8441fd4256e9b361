import { createWorkerId } from '../core/index.js'
import { Inbox } from '../inbox/index.js'
import { Leases } from '../lease/index.js'
import { OutboxStore } from '../outbox/index.js'
import { SchedulerStore } from '../scheduler/index.js'
import { guardListener } from '../worker/index.js'
import { DatabaseSet } from './DatabaseSet.js'
import { PlatformDiscovery } from './discovery.js'
import type { OnPlatformEvent } from './events.js'
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

/** The databases behind the providers: opened with `start`, closed with `stop`. */
export class PostgresPlatform {
  readonly databases: DatabaseSet

  constructor(options: ResolvedPlatformOptions, onEvent: OnPlatformEvent) {
    this.databases = new DatabaseSet(options, guardListener(onEvent))
  }

  /** Asks discovery. From then on the providers know the databases that it lists. */
  async start(): Promise<void> {
    await this.databases.start()
  }

  async stop(): Promise<void> {
    await this.databases.stop()
  }
}

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
