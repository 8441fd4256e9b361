import { createHash, randomBytes, randomInt } from 'node:crypto'

/**
 * Parts of a key: the id, which may be shown and logged, and the hash of the secret. The secret itself is not stored.
 */
export interface ApiKeyParts {
  readonly keyId: string
  readonly secretHash: Buffer
}

/** Creates a key `symphony_<id>_<secret>`, with a prefix for secret scanners and a random secret of 256 bits. */
export function newApiKey(): ApiKeyParts & { readonly key: string } {
  const keyId = Array.from({ length: ID_LENGTH }, () => ID_LETTERS[randomInt(ID_LETTERS.length)]).join('')
  const secret = randomBytes(SECRET_BYTES).toString('base64url')
  return { keyId, secretHash: hashOf(secret), key: `symphony_${keyId}_${secret}` }
}

/** Parses a key. Returns undefined for any other text. */
export function parseApiKey(text: string): ApiKeyParts | undefined {
  const [, keyId, secret] = KEY.exec(text) ?? []
  return keyId === undefined || secret === undefined ? undefined : { keyId, secretHash: hashOf(secret) }
}

/** Hashes a secret. SHA-256 without salt suffices, because 256 random bits cannot be guessed. */
function hashOf(secret: string): Buffer {
  return createHash('sha256').update(secret).digest()
}

const KEY = /^symphony_([a-z0-9]{8,32})_([A-Za-z0-9_-]{43})$/
const SECRET_BYTES = 32
const ID_LENGTH = 16
const ID_LETTERS = 'abcdefghijklmnopqrstuvwxyz0123456789'
