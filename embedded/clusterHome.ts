import { chmod, lstat, mkdir, mkdtemp, realpath, rm, symlink } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { type Account, accountForNewCluster, accountOfCluster, canReach } from './account.js'
import { EmbeddedError, hasCode } from './errors.js'

/**
 * Folders of a cluster and the account of its server. All are real paths, because the server must not depend on a link.
 */
export interface ClusterHome {
  readonly path: string
  /** Folder with password and data, created complete by one rename. */
  readonly clusterPath: string
  readonly dataPath: string
  readonly passwordPath: string
  readonly logPath: string
  readonly account: Account | undefined
}

/** Returns the home of a data folder, or undefined if the folder holds no cluster. */
export async function findHome(dataDir: string): Promise<ClusterHome | undefined> {
  const path = (await followOutsideLink(dataDir)) ?? (await realPathIfAny(dataDir))
  if (path === undefined) return undefined
  const home = homeAt(path, undefined)
  return (await exists(home.dataPath)) ? { ...home, account: await accountOfCluster(home.dataPath) } : undefined
}

/** Returns the home of a data folder. Creates the folders of a new cluster if there is none. */
export async function prepareHome(dataDir: string, outsideDir: string): Promise<ClusterHome> {
  const found = await findHome(dataDir)
  if (found !== undefined) {
    await requireReach(found.account, found.dataPath)
    return found
  }
  const account = await accountForNewCluster()
  const path = (await followOutsideLink(dataDir)) ?? (await makeFolder(dataDir, account))
  if (await canReach(account, path)) return homeAt(path, account)
  const outside = await settleOutside(path, outsideDir)
  await requireReach(account, outside)
  return homeAt(outside, account)
}

async function requireReach(account: Account | undefined, folder: string): Promise<void> {
  if (await canReach(account, folder)) return
  throw new EmbeddedError('EMBEDDED_DATA_DIR', `The server's account (uid ${account?.uid}) cannot reach ${folder}.`, {
    remedy: 'Allow that account to enter the parent folders: chmod o+x.',
  })
}

function homeAt(path: string, account: Account | undefined): ClusterHome {
  const clusterPath = join(path, 'postgres')
  return {
    path,
    clusterPath,
    dataPath: join(clusterPath, 'data'),
    passwordPath: join(clusterPath, 'password'),
    logPath: join(clusterPath, 'server.log'),
    account,
  }
}

async function makeFolder(dataDir: string, account: Account | undefined): Promise<string> {
  try {
    const created = await mkdir(dataDir, { recursive: true })
    // Sets the mode, because the umask is unknown. An existing folder keeps its mode.
    if (created !== undefined) await chmod(dataDir, folderMode(account))
    return await realpath(dataDir)
  } catch (error) {
    throw new EmbeddedError('EMBEDDED_DATA_DIR', `The data folder ${dataDir} cannot be created.`, {
      cause: error,
      remedy: 'Choose a --data-dir in a folder you can write to.',
    })
  }
}

/**
 * Returns the mode of a folder. If the server has another account, that account may enter the folder but not list it.
 */
export function folderMode(account: Account | undefined): number {
  return account === undefined ? 0o700 : 0o711
}

/**
 * Creates a folder outside `dataDir`, with a new name each time, so that a new `dataDir` never finds old data. If two
 * processes each create a folder, `dataDir` uses the folder of the first link.
 */
async function settleOutside(dataDir: string, outsideDir: string): Promise<string> {
  if ((await mkdir(outsideDir, { recursive: true })) !== undefined) await chmod(outsideDir, 0o755)
  const outside = await mkdtemp(join(await realpath(outsideDir), `${basename(dirname(dataDir))}-`))
  await chmod(outside, 0o711)
  try {
    await symlink(outside, join(dataDir, OUTSIDE))
    return outside
  } catch (error) {
    await rm(outside, { recursive: true })
    const winner = hasCode(error, 'EEXIST') ? await followOutsideLink(dataDir) : undefined
    if (winner === undefined) throw error
    return winner
  }
}

/**
 * Returns the target of the link, or undefined without a link. Throws if the target is missing, because a new, empty
 * database would hide the loss of the old one.
 */
async function followOutsideLink(dataDir: string): Promise<string | undefined> {
  const link = join(dataDir, OUTSIDE)
  if (!(await exists(link))) return undefined
  try {
    return await realpath(link)
  } catch (error) {
    throw new EmbeddedError(
      'EMBEDDED_DATA_DIR',
      `${link} points to a folder that is missing or not readable for this user.`,
      {
        cause: error,
        remedy: `Restore the folder or run as root; to start with an empty database, delete ${dataDir}.`,
      },
    )
  }
}

const OUTSIDE = 'outside'

async function realPathIfAny(path: string): Promise<string | undefined> {
  return (await exists(path)) ? realpath(path) : undefined
}

async function exists(path: string): Promise<boolean> {
  try {
    await lstat(path)
    return true
  } catch (error) {
    if (hasCode(error, 'ENOENT', 'ENOTDIR')) return false
    throw new EmbeddedError('EMBEDDED_DATA_DIR', `${path} cannot be read.`, {
      cause: error,
      remedy: 'Run as the user who created the folder or as root, or choose another --data-dir.',
    })
  }
}
