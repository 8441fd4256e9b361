import { createHmac } from 'node:crypto'
import { InvalidArgumentError } from '../core/index.js'
import type { Queryable } from '../db/index.js'
import { guardListener, IntervalWorker } from '../worker/index.js'
import { readHashing, readNextDestinations, storeSearchDestinations } from './reads/destinations.js'

/** Minimum size of the key. A reader of the hashes could find a shorter key by trial. */
const KEY_BYTES_MIN = 32

/** Hashes destinations with a key that the database does not have. */
export class DestinationHash {
  /**
   * Name of the key, stored with the hashes: the first 16 digits of the HMAC of a fixed text. The text contains spaces,
   * and `of` removes the spaces of a destination, so no destination has the same HMAC.
   */
  readonly keyName: string
  readonly #key: string

  constructor(key: string) {
    if (Buffer.byteLength(key) < KEY_BYTES_MIN) {
      throw new InvalidArgumentError('searchKey', `expected a secret of at least ${KEY_BYTES_MIN} bytes`)
    }
    this.#key = key
    this.keyName = this.#hmac('name of the key').toString('hex').slice(0, 16)
  }

  /**
   * Returns the hash of a destination. Ignores spaces, letter case and compatibility forms of Unicode: `DE89 3704` and
   * `de893704` are the same account.
   */
  of(destination: string): Buffer {
    return this.#hmac(destination.normalize('NFKC').replaceAll(/\s+/gu, '').toUpperCase())
  }

  #hmac(text: string): Buffer {
    return createHmac('sha256', this.#key).update(text).digest()
  }
}

/**
 * A run failed, and the next run repeats its block. Or another key made the stored hashes, and this process adds none.
 */
export interface HasherEvent {
  readonly type: 'search.fault'
  readonly error: unknown
}

export interface HasherCounts {
  readonly blocks: number
  readonly more: boolean
}

/**
 * Stores hashes of the destinations of projected payments, block by block. Runs in the process of the API, because that
 * process has the key. Its role symphony_control may read payloads; the role of workers may read no table.
 */
export class DestinationHasher extends IntervalWorker<HasherCounts> {
  readonly #role: Queryable
  readonly #hash: DestinationHash
  readonly #onEvent: (event: HasherEvent) => void
  #toldOfKey = false

  constructor(role: Queryable, hash: DestinationHash, onEvent: (event: HasherEvent) => void = () => {}) {
    const guarded = guardListener(onEvent)
    super({
      intervalMs: INTERVAL_MS,
      hasMore: ({ more }) => more,
      onError: (error) => guarded({ type: 'search.fault', error }),
    })
    this.#role = role
    this.#hash = hash
    this.#onEvent = guarded
  }

  async runOnce(): Promise<HasherCounts> {
    let blocks = 0
    while (blocks < BLOCKS_PER_RUN && (await this.#mayHash())) {
      const next = await readNextDestinations(this.#role)
      if (next === undefined) break
      const hashes = next.destinations.map(({ outboxId, destination }) => ({
        outboxId,
        hmac: this.#hash.of(destination),
      }))
      // Another process may have stored the block meanwhile.
      if (!(await storeSearchDestinations(this.#role, { ...next, keyName: this.#hash.keyName, hashes }))) break
      blocks += 1
    }
    return { blocks, more: blocks === BLOCKS_PER_RUN }
  }

  /** Returns false, and reports it once, if another key made the stored hashes: a search uses only one key. */
  async #mayHash(): Promise<boolean> {
    const { keyName } = await readHashing(this.#role)
    if (keyName === null || keyName === this.#hash.keyName) return true
    if (!this.#toldOfKey)
      this.#onEvent({ type: 'search.fault', error: new InvalidArgumentError('searchKey', OTHER_KEY) })
    this.#toldOfKey = true
    return false
  }
}

/** Error text for a process whose key differs from the key of the stored hashes. */
export const OTHER_KEY =
  'expected the key of the stored hashes. Start every API with that key, or run: symphony ledger rebuild'

const INTERVAL_MS = 2_000
/** Maximum number of blocks per run, so that `stop()` does not wait for a whole backlog. */
const BLOCKS_PER_RUN = 10
