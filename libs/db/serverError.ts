/** Fields of an error that the server reported, as `pg` names them. */
export interface ServerErrorFields {
  readonly code: string
  readonly severity: string
  readonly detail?: string | undefined
  readonly hint?: string | undefined
  readonly table?: string | undefined
  readonly column?: string | undefined
  readonly constraint?: string | undefined
  readonly routine?: string | undefined
}

/** Driver error for a server report. `redactDriverError` deletes the fields that are not readonly. */
export interface ServerError extends Error, ServerErrorFields {
  detail?: string | undefined
  where?: string | undefined
  internalQuery?: string | undefined
}

/**
 * Recognises a server error by its shape, because a caller's client may come from another copy of the driver. Node's
 * errors have no `severity`; their codes (`EPIPE`) can look like a SQLSTATE.
 */
export function isServerError(error: unknown): error is ServerError {
  return error instanceof Error && 'severity' in error && 'code' in error && isSqlstate(error.code)
}

function isSqlstate(code: unknown): boolean {
  return typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code)
}

/**
 * Classes whose DETAIL concerns sessions, locks and resources. In other classes it may quote a row ("Failing row
 * contains (…)", "Key (…)=(…) already exists"), and a row may hold a payload.
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

/** Class that quotes the invalid value in the message: `invalid input syntax for type integer: "4111…"`. */
const CLASS_THAT_QUOTES_VALUES = '22'

/** Recognises an error of RAISE. The author of a function wrote its message and hint, not the server. */
export function isRaised({ routine }: ServerErrorFields): boolean {
  return routine === 'exec_stmt_raise'
}

/**
 * Removes text that may quote a parameter or a row from the driver's error, in place. Neither our error nor its `cause`
 * then leaks a payload into a log. CONTEXT is always removed: with `log_parameter_max_length_on_error` the server lists
 * every parameter there.
 */
export function redactDriverError(error: ServerError): void {
  const sqlClass = error.code.slice(0, 2)
  const writtenByAuthor = isRaised(error)
  delete error.where
  delete error.internalQuery
  if (!writtenByAuthor && !CLASSES_WITH_HARMLESS_DETAIL.has(sqlClass)) delete error.detail
  if (!writtenByAuthor && sqlClass === CLASS_THAT_QUOTES_VALUES) {
    const quoting = error.message
    error.message = `PostgreSQL refused a value (SQLSTATE ${error.code}); the value is omitted`
    // V8 copies the message into the stack when the stack is first read, which may already have happened.
    if (error.stack !== undefined) error.stack = error.stack.replace(quoting, () => error.message)
  }
}
