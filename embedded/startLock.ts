import { lstat, readlink, rename, rm, symlink } from 'node:fs/promises'
import type { Deadline } from './Deadline.js'

/**
 * Maximum age of a lock: five times the default timeout of a start. An older lock counts as abandoned, even if a
 * process with its pid exists.
 */
const LOCK_MS_MAX = 600_000

/**
 * Allows one start per folder at a time. PostgreSQL prevents a second server, but after a crash two concurrent starts
 * may each remove PostgreSQL's stale lock file. The second start may thereby remove the new lock file of the first
 * server, and then no file shows that this server is ready. The start lock is a link that names its holder, so that the
 * lock of a killed process can be recognised.
 *
 * The start lock is not required for correctness: if it cannot be created, the start continues without it.
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

/** Takes the lock. Returns false while another process holds it, and true also if the lock cannot be created. */
async function take(path: string): Promise<boolean> {
  try {
    await symlink(String(process.pid), path)
    return true
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) return true
  }
  if (await isAbandoned(path)) {
    // Renames the abandoned lock first, so that only one of several processes removes it.
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
