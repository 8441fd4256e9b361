import { open, type FileHandle } from 'node:fs/promises'
import { dirname } from 'node:path'

/** A file that must not exist yet, on the disk when this returns. Only its owner can read it unless `mode` says otherwise. */
export function createFile(path: string, content: string | Buffer, mode = 0o600): Promise<void> {
  return write(path, 'wx', content, mode)
}

/** At the end of a file that may not exist yet, on the disk when this returns. */
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

/** A new name is on the disk only when its folder is. Where a folder cannot be opened, the system sees to it. */
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
