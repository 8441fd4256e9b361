import type { Cli } from './Cli.js'
import { createLog } from './createLog.js'
import { openRails, orCloseRails, protectionOf } from './fieldProtection.js'
import { loadRailsFile } from './loadRailsFile.js'
import { openTargetAt, urlOfTarget } from './openTarget.js'
import { Relay } from './Relay.js'
import { RefusalWatch } from './RefusalWatch.js'
import { requireStart } from './requireStart.js'
import type { ProcessSettings, RelaySettings, TargetSettings } from './settings.js'
import { stdinClosed } from './stdinClosed.js'
import { untilAborted } from './untilAborted.js'

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
  const protection = await orCloseRails(loaded, async () => {
    const read = await protectionOf(loaded, settings.vaultKeys)
    await requireStart({ url, schema, strict }, cli)
    return read
  })
  const log = createLog(settings.logLevel, 'symphony worker')
  const database = openTargetAt(url, settings, 'worker')
  const face = settings.http ? await openFace() : undefined
  try {
    const rails = await orCloseRails(loaded, () => openRails(protection, database))
    const watch = new RefusalWatch()
    const relay = new Relay({ database, rails, settings, log, metrics: face?.metrics, watch })
    try {
      await relay.start()
      const address = await face?.listen(settings, USUAL_PORT)
      log.info({ workerId: relay.workerId, rails: [...rails.keys()], address }, 'worker_started')
      cli.terminal.print(`Worker ${relay.workerId} carries ${[...rails.keys()].join(', ')}.`)
      await untilAborted(
        AbortSignal.any([cli.signal, watch.signal, ...(settings.untilStdinCloses ? [stdinClosed()] : [])]),
      )
    } finally {
      await face?.close()
      await relay.stop()
    }
    log.info({ workerId: relay.workerId }, 'worker_stopped')
    watch.throwIfRefused()
  } finally {
    await database.close()
  }

  async function openFace() {
    const { HttpFace } = await import('./HttpFace.js')
    return new HttpFace({ database, log, accessToken: settings.accessToken })
  }
}

const USUAL_PORT = 7_421
