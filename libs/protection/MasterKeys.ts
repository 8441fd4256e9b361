import { isObject, requiredId, type JsonValue } from '../core/index.js'
import { MasterKeysError } from './errors.js'

export interface MasterKey {
  readonly id: string
  /** 256 bits. */
  readonly secret: Buffer
}

/**
 * Where master keys come from: a file, a service. Never the database that holds what they wrap. Asked for each key that is
 * wrapped or unwrapped, so that a key that was added is found without a restart.
 */
export interface MasterKeys {
  /** Master key that wraps new data keys. */
  current(): Promise<MasterKey>
  /** Returns undefined if there is no such key now. */
  find(id: string): Promise<MasterKey | undefined>
}

/** Keys that are in memory already. */
export class KeyRing implements MasterKeys {
  readonly #keys: ReadonlyMap<string, MasterKey>
  readonly #current: MasterKey

  constructor(keys: readonly MasterKey[], currentId: string) {
    for (const { id, secret } of keys) {
      requiredId('a master key’s id', id)
      if (!Buffer.isBuffer(secret) || secret.length !== SECRET_BYTES) {
        throw new MasterKeysError(`The master key ${id} is not of ${SECRET_BYTES} bytes.`)
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

/** `{ "current": "2026-11", "keys": { "2026-11": "…base64…" } }`, as a file has it. */
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

/** Read back, because Buffer.from leaves out what is not base64 without a word. */
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
