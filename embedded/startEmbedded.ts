import { readFile } from 'node:fs/promises'
import { type ClusterHome, findHome, prepareHome } from './clusterHome.js'
import { createCluster, SUPERUSER } from './createCluster.js'
import { Deadline } from './Deadline.js'
import { EmbeddedError } from './errors.js'
import { type Binaries, findBinaries } from './findBinaries.js'
import { launch, type Launched } from './launch.js'
import { resolveDataDir, type ResolvedStartOptions, resolveStartOptions, type StartOptions } from './options.js'
import { choosePort, isPortFree, LOOPBACK } from './ports.js'
import { readClusterVersion, readLastStart, readPostmaster } from './postmasterFile.js'
import { ServerLog } from './ServerLog.js'
import { withStartLock } from './startLock.js'

export interface EmbeddedServer {
  /** Address with the password of the superuser: keep it secret. */
  readonly url: string
  readonly dataDir: string
  readonly port: number
  /** Major version, such as 18. */
  readonly version: number
  /** Whether the server was already running. `stop` then does nothing. */
  readonly adopted: boolean
  /** Process that the server ends with; undefined for a detached server. */
  readonly ownerPid: number | undefined
  /** Stops the server if this call started it. Safe to call twice, and after the server has died. */
  readonly stop: () => Promise<void>
}

/** Timeout for stopping a server after a failed start. Short, because the server has no sessions. */
const GIVE_UP_TIMEOUT_MS = 5_000
const STOP_TIMEOUT_MS = 30_000

/** State of one call of `startEmbedded`. */
interface Attempt {
  readonly home: ClusterHome
  readonly log: ServerLog
  readonly options: ResolvedStartOptions
  readonly deadline: Deadline
}

/** Starts the server of a folder, or adopts a running one. Creates the cluster if there is none. */
export async function startEmbedded(given: StartOptions): Promise<EmbeddedServer> {
  if (process.platform === 'win32') {
    throw new EmbeddedError('EMBEDDED_NO_POSTGRES', 'The embedded server runs on Linux and macOS.', {
      remedy: 'Set DATABASE_URL to a PostgreSQL 15 or newer.',
    })
  }
  const options = resolveStartOptions(given)
  const deadline = new Deadline(options.startTimeoutMs, options.signal)
  const home = await prepareHome(options.dataDir, options.outsideDir)
  const attempt = { home, log: new ServerLog(home.logPath), options, deadline }
  for (;;) {
    const server =
      (await adoptRunning(attempt)) ??
      // Checks again after waiting for the lock: another process may have started the server.
      (await withStartLock(home.dataPath, deadline, async () => (await adoptRunning(attempt)) ?? startOwn(attempt)))
    if (server !== undefined) return server
    // Another process took the folder or the port in the meantime: try again.
    await deadline.pause()
  }
}

/** Adopts a running server. Waits while it starts or stops. */
async function adoptRunning(attempt: Attempt): Promise<EmbeddedServer | undefined> {
  const settled = await attempt.deadline.poll(async () => {
    const postmaster = await readPostmaster(attempt.home.dataPath)
    if (postmaster?.holder !== 'server') return 'no server'
    return postmaster.status === 'ready' ? postmaster : undefined
  })
  if (settled === undefined) throw await startTimeout(attempt)
  return settled === 'no server' ? undefined : describe(attempt, settled.port)
}

/** Starts the server. Returns undefined if another process was first and the caller should try again. */
async function startOwn(attempt: Attempt): Promise<EmbeddedServer | undefined> {
  const { home, log, options, deadline } = attempt
  const binaries = await prepareCluster(attempt)
  const port = await choosePort(options.port, (await readLastStart(home.dataPath)).port)
  deadline.signal.throwIfAborted()
  const server = await launch({ ...options, home, log, binaries, port, stalePid: await stalePidOf(home) })
  try {
    const outcome = await deadline.poll(() => outcomeOf(server, home))
    if (outcome === undefined) throw await startTimeout(attempt)
    if (outcome === 'exited') {
      await throwUnlessLost(attempt, server, port)
      return undefined
    }
    const ready = await describe(attempt, port, server)
    if (options.detached) server.release()
    return ready
  } catch (error) {
    await server.stop(GIVE_UP_TIMEOUT_MS)
    throw error
  }
}

