import { createCipheriv, createDecipheriv, createHmac, hkdfSync, randomBytes } from 'node:crypto'
import { isUuid } from '../core/index.js'
import { SEALED_PREFIX } from '../rails/index.js'
import type { MasterKey } from './MasterKeys.js'

/**
 * AES-256-GCM twice: a data key encrypts fields, a master key wraps data keys.
 *
 * **A field** becomes `symphony.sealed.v1.<key id>.<base64url of nonce, ciphertext, tag>`. Its nonce is no random number but a
 * keyed hash of what is encrypted and of where it stands, because the same instruction enqueued again must be the same to
 * the byte. That is safe: a nonce repeats only together with the plaintext and the place it was made for, and then the
 * ciphertext is the one that was there already; equal values in two payments have nothing in common. The tag also covers the
 * place (key, instruction, idempotency key, pointer), so that a ciphertext moved elsewhere does not open.
 *
 * **A data key** is wrapped under a random nonce, and its tag covers its id and subject.
 */

export interface DataKey {
  readonly id: string
  readonly secret: Buffer
}

/** What a ciphertext is bound to. */
export interface SealedPlace {
  readonly instructionId: string
  readonly idempotencyKey: string
  readonly pointer: string
}

export function sealField(key: DataKey, place: SealedPlace, plaintext: string): string {
  const bound = boundTo(key, place)
  const text = Buffer.from(plaintext)
  const nonce = createHmac('sha256', derived(key, 'nonce'))
    .update(lengthPrefixed([bound, text]))
    .digest()
    .subarray(0, NONCE_BYTES)
  const sealed = encrypt(derived(key, 'encryption'), nonce, bound, text)
  return `${PREFIX}${key.id}.${sealed.toString('base64url')}`
}

/** Undefined: it was changed, or was made for another place or key. */
export function openField(key: DataKey, place: SealedPlace, sealed: string): string | undefined {
  const parts = partsOf(sealed)
  if (parts === undefined || parts.keyId !== key.id) return undefined
  return decrypt(derived(key, 'encryption'), boundTo(key, place), parts.sealed)?.toString()
}

/** The id of the key that a ciphertext names; undefined: it is none of ours. */
export function keyIdOf(value: unknown): string | undefined {
  return typeof value === 'string' ? partsOf(value)?.keyId : undefined
}

export function wrapKey(master: MasterKey, key: DataKey, subject: string): string {
  const bound = lengthPrefixed([WRAPPING, key.id, subject])
  return encrypt(master.secret, randomBytes(NONCE_BYTES), bound, key.secret).toString('base64url')
}

/** Undefined: it was wrapped under another master key, for another subject, or was changed. */
export function unwrapKey(master: MasterKey, id: string, subject: string, wrapped: string): DataKey | undefined {
  const bound = lengthPrefixed([WRAPPING, id, subject])
  const secret = decrypt(master.secret, bound, Buffer.from(wrapped, 'base64url'))
  return secret === undefined ? undefined : { id, secret }
}

function encrypt(secret: Buffer, nonce: Buffer, bound: Buffer, plaintext: Buffer): Buffer {
  const cipher = createCipheriv('aes-256-gcm', secret, nonce, { authTagLength: TAG_BYTES }).setAAD(bound)
  return Buffer.concat([nonce, cipher.update(plaintext), cipher.final(), cipher.getAuthTag()])
}

function decrypt(secret: Buffer, bound: Buffer, sealed: Buffer): Buffer | undefined {
  if (sealed.length < NONCE_BYTES + TAG_BYTES) return undefined
  const decipher = createDecipheriv('aes-256-gcm', secret, sealed.subarray(0, NONCE_BYTES), {
    authTagLength: TAG_BYTES,
  })
  decipher.setAAD(bound).setAuthTag(sealed.subarray(-TAG_BYTES))
  try {
    return Buffer.concat([decipher.update(sealed.subarray(NONCE_BYTES, -TAG_BYTES)), decipher.final()])
  } catch {
    return undefined
  }
}

/** A redrive is the same payment under a key with a number behind it, and carries the same payload. */
function boundTo({ id }: DataKey, { instructionId, idempotencyKey, pointer }: SealedPlace): Buffer {
  return lengthPrefixed([PREFIX, id, instructionId, idempotencyKey.replace(REDRIVE, ''), pointer])
}

/** No two lists of texts give the same bytes. */
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

function partsOf(value: string): { readonly keyId: string; readonly sealed: Buffer } | undefined {
  if (!value.startsWith(PREFIX)) return undefined
  const [keyId = '', text = '', ...more] = value.slice(PREFIX.length).split('.')
  const sealed = Buffer.from(text, 'base64url')
  // Read back: two spellings of one ciphertext would be two payloads.
  return isUuid(keyId) && more.length === 0 && sealed.toString('base64url') === text ? { keyId, sealed } : undefined
}

const PREFIX = `${SEALED_PREFIX}v1.`
const WRAPPING = 'symphony.wrapped.v1'
const NONCE_BYTES = 12
const TAG_BYTES = 16
/** As `outbox_base_key` has it. */
const REDRIVE = /~redrive~[0-9]+$/
