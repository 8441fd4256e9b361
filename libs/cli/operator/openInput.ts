import { open, type FileHandle } from 'node:fs/promises'
import { SymphonyError } from '../../core/index.js'

export interface Input {
  readonly handle: FileHandle
  /** Size in bytes, for the progress. */
  readonly size: number
}

/** Opens a file that an option names. Throws FILE_UNREADABLE also for a folder, which opens but cannot be read. */
export async function openInput(path: string): Promise<Input> {
  let handle: FileHandle | undefined
  try {
    handle = await open(path)
    const stats = await handle.stat()
    if (stats.isDirectory()) throw new Error('expected a file, got a folder')
    return { handle, size: stats.size }
  } catch (error) {
    await handle?.close()
    throw new SymphonyError('FILE_UNREADABLE', `${path} cannot be read.`, {
      cause: error,
      remedy: 'Give the path of a file that this user can read.',
    })
  }
}
