/**
 * Keys of the HTTP API and sessions of the dashboard. Each determines the scopes and the person of a request.
 *
 * | state | ended by | a crash there leaves |
 * | --- | --- | --- |
 * | active | `ApiKeys.revoke` with symphony_control; its expiry | the row |
 * | expired, revoked | nothing: both are final | the row, which names the owner |
 *
 * A key is `symphony_<id>_<secret>` and is shown once. The database stores the SHA-256 of the secret and decides by its
 * own clock whether a key is active. A login can grant only scopes of its own roles. A session has the same states,
 * lasts at most 8 hours and is valid only on HTTP servers with the database login that created it.
 */
export { newApiKey, parseApiKey } from './apiKey.js'
export type { ApiKeyParts } from './apiKey.js'
export { ApiKeys } from './ApiKeys.js'
export type { ApiKeyRequest, CreatedApiKey } from './ApiKeys.js'
export {
  authenticateApiKey,
  authenticateBrowserSession,
  createBrowserSession,
  endBrowserSession,
  isActorGateway,
  readBrowserSessions,
  revokeBrowserSession,
  SCOPES,
} from './db.js'
export type { ApiKeyStatus, BrowserSessionStatus, KnownApiKey, KnownBrowserSession, Scope } from './db.js'
