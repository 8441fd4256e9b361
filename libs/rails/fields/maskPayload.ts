import { isObject, parseStrictJson, PAYLOAD_BYTES_MAX, type JsonObject, type JsonValue } from '../../core/index.js'
import { mapFields, rulesOf, type FieldRule } from './fieldRules.js'

export interface MaskedPayload {
  readonly payload: JsonObject
  readonly masked: boolean
}

/** Masks a payload for people, each field by its class. */
export function maskPayload(payload: JsonObject, rules: readonly FieldRule[]): MaskedPayload {
  let masked = false
  const shown = mapFields(payload, rulesOf(rules, 'masked', 'encrypted', 'forbidden'), (value, { rule }) => {
    masked = true
    return rule.fieldClass === 'encrypted' ? '[encrypted]' : maskValue(value)
  })
  return { payload: shown, masked }
}

/** Masks the text of a payload from the ledger. Text that is no JSON object is masked as a whole. */
export function maskPayloadText(text: string, rules: readonly FieldRule[]): { text: string; masked: boolean } {
  if (rules.every(({ fieldClass }) => fieldClass === 'public')) return { text, masked: false }
  const payload = parse(text)
  if (payload === undefined) return { text: MASK, masked: true }
  const shown = maskPayload(payload, rules)
  return shown.masked ? { text: JSON.stringify(shown.payload), masked: true } : { text, masked: false }
}

/**
 * Masks a value except the last four characters, which distinguish accounts. Masks short text as a whole, because four
 * characters would reveal most of it.
 */
function maskValue(value: JsonValue): JsonValue {
  if (Array.isArray(value)) return value.map(maskValue)
  if (typeof value === 'object' && value !== null) {
    return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, maskValue(one)]))
  }
  if (typeof value !== 'string' || value.length < LENGTH_SHOWN_MIN) return MASK
  return `${MASK}${value.slice(-CHARACTERS_SHOWN)}`
}

function parse(text: string): JsonObject | undefined {
  try {
    const value = parseStrictJson(text, { argument: 'payload', bytesMax: PAYLOAD_BYTES_MAX })
    return isObject(value) ? value : undefined
  } catch {
    return undefined
  }
}

const MASK = '••••'
const CHARACTERS_SHOWN = 4
const LENGTH_SHOWN_MIN = 12
