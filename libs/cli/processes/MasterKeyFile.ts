import { randomBytes, randomUUID } from 'node:crypto'
import type { Stats } from 'node:fs'
import { type FileHandle, link, open, readFile, rename, rm, stat } from 'node:fs/promises'
import { basename, resolve } from 'node:path'
import { hasCode, parseStrictJson, requiredId } from '../../core/index.js'
import {
  MasterKeysError,
  readKeyRing,
  SECRET_BYTES,
  type KeyRing,
  type MasterKey,
  type MasterKeys,
} from '../../protection/index.js'

/**
 * Reads master keys from a file that only its owner and group can read. Reads it again for an unknown key id, because a
 * key may be added while the process runs.
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
      // Another process may be writing the file. The previously read keys stay valid.
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
    // Windows has no such permission bits and reports that all users may read.
    if (process.platform !== 'win32' && (mode & OTHERS) !== 0) {
      throw new MasterKeysError(`${path} can be read by every user of this machine. Run: chmod o= ${path}`)
    }
    return await readFile(path)
  } catch (error) {
    if (error instanceof MasterKeysError) throw error
    throw new MasterKeysError(`${path} cannot be read.`, { cause: error })
  }
}

const OTHERS = 0o007

interface AddedMasterKey {
  readonly id: string
  readonly current: string
}

/** Creates the file, or adds a key to it. The write is atomic; a new file is readable only by its owner. */
export async function addMasterKey(
  file: string,
  { id = randomBytes(6).toString('hex'), isCurrent = true }: { readonly id?: string; readonly isCurrent?: boolean },
): Promise<AddedMasterKey> {
  const path = resolve(file)
  requiredId('--id', id)
  const before = await readIfAny(path)
  if (before?.keys[id] !== undefined) throw new MasterKeysError(`${path} has a master key of the name ${id} already.`)
  const current = isCurrent || before === undefined ? id : before.current
  const keys = { ...before?.keys, [id]: randomBytes(SECRET_BYTES).toString('base64') }
  await write(path, `${JSON.stringify({ current, keys }, undefined, 2)}\n`, before?.access)
  return { id, current }
}

interface KeyFile {
  readonly current: string
  readonly keys: Readonly<Record<string, string>>
  readonly access: Access
}

/** Permission bits, owner and group of a file. */
type Access = Pick<Stats, 'mode' | 'uid' | 'gid'>

async function readIfAny(path: string): Promise<KeyFile | undefined> {
  try {
    const { mode, uid, gid } = await stat(path)
    const text = await readFile(path)
    const content = parseStrictJson(text, { argument: path })
    // Throws if the existing file is invalid. The message contains no key.
    readKeyRing(content)
    const { current, keys }: Omit<KeyFile, 'access'> = JSON.parse(text.toString())
    return { current, keys, access: { mode: mode & 0o770, uid, gid } }
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return undefined
    if (error instanceof MasterKeysError) throw error
    throw new MasterKeysError(`${path} cannot be read.`, { cause: error })
  }
}

/**
 * Replaces an existing file by a rename, with the same access. Creates a new file by a link, which fails if another
 * process created it meanwhile.
 */
async function write(path: string, content: string, access: Access | undefined): Promise<void> {
  const unfinished = `${path}.${randomUUID()}`
  try {
    const handle = await open(unfinished, 'wx', 0o600)
    try {
      if (access !== undefined) await setAccess(handle, path, access)
      await handle.writeFile(content)
      await handle.sync()
    } finally {
      await handle.close()
    }
    if (access === undefined) await link(unfinished, path)
    else await rename(unfinished, path)
  } catch (error) {
    if (error instanceof MasterKeysError) throw error
    throw new MasterKeysError(`${path} cannot be written.`, { cause: error })
  } finally {
    await rm(unfinished, { force: true })
  }
}

async function setAccess(handle: FileHandle, path: string, { mode, uid, gid }: Access): Promise<void> {
  const created = await handle.stat()
  try {
    if (created.uid !== uid || created.gid !== gid) await handle.chown(uid, gid)
  } catch (error) {
    throw new MasterKeysError(`${path} belongs to another user or group. Run the command as its owner or as root.`, {
      cause: error,
    })
  }
  await handle.chmod(mode)
}
