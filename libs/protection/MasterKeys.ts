import { isObject, requiredId, type JsonValue } from '../core/index.js'
import { MasterKeysError } from './errors.js'

export interface MasterKey {
  readonly id: string
  /** Secret of 256 bits. */
  readonly secret: Buffer
}

/**
 * Source of master keys: a file or a service, never the database that stores the wrapped data keys. Queried for each
 * data key that is wrapped or unwrapped, so that a new master key needs no restart.
 */
export interface MasterKeys {
  /** Master key that wraps new data keys. */
  current(): Promise<MasterKey>
  /** Returns the master key with this id; undefined if there is none now. */
  find(id: string): Promise<MasterKey | undefined>
}

/** Master keys in memory. */
export class KeyRing implements MasterKeys {
  readonly #keys: ReadonlyMap<string, MasterKey>
  readonly #current: MasterKey

  constructor(keys: readonly MasterKey[], currentId: string) {
    for (const { id, secret } of keys) {
      requiredId('a master key’s id', id)
      if (!Buffer.isBuffer(secret) || secret.length !== SECRET_BYTES) {
        throw new MasterKeysError(`The master key ${id} does not have ${SECRET_BYTES} bytes.`)
      }
    }
    this.#keys = new Map(keys.map((key) => [key.id, key]))
    if (this.#keys.size < keys.length) throw new MasterKeysError('Two master keys have the same id.')
    const current = this.#keys.get(currentId)
    if (current === undefined) throw new MasterKeysError('The current master key is not among the keys.')
    this.#current = current
  }

  async current(): Promise<MasterKey> {
    return this.#current
  }

  async find(id: string): Promise<MasterKey | undefined> {
    return this.#keys.get(id)
  }

  get ids(): readonly string[] {
    return [...this.#keys.keys()]
  }
}

/** Parses the content of a key file: `{ "current": "2026-11", "keys": { "2026-11": "…base64…" } }`. */
export function readKeyRing(content: JsonValue): KeyRing {
  const { current, keys, ...others } = Object.fromEntries(entriesOf(content))
  if (typeof current !== 'string' || Object.keys(others).length > 0) {
    throw new MasterKeysError('Expected an object with current, the id of a key, and keys.')
  }
  return new KeyRing(
    entriesOf(keys).map(([id, secret]) => ({ id, secret: secretOf(id, secret) })),
    current,
  )
}

function entriesOf(value: JsonValue | undefined): [string, JsonValue][] {
  return isObject(value) ? Object.entries(value) : []
}

/** Decodes a secret. Encodes it again to compare, because Buffer.from silently skips characters outside base64. */
function secretOf(id: string, text: JsonValue): Buffer {
  const secret = Buffer.from(typeof text === 'string' ? text : '', 'base64')
  if (secret.length === SECRET_BYTES && secret.toString('base64') === text) return secret
  throw new MasterKeysError(
    `The master key ${isPrintable(id) ? id : '(unprintable)'} is not base64 of ${SECRET_BYTES} bytes.`,
  )
}

function isPrintable(id: string): boolean {
  return /^[!-~]{1,128}$/.test(id)
}

export const SECRET_BYTES = 32
