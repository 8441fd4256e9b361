import type { Logger } from 'pino'
import type { Database } from '../db/index.js'
import { logSchedulerEvents } from '../observability/index.js'
import { SchedulerWorker } from '../scheduler/index.js'
import type { Cli } from './Cli.js'
import { createLog } from './createLog.js'
import { openTargetAt, urlOfTarget } from './openTarget.js'
import { requireStart } from './requireStart.js'
import type { ProcessSettings, SchedulerSettings, Settings, TargetSettings } from './settings.js'
import { untilAborted } from './untilAborted.js'

export type SchedulerProcessSettings = TargetSettings &
  SchedulerSettings &
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
    const scheduler = createScheduler(database, settings, log)
    try {
      await scheduler.start()
      const address = await face?.listen(settings, USUAL_PORT)
      log.info({ address }, 'scheduler_started')
      cli.terminal.print('The scheduler makes messages of due timers and jobs.')
      await untilAborted(cli.signal)
    } finally {
      await face?.close()
      await scheduler.stop()
    }
    log.info({}, 'scheduler_stopped')
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
): SchedulerWorker {
  return new SchedulerWorker(database, { pollMs, missedAfterMs, listen }, logSchedulerEvents(log))
}

const USUAL_PORT = 7_422
