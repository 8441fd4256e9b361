import { execFile } from 'node:child_process'
import { chmod, mkdir, open, readdir, symlink, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'

const SOURCE = fileURLToPath(new URL('clockShift.c', import.meta.url))

/** A PostgreSQL whose wall clock can be changed while it runs. Needs a C compiler. */
export class ShiftedClock {
  /** Folder of the programs to start the server with. */
  readonly binaries: string
  readonly #file: string
  #seconds = 0

  private constructor(binaries: string, file: string) {
    this.binaries = binaries
    this.#file = file
  }

  /** Prepares the programs in an empty folder that the server's account can reach. */
  static async around(binaries: string, folder: string): Promise<ShiftedClock> {
    const [library, file, programs] = ['clockShift.so', 'clock-shift', 'native'].map((name) => join(folder, name))
    await promisify(execFile)('cc', ['-O2', '-shared', '-fPIC', '-o', library!, SOURCE])
    await chmod(library!, 0o755)
    await mkdir(join(programs!, 'bin'), { recursive: true })
    // The start of a server creates links to the libraries from this list, which names the folder `native`.
    for (const name of ['lib', 'share', 'pg-symlinks.json']) await symlink(join(binaries, name), join(programs!, name))
    for (const name of await readdir(join(binaries, 'bin'))) {
      if (name !== 'postgres') await symlink(join(binaries, 'bin', name), join(programs!, 'bin', name))
    }
    const wrapper = join(programs!, 'bin', 'postgres')
    await writeFile(
      wrapper,
      `#!/bin/sh\nLD_PRELOAD='${library}' CLOCK_SHIFT_FILE='${file}' exec '${join(binaries, 'bin', 'postgres')}' "$@"\n`,
    )
    await chmod(wrapper, 0o755)
    await writeFile(file!, Buffer.alloc(8))
    return new ShiftedClock(programs!, file!)
  }

  /** Shifts the clock of every process of the server. */
  async jump(seconds: number): Promise<void> {
    this.#seconds += seconds
    const bytes = Buffer.alloc(8)
    bytes.writeBigInt64LE(BigInt(this.#seconds))
    // Writes in place, because the processes have this file mapped. A shorter file would kill them.
    const file = await open(this.#file, 'r+')
    try {
      await file.write(bytes, 0, 8, 0)
    } finally {
      await file.close()
    }
  }
}
