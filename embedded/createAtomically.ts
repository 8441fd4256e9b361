import { chmod, mkdtemp, open, readdir, rename, rm, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { hasCode } from './errors.js'
import { START_TIMEOUT_MS } from './options.js'

const UNFINISHED = 'unfinished-'
/**
 * Age from which a temporary folder is removed. Longer than any start may take, so that no running process loses its
 * folder.
 */
const LEFTOVER_AGE_MS = 2 * START_TIMEOUT_MS.max

/**
 * Fills a temporary folder and renames it to its final name, so that a crash leaves no partial folder. If two processes
 * do this at once, only one rename succeeds; the other process deletes its temporary folder and returns. So the caller
 * must check the content of the final folder.
 */
export async function createAtomically(
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
    // A child of a killed program may still write for a moment, so files may remain. A later start removes them.
    await rm(unfinished, { recursive: true, force: true, maxRetries: 5 }).catch(() => {})
    if (!hasCode(error, 'ENOTEMPTY', 'EEXIST', 'ENOTDIR')) throw error
  }
}

async function removeLeftovers(folder: string): Promise<void> {
  const oldestMs = Date.now() - LEFTOVER_AGE_MS
  for (const name of await readdir(folder)) {
    if (!name.startsWith(UNFINISHED)) continue
    const leftover = join(folder, name)
    // Another process may have renamed its folder in the meantime.
    const found = await stat(leftover).catch(() => undefined)
    if (found !== undefined && found.mtimeMs < oldestMs) await rm(leftover, { recursive: true, force: true })
  }
}

/** Flushes a folder: a rename survives a power cut only after that. */
async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, 'r')
  try {
    await folder.sync()
  } finally {
    await folder.close()
  }
}
