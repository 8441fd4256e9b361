import type { Logger } from 'pino'
import type { Database } from '../db/index.js'
import { logSchedulerEvents, type Metrics } from '../observability/index.js'
import { SchedulerWorker } from '../scheduler/index.js'
import { guardListener } from '../worker/index.js'
import type { Cli } from './Cli.js'
import { createCleanup } from './createCleanup.js'
import { createLog } from './createLog.js'
import { openTargetAt, urlOfTarget } from './openTarget.js'
import { RefusalWatch } from './RefusalWatch.js'
import { requireStart } from './requireStart.js'
import type { CleanupSettings, ProcessSettings, SchedulerSettings, Settings, TargetSettings } from './settings.js'
import { untilAborted } from './untilAborted.js'

export type SchedulerProcessSettings = TargetSettings &
  SchedulerSettings &
  CleanupSettings &
  ProcessSettings &
  Pick<Settings, 'listen' | 'http'>

/** Runs until told to stop; then no connection of it is left. */
export async function runScheduler(settings: SchedulerProcessSettings, cli: Cli): Promise<void> {
  const { strict, schema } = settings
  const url = await urlOfTarget(settings)
  await requireStart({ url, schema, strict }, cli)
  const log = createLog(settings.logLevel, 'symphony scheduler')
  const database = openTargetAt(url, settings, 'scheduler')
  const face = settings.http ? await openFace() : undefined
  try {
    const watch = new RefusalWatch()
    const scheduler = createScheduler(database, settings, log, face?.metrics, watch)
    const cleanup = createCleanup(database, settings, log, watch)
    try {
      await scheduler.start()
      await cleanup.start()
      const address = await face?.listen(settings, USUAL_PORT)
      log.info({ address }, 'scheduler_started')
      cli.terminal.print('The scheduler makes messages of due timers and jobs.')
      await untilAborted(AbortSignal.any([cli.signal, watch.signal]))
    } finally {
      await face?.close()
      await Promise.all([scheduler.stop(), cleanup.stop()])
    }
    log.info({}, 'scheduler_stopped')
    watch.throwIfRefused()
  } finally {
    await database.close()
  }

  async function openFace() {
    const { HttpFace } = await import('./HttpFace.js')
    return new HttpFace({ database, log, accessToken: settings.accessToken })
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
