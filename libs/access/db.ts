import { call, qualify, type Queryable } from '../db/index.js'
import type { ApiKeyParts } from './apiKey.js'

/** Scopes of a key. They use the roles symphony_ingest, _readonly, _auditor and _control, in this order. */
export const SCOPES = ['ingest', 'read', 'audit', 'operate'] as const

export type Scope = (typeof SCOPES)[number]

/** Result of an authentication with the right secret. */
export interface KnownApiKey {
  readonly status: 'ACTIVE' | 'EXPIRED' | 'REVOKED'
  readonly scopes: readonly Scope[]
  readonly owner: string
  readonly participants: readonly string[] | null
  readonly expiresAt: Date | null
}

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
  /** Time of the last use, to the hour. */
  readonly lastUsedAt: Date | null
}

/** Wrappers of the SQL functions, with the same names. `symphony_control` creates and revokes keys. */

export async function createApiKey(
  role: Queryable,
  { keyId, secretHash }: ApiKeyParts,
  request: {
    readonly scopes: readonly Scope[]
    readonly owner: string
    readonly participants: readonly string[] | null
    readonly expiresAt: Date | null
  },
): Promise<Date> {
  const { scopes, owner, participants, expiresAt } = request
  const values = [keyId, secretHash, scopes, owner, participants, expiresAt]
  const rows = await call<{ create_api_key: Date }>(role, 'create_api_key', values)
  return new Date(rows[0]?.create_api_key ?? Number.NaN)
}

/** Revokes a key. Returns false if it was already revoked. */
export async function revokeApiKey(role: Queryable, keyId: string): Promise<boolean> {
  const rows = await call<{ revoke_api_key: boolean }>(role, 'revoke_api_key', [keyId])
  return rows[0]?.revoke_api_key === true
}

/** Authenticates a key as symphony_auth. Returns undefined for an unknown key or a wrong secret. */
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

/**
 * Returns whether this login may act for owners of API keys (`keys`), or for any person that it names (`names`). As
 * symphony_control.
 */
export async function isActorGateway(role: Queryable, people: 'keys' | 'names'): Promise<boolean> {
  const rows = await call<{ is_actor_gateway: boolean }>(role, 'is_actor_gateway', [people === 'names'])
  return rows[0]?.is_actor_gateway === true
}

/** Returns the newest 1000 keys, newest first. As symphony_control or symphony_auditor. */
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

/** Result of an authentication with the secret of a session. */
export interface KnownBrowserSession extends KnownApiKey {
  readonly issuer: string
  readonly expiresAt: Date
}

export interface BrowserSessionStatus extends Omit<ApiKeyStatus, 'keyId' | 'lastUsedAt'> {
  readonly sessionId: string
  readonly issuer: string
  readonly expiresAt: Date
}

/**
 * Creates a session as symphony_auth and returns its expiry. Only HTTP servers with the same database login accept the
 * session.
 */
export async function createBrowserSession(
  role: Queryable,
  { keyId, secretHash }: ApiKeyParts,
  request: {
    readonly scopes: readonly Scope[]
    readonly owner: string
    readonly participants: readonly string[] | null
    readonly issuer: string
    readonly seconds: number
  },
): Promise<Date> {
  const { scopes, owner, participants, issuer, seconds } = request
  const values = [keyId, secretHash, scopes, owner, issuer, seconds, participants]
  const rows = await call<{ create_browser_session: Date }>(role, 'create_browser_session', values)
  return new Date(rows[0]?.create_browser_session ?? Number.NaN)
}

/** Authenticates a session as symphony_auth. Returns undefined for an unknown session or a wrong secret. */
export async function authenticateBrowserSession(
  role: Queryable,
  { keyId, secretHash }: ApiKeyParts,
): Promise<KnownBrowserSession | undefined> {
  const [row] = await call<Omit<KnownBrowserSession, 'expiresAt'> & { expires_at: Date }>(
    role,
    'authenticate_browser_session',
    [keyId, secretHash],
  )
  if (row === undefined) return undefined
  const { status, scopes, owner, participants, issuer, expires_at: expiresAt } = row
  return { status, scopes, owner, participants, issuer, expiresAt }
}

/** Ends a session as symphony_auth, for a person who signs out. */
export async function endBrowserSession(role: Queryable, { keyId, secretHash }: ApiKeyParts): Promise<void> {
  await call(role, 'end_browser_session', [keyId, secretHash])
}

/** Revokes a session as symphony_control. Returns false if it was already revoked. */
export async function revokeBrowserSession(role: Queryable, sessionId: string): Promise<boolean> {
  const rows = await call<{ revoke_browser_session: boolean }>(role, 'revoke_browser_session', [sessionId])
  return rows[0]?.revoke_browser_session === true
}

/**
 * Returns the newest 1000 sessions, newest first: of all people, or of one owner in any letter case. As
 * symphony_control or symphony_auditor.
 */
export async function readBrowserSessions(role: Queryable, owner?: string): Promise<BrowserSessionStatus[]> {
  const { rows } = await role.query<BrowserSessionStatus>(
    `SELECT session_id AS "sessionId", scopes, owner, participants, issuer, created_by AS "createdBy",
       created_at AS "createdAt", expires_at AS "expiresAt", revoked_at AS "revokedAt", revoked_by AS "revokedBy",
       CASE WHEN revoked_at IS NOT NULL THEN 'REVOKED' WHEN expires_at <= clock_timestamp() THEN 'EXPIRED'
         ELSE 'ACTIVE' END AS status
     FROM ${qualify(role, 'browser_sessions')}
     WHERE $1::text IS NULL OR lower(owner COLLATE "und-x-icu") = lower($1 COLLATE "und-x-icu")
     ORDER BY created_at DESC, session_id LIMIT 1000`,
    [owner ?? null],
  )
  return rows
}
