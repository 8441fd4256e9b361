import { authenticateApiKey, parseApiKey, type ApiKeyParts, type KnownApiKey } from '../../access/index.js'
import { systemClock, type Clock } from '../../core/index.js'
import { ProblemError } from '../Problem.js'
import type { Identity } from './Identity.js'

type Role = Parameters<typeof authenticateApiKey>[0]

interface CachedKey {
  readonly key: Promise<KnownApiKey | undefined>
  readonly untilMs: number
}

/**
 * Lets the database authenticate API keys. Caches each answer for 5 s, so that a busy client costs few queries and a
 * revocation takes effect within 5 s. The cache is bounded, and its key is the hash of the shown key.
 */
export class ApiKeyAuthenticator {
  readonly #auth: Role
  readonly #clock: Clock
  readonly #cached = new Map<string, CachedKey>()

  constructor(auth: Role, clock: Clock = systemClock) {
    this.#auth = auth
    this.#clock = clock
  }

  /** Returns the identity of a key, or undefined for an unknown key. Throws KEY_REVOKED or KEY_EXPIRED. */
  async identify(shown: string): Promise<Identity | undefined> {
    const parts = parseApiKey(shown)
    const key = parts === undefined ? undefined : await this.#readKey(parts)
    if (parts === undefined || key === undefined) return undefined
    if (key.status === 'REVOKED') throw new ProblemError('KEY_REVOKED')
    if (key.status === 'EXPIRED') throw new ProblemError('KEY_EXPIRED')
    const { owner, scopes, participants, expiresAt } = key
    // Owners that differ only in case are one person, as in two-person decisions.
    const keyScope = `key:${owner.toLowerCase()}`
    return { via: 'key', owner, keyScope, scopes, participants, apiKey: parts, expiresAt }
  }

  #readKey(parts: ApiKeyParts): Promise<KnownApiKey | undefined> {
    const name = `${parts.keyId} ${parts.secretHash.toString('hex')}`
    const nowMs = this.#clock.monotonicMs()
    const cached = this.#cached.get(name)
    if (cached !== undefined && cached.untilMs > nowMs) return cached.key
    const key = authenticateApiKey(this.#auth, parts)
    this.#cached.delete(name)
    this.#cached.set(name, { key, untilMs: nowMs + CACHE_MS })
    // A failed query is not cached.
    key.catch(() => this.#cached.delete(name))
    this.#evict()
    return key
  }

  #evict(): void {
    for (const name of this.#cached.keys()) {
      if (this.#cached.size <= CACHED_MAX) return
      this.#cached.delete(name)
    }
  }
}

const CACHE_MS = 5_000
const CACHED_MAX = 10_000
