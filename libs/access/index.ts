/**
 * Keys of the HTTP API: who may ask for what, and who it is that asks.
 *
 * | state | who moves it | a crash there leaves |
 * | --- | --- | --- |
 * | active | `revokeApiKey` by anybody with symphony_control; time, if it expires | the row |
 * | expired, revoked | nobody: for ever | the row, so that it is known who had it |
 *
 * A key is `symphony_<id>_<secret>` and is shown once. The database keeps the SHA-256 of the secret, decides by its own clock
 * whether a key is still good, and lets nobody hand out what they do not have themselves.
 */
export { newApiKey, parseApiKey } from './apiKey.js'
export type { ApiKeyParts } from './apiKey.js'
export { authenticateApiKey, createApiKey, isActorGateway, readApiKeys, revokeApiKey, SCOPES } from './db.js'
export type { ApiKeyRequest, ApiKeyStatus, CreatedApiKey, KnownApiKey, Scope } from './db.js'
