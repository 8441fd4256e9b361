import { findHome } from './clusterHome.js'
import { Deadline } from './Deadline.js'
import { EmbeddedError, hasCode } from './errors.js'
import { resolveDataDir, resolveStopOptions, type StopOptions } from './options.js'
import { readLastStart, readPostmaster } from './postmasterFile.js'

/**
 * Stops the server of a folder, and returns whether one was running. A server of a live process is stopped only with
 * `force`, because its owner would lose its database in the middle of its work.
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
  await stopProcess(postmaster.pid, () => hasEnded(postmaster.pid, home.dataPath), stopTimeoutMs)
  return true
}

async function hasEnded(pid: number, dataPath: string): Promise<boolean> {
  const postmaster = await readPostmaster(dataPath)
  return postmaster?.pid !== pid || postmaster.holder !== 'server'
}

/** Time for a server that was told to quit at once: PostgreSQL itself kills its children after five seconds. */
const QUIT_TIMEOUT_MS = 10_000

/**
 * SIGINT is the fast stop: it ends sessions, where SIGTERM would wait for them without end. If that takes too long,
 * SIGQUIT: nothing committed is lost, and the next start recovers. It calls `isGone` before every signal, because
 * another process may have the pid of a server that ended.
 */
export async function stopProcess(pid: number, isGone: () => Promise<boolean>, timeoutMs: number): Promise<void> {
  for (const [signal, patienceMs] of [
    ['SIGINT', timeoutMs],
    ['SIGQUIT', QUIT_TIMEOUT_MS],
  ] as const) {
    if (await isGone()) return
    send(signal, pid)
    const gone = await new Deadline(patienceMs).poll(async () => (await isGone()) || undefined)
    if (gone === true) return
  }
  throw new EmbeddedError('EMBEDDED_STOP_TIMEOUT', `The server (pid ${pid}) does not stop.`, {
    remedy: `Look at its log; as a last resort, kill -9 ${pid}: nothing committed is lost, the next start recovers.`,
  })
}

function send(signal: NodeJS.Signals, pid: number): void {
  try {
    process.kill(pid, signal)
  } catch (error) {
    // The process ended between the check and the signal.
    if (!hasCode(error, 'ESRCH')) throw error
  }
}
