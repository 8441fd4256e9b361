/** Processes that serve many databases. */
export {
  CleanupWorker,
  InboxWorkStoreProvider,
  LeaseProvider,
  OutboxStoreProvider,
  PlatformDiscovery,
  PlatformOptionsError,
  PlatformServices,
  SchedulerStoreProvider,
} from '../platform/index.js'
export type { OptionFailure, PlatformDatabase, PlatformOptions, RetentionOptions } from '../platform/index.js'
export { addPostgresPlatform, PostgresPlatform, SymphonyFleet } from '../symphony/index.js'
export type { SymphonyFleetOptions } from '../symphony/index.js'
