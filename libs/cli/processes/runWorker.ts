import { requireStartChecks } from '../database/diagnosis.js'
import { urlOfTarget } from '../database/target.js'
import type { NotifyFileSettings, ProcessSettings, RelaySettings, TargetSettings } from '../settings/settings.js'
import type { Cli } from '../terminal/Terminal.js'
import { createLog, RefusalWatch, stdinClosed, untilAborted } from './lifecycle.js'
import { alertRails, loadNotify } from './alertNotices.js'
import { openMasterKeys, readRailsFile } from './rails.js'
import { ledgerOptions, openSymphony, relayerOptions } from './workerOptions.js'

export interface WorkerSettings
  extends TargetSettings, Omit<RelaySettings, 'rails'>, ProcessSettings, NotifyFileSettings {
  readonly rails: string
  readonly http: boolean
  readonly untilStdinCloses: boolean
}

/** Runs until stopped. Then releases its leases and closes its connections. */
export async function runWorker(settings: WorkerSettings, cli: Cli): Promise<void> {
  const { strict, schema } = settings
  const url = await urlOfTarget(settings)
  const vault = await openMasterKeys(settings.vaultKeys)
  const notify = await loadNotify(settings, cli)
  // Imports the rails last, because an open connection of a rail would keep a failed process alive.
  const rails = await readRailsFile(settings.rails, { timeoutMs: settings.railTimeoutMs })
  const symphony = openSymphony(url, settings, 'worker', { rails: [...rails, ...alertRails(notify)], vault })
  try {
    const worker = symphony.worker({
      ...relayerOptions(settings),
      // `scheduler` and `start` remove finished rows. A worker does not.
      maintenance: { ...ledgerOptions(settings), retention: false },
    })
    await requireStartChecks({ url, schema, strict }, cli)
    const log = createLog(settings.logLevel, 'symphony worker')
    const httpServer = settings.http ? await openHttpServer() : undefined
    const watch = RefusalWatch.of(symphony, log, httpServer?.metrics)
    const { workerId, railTypes } = worker
    httpServer?.metrics.outbox.declareRails(railTypes)
    try {
      await worker.start()
      const address = await httpServer?.listen(settings, USUAL_PORT)
      log.info({ workerId, rails: railTypes, address }, 'worker_started')
      cli.terminal.print(`Worker ${workerId} serves ${railTypes.join(', ')}.`)
      await untilAborted(
        AbortSignal.any([cli.signal, watch.signal, ...(settings.untilStdinCloses ? [stdinClosed()] : [])]),
      )
    } finally {
      await httpServer?.close()
      await worker.stop()
    }
    log.info({ workerId }, 'worker_stopped')
    watch.throwIfRefused()

    async function openHttpServer() {
      const { ProcessHttpServer } = await import('./ProcessHttpServer.js')
      return new ProcessHttpServer({ symphony, log, accessToken: settings.accessToken })
    }
  } finally {
    await symphony.close()
  }
}

const USUAL_PORT = 7_421
