/**
 * Writes a parameter as PostgreSQL reads it, so that no library has to guess what an array holds. Their guesses differ: one
 * writes a list of JSON texts as a list of JSON strings, one spreads an array over several parameters, one fails on a Date
 * inside. Booleans and bytes stay as they are, because some libraries test their type.
 */
export function asText(value: unknown): unknown {
  if (value instanceof Date) return value.toISOString()
  if (typeof value === 'bigint') return String(value)
  return Array.isArray(value) ? arrayLiteral(value) : value
}

export function asTexts(values: readonly unknown[] = []): unknown[] {
  return values.map(asText)
}

/** `{"a","b",NULL}`: every element quoted, so that none can be taken for NULL or for two. */
function arrayLiteral(elements: readonly unknown[]): string {
  return `{${elements.map(element).join(',')}}`
}

function element(value: unknown): string {
  if (value === null || value === undefined) return 'NULL'
  if (Array.isArray(value)) return arrayLiteral(value)
  return `"${String(asText(value)).replaceAll(/["\\]/g, '\\$&')}"`
}

/** A statement cut at its placeholders, for libraries that number parameters themselves. */
export interface CutStatement {
  /** One more than there are placeholders. */
  readonly fragments: string[]
  /** Parameter of each placeholder. */
  readonly values: unknown[]
}

/** Skips quoted names and texts: a schema may be called `$1`. */
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
