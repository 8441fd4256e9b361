import { EmbeddedError } from './errors.js'
import { findHome } from './home.js'
import { resolveDataDir, resolveStopOptions, type StopOptions } from './options.js'
import { readLastStart, readPostmaster } from './postmasterFile.js'
import { stopProcess } from './stopProcess.js'

/**
 * Stops the server of a folder, whoever started it, and answers whether there was one. A server that belongs to a
 * living process is stopped only with `force`: its owner would lose its database in the middle of its work.
 */
export async function stopEmbedded(dataDir: string, options: StopOptions = {}): Promise<boolean> {
  const { force, stopTimeoutMs } = resolveStopOptions(options)
  const home = await findHome(resolveDataDir(dataDir))
  const postmaster = home === undefined ? undefined : await readPostmaster(home.dataPath)
  if (home === undefined || postmaster?.holder !== 'server') return false
  const { ownerPid } = await readLastStart(home.dataPath)
  if (ownerPid !== undefined && !force) {
    throw new EmbeddedError('EMBEDDED_OWNED', `The server in ${home.path} belongs to process ${ownerPid}.`, {
      remedy: 'Stop that process, and the server stops with it; or stop the server alone with --force.',
    })
  }
  await stopProcess(postmaster.pid, () => isGone(postmaster.pid, home.dataPath), stopTimeoutMs)
  return true
}

async function isGone(pid: number, dataPath: string): Promise<boolean> {
  const postmaster = await readPostmaster(dataPath)
  return postmaster?.pid !== pid || postmaster.holder !== 'server'
}
