import { open, type FileHandle } from 'node:fs/promises'
import { dirname } from 'node:path'

/** Creates a file and syncs it to disk. It must not exist. Only its owner can read it unless `mode` says otherwise. */
export function createFile(path: string, content: string | Buffer, mode = 0o600): Promise<void> {
  return write(path, 'wx', content, mode)
}

/** Appends to a file, which it creates if needed, and syncs it to disk. */
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

/** Syncs a folder, so that the name of a new file survives a crash. Skipped on systems that cannot open a folder. */
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
