import type { Scope } from '../../access/index.js'

/** Who is asking, however they proved it. */
export interface Identity {
  readonly via: 'token' | 'key' | 'jwt'
  /** The person of two-person actions. */
  readonly owner: string
  readonly scopes: readonly Scope[]
  /** The only participants it sees and pays for; null: all. */
  readonly participants: readonly string[] | null
  readonly keyId: string | null
  readonly expiresAt: Date | null
}

/** What a limit is counted by: one key, one token, one person of an identity provider. */
export function nameOf({ via, keyId, owner }: Identity): string {
  return `${via}:${keyId ?? owner}`
}
