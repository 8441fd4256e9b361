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

/**
 * Classes whose DETAIL speaks of sessions, locks and resources. Elsewhere it may quote a row ("Failing row contains
 * (…)", "Key (…)=(…) already exists"), and a row may hold a payload.
 */
const CLASSES_WITH_HARMLESS_DETAIL = new Set([
  '08',
  '25',
  '26',
  '28',
  '40',
  '42',
  '53',
  '54',
  '55',
  '57',
  '58',
  'P0',
  'P7',
])

/** Class 22 quotes the offending value in the message itself: `invalid input syntax for type integer: "4111…"`. */
const CLASS_THAT_QUOTES_VALUES = '22'

/** The routine of the server that executes RAISE: such a message was written by a function's author, not by the server. */
const ROUTINE_OF_RAISE = 'exec_stmt_raise'

/**
 * Removes from the driver's own error whatever may quote a parameter or a row, in place, so that neither our error nor
 * its `cause` can carry a payload into a log. CONTEXT always goes: with `log_parameter_max_length_on_error` the server
 * lists every parameter there.
 */
export function withholdValues(error: ServerError): void {
  const sqlClass = error.code.slice(0, 2)
  const writtenByAuthor = error.routine === ROUTINE_OF_RAISE
  delete error.where
  delete error.internalQuery
  if (!writtenByAuthor && !CLASSES_WITH_HARMLESS_DETAIL.has(sqlClass)) delete error.detail
  if (!writtenByAuthor && sqlClass === CLASS_THAT_QUOTES_VALUES) {
    const quoting = error.message
    error.message = `PostgreSQL refused a value (SQLSTATE ${error.code}); the value is withheld`
    // V8 writes the message into the stack when that is first looked at, which may have been before.
    if (error.stack !== undefined) error.stack = error.stack.replace(quoting, () => error.message)
  }
}
