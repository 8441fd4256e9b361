import type { MasterKeys } from '../../protection/index.js'
import type { Rail } from '../../rails/index.js'
import { Symphony } from '../../symphony/index.js'
import { targetOptions } from '../database/target.js'
import type {
  CleanupSettings,
  RelaySettings,
  SchedulerSettings,
  Settings,
  TargetSettings,
} from '../settings/settings.js'

/** Creates a Symphony from the settings. It opens no connection yet. */
export function openSymphony(
  url: string,
  settings: TargetSettings,
  application: string,
  { rails = [], vault }: { readonly rails?: readonly Rail[]; readonly vault?: MasterKeys | undefined } = {},
): Symphony<readonly Rail[]> {
  return new Symphony({
    ...targetOptions(url, settings, application),
    rails,
    ...(vault === undefined ? {} : { vault }),
  })
}

/** Returns the options of the relayer in `worker` and `start`. */
export function relayerOptions({
  workerId,
  epochFile,
  leaseSeconds,
  batchSize,
  concurrency,
  pollMs,
  listen,
  renewLeases,
  shutdownMs,
  railTimeoutMs,
}: Omit<RelaySettings, 'rails'>) {
  return {
    leaseSeconds,
    batchSize,
    concurrency,
    pollMs,
    listen,
    renewLeases,
    shutdownMs,
    railTimeoutMs,
    ...(workerId === undefined ? {} : { workerId }),
    ...(epochFile === undefined ? {} : { epochFile }),
  }
}

/** Returns the options of lease repair and sealing in `worker` and `start`. */
export function ledgerOptions({
  repairIntervalMs,
  repairBatchSize,
  sealIntervalMs,
  verifyRowsPerSecond,
}: Omit<RelaySettings, 'rails'>) {
  return { repairIntervalMs, repairBatchSize, sealIntervalMs, verifyRowsPerSecond }
}

/** Returns the options of the scheduler in `scheduler` and `start`. */
export function schedulerOptions({
  schedulerPollMs: pollMs,
  missedAfterMs,
  listen,
}: SchedulerSettings & Pick<Settings, 'listen'>) {
  return { pollMs, missedAfterMs, listen }
}

/** Returns the retention options in `scheduler` and `start`. */
export function retentionOptions(settings: CleanupSettings) {
  return {
    cleanupIntervalMs: settings.cleanupIntervalMs,
    retention: {
      inboxDays: settings.inboxRetentionDays,
      jobRunsDays: settings.jobRunRetentionDays,
      timersDays: settings.timerRetentionDays,
      leasesDays: settings.leaseRetentionDays,
      searchDays: settings.searchRetentionDays,
    },
  }
}
