import { randomBytes, randomUUID } from 'node:crypto'
import {
  ArgumentRangeError,
  BATCH_SIZE,
  canonicalJson,
  encodePayload,
  requiredId,
  type JsonObject,
  type JsonValue,
} from '../core/index.js'
import type { Queryable } from '../db/index.js'
import {
  mapFields,
  refuseCardNumbers,
  rulesOf,
  ENCRYPTED_PREFIX,
  type FieldRule,
  type LoadedRail,
  type DecryptedPayload,
  type DecryptPayload,
  type EncryptedItem,
  type UnreadableReason,
} from '../rails/index.js'
import { ensureSubjectKeys, masterKeysInUse, readSubjectKeys, type WrappedKey } from './db.js'
import { keyIdOf, decryptField, encryptField, unwrapKey, wrapKey, type DataKey } from './envelope.js'
import { FieldKeyMissingError, MasterKeysMissingError, SubjectErasedError } from './errors.js'
import { SECRET_BYTES, type MasterKeys } from './MasterKeys.js'

/** Field classes and subject of a rail. */
export type ProtectedRail = Pick<LoadedRail, 'fields' | 'subject'>

/** Parts of an instruction that the vault reads. */
export interface EncryptableInstruction {
  readonly instructionId: string
  readonly participantId: string
  readonly idempotencyKey: string
  readonly railType: string
  readonly payload: JsonObject
}

/**
 * Encrypts fields before the enqueue and decrypts them before the rail call, as the rails declare. Keeps no data key,
 * but reads it for each use, so that a destroyed key is unusable in every process at once.
 */
export class FieldVault {
  readonly #rails: ReadonlyMap<string, ProtectedRail>
  readonly #masters: MasterKeys | undefined

  /**
   * Creates a vault. Without master keys it still refuses card numbers in forbidden fields, and refuses every payload
   * with a field to encrypt.
   */
  constructor(rails: ReadonlyMap<string, ProtectedRail>, masters?: MasterKeys) {
    this.#rails = rails
    this.#masters = masters
  }

  /**
   * Returns the instructions with their fields encrypted. The same plaintext under the same key gives the same bytes,
   * even after a rotation, so that a repeated instruction stays equal. `role` is the caller's transaction, or
   * symphony_ingest. Returns a promise only if there is a field to encrypt.
   */
  encrypt<Instruction extends EncryptableInstruction>(
    role: Queryable,
    instructions: readonly Instruction[],
  ): readonly Instruction[] | Promise<readonly Instruction[]> {
    if (instructions.length > BATCH_SIZE.max) {
      throw new ArgumentRangeError('instructions', `expected at most ${BATCH_SIZE.max}, got ${instructions.length}`)
    }
    const drafts = instructions.map((instruction, index) =>
      this.#draft(instruction, instructions.length === 1 ? 'payload' : `instructions[${index}].payload`),
    )
    const subjects = new Set(drafts.flatMap(({ subject }) => subject ?? []))
    if (subjects.size === 0) return instructions
    return this.#keysFor(role, [...subjects]).then((keys) => drafts.map((draft) => encryptDraft(draft, keys)))
  }

  /** Returns the function that decrypts payloads of a rail. `role` is symphony_executor. */
  decrypter(role: Queryable, { fields }: ProtectedRail): DecryptPayload {
    const encrypted = rulesOf(fields, 'encrypted')
    const reads = new KeyReads(role)
    return async (item) => {
      const keyIds = new Set<string>()
      let isUnreadable = false
      mapFields(item.payload, encrypted, (value) => {
        const keyId = keyIdOf(value)
        if (keyId !== undefined) keyIds.add(keyId)
        // A value with our prefix that is not a valid ciphertext is damaged or forged.
        else isUnreadable ||= typeof value === 'string' && value.startsWith(ENCRYPTED_PREFIX)
        return value
      })
      if (isUnreadable) return { ok: false, reason: 'FIELD_UNREADABLE' }
      if (keyIds.size === 0) return { ok: true, payload: item.payload }
      const keys = await this.#openKeys(await reads.read(keyIds))
      return decryptPayload(item, encrypted, keys)
    }
  }

