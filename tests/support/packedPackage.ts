import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readFile, rename, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'

const root = join(import.meta.dirname, '..', '..')
const run = promisify(execFile)

export interface PackedFile {
  readonly path: string
  readonly size: number
}

/** A folder with the installed package and its dependencies. */
export interface Installation {
  readonly folder: string
  readonly packageFolder: string
  readonly files: readonly PackedFile[]
  /** Size of the archive in bytes. */
  readonly size: number
  remove(): Promise<void>
}

/**
 * Packs the build like `npm publish` and unpacks it into `node_modules` of an empty folder. Its runtime dependencies
 * are linked from our `node_modules`; development dependencies are not found, as for a user.
 */
export async function installPacked(): Promise<Installation> {
  const folder = await mkdtemp(join(tmpdir(), 'symphony-packed-'))
  const { stdout } = await run('npm', ['pack', '--json', '--ignore-scripts', '--pack-destination', folder], {
    cwd: root,
  })
  const [packed] = JSON.parse(stdout)
  const modules = join(folder, 'node_modules')
  const packageFolder = join(modules, 'symphony-pg')
  await mkdir(modules)
  await run('tar', ['-xzf', join(folder, packed.filename), '-C', folder])
  await rename(join(folder, 'package'), packageFolder)
  for (const name of await runtimePackages()) {
    await mkdir(dirname(join(modules, name)), { recursive: true })
    await symlink(join(root, 'node_modules', name), join(modules, name))
  }
  const remove = () => rm(folder, { recursive: true, force: true })
  return { folder, packageFolder, files: packed.files, size: packed.size, remove }
}

/** Lists the packages that the lock file installs for a user, without nested ones. */
async function runtimePackages(): Promise<string[]> {
  const lock: { packages: Record<string, { dev?: boolean; link?: boolean; optional?: boolean }> } = JSON.parse(
    await readFile(join(root, 'package-lock.json'), 'utf8'),
  )
  return Object.entries(lock.packages).flatMap(([path, { dev, link, optional }]) => {
    const name = /^node_modules\/((?:@[^/]+\/)?[^/]+)$/.exec(path)?.[1]
    // Skips optional packages (a server per platform). Most of them are not installed, and the tests find the server
    // elsewhere.
    return name === undefined || dev === true || link === true || optional === true ? [] : [name]
  })
}
