import { execFile } from 'node:child_process'
import { chown, mkdir, rm, stat, statfs, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { ScenarioFixture } from './ScenarioFixture.js'

const run = promisify(execFile)
const SIZE_MIB = 32

/** A disk small enough to be filled at once. */
export interface SmallDisk {
  readonly path: string
  /** Fills the disk until only `leaveBytes` bytes are free. */
  fill(leaveBytes: number): Promise<void>
  empty(): Promise<void>
}

/**
 * Mounts a tmpfs and gives it to the owner of the server's data. Returns undefined without the right to mount, which
 * needs root.
 */
export async function mountSmallDisk(fixture: ScenarioFixture, dataDir: string): Promise<SmallDisk | undefined> {
  const path = join(fixture.folder, 'small-disk')
  await mkdir(path)
  try {
    await run('mount', ['-t', 'tmpfs', '-o', `size=${SIZE_MIB}m`, 'tmpfs', path])
  } catch {
    return undefined
  }
  // Unmounts lazily, because the server still has files open there.
  fixture.defer(() => run('umount', ['-l', path]))
  const { uid, gid } = await stat(dataDir)
  const data = join(path, 'data')
  await mkdir(data, { mode: 0o700 })
  await chown(data, uid, gid)
  const filler = join(path, 'filler')
  return {
    path: data,
    fill: async (leaveBytes) => {
      const { bavail, bsize } = await statfs(path)
      await writeFile(filler, Buffer.alloc(Math.max(0, bavail * bsize - leaveBytes)))
    },
    empty: () => rm(filler, { force: true }),
  }
}
