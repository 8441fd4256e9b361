/**
 * A parameter as PostgreSQL reads it, so that no library has to guess what an array holds. They guess differently: one writes
 * a list of JSON texts as a list of JSON strings, one spreads an array over several parameters, one has no idea what to do
 * with a Date inside. Booleans and bytes stay what they are, because some libraries test their type.
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
