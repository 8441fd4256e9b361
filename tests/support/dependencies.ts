import { readFile } from 'node:fs/promises'

interface Manifest {
  readonly dependencies: Readonly<Record<string, string>>
  /** Dependencies of the embedded server's package. */
  readonly optionalDependencies: Readonly<Record<string, string>>
  readonly devDependencies: Readonly<Record<string, string>>
  readonly allowScripts: Readonly<Record<string, boolean>>
  readonly overrides: Readonly<Record<string, string>>
}

interface LockedPackage {
  readonly optionalDependencies?: Readonly<Record<string, string>>
  readonly version?: string
  readonly link?: boolean
  readonly dev?: boolean
  readonly integrity?: string
  readonly hasInstallScript?: boolean
}

export interface Dependencies {
  /** Number of direct dependencies. */
  readonly direct: number
  /** Number of packages that a user installs, by the lock file. */
  readonly installed: number
  /** Problems: no caret range, no exact version, no checksum, an install script, an override. */
  readonly defects: readonly string[]
}

/** Reads `package.json` and the lock file, without the network. */
export async function readDependencies(): Promise<Dependencies> {
  const manifest: Manifest = JSON.parse(await readFile('package.json', 'utf8'))
  const lock: { readonly packages: Readonly<Record<string, LockedPackage>> } = JSON.parse(
    await readFile('package-lock.json', 'utf8'),
  )
  const embedded: Pick<Manifest, 'optionalDependencies'> = JSON.parse(await readFile('embedded/package.json', 'utf8'))
  const { dependencies, devDependencies, allowScripts, overrides } = manifest
  const pinned = Object.entries({ ...embedded.optionalDependencies, ...devDependencies })
  // Servers of the test workspace, which users do not install.
  const ofTests = Object.keys(lock.packages['tests/postgres']?.optionalDependencies ?? {})
  const shipped = Object.entries(lock.packages).filter(
    ([path, one]) =>
      path.startsWith('node_modules/') && one.dev !== true && one.link !== true && !ofTests.includes(nameIn(path)),
  )
  return {
    direct: Object.keys(dependencies).length,
    installed: shipped.length,
    defects: [
      ...pinned
        .filter(([, version]) => !EXACT.test(version))
        .map(([name, version]) => `${name} is not pinned: ${version}`),
      // A caret range gives a user one copy of `pg`, and patches without a release of ours.
      ...Object.entries(dependencies)
        .filter(([name, range]) => !CARET.test(range) && !BOUNDED.has(name))
        .map(([name, range]) => `${name} is not a caret range: ${range}`),
      // npm reads only the overrides of the application, so users would get another version than the tests.
      ...shipped
        .filter(([path]) => nameIn(path) in overrides)
        .map(([path]) => `${path} is overridden, and users do not get overrides`),
      ...shipped
        .filter(([, { version }]) => version === undefined || !EXACT.test(version))
        .map(([path]) => `${path} has no exact version in the lock file`),
      ...shipped.filter(([, { integrity }]) => integrity === undefined).map(([path]) => `${path} has no checksum`),
      ...shipped
        .filter(([path, { hasInstallScript }]) => hasInstallScript === true && allowScripts[nameIn(path)] !== false)
        .map(([path]) => `${path} has an install script that allowScripts does not list`),
      ...Object.entries(allowScripts)
        .filter(([, isAllowed]) => isAllowed)
        .map(([name]) => `${name} may run its install script`),
    ],
  }
}

function nameIn(path: string): string {
  return path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length)
}

const EXACT = /^\d+\.\d+\.\d+(?:-[\w.]+)?$/
/** Packages whose newer minor versions need a newer Node.js than ours. docs/decisions.md names the reason. */
const BOUNDED = new Set(['light-my-request'])
const CARET = /^\^\d+\.\d+\.\d+$/
