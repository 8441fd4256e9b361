import { createHash, randomBytes, randomInt } from 'node:crypto'

/** A key in its two halves: the id, which may be shown and logged, and the hash of the secret, which alone is stored. */
export interface ApiKeyParts {
  readonly keyId: string
  readonly secretHash: Buffer
}

/** `symphony_<id>_<secret>`: a prefix that secret scanners can look for, and 256 bits that nobody can guess. */
export function newApiKey(): ApiKeyParts & { readonly key: string } {
  const keyId = Array.from({ length: ID_LENGTH }, () => ID_LETTERS[randomInt(ID_LETTERS.length)]).join('')
  const secret = randomBytes(SECRET_BYTES).toString('base64url')
  return { keyId, secretHash: hashOf(secret), key: `symphony_${keyId}_${secret}` }
}

/** Undefined for what is no key of ours, whoever made it up. */
export function parseApiKey(text: string): ApiKeyParts | undefined {
  const [, keyId, secret] = KEY.exec(text) ?? []
  return keyId === undefined || secret === undefined ? undefined : { keyId, secretHash: hashOf(secret) }
}

/** Not slow, and not salted: there is nothing to guess in 256 random bits. */
function hashOf(secret: string): Buffer {
  return createHash('sha256').update(secret).digest()
}

const KEY = /^symphony_([a-z0-9]{8,32})_([A-Za-z0-9_-]{43})$/
const SECRET_BYTES = 32
const ID_LENGTH = 16
const ID_LETTERS = 'abcdefghijklmnopqrstuvwxyz0123456789'
