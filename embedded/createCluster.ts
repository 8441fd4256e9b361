import { randomBytes } from 'node:crypto'
import { chown, mkdir, readdir, unlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Account } from './account.js'
import { createAtomically } from './createAtomically.js'
import type { Deadline } from './Deadline.js'
import { EmbeddedError, hasCode } from './errors.js'
import { folderMode, type ClusterHome } from './clusterHome.js'
import { readClusterVersion } from './postmasterFile.js'
import type { Binaries } from './findBinaries.js'
import { runProgram } from './runProgram.js'
import { lastLines } from './ServerLog.js'

export const SUPERUSER = 'postgres'

/** Creates the cluster and its password, unless another process has just created them. */
export async function createCluster(home: ClusterHome, binaries: Binaries, deadline: Deadline): Promise<void> {
  try {
    // Checked first, so that a folder that is no cluster is refused before initdb runs, which takes seconds.
    if (await isFree(home.clusterPath)) {
      await createAtomically(home.clusterPath, folderMode(home.account), async (unfinished) => {
        const password = randomBytes(24).toString('base64url')
        await writeFile(join(unfinished, 'password'), password, { mode: 0o600 })
        await initialise(unfinished, password, home.account, binaries, deadline)
      })
    }
  } catch (error) {
    if (!(error instanceof Error && 'syscall' in error)) throw error
    throw new EmbeddedError('EMBEDDED_DATA_DIR', `The cluster cannot be created in ${home.path}.`, {
      cause: error,
      remedy: 'Choose a --data-dir in a folder you can write to.',
    })
  }
  if ((await readClusterVersion(home.dataPath)) === undefined) {
    throw new EmbeddedError('EMBEDDED_DATA_DIR', `${home.clusterPath} exists but contains no PostgreSQL cluster.`, {
      remedy: 'Move it to another place, or choose another --data-dir.',
    })
  }
}

/** Returns whether nothing or an empty folder has this path. */
async function isFree(path: string): Promise<boolean> {
  try {
    return (await readdir(path)).length === 0
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return true
    if (hasCode(error, 'ENOTDIR')) return false
    throw error
  }
}

async function initialise(
  folder: string,
  password: string,
  account: Account | undefined,
  binaries: Binaries,
  deadline: Deadline,
): Promise<void> {
  const dataPath = join(folder, 'data')
  // initdb runs as the server's account, which must not be able to read our password file.
  const passwordFile = join(folder, 'initdb-password')
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
      remedy: 'Read the output of initdb above, or set DATABASE_URL to another PostgreSQL.',
    })
  }
  await unlink(passwordFile)
}

/**
 * Returns locale options for the same sort order and case rules on every machine. Locales of an operating system may
 * change with an upgrade.
 */
function localeArguments(version: number): readonly string[] {
  if (version >= 17) return ['--locale-provider=builtin', '--builtin-locale=C.UTF-8', '--locale=C']
  // macOS has no C.UTF-8. C sorts the same and differs only in the case of non-ASCII letters.
  return [process.platform === 'darwin' ? '--locale=C' : '--locale=C.UTF-8']
}
