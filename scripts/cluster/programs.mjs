import { accessSync, constants, readdirSync } from 'node:fs'
import { delimiter, join } from 'node:path'

/** What has to be installed on a Debian machine, and which program of it is run. */
const NEEDED = [
  { program: 'patroni', package: 'patroni' },
  { program: 'etcd', package: 'etcd-server' },
  { program: 'pgbouncer', package: 'pgbouncer' },
  { program: 'haproxy', package: 'haproxy' },
]
const POSTGRES_VERSION_MIN = 15

/** Daemons are in folders that are not on everybody's path. */
const DAEMON_FOLDERS = ['/usr/sbin', '/usr/local/sbin', '/sbin']
/** Where Debian keeps the servers, one folder for each version. */
const POSTGRES_FOLDER = '/usr/lib/postgresql'

export class ProgramsMissingError extends Error {}

/**
 * Finds every program before the first is started; what is missing is named together, with the one command that brings it.
 * Returns the path of each, and the folder of the newest PostgreSQL's programs as `postgres`.
 */
export function findPrograms({
  searchPath = process.env.PATH ?? '',
  daemonFolders = DAEMON_FOLDERS,
  postgresFolder = POSTGRES_FOLDER,
} = {}) {
  const folders = [...searchPath.split(delimiter).filter((folder) => folder !== ''), ...daemonFolders]
  const found = Object.fromEntries(
    NEEDED.map(({ program }) => [program, folders.map((folder) => join(folder, program)).find(isExecutable)]),
  )
  const postgres = newestPostgres(postgresFolder)
  const missing = [
    ...NEEDED.filter(({ program }) => found[program] === undefined).map((one) => one.package),
    ...(postgres === undefined ? ['postgresql'] : []),
  ]
  if (missing.length > 0) {
    throw new ProgramsMissingError(
      `Missing: ${missing.join(', ')}. As root: apt-get install --no-install-recommends ${missing.join(' ')}`,
    )
  }
  return { ...found, postgres }
}

function newestPostgres(folder) {
  const versions = listed(folder)
    .map(Number)
    .filter((version) => version >= POSTGRES_VERSION_MIN)
    .toSorted((left, right) => right - left)
  return versions
    .map((version) => join(folder, String(version), 'bin'))
    .find((bin) => isExecutable(join(bin, 'initdb')))
}

function listed(folder) {
  try {
    return readdirSync(folder)
  } catch {
    return []
  }
}

function isExecutable(path) {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}