  #draft<Instruction extends EncryptableInstruction>(instruction: Instruction, place: string): Draft<Instruction> {
    const rail = this.#rails.get(instruction.railType)
    const rules = rulesOf(rail?.fields ?? [], 'encrypted')
    const unchanged = { instruction, place, rules, subject: undefined, payload: instruction.payload }
    if (rail === undefined || rail.fields.length === 0) return unchanged
    // Copies the payload first, because getters of the caller's object could later return another value.
    const payload: JsonObject = JSON.parse(encodePayload(instruction.payload, place))
    refuseCardNumbers(payload, rail.fields, place)
    let hasSecrets = false
    mapFields(payload, rules, (value) => {
      hasSecrets = true
      return value
    })
    if (!hasSecrets) return unchanged
    const subject = subjectOf(rail, instruction, payload, place)
    return { instruction, place, rules, subject, payload }
  }

  /** Returns the data key of each subject, and creates missing keys. Omits subjects whose key was destroyed. */
  async #keysFor(role: Queryable, subjects: readonly string[]): Promise<ReadonlyMap<string, DataKey>> {
    if (this.#masters === undefined) throw new FieldKeyMissingError('This process has no master key to encrypt with.')
    const master = await this.#masters.current()
    const offered = subjects.map((subject) => {
      const key = { id: randomUUID(), secret: randomBytes(SECRET_BYTES) }
      return { subject, keyId: key.id, wrappedKey: wrapKey(master, key, subject) }
    })
    const wrapped = await ensureSubjectKeys(role, offered, master.id)
    const bySubject = new Map<string, DataKey>()
    for (const one of wrapped) {
      if (one.destroyed) continue
      const opened = await this.#unwrap(one)
      if (typeof opened === 'string') {
        throw new FieldKeyMissingError(`The data key ${one.keyId} cannot be read with the master keys of this process.`)
      }
      bySubject.set(one.subject, opened)
    }
    return bySubject
  }

  async #openKeys(wrapped: readonly WrappedKey[]): Promise<ReadonlyMap<string, DataKey | UnreadableReason>> {
    const keys = new Map<string, DataKey | UnreadableReason>()
    for (const one of wrapped) keys.set(one.keyId, await this.#unwrap(one))
    return keys
  }

  async #unwrap({
    keyId,
    subject,
    masterKeyId,
    wrappedKey,
    destroyed,
  }: WrappedKey): Promise<DataKey | UnreadableReason> {
    if (destroyed || masterKeyId === null || wrappedKey === null) return 'FIELD_KEY_DESTROYED'
    const master = await this.#masters?.find(masterKeyId)
    if (master === undefined) return 'FIELD_KEY_MISSING'
    return unwrapKey(master, keyId, subject, wrappedKey) ?? 'FIELD_UNREADABLE'
  }
}

/** Combines concurrent reads of data keys into one call. Keeps no key. */
class KeyReads {
  readonly #role: Queryable
  #wanted = new Set<string>()
  #next: Promise<ReadonlyMap<string, WrappedKey>> | undefined

  constructor(role: Queryable) {
    this.#role = role
  }

  async read(keyIds: ReadonlySet<string>): Promise<readonly WrappedKey[]> {
    for (const id of keyIds) this.#wanted.add(id)
    this.#next ??= Promise.resolve().then(() => this.#send())
    const found = await this.#next
    return [...keyIds].flatMap((id) => found.get(id) ?? [])
  }

