/**
 * Keys of the HTTP API. A key decides the scopes and the person of a request.
 *
 * | state | ended by | a crash there leaves |
 * | --- | --- | --- |
 * | active | `ApiKeys.revoke` with symphony_control; its expiry | the row |
 * | expired, revoked | nothing: both are final | the row, which names the owner |
 *
 * A key is `symphony_<id>_<secret>` and is shown once. The database stores the SHA-256 of the secret and decides by its
 * own clock whether a key is active. A login can grant only scopes of its own roles.
 */
export { newApiKey, parseApiKey } from './apiKey.js'
export type { ApiKeyParts } from './apiKey.js'
export { ApiKeys } from './ApiKeys.js'
export type { ApiKeyRequest, CreatedApiKey } from './ApiKeys.js'
export { authenticateApiKey, isActorGateway, SCOPES } from './db.js'
export type { ApiKeyStatus, KnownApiKey, Scope } from './db.js'
