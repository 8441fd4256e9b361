// Builds dist/ when it is missing or older than its sources, so that `bin/symphony`, `npm start` and `npm test` work
// after `npm ci --ignore-scripts` too. In an installed package there are no sources, and nothing is built.
import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'

const root = join(dirname(fileURLToPath(import.meta.url)), '..')
const stamp = join(root, 'dist', '.sources')

export function ensureBuilt({ force = false } = {}) {
  if (!existsSync(join(root, 'tsconfig.json'))) return
  const sources = sourcesDigest()
  if (!force && existsSync(stamp) && readFileSync(stamp, 'utf8') === sources) return
  compile()
  mkdirSync(dirname(stamp), { recursive: true })
  // Written last and by rename: a build that was interrupted, or that ran beside this one, never looks complete.
  writeFileSync(`${stamp}.${process.pid}`, sources)
  renameSync(`${stamp}.${process.pid}`, stamp)
}

function compile() {
  const tsc = join(dirname(createRequire(import.meta.url).resolve('typescript/package.json')), 'bin', 'tsc')
  rmSync(join(root, 'dist', 'tsconfig.tsbuildinfo'), { force: true })
  const result = spawnSync(process.execPath, [tsc, '-b', '--force', root], { stdio: ['ignore', 2, 2] })
  if (result.status !== 0) {
    process.stderr.write('The build failed: see the compiler messages above.\n')
    process.exit(result.status ?? 1)
  }
}

/** A digest of every source file and build setting: content, not times, because a checkout changes times. */
function sourcesDigest() {
  const digest = createHash('sha256')
  for (const file of ['package.json', 'tsconfig.json', 'tsconfig.base.json', ...filesBelow('libs')]) {
    digest
      .update(file)
      .update('\0')
      .update(readFileSync(join(root, file)))
      .update('\0')
  }
  return digest.digest('hex')
}

function filesBelow(folder) {
  return readdirSync(join(root, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(root, join(entry.parentPath ?? entry.path, entry.name)))
    .toSorted()
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  ensureBuilt({ force: process.argv.includes('--force') })
}
