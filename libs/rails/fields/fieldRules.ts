import { InvalidArgumentError, isObject, nearestSpelling, type JsonObject, type JsonValue } from '../../core/index.js'

/**
 * Class of a payload field. It decides where the value is visible.
 *
 * | class | in the database | shown to people | sent to the rail |
 * | --- | --- | --- | --- |
 * | `public` | as it is | as it is | as it is |
 * | `masked` | as it is | masked | as it is |
 * | `encrypted` | encrypted before it is sent there | as `[encrypted]` | decrypted for the call |
 * | `forbidden` | refused if it holds a card number | masked | as it is |
 *
 * A field without a rule is public.
 */
export type FieldClass = 'public' | 'masked' | 'encrypted' | 'forbidden'

/** Classes by JSON pointer. `*` stands for every element of a list or member of an object. */
export type FieldClasses = Readonly<Record<string, FieldClass>>

export interface FieldRule {
  readonly pointer: string
  readonly keys: readonly string[]
  readonly fieldClass: FieldClass
}

/** Checks a rail's field classes. Two rules must not match the same field, because their order would decide. */
export function readFieldRules(field: string, value: unknown): readonly FieldRule[] {
  if (!isObject(value)) {
    throw new InvalidArgumentError(field, 'expected an object of field classes by JSON pointer, such as /destination')
  }
  const entries: [string, unknown][] = Object.entries(value)
  if (entries.length > RULES_MAX) throw new InvalidArgumentError(field, `expected at most ${RULES_MAX} fields`)
  const rules = entries.map(([pointer, given]) => readRule(field, pointer, given))
  for (const [index, rule] of rules.entries()) {
    const other = rules.slice(0, index).find((earlier) => overlap(earlier.keys, rule.keys))
    if (other !== undefined) {
      throw new InvalidArgumentError(`${field}["${rule.pointer}"]`, `matches the same field as "${other.pointer}"`)
    }
  }
  return Object.freeze(rules)
}

/**
 * Merges the rules of this process with all recorded declarations of a rail. The stricter class of each pointer wins,
 * as in the database.
 */
export function mergeFieldRules(declared: readonly FieldRule[], recorded: FieldClasses): readonly FieldRule[] {
  const merged = new Map(declared.map((rule) => [rule.pointer, rule]))
  for (const [pointer, given] of Object.entries(recorded)) {
    const rule = readRule('fields', pointer, given)
    const own = merged.get(pointer)
    if (own === undefined || strictness(rule) > strictness(own)) merged.set(pointer, rule)
  }
  return [...merged.values()]
}

/**
 * Returns the rank of a class. `encrypted` is stricter than `forbidden`: people see a forbidden field masked, but of an
 * encrypted field nothing.
 */
function strictness({ fieldClass }: FieldRule): number {
  return ['public', 'masked', 'forbidden', 'encrypted'].indexOf(fieldClass)
}

export function readPointer(field: string, pointer: unknown): readonly string[] {
  if (typeof pointer !== 'string' || !POINTER.test(pointer)) {
    throw new InvalidArgumentError(field, 'expected a JSON pointer such as /destination or /lines/*/iban')
  }
  return pointer
    .split('/')
    .slice(1)
    .map((key) => key.replaceAll('~1', '/').replaceAll('~0', '~'))
}

/** Returns whether two pointers can name the same field, or a field and a part of it. */
export function overlap(some: readonly string[], others: readonly string[]): boolean {
  const shared = Math.min(some.length, others.length)
  return some.slice(0, shared).every((key, at) => key === others[at] || key === EACH || others[at] === EACH)
}

/** Called for each field of a rule. Its result replaces the field. */
export type VisitField = (value: JsonValue, place: FieldPlace) => JsonValue

export interface FieldPlace {
  readonly rule: FieldRule
  /** Exact pointer, without stars: `/lines/0/iban`. */
  readonly pointer: string
}

/** Returns a copy of the payload with the fields of these rules replaced. Skips absent fields. */
export function mapFields(payload: JsonObject, rules: readonly FieldRule[], visit: VisitField): JsonObject {
  let mapped = payload
  for (const rule of rules) {
    const at = mapValue(mapped, rule.keys, '', (value, pointer) => visit(value, { rule, pointer }))
    if (isObject(at)) mapped = at
  }
  return mapped
}

