import { ArgumentRangeError, InvalidArgumentError, requiredId, requiredText } from '../core/index.js'
import { call, qualify, type Queryable } from '../db/index.js'
import { newApiKey, type ApiKeyParts } from './apiKey.js'

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

/** The functions of keys, one wrapper each, under the same name. Making and ending keys is for symphony_control. */

/** The secret is made here and leaves this process only in the answer; the database is given its hash. */
export async function createApiKey(role: Queryable, request: ApiKeyRequest): Promise<CreatedApiKey> {
  const values = [
    requiredScopes(request.scopes),
    requiredOwner(request.owner),
    participantsOf(request),
    expiryOf(request),
  ]
  const { keyId, secretHash, key } = newApiKey()
  const rows = await call<{ create_api_key: Date }>(role, 'create_api_key', [keyId, secretHash, ...values])
  return { keyId, key, createdAt: new Date(rows[0]?.create_api_key ?? Number.NaN) }
}

/** False: it was revoked already. It bites within the seconds for which a server remembers an answer. */
export async function revokeApiKey(role: Queryable, keyId: string): Promise<boolean> {
  const rows = await call<{ revoke_api_key: boolean }>(role, 'revoke_api_key', [requiredId('keyId', keyId)])
  return rows[0]?.revoke_api_key === true
}

/** As symphony_auth. Undefined: there is no such key, or its secret is another. */
export async function authenticateApiKey(role: Queryable, parts: ApiKeyParts): Promise<KnownApiKey | undefined> {
  const [row] = await call<{
    status: KnownApiKey['status']
    scopes: Scope[]
    owner: string
    participants: string[] | null
    expires_at: Date | null
  }>(role, 'authenticate_api_key', [parts.keyId, parts.secretHash])
  if (row === undefined) return undefined
  const { status, scopes, owner, participants, expires_at: expiresAt } = row
  return { status, scopes, owner, participants, expiresAt }
}

/** Returns whether this login may act for owners of API keys (`keys`), or for people whom it only names. As symphony_control. */
export async function isActorGateway(role: Queryable, people: 'keys' | 'names'): Promise<boolean> {
  const rows = await call<{ is_actor_gateway: boolean }>(role, 'is_actor_gateway', [people === 'names'])
  return rows[0]?.is_actor_gateway === true
}

/** Newest first, the first thousand. As symphony_control or symphony_auditor. */
export async function readApiKeys(role: Queryable): Promise<ApiKeyStatus[]> {
  const { rows } = await role.query<ApiKeyStatus>(
    `SELECT key_id AS "keyId", scopes, owner, participants, created_by AS "createdBy", created_at AS "createdAt",
       expires_at AS "expiresAt", revoked_at AS "revokedAt", revoked_by AS "revokedBy", last_used_at AS "lastUsedAt",
       CASE WHEN revoked_at IS NOT NULL THEN 'REVOKED' WHEN expires_at <= clock_timestamp() THEN 'EXPIRED'
         ELSE 'ACTIVE' END AS status
     FROM ${qualify(role, 'api_keys')} ORDER BY created_at DESC, key_id LIMIT 1000`,
  )
  return rows
}

function requiredScopes(scopes: readonly Scope[]): readonly Scope[] {
  const known: readonly string[] = SCOPES
  const fits = Array.isArray(scopes) && scopes.length > 0 && scopes.every((scope) => known.includes(scope))
  if (!fits || new Set(scopes).size < scopes.length) {
    throw new InvalidArgumentError('scopes', `expected some of ${SCOPES.join(', ')}, each once`)
  }
  return scopes
}

/** No name may have two spellings: with a space at its end it would be a second person. */
function requiredOwner(owner: string): string {
  if (requiredText('owner', owner, OWNER_LENGTH_MAX) !== owner.trim()) {
    throw new InvalidArgumentError('owner', 'expected a person without space at either end')
  }
  return owner
}

function participantsOf({ participants }: ApiKeyRequest): string[] | null {
  if (participants === undefined) return null
  if (!Array.isArray(participants) || participants.length === 0 || participants.length > PARTICIPANTS_MAX) {
    throw new ArgumentRangeError('participants', `expected 1 to ${PARTICIPANTS_MAX} participants`)
  }
  return participants.map((id, index) => requiredId(`participants[${index}]`, id))
}

function expiryOf({ expiresAt }: ApiKeyRequest): Date | null {
  if (expiresAt === undefined) return null
  if (expiresAt instanceof Date && !Number.isNaN(expiresAt.getTime())) return expiresAt
  throw new InvalidArgumentError('expiresAt', 'expected a valid Date')
}

const OWNER_LENGTH_MAX = 200
const PARTICIPANTS_MAX = 100
