import { readFile } from 'node:fs/promises'
import { SUPERUSER } from './createCluster.js'
import { EmbeddedError } from './errors.js'
import { findHome, type Home } from './home.js'
import { resolveDataDir } from './options.js'
import { LOOPBACK } from './ports.js'
import { readPostmaster } from './postmasterFile.js'

/** The address, password included, of the server that runs in this folder. */
export async function embeddedUrl(dataDir: string): Promise<string> {
  const folder = resolveDataDir(dataDir)
  const home = await findHome(folder)
  const postmaster = home === undefined ? undefined : await readPostmaster(home.dataPath)
  if (home === undefined || postmaster?.holder !== 'server' || postmaster.status !== 'ready') {
    throw new EmbeddedError('EMBEDDED_NOT_RUNNING', `No PostgreSQL runs in ${folder}.`, {
      remedy: 'Start it: symphony db start',
    })
  }
  return urlOf(home, postmaster.port)
}

export async function urlOf(home: Home, port: number): Promise<string> {
  return `postgres://${SUPERUSER}:${await readPassword(home)}@${LOOPBACK}:${port}/postgres`
}

async function readPassword(home: Home): Promise<string> {
  try {
    return (await readFile(home.passwordPath, 'utf8')).trim()
  } catch (error) {
    throw new EmbeddedError('EMBEDDED_DATA_DIR', `The password file ${home.passwordPath} cannot be read.`, {
      cause: error,
      remedy: 'Run as the user who created the cluster or as root, or choose another --data-dir.',
    })
  }
}
