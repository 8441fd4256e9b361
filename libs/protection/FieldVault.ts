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
  SEALED_PREFIX,
  type FieldRule,
  type LoadedRail,
  type OpenedPayload,
  type OpenPayload,
  type SealedItem,
  type UnreadableReason,
} from '../rails/index.js'
import { ensureSubjectKeys, readSubjectKeys, type WrappedKey } from './db.js'
import { keyIdOf, openField, sealField, unwrapKey, wrapKey, type DataKey } from './envelope.js'
import { FieldKeyMissingError, SubjectErasedError } from './errors.js'
import { SECRET_BYTES, type MasterKeys } from './MasterKeys.js'

/** What a rail says about the fields of its payloads. A loaded rail is one of these. */
export type ProtectedRail = Pick<LoadedRail, 'fields' | 'subject'>

/** The parts of an instruction that protection looks at. */
export interface SealableInstruction {
  readonly instructionId: string
  readonly participantId: string
  readonly idempotencyKey: string
  readonly railType: string
  readonly payload: JsonObject
}

/**
 * Encrypts before the database and decrypts before the rail, by what the rails declare. It keeps no data key: each is read when
 * it is needed, so that one that was destroyed is gone everywhere at once.
 */
export class FieldVault {
  readonly #rails: ReadonlyMap<string, ProtectedRail>
  readonly #masters: MasterKeys | undefined

  /** Without master keys it still refuses what is forbidden, and every payload with a field to encrypt. */
  constructor(rails: ReadonlyMap<string, ProtectedRail>, masters?: MasterKeys) {
    this.#rails = rails
    this.#masters = masters
  }

  /**
   * The same instructions as they may be stored. The same plaintext under the same key gives the same bytes, today and after a
   * rotation, so a repeated instruction is still the same one. `role` is the caller's transaction, or symphony_ingest.
   */
  async seal<Instruction extends SealableInstruction>(
    role: Queryable,
    instructions: readonly Instruction[],
  ): Promise<readonly Instruction[]> {
    if (instructions.length > BATCH_SIZE.max) {
      throw new ArgumentRangeError('instructions', `expected at most ${BATCH_SIZE.max}, got ${instructions.length}`)
    }
    const drafts = instructions.map((instruction, index) =>
      this.#draft(instruction, instructions.length === 1 ? 'payload' : `instructions[${index}].payload`),
    )
    const subjects = new Set(drafts.flatMap(({ subject }) => subject ?? []))
    if (subjects.size === 0) return instructions
    const keys = await this.#keysFor(role, [...subjects])
    return drafts.map((draft) => sealDraft(draft, keys))
  }

  /** For a rail, decrypting as `role`, which is symphony_executor. */
  opener(role: Queryable, { fields }: ProtectedRail): OpenPayload {
    const encrypted = rulesOf(fields, 'encrypted')
    return async (item) => {
      const keyIds = new Set<string>()
      let isUnreadable = false
      mapFields(item.payload, encrypted, (value) => {
        const keyId = keyIdOf(value)
        if (keyId !== undefined) keyIds.add(keyId)
        // What calls itself ours and is not: damaged, or a value that only looks like one.
        else isUnreadable ||= typeof value === 'string' && value.startsWith(SEALED_PREFIX)
        return value
      })
      if (isUnreadable) return { ok: false, reason: 'FIELD_UNREADABLE' }
      if (keyIds.size === 0) return { ok: true, payload: item.payload }
      const keys = await this.#openKeys(await readSubjectKeys(role, [...keyIds]))
      return openPayload(item, encrypted, keys)
    }
  }

  #draft<Instruction extends SealableInstruction>(instruction: Instruction, place: string): Draft<Instruction> {
    const rail = this.#rails.get(instruction.railType)
    const rules = rulesOf(rail?.fields ?? [], 'encrypted')
    const unchanged = { instruction, place, rules, subject: undefined, payload: instruction.payload }
    if (rail === undefined || rail.fields.length === 0) return unchanged
    // Checked and copied first: what is looked at below is what is sent, whatever getters the caller's object has.
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

  /** Those that are destroyed are not among them. */
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

/** The same rails, which decrypt before each call what this vault has encrypted. */
export function protectedRails(
  rails: ReadonlyMap<string, LoadedRail>,
  vault: FieldVault,
  role: Queryable,
): ReadonlyMap<string, LoadedRail> {
  return new Map([...rails].map(([type, rail]) => [type, { ...rail, openPayload: vault.opener(role, rail) }]))
}

/** Whether any of these rails needs keys to be carried. */
export function encryptsFields(rails: ReadonlyMap<string, ProtectedRail>): boolean {
  return [...rails.values()].some(({ fields }) => rulesOf(fields, 'encrypted').length > 0)
}

interface Draft<Instruction> {
  readonly instruction: Instruction
  /** What errors call its payload. */
  readonly place: string
  readonly rules: readonly FieldRule[]
  /** Undefined: there is nothing to encrypt. */
  readonly subject: string | undefined
  readonly payload: JsonObject
}

function subjectOf(
  { subject }: ProtectedRail,
  { participantId }: SealableInstruction,
  payload: JsonObject,
  place: string,
): string {
  if (subject === undefined) return requiredId('participantId', participantId)
  let found: JsonValue | undefined
  mapFields(payload, [{ pointer: '', keys: subject, fieldClass: 'public' }], (value) => (found = value))
  return requiredId(`${place}/${subject.join('/')}`, found)
}

function sealDraft<Instruction extends SealableInstruction>(
  { instruction, place, rules, subject, payload }: Draft<Instruction>,
  keys: ReadonlyMap<string, DataKey>,
): Instruction {
  if (subject === undefined) return instruction
  const key = keys.get(subject)
  if (key === undefined) throw new SubjectErasedError(place)
  const { instructionId, idempotencyKey } = instruction
  const sealed = mapFields(payload, rules, (value, { pointer }) =>
    sealField(key, { instructionId, idempotencyKey, pointer }, canonicalJson(value)),
  )
  return { ...instruction, payload: sealed }
}

function openPayload(
  { payload, instructionId, idempotencyKey }: SealedItem,
  rules: readonly FieldRule[],
  keys: ReadonlyMap<string, DataKey | UnreadableReason>,
): OpenedPayload {
  let reason: UnreadableReason | undefined
  const opened = mapFields(payload, rules, (value, { pointer }) => {
    const keyId = keyIdOf(value)
    // In the clear: a producer that does not encrypt, or one from before the rail declared it.
    if (typeof value !== 'string' || keyId === undefined) return value
    const key = keys.get(keyId) ?? 'FIELD_KEY_MISSING'
    if (typeof key === 'string') {
      reason ??= key
      return value
    }
    const plaintext = openField(key, { instructionId, idempotencyKey, pointer }, value)
    if (plaintext !== undefined) return JSON.parse(plaintext)
    reason ??= 'FIELD_UNREADABLE'
    return value
  })
  return reason === undefined ? { ok: true, payload: opened } : { ok: false, reason }
}
