import type { ApiKeyParts, Scope } from '../../access/index.js'

/** Identity of a caller, by token, API key or JWT. */
export interface Identity {
  readonly via: 'token' | 'key' | 'jwt'
  /** The person of two-person actions. */
  readonly owner: string
  /** Scope of its idempotency keys. A rotated key or a renewed token keeps the scope. */
  readonly keyScope: string
  readonly scopes: readonly Scope[]
  /** The only participants it sees and pays for; null: all. */
  readonly participants: readonly string[] | null
  /** The key that was shown, for the database to verify once more. Null: the caller showed a token. */
  readonly apiKey: ApiKeyParts | null
  readonly expiresAt: Date | null
}

/** Returns the name that the rate limit counts by: one key, one token, or one person of an identity provider. */
export function rateLimitKey({ via, apiKey, owner }: Identity): string {
  return `${via}:${apiKey?.keyId ?? owner}`
}
