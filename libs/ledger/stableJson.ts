/** JSON that is the same bytes for the same value: keys by code unit, two spaces, a line end; bigints as text. */
export function stableJson(value: unknown): string {
  return `${JSON.stringify(sorted(value), null, 2)}\n`
}

function sorted(value: unknown): unknown {
  if (typeof value === 'bigint') return String(value)
  if (Array.isArray(value)) return value.map(sorted)
  if (typeof value !== 'object' || value === null) return value
  const entries = value instanceof Map ? [...value] : Object.entries(value)
  return Object.fromEntries(entries.toSorted(byKey).map(([key, one]: [string, unknown]) => [key, sorted(one)]))
}

function byKey([left]: [string, unknown], [right]: [string, unknown]): number {
  return left < right ? -1 : Number(left > right)
}
