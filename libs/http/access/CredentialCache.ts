import type { ApiKeyParts } from '../../access/index.js'
import { systemClock, type Clock } from '../../core/index.js'

/**
 * Caches keys and sessions for 2 s, so that a busy client costs few queries. An event stream checks its credential
 * about every 2 s, so a revocation takes effect within 5 s. The cache is bounded; its keys contain the hash of the
 * secret.
 */
export class CredentialCache<Known> {
  readonly #authenticate: (parts: ApiKeyParts) => Promise<Known>
  readonly #clock: Clock
  readonly #cached = new Map<string, { readonly known: Promise<Known>; readonly untilMs: number }>()

  constructor(authenticate: (parts: ApiKeyParts) => Promise<Known>, clock: Clock = systemClock) {
    this.#authenticate = authenticate
    this.#clock = clock
  }

  read(parts: ApiKeyParts): Promise<Known> {
    const name = nameOf(parts)
    const nowMs = this.#clock.monotonicMs()
    const cached = this.#cached.get(name)
    if (cached !== undefined && cached.untilMs > nowMs) return cached.known
    const known = this.#authenticate(parts)
    this.#cached.delete(name)
    this.#cached.set(name, { known, untilMs: nowMs + CACHE_MS })
    known.catch(() => this.#cached.delete(name))
    this.#evict()
    return known
  }

  remove(parts: ApiKeyParts): void {
    this.#cached.delete(nameOf(parts))
  }

  #evict(): void {
    for (const name of this.#cached.keys()) {
      if (this.#cached.size <= CACHED_MAX) return
      this.#cached.delete(name)
    }
  }
}

function nameOf({ keyId, secretHash }: ApiKeyParts): string {
  return `${keyId} ${secretHash.toString('hex')}`
}

const CACHE_MS = 2_000
const CACHED_MAX = 10_000
