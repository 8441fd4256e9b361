import { accessSync, constants, readdirSync } from 'node:fs'
import { delimiter, join } from 'node:path'

/** Programs that the drill runs, with their Debian packages. */
const NEEDED = [
  { program: 'patroni', package: 'patroni' },
  { program: 'etcd', package: 'etcd-server' },
  { program: 'pgbouncer', package: 'pgbouncer' },
  { program: 'haproxy', package: 'haproxy' },
]
const POSTGRES_VERSION_MIN = 15

/** Folders of daemons, which are often not in PATH. */
const DAEMON_FOLDERS = ['/usr/sbin', '/usr/local/sbin', '/sbin']
/** Debian's folder of PostgreSQL servers, with one subfolder per version. */
const POSTGRES_FOLDER = '/usr/lib/postgresql'

export class ProgramsMissingError extends Error {}

/**
 * Returns the path of each program, and as `postgres` the program folder of the newest PostgreSQL. Throws one error
 * with all missing packages and the command that installs them.
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
