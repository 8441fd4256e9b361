import { randomBytes } from 'node:crypto'
import { chmod, chown, mkdir, mkdtemp, open, readdir, rename, rm, stat, unlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { systemClock } from '../core/index.js'
import type { Account } from './account.js'
import type { Binaries } from './prepareBinaries.js'
import { EmbeddedError, hasCode } from './errors.js'
import { folderMode, type Home } from './home.js'
import { runProgram } from './runProgram.js'
import { lastLines } from './serverLog.js'

export const SUPERUSER = 'postgres'

const STAGING_PREFIX = 'init-'
const INITDB_TIMEOUT_MS = 120_000
/** Far longer than initdb may run, so that no living one loses its folder. */
const LEFTOVER_AGE_MS = 600_000

/**
 * Creates the cluster aside and gives it its name by one rename, password included: a crash never leaves half a
 * cluster, and of two creators one wins whole.
 */
export async function createCluster(home: Home, binaries: Binaries, signal: AbortSignal): Promise<void> {
  await removeLeftovers(home.path)
  const staging = await mkdtemp(join(home.path, STAGING_PREFIX))
  try {
    await chmod(staging, folderMode(home.account))
    const password = randomBytes(24).toString('base64url')
    await writeFile(join(staging, 'password'), password, { mode: 0o600 })
    await initialise(staging, password, home.account, binaries, signal)
    await syncFolder(staging)
    await rename(staging, home.clusterPath)
    await syncFolder(home.path)
  } catch (error) {
    await rm(staging, { recursive: true, force: true })
    // Another starter was first; its cluster is as good as ours.
    if (!hasCode(error, 'ENOTEMPTY', 'EEXIST')) throw error
  }
}

async function initialise(
  staging: string,
  password: string,
  account: Account | undefined,
  binaries: Binaries,
  signal: AbortSignal,
): Promise<void> {
  const dataPath = join(staging, 'data')
  // initdb reads the password as the server's account, which must not be able to read ours.
  const passwordFile = join(staging, 'initdb-password')
  await mkdir(dataPath, { mode: 0o700 })
  await writeFile(passwordFile, password, { mode: 0o600 })
  if (account !== undefined) {
    await chown(dataPath, account.uid, account.gid)
    await chown(passwordFile, account.uid, account.gid)
  }
  const args = [
    `--pgdata=${dataPath}`,
    `--pwfile=${passwordFile}`,
    `--username=${SUPERUSER}`,
    '--auth=scram-sha-256',
    '--encoding=UTF8',
    '--data-checksums',
    ...localeArguments(binaries.version),
  ]
  try {
    await runProgram(join(binaries.binPath, 'initdb'), args, { account, timeoutMs: INITDB_TIMEOUT_MS, signal })
  } catch (error) {
    signal.throwIfAborted()
    throw new EmbeddedError('EMBEDDED_INIT_FAILED', 'initdb could not create the cluster.', {
      cause: error,
      logTail: error instanceof Error && 'stderr' in error ? lastLines(String(error.stderr)) : '',
      remedy: 'The lines above are from initdb. A PostgreSQL of your own can be used with DATABASE_URL.',
    })
  }
  await unlink(passwordFile)
}

/** The same order and case rules on every machine; those of the operating system change with its upgrades. */
function localeArguments(version: number): readonly string[] {
  if (version >= 17) return ['--locale-provider=builtin', '--builtin-locale=C.UTF-8', '--locale=C']
  // macOS has no C.UTF-8; C sorts the same and differs only in the case of letters beyond ASCII.
  return [process.platform === 'darwin' ? '--locale=C' : '--locale=C.UTF-8']
}

async function removeLeftovers(path: string): Promise<void> {
  const names = (await readdir(path)).filter((name) => name.startsWith(STAGING_PREFIX))
  for (const name of names) {
    const leftover = join(path, name)
    const { mtimeMs } = await stat(leftover)
    if (systemClock.now().getTime() - mtimeMs > LEFTOVER_AGE_MS) await rm(leftover, { recursive: true, force: true })
  }
}

/** A rename survives a power cut only once the folder that holds the name is on disk. */
async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, 'r')
  try {
    await folder.sync()
  } finally {
    await folder.close()
  }
}
