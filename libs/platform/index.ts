/**
 * Several databases in one platform: registration, discovery, routing, and a fleet of workers within one budget of
 * connections.
 *
 * Discovery lists the databases. The fleet opens and serves new ones, and closes removed ones after their running
 * rounds. A database that does not answer is probed again later and does not affect the others. A crash leaves only
 * leases, which expire in each database.
 */
export { CleanupWorker } from './CleanupWorker.js'
export type { CleanupCounts, CleanupEvent, CleanupOptions } from './CleanupWorker.js'
export type { OptionFailure, PlatformDatabase } from './discovery.js'
export { DatabaseSet, UnknownDatabaseError } from './DatabaseSet.js'
export type { DatabaseObserver, Member } from './DatabaseSet.js'
export { PlatformDiscovery, StaticDiscovery } from './discovery.js'
export type { OnPlatformEvent, PlatformEvent } from './events.js'
export { Fleet, toFleetWorker } from './Fleet.js'
export type { FleetWorker, WorkerFactory } from './Fleet.js'
export { PlatformOptionsError, resolvePlatformOptions } from './options.js'
export type { PlatformOptions, ResolvedPlatformOptions, RetentionOptions, Selection } from './options.js'
export {
  InboxWorkStoreProvider,
  LeaseProvider,
  OutboxStoreProvider,
  PlatformServices,
  SchedulerStoreProvider,
  ServiceError,
} from './services.js'
export type { ServiceClass } from './services.js'
