/**
 * Converts a parameter to text for PostgreSQL, because libraries encode arrays differently: one turns a list of JSON
 * texts into JSON strings, one spreads an array over several parameters, one fails on a Date inside an array. Keeps
 * booleans and bytes, whose type some libraries check.
 */
export function asText(value: unknown): unknown {
  if (value instanceof Date) return value.toISOString()
  if (typeof value === 'bigint') return String(value)
  return Array.isArray(value) ? arrayLiteral(value) : value
}

export function asTexts(values: readonly unknown[] = []): unknown[] {
  return values.map(asText)
}

/** Returns `{"a","b",NULL}`. Quotes every element, so that the word NULL and commas stay text. */
function arrayLiteral(elements: readonly unknown[]): string {
  return `{${elements.map(element).join(',')}}`
}

function element(value: unknown): string {
  if (value === null || value === undefined) return 'NULL'
  if (Array.isArray(value)) return arrayLiteral(value)
  return `"${String(asText(value)).replaceAll(/["\\]/g, '\\$&')}"`
}

/** Statement split at its placeholders, for libraries that number parameters themselves. */
export interface CutStatement {
  /** Texts around the placeholders, one more than there are placeholders. */
  readonly fragments: string[]
  readonly values: unknown[]
}

/** Also matches quoted names and texts, to skip them: a schema may be named `$1`. */
const PLACEHOLDER = /"(?:[^"]|"")*"|'(?:[^']|'')*'|\$(\d+)/g

export function cutAtPlaceholders(text: string, values: readonly unknown[]): CutStatement {
  const cut: CutStatement = { fragments: [], values: [] }
  let start = 0
  for (const match of text.matchAll(PLACEHOLDER)) {
    if (match[1] === undefined) continue
    cut.fragments.push(text.slice(start, match.index))
    cut.values.push(values[Number(match[1]) - 1])
    start = match.index + match[0].length
  }
  cut.fragments.push(text.slice(start))
  return cut
}
