import type { Logger } from 'pino'
import type { Database } from '../../db/index.js'
import { logCleanupEvents, logSchedulerEvents, type Metrics } from '../../observability/index.js'
import { CleanupWorker } from '../../platform/index.js'
import { SchedulerWorker } from '../../scheduler/index.js'
import { guardListener } from '../../worker/index.js'
import { requireStartChecks } from '../database/diagnosis.js'
import { openTargetAt, urlOfTarget } from '../database/target.js'
import type {
  CleanupSettings,
  ProcessSettings,
  SchedulerSettings,
  Settings,
  TargetSettings,
} from '../settings/settings.js'
import type { Cli } from '../terminal/Terminal.js'
import { createLog, RefusalWatch, untilAborted } from './lifecycle.js'

export type SchedulerProcessSettings = TargetSettings &
  SchedulerSettings &
  CleanupSettings &
  ProcessSettings &
  Pick<Settings, 'listen' | 'http'>

/** Runs until told to stop; then no connection of it is left. */
export async function runScheduler(settings: SchedulerProcessSettings, cli: Cli): Promise<void> {
  const { strict, schema } = settings
  const url = await urlOfTarget(settings)
  await requireStartChecks({ url, schema, strict }, cli)
  const log = createLog(settings.logLevel, 'symphony scheduler')
  const database = openTargetAt(url, settings, 'scheduler')
  const httpServer = settings.http ? await openHttpServer() : undefined
  try {
    const watch = new RefusalWatch()
    const scheduler = createScheduler(database, settings, log, httpServer?.metrics, watch)
    const cleanup = createCleanup(database, settings, log, watch)
    try {
      await scheduler.start()
      await cleanup.start()
      const address = await httpServer?.listen(settings, USUAL_PORT)
      log.info({ address }, 'scheduler_started')
      cli.terminal.print('The scheduler makes messages of due timers and jobs.')
      await untilAborted(AbortSignal.any([cli.signal, watch.signal]))
    } finally {
      await httpServer?.close()
      await Promise.all([scheduler.stop(), cleanup.stop()])
    }
    log.info({}, 'scheduler_stopped')
    watch.throwIfRefused()
  } finally {
    await database.close()
  }

  async function openHttpServer() {
    const { ProcessHttpServer } = await import('./ProcessHttpServer.js')
    return new ProcessHttpServer({ database, log, accessToken: settings.accessToken })
  }
}

/** As `scheduler` and `start` run it. */
export function createScheduler(
  database: Database,
  { schedulerPollMs: pollMs, missedAfterMs, listen }: SchedulerSettings & Pick<Settings, 'listen'>,
  log: Logger,
  metrics: Metrics | undefined,
  watch: RefusalWatch,
): SchedulerWorker {
  const onEvent = guardListener(metrics?.scheduler.onEvent, logSchedulerEvents(log), watch.onEvent)
  return new SchedulerWorker(database, { pollMs, missedAfterMs, listen }, onEvent)
}

const USUAL_PORT = 7_422

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
