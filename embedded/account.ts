import { readFile, stat } from 'node:fs/promises'
import { EmbeddedError, hasCode } from './errors.js'
import { runProgram } from './runProgram.js'

/** The user the server runs as when it is not the user of this process. */
export interface Account {
  readonly uid: number
  readonly gid: number
}

const PREFERRED_NAMES = ['postgres', '_postgres', 'nobody']

function isRoot(): boolean {
  return process.geteuid?.() === 0
}

/** PostgreSQL refuses root, so root lends it an account; everybody else runs it as themselves. */
export async function accountForNewCluster(): Promise<Account | undefined> {
  if (!isRoot()) return undefined
  // Accounts of the system are in this file on Linux and on macOS, whatever directory service serves the people.
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
 * An existing cluster is served by its owner, which PostgreSQL insists on: root may have lent another account before,
 * or may visit the cluster of an ordinary user.
 */
export async function accountOfCluster(dataPath: string): Promise<Account | undefined> {
  const { uid, gid } = await stat(dataPath)
  if (isRoot()) {
    if (uid !== 0) return { uid, gid }
    throw new EmbeddedError('EMBEDDED_DATA_DIR', `The cluster in ${dataPath} belongs to root.`, {
      remedy: 'PostgreSQL refuses to run as root: give the folder and all in it to another user, with chown -R.',
    })
  }
  if (uid === process.geteuid?.()) return undefined
  throw new EmbeddedError('EMBEDDED_DATA_DIR', `The cluster in ${dataPath} belongs to another user (uid ${uid}).`, {
    remedy: 'Run as that user or as root, or choose another --data-dir.',
  })
}

/**
 * Asked by going there as that account, because permission bits alone do not tell: ACLs, mounts and security modules
 * have their say.
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
        'PostgreSQL refuses to run as root, and this root may not lend it another account.',
        {
          cause: error,
          remedy: 'Run as an ordinary user, or set DATABASE_URL.',
        },
      )
    }
    return false
  }
}
