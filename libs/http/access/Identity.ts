import type { ApiKeyParts, Scope } from '../../access/index.js'

/** Identity of a caller, by token, API key, JWT or session. */
export interface Identity {
  readonly via: 'token' | 'key' | 'jwt' | 'session'
  /** Person recorded in two-person decisions. */
  readonly owner: string
  /** Scope of the caller's idempotency keys. A rotated key or a renewed token keeps the scope. */
  readonly keyScope: string
  readonly scopes: readonly Scope[]
  /** Participants that the caller may see and pay for; null for all. */
  readonly participants: readonly string[] | null
  /** API key, which the database verifies again; null if the caller used a token or a session. */
  readonly apiKey: ApiKeyParts | null
  /** Session of the dashboard; absent if the caller used a token or a key. */
  readonly session?: ApiKeyParts
  readonly expiresAt: Date | null
}

/** Returns the name that the rate limit counts by: one key, one token, or one person of an identity provider. */
export function rateLimitKey({ via, apiKey, owner }: Identity): string {
  return `${via}:${apiKey?.keyId ?? owner}`
}
