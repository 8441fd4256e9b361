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

/** A folder in which the package was installed, as npm would: what it packs, and what it depends on. */
export interface Installation {
  readonly folder: string
  readonly packageFolder: string
  readonly files: readonly PackedFile[]
  /** Of the archive, in bytes. */
  readonly size: number
  remove(): Promise<void>
}

/**
 * Packs the build as `npm publish` would and unpacks it into `node_modules` of an empty folder. Its dependencies, and theirs, are
 * linked from our own `node_modules`: those that a user gets, so that one for development is not found, as it would not be there.
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

/** What the lock file installs for a user: not for development, not inside another package. */
async function runtimePackages(): Promise<string[]> {
  const lock: { packages: Record<string, { dev?: boolean; link?: boolean; optional?: boolean }> } = JSON.parse(
    await readFile(join(root, 'package-lock.json'), 'utf8'),
  )
  return Object.entries(lock.packages).flatMap(([path, { dev, link, optional }]) => {
    const name = /^node_modules\/((?:@[^/]+\/)?[^/]+)$/.exec(path)?.[1]
    // Of the optional ones (a server for each platform) only some are there, and those are found by their own road.
    return name === undefined || dev === true || link === true || optional === true ? [] : [name]
  })
}
