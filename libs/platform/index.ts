/**
 * Many databases, one platform: registration, discovery, routing, and a fleet of workers within one budget of connections.
 *
 * A database is there while discovery lists it. What is new is opened and served; what is gone is let go of, round by round,
 * and closed. One that does not answer is left alone and asked again; the others do not notice. A crash leaves nothing behind
 * but leases that expire, in each database for itself.
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
