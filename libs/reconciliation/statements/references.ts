/** Maximum number of outbox ids in one entry, the same as in SQL. */
export const CANDIDATES_MAX = 20

/**
 * Returns the outbox id in a field that contains nothing else: a UUID, or its compact form of 32 hexadecimal digits.
 */
export function toOutboxId(field: string): string | undefined {
  if (field.length === 36) return UUID.test(field) ? field.toLowerCase() : undefined
  if (field.length !== 32 || !COMPACT.test(field)) return undefined
  const digits = field.toLowerCase()
  return [digits.slice(0, 8), digits.slice(8, 12), digits.slice(12, 16), digits.slice(16, 20), digits.slice(20)].join(
    '-',
  )
}

const COMPACT = /^[0-9a-f]{32}$/i
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

/** Finds outbox ids without an adjoining letter or digit. */
const DEFAULT_PATTERN = /(?<![0-9a-z])(?:[0-9a-f]{32}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?![0-9a-z])/gi

/** Returns a copy of the user's pattern that finds every match. */
export function freeTextPattern(pattern: RegExp | undefined): RegExp {
  if (pattern === undefined) return DEFAULT_PATTERN
  return new RegExp(pattern.source, `${pattern.flags.replaceAll(/[gy]/g, '')}g`)
}

/** Returns the outbox ids in free text. */
export function findOutboxIds(text: string, pattern: RegExp): string[] {
  if (text.length < 32) return []
  const found: string[] = []
  for (const [match, group] of text.matchAll(pattern)) {
    const id = toOutboxId(group ?? match)
    if (id !== undefined) found.push(id)
  }
  return found
}

/** Returns the outbox id if the whole reference is one, else the distinct ids in it. */
export function findReferences(reference: string, pattern: RegExp): readonly string[] {
  const whole = toOutboxId(reference)
  return whole === undefined ? [...new Set(findOutboxIds(reference, pattern))].slice(0, CANDIDATES_MAX) : [whole]
}

/** Returns whether a field contains a reference. Banks write NOTPROVIDED or NONREF for none. */
export function isReference(field: string | null): field is string {
  return field !== null && !/^(?:NOTPROVIDED|NONREF)$/i.test(field)
}
