/**
 * What a thrown value says, in a line: a code if it has one, its message, and the same of its cause. Never a stack, and
 * never a property, because errors of HTTP clients carry the whole request in theirs.
 */
export function describeThrown(thrown: unknown): string {
  try {
    if (!(thrown instanceof Error)) return typeof thrown === 'string' ? thrown : `threw ${typeof thrown}`
    const own = describeError(thrown)
    return thrown.cause instanceof Error ? `${own} (${describeError(thrown.cause)})` : own
  } catch {
    // Getters and proxies may throw in turn.
    return 'threw something that cannot be read'
  }
}

function describeError(error: Error): string {
  const code: unknown = Reflect.get(error, 'code')
  const label = typeof code === 'string' && code !== '' ? code : error.name
  return `${label}: ${error.message}`
}
