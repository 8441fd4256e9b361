import { randomBytes } from 'node:crypto'
import { chmod, chown, mkdir, mkdtemp, open, readdir, rename, rm, stat, unlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { systemClock } from '../core/index.js'
import type { Account } from './account.js'
import type { Deadline } from './Deadline.js'
import { EmbeddedError, hasCode } from './errors.js'
import { folderMode, type Home } from './home.js'
import { START_TIMEOUT_MS } from './options.js'
import { readClusterVersion } from './postmasterFile.js'
import type { Binaries } from './prepareBinaries.js'
import { runProgram } from './runProgram.js'
import { lastLines } from './ServerLog.js'

export const SUPERUSER = 'postgres'

const STAGING_PREFIX = 'init-'
/** Longer than any start may take, so that no living initdb loses its folder. */
const LEFTOVER_AGE_MS = 2 * START_TIMEOUT_MS.max

/**
 * Creates the cluster aside and gives it its name by one rename, password included: a crash never leaves half a
 * cluster, and of two creators one wins whole.
 */
export async function createCluster(home: Home, binaries: Binaries, deadline: Deadline): Promise<void> {
  let staging: string | undefined
  try {
    await removeLeftovers(home.path)
    staging = await mkdtemp(join(home.path, STAGING_PREFIX))
    await chmod(staging, folderMode(home.account))
    const password = randomBytes(24).toString('base64url')
    await writeFile(join(staging, 'password'), password, { mode: 0o600 })
    await initialise(staging, password, home.account, binaries, deadline)
    await syncFolder(staging)
    await rename(staging, home.clusterPath)
    await syncFolder(home.path)
  } catch (error) {
    // A killed initdb leaves a child that may still write for a moment; what then remains is removed by a later start.
    if (staging !== undefined) await rm(staging, { recursive: true, force: true, maxRetries: 5 }).catch(() => {})
    // Another starter was first; its cluster is as good as ours.
    if ((await readClusterVersion(home.dataPath)) === undefined) throw explain(error, home)
  }
}

function explain(error: unknown, home: Home): unknown {
  if (hasCode(error, 'ENOTEMPTY', 'EEXIST', 'ENOTDIR')) {
    return new EmbeddedError(
      'EMBEDDED_DATA_DIR',
      `${home.clusterPath} is in the way: it holds no PostgreSQL cluster.`,
      {
        remedy: 'Move it away, or choose another --data-dir.',
      },
    )
  }
  if (!(error instanceof Error && 'syscall' in error)) return error
  return new EmbeddedError('EMBEDDED_DATA_DIR', `The cluster cannot be created in ${home.path}.`, {
    cause: error,
    remedy: 'Choose a --data-dir in a folder you can write to.',
  })
}

async function initialise(
  staging: string,
  password: string,
  account: Account | undefined,
  binaries: Binaries,
  deadline: Deadline,
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
    const { remainingMs: timeoutMs, signal } = deadline
    await runProgram(join(binaries.binPath, 'initdb'), args, { account, timeoutMs, signal })
  } catch (error) {
    deadline.signal.throwIfAborted()
    const logTail = error instanceof Error && 'stderr' in error ? lastLines(String(error.stderr)) : ''
    if (deadline.hasPassed) {
      throw new EmbeddedError('EMBEDDED_START_TIMEOUT', 'initdb was not done in time.', { cause: error, logTail })
    }
    throw new EmbeddedError('EMBEDDED_INIT_FAILED', 'initdb could not create the cluster.', {
      cause: error,
      logTail,
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
  const oldestMs = systemClock.now().getTime() - LEFTOVER_AGE_MS
  for (const name of await readdir(path)) {
    if (!name.startsWith(STAGING_PREFIX)) continue
    const leftover = join(path, name)
    // Gone by now when it was another starter's, who has given it its final name.
    const found = await stat(leftover).catch(() => undefined)
    if (found !== undefined && found.mtimeMs < oldestMs) await rm(leftover, { recursive: true, force: true })
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
