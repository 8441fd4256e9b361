import { requireStartChecks } from '../database/diagnosis.js'
import { urlOfTarget } from '../database/target.js'
import type {
  CleanupSettings,
  ProcessSettings,
  SchedulerSettings,
  Settings,
  TargetSettings,
} from '../settings/settings.js'
import type { Cli } from '../terminal/Terminal.js'
import { createLog, RefusalWatch, untilAborted } from './lifecycle.js'
import { openSymphony, retentionOptions, schedulerOptions } from './workerOptions.js'

export type SchedulerProcessSettings = TargetSettings &
  SchedulerSettings &
  CleanupSettings &
  ProcessSettings &
  Pick<Settings, 'listen' | 'http'>

export async function runScheduler(settings: SchedulerProcessSettings, cli: Cli): Promise<void> {
  const { strict, schema } = settings
  const url = await urlOfTarget(settings)
  await requireStartChecks({ url, schema, strict }, cli)
  const log = createLog(settings.logLevel, 'symphony scheduler')
  const symphony = openSymphony(url, settings, 'scheduler')
  try {
    const httpServer = settings.http ? await openHttpServer() : undefined
    const watch = RefusalWatch.of(symphony, log, httpServer?.metrics)
    const worker = symphony.worker({
      scheduler: schedulerOptions(settings),
      maintenance: { ...retentionOptions(settings), repair: false, sealing: false },
    })
    try {
      await worker.start()
      const address = await httpServer?.listen(settings, USUAL_PORT)
      log.info({ address }, 'scheduler_started')
      cli.terminal.print('The scheduler turns due timers and jobs into messages.')
      await untilAborted(AbortSignal.any([cli.signal, watch.signal]))
    } finally {
      await httpServer?.close()
      await worker.stop()
    }
    log.info({}, 'scheduler_stopped')
    watch.throwIfRefused()
  } finally {
    await symphony.close()
  }

  async function openHttpServer() {
    const { ProcessHttpServer } = await import('./ProcessHttpServer.js')
    return new ProcessHttpServer({ symphony, log, accessToken: settings.accessToken })
  }
}

const USUAL_PORT = 7_422
