import { lstat, readlink, rename, rm, symlink } from 'node:fs/promises'
import type { Deadline } from './Deadline.js'

/** Longer than any start may take: what is older was left by somebody whose pid another process has by now. */
const LOCK_MS_MAX = 600_000

/**
 * One starter of a folder at a time. PostgreSQL keeps a second server out, but after a crash two that start in the same
 * instant may both remove the stale lock file, the second one the file that the first has just written; then who is ready
 * cannot be told from it. The lock is a link that names its holder, so that one left by a killed process is seen to be.
 *
 * It is a courtesy among starters, not the interlock: where it cannot be made, the start goes on without it.
 */
export async function withStartLock<T>(dataPath: string, deadline: Deadline, start: () => Promise<T>): Promise<T> {
  const path = `${dataPath}.starting`
  const isTaken = await deadline.poll(async () => ((await take(path)) ? true : undefined))
  try {
    return await start()
  } finally {
    if (isTaken === true) await rm(path, { force: true }).catch(() => {})
  }
}

/** False while another starter has it. */
async function take(path: string): Promise<boolean> {
  try {
    await symlink(String(process.pid), path)
    return true
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) return true
  }
  if (await isAbandoned(path)) {
    // By a name of its own: of several who see that it was abandoned, one removes it.
    const removed = `${path}.${process.pid}`
    await rename(path, removed)
      .then(() => rm(removed, { force: true }))
      .catch(() => {})
  }
  return false
}

async function isAbandoned(path: string): Promise<boolean> {
  try {
    const [holder, { mtimeMs }] = await Promise.all([readlink(path), lstat(path)])
    return !isAlive(Number(holder)) || Date.now() - mtimeMs > LOCK_MS_MAX
  } catch {
    return false
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM'
  }
}
