import { findHome } from './clusterHome.js'
import { Deadline } from './Deadline.js'
import { EmbeddedError, hasCode } from './errors.js'
import { resolveDataDir, resolveStopOptions, type StopOptions } from './options.js'
import { readLastStart, readPostmaster } from './postmasterFile.js'

/**
 * Stops the server of a folder, and returns whether one was running. Stops a server that was not started `detached`
 * only with `force`, because the process that started it would lose its database while it works.
 */
export async function stopEmbedded(dataDir: string, options: StopOptions = {}): Promise<boolean> {
  const { force, stopTimeoutMs } = resolveStopOptions(options)
  const home = await findHome(resolveDataDir(dataDir))
  const postmaster = home === undefined ? undefined : await readPostmaster(home.dataPath)
  if (home === undefined || postmaster?.holder !== 'server') return false
  const { ownerPid } = await readLastStart(home.dataPath)
  if (ownerPid !== undefined && !force) {
    throw new EmbeddedError('EMBEDDED_OWNED', `The server in ${home.path} belongs to process ${ownerPid}.`, {
      remedy: 'Stop that process, which also stops the server, or stop only the server with --force.',
    })
  }
  await stopProcess(postmaster.pid, () => hasEnded(postmaster.pid, home.dataPath), stopTimeoutMs)
  return true
}

async function hasEnded(pid: number, dataPath: string): Promise<boolean> {
  const postmaster = await readPostmaster(dataPath)
  return postmaster?.pid !== pid || postmaster.holder !== 'server'
}

/** Timeout of an immediate stop, in which PostgreSQL kills its child processes after 5 s. */
const QUIT_TIMEOUT_MS = 10_000

/**
 * Stops a server with SIGINT, which ends sessions; SIGTERM would wait for them. After the timeout sends SIGQUIT: no
 * commit is lost, and the next start recovers. Calls `isGone` before every signal, because another process may have the
 * pid of an ended server.
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
    remedy: `Read its log. As a last resort run kill -9 ${pid}: no commit is lost, and the next start recovers.`,
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
