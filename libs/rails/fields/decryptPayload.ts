import type { JsonObject } from '../../core/index.js'
import { mapFields, rulesOf, type FieldRule } from './fieldRules.js'

/** What a payload was encrypted for: its ciphertext opens nowhere else. */
export interface EncryptedItem {
  readonly instructionId: string
  readonly idempotencyKey: string
  readonly payload: JsonObject
}

/**
 * Why the fields of a payload cannot be decrypted. In none of these cases is anything sent, and the payment is held for a person.
 *
 * - `FIELD_KEY_MISSING`: this process has no master key for it, or nobody knows the data key.
 * - `FIELD_KEY_DESTROYED`: the subject's key was destroyed. The payment cannot be made any more.
 * - `FIELD_UNREADABLE`: the ciphertext was changed, or belongs to another payment or place.
 */
export type UnreadableReason = 'FIELD_KEY_MISSING' | 'FIELD_KEY_DESTROYED' | 'FIELD_UNREADABLE'

export type DecryptedPayload =
  | { readonly ok: true; readonly payload: JsonObject }
  | { readonly ok: false; readonly reason: UnreadableReason }

/** Decrypts what is encrypted. Throws only where the keys could not be asked for. */
export type DecryptPayload = (item: EncryptedItem) => Promise<DecryptedPayload>

/** What marks a value as ciphertext of ours, whatever follows. */
export const ENCRYPTED_PREFIX = 'symphony.sealed.'

/** For a rail that nobody gave keys: it carries what is in the clear, and nothing that a rail could not make sense of. */
export function rejectEncryptedFields(rules: readonly FieldRule[]): DecryptPayload {
  const encrypted = rulesOf(rules, 'encrypted')
  return async ({ payload }) => {
    let isSealed = false
    mapFields(payload, encrypted, (value) => {
      isSealed ||= typeof value === 'string' && value.startsWith(ENCRYPTED_PREFIX)
      return value
    })
    return isSealed ? { ok: false, reason: 'FIELD_KEY_MISSING' } : { ok: true, payload }
  }
}
