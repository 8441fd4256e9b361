/** What a key may be used for. Each acts in a role of its own: ingest, readonly, auditor, control. */
export const SCOPES = ['ingest', 'read', 'audit', 'operate'] as const

export type Scope = (typeof SCOPES)[number]

export interface ApiKeyRequest {
  readonly scopes: readonly Scope[]
  /** The person of two-person actions. */
  readonly owner: string
  /** The only participants it sees and pays for. @default all */
  readonly participants?: readonly string[]
  /** @default never */
  readonly expiresAt?: Date
}

export interface CreatedApiKey {
  readonly keyId: string
  /** The key itself. Shown once: nothing keeps it. */
  readonly key: string
  readonly createdAt: Date
}

/** What the database says of a key that was shown, to whoever shows its secret. */
export interface KnownApiKey {
  readonly status: 'ACTIVE' | 'EXPIRED' | 'REVOKED'
  readonly scopes: readonly Scope[]
  readonly owner: string
  readonly participants: readonly string[] | null
  readonly expiresAt: Date | null
}

/** A key as those see it who make and end keys. */
export interface ApiKeyStatus {
  readonly keyId: string
  readonly status: 'ACTIVE' | 'EXPIRED' | 'REVOKED'
  readonly scopes: readonly Scope[]
  readonly owner: string
  readonly participants: readonly string[] | null
  readonly createdBy: string
  readonly createdAt: Date
  readonly expiresAt: Date | null
  readonly revokedAt: Date | null
  readonly revokedBy: string | null
  /** The hour of its last use. */
  readonly lastUsedAt: Date | null
}
