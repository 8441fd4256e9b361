/** What the server said about a failure, by the names that `pg` gives the parts of it. */
export interface ServerReport {
  readonly message: string
  readonly code: string
  readonly severity: string
  readonly detail?: string | undefined
  readonly hint?: string | undefined
  readonly table?: string | undefined
  readonly column?: string | undefined
  readonly constraint?: string | undefined
  readonly routine?: string | undefined
}

/**
 * An error that says what the server said, and nothing more: for libraries that keep the values of a statement in their own
 * error. The stack is theirs, where there is one.
 */
export function serverError({ message, ...fields }: ServerReport, stack?: string): Error {
  return Object.assign(new Error(message), fields, stack === undefined ? {} : { stack })
}

/**
 * The same of what a driver threw. postgres.js keeps the parameters in it, hidden until somebody turns `debug` on, and has names
 * of its own for some fields.
 */
export function withoutParameters(error: unknown): unknown {
  const code = textIn(error, 'code')
  const severity = textIn(error, 'severity')
  if (!(error instanceof Error) || code === undefined || severity === undefined) return error
  return serverError(
    {
      message: error.message,
      code,
      severity,
      detail: textIn(error, 'detail'),
      hint: textIn(error, 'hint'),
      table: textIn(error, 'table') ?? textIn(error, 'table_name'),
      column: textIn(error, 'column') ?? textIn(error, 'column_name'),
      constraint: textIn(error, 'constraint') ?? textIn(error, 'constraint_name'),
      routine: textIn(error, 'routine'),
    },
    error.stack,
  )
}

/** A field of something unknown, if it is text. */
export function textIn(value: unknown, name: string): string | undefined {
  const found: unknown = typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined
  return typeof found === 'string' ? found : undefined
}
