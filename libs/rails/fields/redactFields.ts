import { redact, type JsonObject, type JsonValue } from '../../core/index.js'
import { mapFields, rulesOf, type FieldRule } from './fieldRules.js'

/** Makes text of a rail fit to be kept. */
export type Redact = (text: string, lengthMax?: number) => string

/**
 * `redact` knows what secrets look like; this also knows what they are. A rail that quotes a field of class masked, encrypted or
 * forbidden in its answer, or an adapter that throws with it in the message, would put it into a ledger that nobody may edit.
 * Before the text is cut to its length, so that no half of a value is left at the end.
 */
export function redactFields(payload: JsonObject, rules: readonly FieldRule[]): Redact {
  if (rules.length === 0) return redact
  const secrets = secretsIn(payload, rulesOf(rules, 'masked', 'encrypted', 'forbidden'))
  if (secrets.length === 0) return redact
  return (text, lengthMax) => {
    // No value of a payload is longer than what is read of a text here, and nothing behind that is kept.
    const near = text.slice(0, TEXT_READ_MAX)
    return redact(
      secrets.reduce((rest, secret) => rest.replaceAll(secret, '[withheld]'), near),
      lengthMax,
    )
  }
}

/** Longest first: a value that contains another must go as a whole. */
function secretsIn(payload: JsonObject, rules: readonly FieldRule[]): readonly string[] {
  const secrets = new Set<string>()
  mapFields(payload, rules, (value) => {
    for (const text of leavesOf(value)) for (const spelled of spellings(text)) secrets.add(spelled)
    return value
  })
  return [...secrets].filter(({ length }) => length >= LENGTH_MIN).toSorted((a, b) => b.length - a.length)
}

/** As it is, and as it looks inside JSON, in an address, in a header of basic authentication. */
function spellings(text: string): readonly string[] {
  return [
    text,
    JSON.stringify(text).slice(1, -1),
    encodeURIComponent(text),
    Buffer.from(text).toString('base64'),
    Buffer.from(text).toString('base64url'),
  ]
}

function leavesOf(value: JsonValue): string[] {
  if (typeof value === 'string' || typeof value === 'number') return [String(value)]
  if (typeof value !== 'object' || value === null) return []
  return Object.values(value).flatMap(leavesOf)
}

/** A shorter one is in every other word; whoever knows that it is in there knows nothing. */
const LENGTH_MIN = 3
const TEXT_READ_MAX = 131_072
