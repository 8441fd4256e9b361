/** For processes that serve many databases. */
export {
  addPostgresPlatform,
  CleanupWorker,
  InboxWorkStoreProvider,
  LeaseProvider,
  OutboxStoreProvider,
  PlatformDiscovery,
  PlatformOptionsError,
  PlatformServices,
  PostgresPlatform,
  SchedulerStoreProvider,
} from '../platform/index.js'
export type { OptionFailure, PlatformDatabase, PlatformOptions, RetentionOptions } from '../platform/index.js'
export { SymphonyFleet } from '../symphony/index.js'
export type { SymphonyFleetOptions } from '../symphony/index.js'
