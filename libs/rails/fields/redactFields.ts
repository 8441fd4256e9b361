import { redact, type JsonObject, type JsonValue } from '../../core/index.js'
import { mapFields, rulesOf, type FieldRule } from './fieldRules.js'

/** Removes secrets from the text of a rail, and bounds its length. */
export type Redact = (text: string, lengthMax?: number) => string

/**
 * Returns a `redact` that also removes the values of masked, encrypted and forbidden fields. A rail or an adapter's
 * error may quote such a value, and the ledger is append-only. Values are removed before the text is cut, so that no
 * part of a value remains at the end.
 */
export function redactFields(payload: JsonObject, rules: readonly FieldRule[]): Redact {
  if (rules.length === 0) return redact
  const secrets = secretsIn(payload, rulesOf(rules, 'masked', 'encrypted', 'forbidden'))
  if (secrets.length === 0) return redact
  return (text, lengthMax) => {
    // Drops the rest of a very long text. No value of a payload is longer than this limit.
    const near = text.slice(0, TEXT_READ_MAX)
    return redact(
      secrets.reduce((rest, secret) => rest.replaceAll(secret, '[withheld]'), near),
      lengthMax,
    )
  }
}

/** Returns the secret values, longest first, so that a value that contains another one is removed as a whole. */
function secretsIn(payload: JsonObject, rules: readonly FieldRule[]): readonly string[] {
  const secrets = new Set<string>()
  mapFields(payload, rules, (value) => {
    for (const text of leavesOf(value)) for (const spelled of spellings(text)) secrets.add(spelled)
    return value
  })
  return [...secrets].filter(({ length }) => length >= LENGTH_MIN).toSorted((a, b) => b.length - a.length)
}

/** Returns the forms in which a text may quote a value: unchanged, in JSON, in a URL, and in base64. */
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

/**
 * Minimum length of a removed value. A shorter value occurs in many words, so its presence in a text reveals nothing.
 */
const LENGTH_MIN = 3
const TEXT_READ_MAX = 131_072
