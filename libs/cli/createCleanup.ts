import type { Logger } from 'pino'
import type { Database } from '../db/index.js'
import { logCleanupEvents } from '../observability/index.js'
import { CleanupWorker } from '../platform/index.js'
import { guardListener } from '../worker/index.js'
import type { RefusalWatch } from './RefusalWatch.js'
import type { CleanupSettings } from './settings.js'

/** As `scheduler` and `start` run it. Several may run at once: each passes over what another is removing. */
export function createCleanup(
  database: Database,
  settings: CleanupSettings,
  log: Logger,
  watch: RefusalWatch,
): CleanupWorker {
  const { cleanupIntervalMs: intervalMs } = settings
  const retention = {
    inboxDays: settings.inboxRetentionDays,
    jobRunsDays: settings.jobRunRetentionDays,
    timersDays: settings.timerRetentionDays,
    leasesDays: settings.leaseRetentionDays,
  }
  const onEvent = guardListener(logCleanupEvents(log), watch.onEvent)
  return new CleanupWorker(database.as('symphony_executor'), { intervalMs, retention }, onEvent)
}
