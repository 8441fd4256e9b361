/** What the driver hands over when the server itself reported an error: its fields, named as `pg` names them. */
export interface ServerError extends Error {
  readonly code: string
  detail?: string | undefined
  hint?: string | undefined
  where?: string | undefined
  internalQuery?: string | undefined
  readonly table?: string | undefined
  readonly column?: string | undefined
  readonly constraint?: string | undefined
  readonly routine?: string | undefined
}

/**
 * Recognised by shape, not by class: a caller's own client may come from another copy of the driver. `severity` keeps
 * Node's errors out, whose codes (`EPIPE`) can look like a SQLSTATE.
 */
export function isServerError(error: unknown): error is ServerError {
  return error instanceof Error && 'severity' in error && 'code' in error && isSqlstate(error.code)
}

function isSqlstate(code: unknown): boolean {
  return typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code)
}