export function rulesOf(rules: readonly FieldRule[], ...classes: readonly FieldClass[]): readonly FieldRule[] {
  return rules.filter(({ fieldClass }) => classes.includes(fieldClass))
}

function mapValue(
  value: JsonValue,
  [key, ...rest]: readonly string[],
  pointer: string,
  visit: (value: JsonValue, pointer: string) => JsonValue,
): JsonValue {
  if (key === undefined) return visit(value, pointer)
  if (isList(value)) {
    const isMeant = (index: number) => key === EACH || key === String(index)
    return value.map((one, index) => (isMeant(index) ? mapValue(one, rest, `${pointer}/${index}`, visit) : one))
  }
  if (!isObject(value)) return value
  return Object.fromEntries(
    Object.entries(value).map(([name, one]) => [
      name,
      key === EACH || key === name ? mapValue(one, rest, `${pointer}/${escaped(name)}`, visit) : one,
    ]),
  )
}

function readRule(field: string, pointer: string, given: unknown): FieldRule {
  const place = `${field}["${pointer}"]`
  const keys = readPointer(place, pointer)
  const fieldClass = CLASSES.find((one) => one === given)
  if (fieldClass !== undefined) return Object.freeze({ pointer, keys, fieldClass })
  const meant = typeof given === 'string' ? nearestSpelling(given, CLASSES) : undefined
  throw new InvalidArgumentError(
    place,
    `expected ${CLASSES.join(', ')}${meant === undefined ? '' : `; did you mean "${meant}"?`}`,
  )
}

function isList(value: JsonValue): value is readonly JsonValue[] {
  return Array.isArray(value)
}

function escaped(key: string): string {
  return key.replaceAll('~', '~0').replaceAll('/', '~1')
}

const CLASSES: readonly FieldClass[] = ['public', 'masked', 'encrypted', 'forbidden']
const EACH = '*'
const RULES_MAX = 200
const POINTER = /^(?:\/(?:[^~/]|~[01])+){1,32}$/

/** Item whose payload has encrypted fields. Its ciphertexts can be decrypted only with the ids of this payment. */
export interface EncryptedItem {
  readonly instructionId: string
  readonly idempotencyKey: string
  readonly payload: JsonObject
}

/**
 * Reason for which the fields of a payload cannot be decrypted. Nothing is sent, and the item is held.
 *
 * - `FIELD_KEY_MISSING`: this process lacks the master key, or the database lacks the data key.
 * - `FIELD_KEY_DESTROYED`: the subject's key was destroyed. The payment can no longer be made.
 * - `FIELD_UNREADABLE`: the ciphertext was changed, or belongs to another payment or field.
 */
export type UnreadableReason = 'FIELD_KEY_MISSING' | 'FIELD_KEY_DESTROYED' | 'FIELD_UNREADABLE'

export type DecryptedPayload =
  | { readonly ok: true; readonly payload: JsonObject }
  | { readonly ok: false; readonly reason: UnreadableReason }

/** Decrypts the encrypted fields of a payload. Throws only if the keys cannot be read. */
export type DecryptPayload = (item: EncryptedItem) => Promise<DecryptedPayload>

/** Prefix of every ciphertext. It must never change, because stored payloads contain it. */
export const ENCRYPTED_PREFIX = 'symphony.sealed.'

/** Returns the `decryptPayload` of a rail without keys: plaintext passes, and a ciphertext is `FIELD_KEY_MISSING`. */
export function rejectEncryptedFields(rules: readonly FieldRule[]): DecryptPayload {
  const encrypted = rulesOf(rules, 'encrypted')
  return async ({ payload }) => {
    let isEncrypted = false
    mapFields(payload, encrypted, (value) => {
      isEncrypted ||= typeof value === 'string' && value.startsWith(ENCRYPTED_PREFIX)
      return value
    })
    return isEncrypted ? { ok: false, reason: 'FIELD_KEY_MISSING' } : { ok: true, payload }
  }
}
