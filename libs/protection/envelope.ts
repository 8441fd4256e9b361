import { createCipheriv, createDecipheriv, createHmac, hkdfSync, randomBytes } from 'node:crypto'
import { isUuid } from '../core/index.js'
import { ENCRYPTED_PREFIX } from '../rails/index.js'
import type { MasterKey } from './MasterKeys.js'

/**
 * Uses AES-256-GCM twice: a data key encrypts fields, a master key wraps data keys.
 *
 * **A field** becomes `symphony.sealed.v1.<key id>.<base64url of nonce, ciphertext, tag>`. Its nonce is a keyed hash of
 * the plaintext and its context, because a repeated instruction must give the same bytes. A nonce therefore repeats
 * only for the same plaintext and context, which gives the same ciphertext. Equal values in two payments have different
 * ciphertexts. The tag also covers the context (key, instruction, idempotency key, pointer), so that a ciphertext moved
 * elsewhere cannot be decrypted.
 *
 * **A data key** is wrapped under a random nonce, and its tag covers its id and subject.
 */

export interface DataKey {
  readonly id: string
  readonly secret: Buffer
}

/** Payment and field that a ciphertext is bound to. */
interface EncryptionContext {
  readonly instructionId: string
  readonly idempotencyKey: string
  readonly pointer: string
}

export function encryptField(key: DataKey, context: EncryptionContext, plaintext: string): string {
  const bound = boundTo(key, context)
  const text = Buffer.from(plaintext)
  const nonce = createHmac('sha256', derived(key, 'nonce'))
    .update(lengthPrefixed([bound, text]))
    .digest()
    .subarray(0, NONCE_BYTES)
  const ciphertext = encryptBytes(derived(key, 'encryption'), nonce, bound, text)
  return `${PREFIX}${key.id}.${ciphertext.toString('base64url')}`
}

/** Decrypts a field. Returns undefined if the ciphertext was changed, or belongs to another context or key. */
export function decryptField(key: DataKey, context: EncryptionContext, ciphertext: string): string | undefined {
  const parts = partsOf(ciphertext)
  if (parts === undefined || parts.keyId !== key.id) return undefined
  return decryptBytes(derived(key, 'encryption'), boundTo(key, context), parts.ciphertext)?.toString()
}

/** Returns the key id in a ciphertext; undefined for any other value. */
export function keyIdOf(value: unknown): string | undefined {
  return typeof value === 'string' ? partsOf(value)?.keyId : undefined
}

export function wrapKey(master: MasterKey, key: DataKey, subject: string): string {
  const bound = lengthPrefixed([WRAPPING, key.id, subject])
  return encryptBytes(master.secret, randomBytes(NONCE_BYTES), bound, key.secret).toString('base64url')
}

/**
 * Unwraps a data key. Returns undefined if it was changed, or wrapped under another master key or for another subject.
 */
export function unwrapKey(master: MasterKey, id: string, subject: string, wrapped: string): DataKey | undefined {
  const bound = lengthPrefixed([WRAPPING, id, subject])
  const secret = decryptBytes(master.secret, bound, Buffer.from(wrapped, 'base64url'))
  return secret === undefined ? undefined : { id, secret }
}

function encryptBytes(secret: Buffer, nonce: Buffer, bound: Buffer, plaintext: Buffer): Buffer {
  const cipher = createCipheriv('aes-256-gcm', secret, nonce, { authTagLength: TAG_BYTES }).setAAD(bound)
  return Buffer.concat([nonce, cipher.update(plaintext), cipher.final(), cipher.getAuthTag()])
}

function decryptBytes(secret: Buffer, bound: Buffer, ciphertext: Buffer): Buffer | undefined {
  if (ciphertext.length < NONCE_BYTES + TAG_BYTES) return undefined
  const decipher = createDecipheriv('aes-256-gcm', secret, ciphertext.subarray(0, NONCE_BYTES), {
    authTagLength: TAG_BYTES,
  })
  decipher.setAAD(bound).setAuthTag(ciphertext.subarray(-TAG_BYTES))
  try {
    return Buffer.concat([decipher.update(ciphertext.subarray(NONCE_BYTES, -TAG_BYTES)), decipher.final()])
  } catch {
    return undefined
  }
}

/**
 * Returns the context that a ciphertext is bound to. Omits the suffix of a redrive's idempotency key, because a redrive
 * has the same payload.
 */
function boundTo({ id }: DataKey, { instructionId, idempotencyKey, pointer }: EncryptionContext): Buffer {
  return lengthPrefixed([PREFIX, id, instructionId, idempotencyKey.replace(REDRIVE, ''), pointer])
}

/** Joins texts so that different lists give different bytes. */
function lengthPrefixed(parts: readonly (string | Buffer)[]): Buffer {
  return Buffer.concat(
    parts.flatMap((part) => {
      const bytes = Buffer.from(part)
      return [Buffer.from(`${bytes.length}:`), bytes, Buffer.from(',')]
    }),
  )
}

function derived({ secret }: DataKey, use: 'nonce' | 'encryption'): Buffer {
  return Buffer.from(hkdfSync('sha256', secret, Buffer.alloc(0), `${PREFIX}${use}`, 32))
}

function partsOf(value: string): { readonly keyId: string; readonly ciphertext: Buffer } | undefined {
  if (!value.startsWith(PREFIX)) return undefined
  const [keyId = '', text = '', ...more] = value.slice(PREFIX.length).split('.')
  const ciphertext = Buffer.from(text, 'base64url')
  // Encodes the bytes again to compare, because two spellings of one ciphertext would be two different payloads.
  return isUuid(keyId) && more.length === 0 && ciphertext.toString('base64url') === text
    ? { keyId, ciphertext }
    : undefined
}

const PREFIX = `${ENCRYPTED_PREFIX}v1.`
const WRAPPING = 'symphony.wrapped.v1'
const NONCE_BYTES = 12
const TAG_BYTES = 16
/** Suffix of a redrive's idempotency key, the same pattern as in `outbox_base_key`. */
const REDRIVE = /~redrive~[0-9]+$/
