import { execFile } from 'node:child_process'
import { chown, mkdir, rm, stat, statfs, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { ScenarioFixture } from './ScenarioFixture.js'

const run = promisify(execFile)
const SIZE_MIB = 32

/** A disk of its own, small enough to be filled in a moment. */
export interface SmallDisk {
  readonly path: string
  /** Leaves so many bytes free. */
  fill(leaveBytes: number): Promise<void>
  empty(): Promise<void>
}

/**
 * Mounts one (tmpfs) and gives it to whoever owns the server's data. Undefined where that is not allowed: it takes root, and
 * a machine that lets root mount.
 */
export async function mountSmallDisk(fixture: ScenarioFixture, dataDir: string): Promise<SmallDisk | undefined> {
  const path = join(fixture.folder, 'small-disk')
  await mkdir(path)
  try {
    await run('mount', ['-t', 'tmpfs', '-o', `size=${SIZE_MIB}m`, 'tmpfs', path])
  } catch {
    return undefined
  }
  // Lazily: the server, which has files open there, is put away after this.
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
