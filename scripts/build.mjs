// Builds dist/ if it is missing or older than its sources, so that `bin/symphony`, `npm start` and `npm test` work even
// after `npm ci --ignore-scripts`. Builds nothing in an installed package, which has no sources.
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const require = createRequire(import.meta.url)

/**
 * Parts of the build with sources and commands. Each has its own stamp, so that a changed style sheet does not
 * recompile TypeScript.
 */
const PARTS = [
  {
    name: 'the embedded server',
    stamp: 'embedded/dist/.sources',
    sources: () => [
      'tsconfig.base.json',
      'embedded/tsconfig.json',
      ...readdirSync(join(root, 'embedded'))
        .filter((name) => name.endsWith('.ts'))
        .map((name) => join('embedded', name)),
    ],
    build: () => [compile('embedded')],
    tidy: () => {},
  },
  {
    name: 'the bundled packages',
    stamp: 'dist/.vendor-sources',
    sources: () => ['package.json', 'scripts/bundleVendor.mjs'],
    build: () => [[join(root, 'scripts', 'bundleVendor.mjs')]],
    tidy: () => {},
  },
  {
    name: 'the library',
    stamp: 'dist/.sources',
    sources: () => [
      'package.json',
      'tsconfig.json',
      'tsconfig.base.json',
      'scripts/bundleLibrary.mjs',
      ...filesBelow('libs').filter((file) => !isDashboard(file)),
    ],
    build: () => [compile('.'), [join(root, 'scripts', 'bundleLibrary.mjs')]],
    tidy: removeOutputWithoutSource,
  },
  {
    name: 'the dashboard',
    stamp: 'dist/.dashboard-sources',
    sources: () => ['package.json', 'scripts/buildDashboard.mjs', ...filesBelow('libs').filter(isDashboard)],
    build: () => [[join(root, 'scripts', 'buildDashboard.mjs')]],
    tidy: () => {},
  },
]

export function ensureBuilt({ force = false } = {}) {
  if (!existsSync(join(root, 'tsconfig.json'))) return
  for (const part of PARTS) ensurePart(part, force)
}

/** Returns the target files of the `exports` in a package.json. */
export function exportedFiles(folder) {
  const { exports } = JSON.parse(readFileSync(join(root, folder, 'package.json'), 'utf8'))
  const targets = Object.values(exports).flatMap((target) =>
    typeof target === 'string' ? target : Object.values(target),
  )
  return targets.map((target) => target.replace('./', ''))
}

function ensurePart({ name, stamp, sources, build, tidy }, force) {
  const file = join(root, stamp)
  const digest = digestOf(sources())
  if (!force && existsSync(file) && readFileSync(file, 'utf8') === digest) return
  tidy()
  for (const words of build()) {
    const result = spawnSync(process.execPath, words, { stdio: ['ignore', 2, 2] })
    if (result.status !== 0) {
      process.stderr.write(`The build of ${name} failed: see the messages above.\n`)
      process.exit(result.status ?? 1)
    }
  }
  mkdirSync(dirname(file), { recursive: true })
  // Writes the stamp last and by rename, so that an interrupted or concurrent build never looks complete.
  writeFileSync(`${file}.${process.pid}`, digest)
  renameSync(`${file}.${process.pid}`, file)
}

function compile(folder) {
  rmSync(join(root, folder, 'dist', 'tsconfig.tsbuildinfo'), { force: true })
  const compiler = join(dirname(require.resolve('typescript/package.json')), 'bin', 'tsc')
  return [compiler, '-p', join(root, folder)]
}

/** Deletes compiled files without a source. The compiler keeps them, so they would be bundled and packed. */
function removeOutputWithoutSource() {
  for (const folder of ['dist', 'dist/.modules'].filter((one) => existsSync(join(root, one, 'libs')))) {
    for (const file of filesBelow(join(folder, 'libs'))) {
      const source = relative(folder, file).replace(/(?:\.d\.ts|\.js)$/, '.ts')
      if (!existsSync(join(root, source))) rmSync(join(root, file), { force: true })
    }
  }
}

/** Hashes the content of the files, not their times, because a checkout changes times. */
function digestOf(files) {
  const digest = createHash('sha256')
  for (const file of files) {
    digest
      .update(file)
      .update('\0')
      .update(readFileSync(join(root, file)))
      .update('\0')
  }
  return digest.digest('hex')
}

function isDashboard(file) {
  return file.startsWith(join('libs', 'dashboard'))
}

function filesBelow(folder) {
  return readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(root, join(entry.parentPath ?? entry.path, entry.name)))
    .toSorted()
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  ensureBuilt({ force: process.argv.includes('--force') })
  // `npm pack` and `npm publish` run this script. Without this check they would pack an incomplete dist/.
  for (const folder of existsSync(join(root, 'tsconfig.json')) ? ['.', 'embedded'] : []) {
    const missing = exportedFiles(folder).filter((file) => !existsSync(join(root, folder, file)))
    if (missing.length > 0) {
      process.stderr.write(`The build of ${folder} lacks ${missing.join(', ')}. Remedy: npm run build\n`)
      process.exitCode = 1
    }
  }
}
