import { chmod, mkdtemp, open, readdir, rename, rm, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { systemClock } from '../core/index.js'
import { hasCode } from './errors.js'
import { START_TIMEOUT_MS } from './options.js'

const UNFINISHED = 'unfinished-'
/** Longer than any start may take, so that nobody living loses the folder he works in. */
const LEFTOVER_AGE_MS = 2 * START_TIMEOUT_MS.max

/**
 * Fills a folder aside and gives it its name by one rename: a crash never leaves half of it, and of two makers one
 * wins whole. The loser's work is thrown away; whoever comes back from here finds the folder complete, or in the way.
 */
export async function appearWhole(
  path: string,
  mode: number,
  fill: (unfinished: string) => Promise<void>,
): Promise<void> {
  await removeLeftovers(dirname(path))
  const unfinished = await mkdtemp(join(dirname(path), UNFINISHED))
  try {
    await chmod(unfinished, mode)
    await fill(unfinished)
    await syncFolder(unfinished)
    await rename(unfinished, path)
    await syncFolder(dirname(path))
  } catch (error) {
    // A killed program may have a child that still writes for a moment; what then remains is removed by a later start.
    await rm(unfinished, { recursive: true, force: true, maxRetries: 5 }).catch(() => {})
    if (!hasCode(error, 'ENOTEMPTY', 'EEXIST', 'ENOTDIR')) throw error
  }
}

async function removeLeftovers(folder: string): Promise<void> {
  const oldestMs = systemClock.now().getTime() - LEFTOVER_AGE_MS
  for (const name of await readdir(folder)) {
    if (!name.startsWith(UNFINISHED)) continue
    const leftover = join(folder, name)
    // Gone by now when it was another starter's, who has given it its final name.
    const found = await stat(leftover).catch(() => undefined)
    if (found !== undefined && found.mtimeMs < oldestMs) await rm(leftover, { recursive: true, force: true })
  }
}

/** A rename survives a power cut only once the folder that holds the name is on disk. */
async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, 'r')
  try {
    await folder.sync()
  } finally {
    await folder.close()
  }
}