  async #send(): Promise<ReadonlyMap<string, WrappedKey>> {
    const ids = [...this.#wanted]
    this.#wanted = new Set()
    this.#next = undefined
    const found = new Map<string, WrappedKey>()
    for (let start = 0; start < ids.length; start += KEYS_AT_ONCE) {
      const keys = await readSubjectKeys(this.#role, ids.slice(start, start + KEYS_AT_ONCE))
      for (const key of keys) found.set(key.keyId, key)
    }
    return found
  }
}

/** Maximum number of ids that read_subject_keys accepts. */
const KEYS_AT_ONCE = 1_000

/** Returns the rails with a `decryptPayload` that uses this vault. */
export function protectedRails(
  rails: ReadonlyMap<string, LoadedRail>,
  vault: FieldVault,
  role: Queryable,
): ReadonlyMap<string, LoadedRail> {
  return new Map([...rails].map(([type, rail]) => [type, { ...rail, decryptPayload: vault.decrypter(role, rail) }]))
}

/** Returns whether any of these rails has an encrypted field. */
function encryptsFields(rails: ReadonlyMap<string, ProtectedRail>): boolean {
  return [...rails.values()].some(({ fields }) => rulesOf(fields, 'encrypted').length > 0)
}

/**
 * Throws if these rails encrypt fields and a master key in use is missing. Otherwise every payment that needs the key
 * would be held. `role` is symphony_executor.
 */
export async function requireMasterKeys(
  role: Queryable,
  rails: ReadonlyMap<string, ProtectedRail>,
  masters: MasterKeys | undefined,
): Promise<void> {
  if (!encryptsFields(rails)) return
  if (masters === undefined) throw new MasterKeysMissingError('no master keys are given')
  const missing: string[] = []
  for (const { masterKeyId } of await masterKeysInUse(role)) {
    if ((await masters.find(masterKeyId)) === undefined) missing.push(masterKeyId)
  }
  if (missing.length > 0) throw new MasterKeysMissingError(`these master keys are missing: ${missing.join(', ')}`)
}

interface Draft<Instruction> {
  readonly instruction: Instruction
  /** Name of the payload in errors. */
  readonly place: string
  readonly rules: readonly FieldRule[]
  /** Subject of the data; undefined if no field needs encryption. */
  readonly subject: string | undefined
  readonly payload: JsonObject
}

function subjectOf(
  { subject }: ProtectedRail,
  { participantId }: EncryptableInstruction,
  payload: JsonObject,
  place: string,
): string {
  if (subject === undefined) return requiredId('participantId', participantId)
  let found: JsonValue | undefined
  mapFields(payload, [{ pointer: '', keys: subject, fieldClass: 'public' }], (value) => (found = value))
  return requiredId(`${place}/${subject.join('/')}`, found)
}

function encryptDraft<Instruction extends EncryptableInstruction>(
  { instruction, place, rules, subject, payload }: Draft<Instruction>,
  keys: ReadonlyMap<string, DataKey>,
): Instruction {
  if (subject === undefined) return instruction
  const key = keys.get(subject)
  if (key === undefined) throw new SubjectErasedError(place)
  const { instructionId, idempotencyKey } = instruction
  const encrypted = mapFields(payload, rules, (value, { pointer }) =>
    encryptField(key, { instructionId, idempotencyKey, pointer }, canonicalJson(value)),
  )
  return { ...instruction, payload: encrypted }
}

function decryptPayload(
  { payload, instructionId, idempotencyKey }: EncryptedItem,
  rules: readonly FieldRule[],
  keys: ReadonlyMap<string, DataKey | UnreadableReason>,
): DecryptedPayload {
  let reason: UnreadableReason | undefined
  const opened = mapFields(payload, rules, (value, { pointer }) => {
    const keyId = keyIdOf(value)
    // The value is plaintext: the producer does not encrypt, or enqueued the item before the rail declared the field as
    // encrypted.
    if (typeof value !== 'string' || keyId === undefined) return value
    const key = keys.get(keyId) ?? 'FIELD_KEY_MISSING'
    if (typeof key === 'string') {
      reason ??= key
      return value
    }
    const plaintext = decryptField(key, { instructionId, idempotencyKey, pointer }, value)
    if (plaintext !== undefined) return JSON.parse(plaintext)
    reason ??= 'FIELD_UNREADABLE'
    return value
  })
  return reason === undefined ? { ok: true, payload: opened } : { ok: false, reason }
}
