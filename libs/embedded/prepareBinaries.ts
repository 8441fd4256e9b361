import { createHash } from 'node:crypto'
import { chmod, copyFile, lstat, mkdir, readdir, readFile, stat, symlink } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { appearWhole } from './appearWhole.js'
import { hasCode } from './errors.js'
import { folderMode, type Home } from './home.js'
import { runProgram } from './runProgram.js'

/** The programs of one PostgreSQL, seen to run as the server's account. */
export interface Binaries {
  readonly binPath: string
  /** Major version: 18. */
  readonly version: number
}

/** Makes the programs in a folder usable by the server's account, and proves it by running one. */
export async function prepareBinaries(binPath: string, home: Home): Promise<Binaries> {
  const links = await readLinks(dirname(binPath))
  if (links === undefined) return tryOut(binPath, home)
  try {
    await restoreLinks(dirname(binPath), links)
    return await tryOut(binPath, home)
  } catch (error) {
    // Not ours to write to, or out of the account's reach. Only a package can be copied: it finds its own libraries
    // relative to its programs, which an installed PostgreSQL need not.
    if (!hasCode(error, 'EACCES', 'EPERM', 'EROFS')) throw error
    return tryOut(join(await copyPackage(dirname(binPath), links, home), 'bin'), home)
  }
}

async function tryOut(binPath: string, home: Home): Promise<Binaries> {
  // initdb starts its neighbour through a shell, with this path in double quotes.
  if (/["$`\\]/.test(binPath)) throw new Error('initdb cannot be used in a folder with one of " $ ` \\ in its path')
  const { stdout } = await runProgram(join(binPath, 'postgres'), ['--version'], { account: home.account })
  const version = /\(PostgreSQL\) (\d+)/.exec(stdout)?.[1]
  if (version === undefined) throw new Error(`expected a PostgreSQL version, got: ${stdout.trim()}`)
  return { binPath, version: Number(version) }
}

interface Link {
  /** Both relative to the folder above `native`: `native/lib/libpq.so.5.18`. */
  readonly source: string
  readonly target: string
}

/**
 * npm packages cannot hold links. The package lists the ones its libraries need, and makes them in an install script,
 * which many installations rightly refuse to run.
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
      // Another starter restores them at this very moment.
      if (!hasCode(error, 'EEXIST')) throw error
    })
  }
}

/** Relative, so that a copy of the folder has links into itself. Source and target are always neighbours. */
function relativeToSibling(source: string, target: string): string {
  if (dirname(source) !== dirname(target)) throw new Error(`expected ${source} beside ${target}`)
  return source.slice(dirname(source).length + 1)
}

/** Named by content, so that an upgraded package gets a copy of its own. */
async function copyPackage(nativePath: string, links: readonly Link[], home: Home): Promise<string> {
  const digest = createHash('sha256').update(await readFile(join(nativePath, 'bin', 'postgres')))
  const copy = join(home.path, `binaries-${digest.digest('hex').slice(0, 16)}`)
  if (!(await isThere(copy))) {
    await appearWhole(copy, folderMode(home.account), async (unfinished) => {
      await copyReadable(nativePath, join(unfinished, 'native'))
      await restoreLinks(join(unfinished, 'native'), links)
    })
  }
  return join(copy, 'native')
}

/**
 * Folders and files only, with modes of our own: a strict umask at install time closes the originals to the account,
 * and a read-only folder copied as such could not be filled.
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
