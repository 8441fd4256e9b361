import { open, type FileHandle } from 'node:fs/promises'
import { dirname } from 'node:path'

/** Creates a file and syncs it to disk. Fails if the file exists. By default only the owner can read it. */
export function createFile(path: string, content: string | Buffer, mode = 0o600): Promise<void> {
  return write(path, 'wx', content, mode)
}

/** Appends to a file and syncs it to disk. Creates the file if needed. */
export function appendToFile(path: string, content: string): Promise<void> {
  return write(path, 'a', content, 0o644)
}

async function write(path: string, flags: 'wx' | 'a', content: string | Buffer, mode: number): Promise<void> {
  const file = await open(path, flags, mode)
  try {
    await file.writeFile(content)
    await file.sync()
  } finally {
    await file.close()
  }
  await syncFolder(dirname(path))
}

/**
 * Syncs a folder, so that the name of a new file survives a crash. Does nothing on systems that cannot open folders.
 */
export async function syncFolder(path: string): Promise<void> {
  let folder: FileHandle
  try {
    folder = await open(path, 'r')
  } catch {
    return
  }
  try {
    await folder.sync()
  } finally {
    await folder.close()
  }
}
