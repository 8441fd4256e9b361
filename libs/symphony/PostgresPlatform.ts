import { createWorkerId } from '../core/index.js'
import { Inbox } from '../inbox/index.js'
import { OutboxStore } from '../outbox/index.js'
import { SchedulerStore } from '../scheduler/index.js'
import {
  InboxWorkStoreProvider,
  LeaseProvider,
  OutboxStoreProvider,
  PlatformDiscovery,
  PlatformOptionsError,
  resolvePlatformOptions,
  SchedulerStoreProvider,
  type DatabaseSet,
  type PlatformOptions,
  type PlatformServices,
} from '../platform/index.js'
import { databasesOf, SymphonyFleet } from './SymphonyFleet.js'

/** Registered databases. `start` opens and `stop` closes them. */
export class PostgresPlatform {
  /** Workers and events of these databases: `platform.fleet.worker({ rails })`. */
  readonly fleet: SymphonyFleet
  readonly databases: DatabaseSet

  constructor(fleet: SymphonyFleet) {
    this.fleet = fleet
    this.databases = databasesOf(fleet)
  }

  /** Reads the databases from discovery. Until then the providers know no database and throw. */
  start(): Promise<void> {
    return this.fleet.start()
  }

  /** Stops the workers of the fleet, and closes every connection. */
  stop(): Promise<void> {
    return this.fleet.close()
  }
}

/**
 * Registers outbox, inbox, scheduler and leases for one database or for hundreds. Each provider returns the store of a
 * database by name or by key. Checks everything before it registers anything, and reports all errors at once.
 */
export function addPostgresPlatform(services: PlatformServices, given: PlatformOptions): PostgresPlatform {
  const taken = PROVIDED.filter((service) => services.has(service))
  if (taken.length > 0) {
    throw new PlatformOptionsError(
      taken.map(({ name }) => ({ option: 'services', message: `${name} is registered already` })),
    )
  }
  const registered = services.has(PlatformDiscovery) ? services.resolve(PlatformDiscovery) : undefined
  const { discovery, leaseSeconds } = resolvePlatformOptions(given, registered)
  // Omits the list of databases, because `discovery` already contains them.
  const { databases: _list, ...others } = given
  const fleet = new SymphonyFleet({ ...others, discovery })
  const platform = new PostgresPlatform(fleet)
  const { databases } = platform
  const owner = createWorkerId()
  const outboxes = new OutboxStoreProvider(
    databases,
    ({ database }) => new OutboxStore(database, { owner, leaseSeconds }),
  )
  const inboxes = new InboxWorkStoreProvider(databases, ({ database }) => new Inbox(database, { workerId: owner }))
  const schedulers = new SchedulerStoreProvider(databases, ({ database }) => new SchedulerStore(database))
  // The Symphony of a database releases its leases before the database is closed.
  const leases = new LeaseProvider(databases, ({ name }) => fleet.of(name).leases)
  if (registered === undefined) services.add(PlatformDiscovery, discovery)
  services.add(OutboxStoreProvider, outboxes)
  services.add(InboxWorkStoreProvider, inboxes)
  services.add(SchedulerStoreProvider, schedulers)
  services.add(LeaseProvider, leases)
  services.add(PostgresPlatform, platform)
  return platform
}

const PROVIDED = [PostgresPlatform, OutboxStoreProvider, InboxWorkStoreProvider, SchedulerStoreProvider, LeaseProvider]
