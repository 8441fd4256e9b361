import { readFile, stat } from 'node:fs/promises'
import { EmbeddedError, hasCode } from './errors.js'
import { runProgram } from './runProgram.js'

/** User that the server runs as, if it is not the user of this process. */
export interface Account {
  readonly uid: number
  readonly gid: number
}

const PREFERRED_NAMES = ['postgres', '_postgres', 'nobody']

function isRoot(): boolean {
  return process.geteuid?.() === 0
}

/** Returns another account if this process is root, because PostgreSQL refuses to run as root. */
export async function accountForNewCluster(): Promise<Account | undefined> {
  if (!isRoot()) return undefined
  // System accounts are in this file on Linux and macOS, even if the machine uses a directory service.
  const entries = (await readFile('/etc/passwd', 'utf8')).split('\n').map((line) => line.split(':'))
  for (const name of PREFERRED_NAMES) {
    const entry = entries.find((fields) => fields[0] === name)
    if (entry !== undefined) return { uid: Number(entry[2]), gid: Number(entry[3]) }
  }
  throw new EmbeddedError('EMBEDDED_NO_POSTGRES', 'PostgreSQL refuses to run as root, and there is no other account.', {
    remedy: 'Create a user named postgres, run as an ordinary user, or set DATABASE_URL.',
  })
}

/**
 * Returns the owner of an existing cluster, because PostgreSQL must run as the owner. Root may have chosen another
 * account before, or may use the cluster of an ordinary user.
 */
export async function accountOfCluster(dataPath: string): Promise<Account | undefined> {
  const { uid, gid } = await stat(dataPath)
  if (isRoot()) {
    if (uid !== 0) return { uid, gid }
    throw new EmbeddedError('EMBEDDED_DATA_DIR', `The cluster in ${dataPath} belongs to root.`, {
      remedy: 'PostgreSQL refuses to run as root: change the owner of the folder and its contents with chown -R.',
    })
  }
  if (uid === process.geteuid?.()) return undefined
  throw new EmbeddedError('EMBEDDED_DATA_DIR', `The cluster in ${dataPath} belongs to another user (uid ${uid}).`, {
    remedy: 'Run as that user or as root, or choose another --data-dir.',
  })
}

/**
 * Returns whether the account can enter the folder. Tries to enter it, because permission bits do not cover ACLs,
 * mounts and security modules.
 */
export async function canReach(account: Account | undefined, folder: string): Promise<boolean> {
  if (account === undefined) return true
  try {
    await runProgram('/bin/sh', ['-c', 'cd -- "$1"', 'sh', folder], { account })
    return true
  } catch (error) {
    if (hasCode(error, 'EPERM', 'EINVAL')) {
      throw new EmbeddedError(
        'EMBEDDED_NO_POSTGRES',
        'PostgreSQL refuses to run as root, and this root may not start processes of another account.',
        {
          cause: error,
          remedy: 'Run as an ordinary user, or set DATABASE_URL.',
        },
      )
    }
    return false
  }
}
