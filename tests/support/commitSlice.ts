import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const ROOT = new URL('../../', import.meta.url)

/**
 * Returns which of `count` slices this commit tests. The same commit always gets the same slice.
 */
export function commitSlice(count: number): number {
  return commitSeed() % count
}

/**
 * Returns a seed for this commit, below 2^31. `SYMPHONY_TEST_SLICE` replaces it by the seed that another commit
 * printed.
 */
export function commitSeed(): number {
  const given = process.env['SYMPHONY_TEST_SLICE']
  if (given !== undefined) return Number(given)
  return Number.parseInt((commitHash() ?? hashOfFiles()).slice(0, 8), 16) >>> 1
}

/** Returns undefined in a copy without git. */
function commitHash(): string | undefined {
  const { status, stdout } = spawnSync('git', ['rev-parse', 'HEAD'], { cwd: fileURLToPath(ROOT), encoding: 'utf8' })
  return status === 0 && /^[0-9a-f]{40,}\s*$/.test(stdout) ? stdout : undefined
}

/** Hashes files that change with each release. */
function hashOfFiles(): string {
  const hash = createHash('sha256')
  for (const file of ['package.json', 'schema/manifest.json', 'CHANGELOG.md'])
    hash.update(readFileSync(new URL(file, ROOT)))
  return hash.digest('hex')
}