async function prepareCluster({ home, options, deadline }: Attempt): Promise<Binaries> {
  const clusterVersion = await readClusterVersion(home.dataPath)
  const binaries = await findBinaries({ ...options, home, clusterVersion })
  if (clusterVersion === undefined) await createCluster(home, binaries, deadline)
  return binaries
}

/**
 * Returns the pid of a stale lock file, which PG_GRANDPARENT_PID makes PostgreSQL ignore. Returns it only if the pid
 * certainly belongs to no server of this folder. Otherwise a server that is still starting would lose the folder to a
 * second one.
 */
async function stalePidOf(home: ClusterHome): Promise<number | undefined> {
  const postmaster = await readPostmaster(home.dataPath)
  return postmaster?.holder === 'other process' ? postmaster.pid : undefined
}

/** Returns the state of the start. PostgreSQL reports readiness in postmaster.pid, which only one server can write. */
async function outcomeOf(server: Launched, home: ClusterHome): Promise<'ready' | 'exited' | undefined> {
  if (server.hasExited()) return 'exited'
  const postmaster = await readPostmaster(home.dataPath)
  return postmaster?.pid === server.pid && postmaster.status === 'ready' ? 'ready' : undefined
}

async function throwUnlessLost(attempt: Attempt, server: Launched, port: number): Promise<void> {
  const { log, deadline } = attempt
  if (deadline.hasPassed) throw await startTimeout(attempt)
  // lock_file_exists: another process was first, or backends of a killed server are still ending.
  if (await log.reports(server.pid, 'F0001')) return
  if (!(await isPortFree(port))) return
  throw new EmbeddedError('EMBEDDED_START_FAILED', 'PostgreSQL ended before it was ready.', {
    logTail: await log.tail(),
    remedy: `Read the log lines above, from ${log.path}.`,
  })
}

async function describe({ home, options }: Attempt, port: number, own?: Launched): Promise<EmbeddedServer> {
  const [url, version, { ownerPid }] = await Promise.all([
    urlOf(home, port),
    readClusterVersion(home.dataPath),
    readLastStart(home.dataPath),
  ])
  if (version === undefined) {
    throw new EmbeddedError('EMBEDDED_DATA_DIR', `The cluster in ${home.dataPath} was removed while it was in use.`)
  }
  let stopping: Promise<void> | undefined
  return {
    url,
    dataDir: options.dataDir,
    port,
    version,
    adopted: own === undefined,
    ownerPid,
    stop: async () => {
      if (own !== undefined) await (stopping ??= own.stop(STOP_TIMEOUT_MS))
    },
  }
}

async function startTimeout({ log, options }: Attempt): Promise<EmbeddedError> {
  return new EmbeddedError('EMBEDDED_START_TIMEOUT', `PostgreSQL was not ready after ${options.startTimeoutMs} ms.`, {
    logTail: await log.tail(),
    remedy: `Read ${log.path}; recovery after a crash may need a longer timeout.`,
  })
}

/** Returns the URL, password included, of the server that runs in this folder. */
export async function embeddedUrl(dataDir: string): Promise<string> {
  const folder = resolveDataDir(dataDir)
  const home = await findHome(folder)
  const postmaster = home === undefined ? undefined : await readPostmaster(home.dataPath)
  if (home === undefined || postmaster?.holder !== 'server' || postmaster.status !== 'ready') {
    const word = /^[\w./-]+$/.test(folder) ? folder : `'${folder.replaceAll("'", String.raw`'\''`)}'`
    const option = folder === resolveDataDir('.symphony') ? '' : ` --data-dir ${word}`
    throw new EmbeddedError('EMBEDDED_NOT_RUNNING', `No PostgreSQL runs in ${folder}.`, {
      remedy: `Start it: symphony db start${option}`,
    })
  }
  return urlOf(home, postmaster.port)
}

async function urlOf(home: ClusterHome, port: number): Promise<string> {
  return `postgres://${SUPERUSER}:${await readPassword(home)}@${LOOPBACK}:${port}/postgres`
}

async function readPassword(home: ClusterHome): Promise<string> {
  try {
    return (await readFile(home.passwordPath, 'utf8')).trim()
  } catch (error) {
    throw new EmbeddedError('EMBEDDED_DATA_DIR', `The password file ${home.passwordPath} cannot be read.`, {
      cause: error,
      remedy: 'Run as the user who created the cluster or as root, or choose another --data-dir.',
    })
  }
}
