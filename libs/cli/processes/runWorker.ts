import { requireStartChecks } from '../database/diagnosis.js'
import { openTargetAt, urlOfTarget } from '../database/target.js'
import type { ProcessSettings, RelaySettings, TargetSettings } from '../settings/settings.js'
import type { Cli } from '../terminal/Terminal.js'
import { createLog, RefusalWatch, stdinClosed, untilAborted } from './lifecycle.js'
import { closeRailsOnError, loadRailsFile, openRails, protectionOf } from './rails.js'
import { WorkerServices } from './WorkerServices.js'

export interface WorkerSettings extends TargetSettings, Omit<RelaySettings, 'rails'>, ProcessSettings {
  readonly rails: string
  readonly http: boolean
  readonly untilStdinCloses: boolean
}

/** Runs until told to stop; then nothing of it is left, neither a lease nor a connection. */
export async function runWorker(settings: WorkerSettings, cli: Cli): Promise<void> {
  const { strict, schema } = settings
  const url = await urlOfTarget(settings)
  const loaded = await loadRailsFile(settings.rails, { timeoutMs: settings.railTimeoutMs })
  const protection = await closeRailsOnError(loaded, async () => {
    const read = await protectionOf(loaded, settings.vaultKeys)
    await requireStartChecks({ url, schema, strict }, cli)
    return read
  })
  const log = createLog(settings.logLevel, 'symphony worker')
  const database = openTargetAt(url, settings, 'worker')
  const httpServer = settings.http ? await openHttpServer() : undefined
  try {
    const rails = await closeRailsOnError(loaded, () => openRails(protection, database))
    const watch = new RefusalWatch()
    const relay = new WorkerServices({ database, rails, settings, log, metrics: httpServer?.metrics, watch })
    try {
      await relay.start()
      const address = await httpServer?.listen(settings, USUAL_PORT)
      log.info({ workerId: relay.workerId, rails: [...rails.keys()], address }, 'worker_started')
      cli.terminal.print(`Worker ${relay.workerId} carries ${[...rails.keys()].join(', ')}.`)
      await untilAborted(
        AbortSignal.any([cli.signal, watch.signal, ...(settings.untilStdinCloses ? [stdinClosed()] : [])]),
      )
    } finally {
      await httpServer?.close()
      await relay.stop()
    }
    log.info({ workerId: relay.workerId }, 'worker_stopped')
    watch.throwIfRefused()
  } finally {
    await database.close()
  }

  async function openHttpServer() {
    const { ProcessHttpServer } = await import('./ProcessHttpServer.js')
    return new ProcessHttpServer({ database, log, accessToken: settings.accessToken })
  }
}

const USUAL_PORT = 7_421
