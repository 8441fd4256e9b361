import { authenticateApiKey, parseApiKey, type KnownApiKey } from '../../access/index.js'
import type { Clock } from '../../core/index.js'
import { ProblemError } from '../Problem.js'
import { CredentialCache } from './CredentialCache.js'
import type { Identity } from './Identity.js'

type Role = Parameters<typeof authenticateApiKey>[0]

/** Authenticates API keys by the database, through a cache. */
export class ApiKeyAuthenticator {
  readonly #keys: CredentialCache<KnownApiKey | undefined>

  constructor(auth: Role, clock?: Clock) {
    this.#keys = new CredentialCache((parts) => authenticateApiKey(auth, parts), clock)
  }

  /** Returns the identity of a key, or undefined for an unknown key. Throws KEY_REVOKED or KEY_EXPIRED. */
  async identify(shown: string): Promise<Identity | undefined> {
    const parts = parseApiKey(shown)
    const key = parts === undefined ? undefined : await this.#keys.read(parts)
    if (parts === undefined || key === undefined) return undefined
    if (key.status === 'REVOKED') throw new ProblemError('KEY_REVOKED')
    if (key.status === 'EXPIRED') throw new ProblemError('KEY_EXPIRED')
    const { owner, scopes, participants, expiresAt } = key
    // Owners that differ only in case are one person, as in two-person decisions.
    const keyScope = `key:${owner.toLowerCase()}`
    return { via: 'key', owner, keyScope, scopes, participants, apiKey: parts, expiresAt }
  }
}
