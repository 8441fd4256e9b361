import { readFile } from 'node:fs/promises'

interface Manifest {
  readonly dependencies: Readonly<Record<string, string>>
  /** Of the embedded server's package. */
  readonly optionalDependencies: Readonly<Record<string, string>>
  readonly devDependencies: Readonly<Record<string, string>>
  readonly allowScripts: Readonly<Record<string, boolean>>
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
  /** What a user installs because of us, by what names it. */
  readonly direct: number
  /** All of it, by the lock file. */
  readonly installed: number
  /** Dependencies that are no caret range, versions that are not exact, packages without a checksum, install scripts. */
  readonly defects: readonly string[]
}

/** What `package.json` and the lock file say, without asking anybody. */
export async function readDependencies(): Promise<Dependencies> {
  const manifest: Manifest = JSON.parse(await readFile('package.json', 'utf8'))
  const lock: { readonly packages: Readonly<Record<string, LockedPackage>> } = JSON.parse(
    await readFile('package-lock.json', 'utf8'),
  )
  const embedded: Pick<Manifest, 'optionalDependencies'> = JSON.parse(await readFile('embedded/package.json', 'utf8'))
  const { dependencies, devDependencies, allowScripts } = manifest
  const pinned = Object.entries({ ...embedded.optionalDependencies, ...devDependencies })
  // The servers of the tests' own workspace: nobody installs them with us.
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
      // A user has one copy of `pg`, and takes patches without a release of ours.
      ...Object.entries(dependencies)
        .filter(([, range]) => !CARET.test(range))
        .map(([name, range]) => `${name} is not a caret range: ${range}`),
      ...shipped
        .filter(([, { version }]) => version === undefined || !EXACT.test(version))
        .map(([path]) => `${path} has no exact version in the lock file`),
      ...shipped.filter(([, { integrity }]) => integrity === undefined).map(([path]) => `${path} has no checksum`),
      ...shipped
        .filter(([path, { hasInstallScript }]) => hasInstallScript === true && allowScripts[nameIn(path)] !== false)
        .map(([path]) => `${path} has an install script that was not looked at`),
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
const CARET = /^\^\d+\.\d+\.\d+$/
