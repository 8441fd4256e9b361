import { readFile, stat } from 'node:fs/promises'
import { basename, resolve } from 'node:path'
import { parseStrictJson } from '../core/index.js'
import { MasterKeysError, readKeyRing, type KeyRing, type MasterKey, type MasterKeys } from '../protection/index.js'

/**
 * The master keys of a file that only its owner and group can read. A name that is not in it is looked for once more in the file
 * as it is by then: a key may be added to a running process before others use it.
 */
export class MasterKeyFile implements MasterKeys {
  readonly #path: string
  #ring: KeyRing

  private constructor(path: string, ring: KeyRing) {
    this.#path = path
    this.#ring = ring
  }

  static async open(file: string): Promise<MasterKeyFile> {
    const path = resolve(file)
    return new MasterKeyFile(path, await readRing(path))
  }

  get ids(): readonly string[] {
    return this.#ring.ids
  }

  current(): Promise<MasterKey> {
    return this.#ring.current()
  }

  async find(id: string): Promise<MasterKey | undefined> {
    const known = await this.#ring.find(id)
    if (known !== undefined) return known
    try {
      this.#ring = await readRing(this.#path)
    } catch {
      // While somebody writes it, what was read before is what there is.
      return undefined
    }
    return this.#ring.find(id)
  }
}

async function readRing(path: string): Promise<KeyRing> {
  const bytes = await readPrivately(path)
  try {
    return readKeyRing(parseStrictJson(bytes, { argument: basename(path) }))
  } catch (error) {
    if (error instanceof MasterKeysError) throw error
    throw new MasterKeysError(`${path} is not JSON.`, { cause: error })
  }
}

async function readPrivately(path: string): Promise<Buffer> {
  try {
    const { mode } = await stat(path)
    // Windows has no such bits, and says that everybody may.
    if (process.platform !== 'win32' && (mode & OTHERS) !== 0) {
      throw new MasterKeysError(`${path} can be read by everybody on this machine: chmod o= it first.`)
    }
    return await readFile(path)
  } catch (error) {
    if (error instanceof MasterKeysError) throw error
    throw new MasterKeysError(`${path} cannot be read.`, { cause: error })
  }
}

const OTHERS = 0o007
