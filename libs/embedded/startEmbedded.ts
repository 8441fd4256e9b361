import { findBinaries } from './findBinaries.js'
import { createCluster } from './createCluster.js'
import { Deadline } from './Deadline.js'
import { urlOf } from './embeddedUrl.js'
import { EmbeddedError } from './errors.js'
import { type Home, prepareHome } from './home.js'
import { launch, type Launched } from './launch.js'
import { type ResolvedStartOptions, resolveStartOptions, type StartOptions } from './options.js'
import { choosePort, isPortFree } from './ports.js'
import { readClusterVersion, readLastStart, readPostmaster } from './postmasterFile.js'
import type { Binaries } from './prepareBinaries.js'

export interface EmbeddedServer {
  /** Address with the superuser's password: as secret as the password file. */
  readonly url: string
  readonly dataDir: string
  readonly port: number
  /** Major version: 18. */
  readonly version: number
  /** True when the server was running already: it is not ours, and `stop` leaves it alone. */
  readonly adopted: boolean
  /** The process this server ends with; undefined when it is detached and belongs to its folder. */
  readonly ownerPid: number | undefined
  /** Stops the server if this call started it. Safe to call twice, and after the server has died. */
  readonly stop: () => Promise<void>
}

/** A server told to give up on a start has no sessions to end. */
const GIVE_UP_TIMEOUT_MS = 5_000
const STOP_TIMEOUT_MS = 30_000

/** Starts the server of a folder, creating the folder's cluster when there is none, or adopts the one that runs. */
export async function startEmbedded(given: StartOptions): Promise<EmbeddedServer> {
  if (process.platform === 'win32') {
    throw new EmbeddedError('EMBEDDED_NO_POSTGRES', 'The embedded server runs on Linux and macOS.', {
      remedy: 'Set DATABASE_URL to a PostgreSQL 15 or newer.',
    })
  }
  const options = resolveStartOptions(given)
  const deadline = new Deadline(options.startTimeoutMs, options.signal)
  const home = await prepareHome(options.dataDir, options.outsideDir)
  for (;;) {
    const adopted = await adopt(home, options, deadline)
    if (adopted !== undefined) return adopted
    const started = await tryStart(home, options, deadline)
    if (started !== undefined) return started
    // Somebody else took the folder or the port between our look and our start: look again.
    await deadline.pause()
  }
}

/** Waits while a server is on its way up or down: then it can be adopted, or it is gone. */
async function adopt(
  home: Home,
  options: ResolvedStartOptions,
  deadline: Deadline,
): Promise<EmbeddedServer | undefined> {
  const decided = await deadline.poll(async () => {
    const postmaster = await readPostmaster(home.dataPath)
    if (postmaster?.isLive !== true) return 'none'
    return postmaster.status === 'ready' ? postmaster : undefined
  })
  if (decided === undefined) throw startTimeout(home, options)
  if (decided === 'none') return undefined
  return describe(home, options, decided.port, undefined)
}

async function tryStart(
  home: Home,
  options: ResolvedStartOptions,
  deadline: Deadline,
): Promise<EmbeddedServer | undefined> {
  const binaries = await prepareCluster(home, options)
  const stalePid = (await readPostmaster(home.dataPath))?.pid
  const port = await choosePort(options.port, (await readLastStart(home.dataPath)).port)
  deadline.throwIfAborted()
  const server = await launch({ ...options, home, binaries, port, stalePid })
  try {
    const outcome = await deadline.poll(() => outcomeOf(server, home))
    if (outcome === undefined) throw startTimeout(home, options, await server.log.tail())
    if (outcome === 'exited') return await explainExit(server, port, deadline, home, options)
    const ready = await describe(home, options, port, server)
    if (options.detached) server.release()
    return ready
  } catch (error) {
    await server.stop(GIVE_UP_TIMEOUT_MS)
    throw error
  }
}

async function prepareCluster(home: Home, options: ResolvedStartOptions): Promise<Binaries> {
  const clusterVersion = await readClusterVersion(home.dataPath)
  const binaries = await findBinaries({ ...options, home, clusterVersion })
  if (clusterVersion !== undefined) return binaries
  await createCluster(home, binaries, options.signal)
  if ((await readClusterVersion(home.dataPath)) === undefined) {
    throw new EmbeddedError('EMBEDDED_DATA_DIR', `${home.clusterPath} is in the way: it holds no PostgreSQL cluster.`, {
      remedy: 'Move it away, or choose another --data-dir.',
    })
  }
  return binaries
}

/** PostgreSQL says itself when it is ready, in the file only the winner of its interlock may write. */
async function outcomeOf(server: Launched, home: Home): Promise<'ready' | 'exited' | undefined> {
  if (server.hasExited()) return 'exited'
  const postmaster = await readPostmaster(home.dataPath)
  return postmaster?.pid === server.pid && postmaster.status === 'ready' ? 'ready' : undefined
}

/** Returns when another try makes sense, throws when it does not. */
async function explainExit(
  server: Launched,
  port: number,
  deadline: Deadline,
  home: Home,
  options: ResolvedStartOptions,
): Promise<undefined> {
  const logTail = await server.log.tail()
  if (deadline.hasPassed) throw startTimeout(home, options, logTail)
  // lock_file_exists: another starter was first, or backends of a killed server are still on their way out.
  if (await server.log.reports(server.pid, 'F0001')) return undefined
  if (!(await isPortFree(port))) return undefined
  throw new EmbeddedError('EMBEDDED_START_FAILED', 'PostgreSQL ended before it was ready.', {
    logTail,
    remedy: `The lines above are the end of ${server.log.path}.`,
  })
}

async function describe(
  home: Home,
  { dataDir }: ResolvedStartOptions,
  port: number,
  server: Launched | undefined,
): Promise<EmbeddedServer> {
  let stopping: Promise<void> | undefined
  return {
    url: await urlOf(home, port),
    dataDir,
    port,
    version: (await readClusterVersion(home.dataPath)) ?? Number.NaN,
    adopted: server === undefined,
    ownerPid: (await readLastStart(home.dataPath)).ownerPid,
    stop: async () => {
      if (server !== undefined) await (stopping ??= server.stop(STOP_TIMEOUT_MS))
    },
  }
}

function startTimeout(home: Home, { startTimeoutMs }: ResolvedStartOptions, logTail = ''): EmbeddedError {
  return new EmbeddedError('EMBEDDED_START_TIMEOUT', `PostgreSQL was not ready after ${startTimeoutMs} ms.`, {
    logTail,
    remedy: `Look at ${home.logPath}; a recovery after a crash may need a longer timeout.`,
  })
}
