import type { ServerErrorFields } from '../db/index.js'

/**
 * Creates an error with only the server's report, for libraries whose own error contains values of the statement.
 * `stack` is that of the library's error.
 */
export function serverError(message: string, fields: ServerErrorFields, stack?: string): Error {
  return Object.assign(new Error(message), fields, stack === undefined ? {} : { stack })
}

/**
 * Returns a driver's error without the parameters of the statement. postgres.js adds the parameters if `debug` is set,
 * and has its own names for some fields.
 */
export function withoutParameters(error: unknown): unknown {
  const code = textIn(error, 'code')
  const severity = textIn(error, 'severity')
  if (!(error instanceof Error) || code === undefined || severity === undefined) return error
  return serverError(
    error.message,
    {
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

export function textIn(value: unknown, name: string): string | undefined {
  const found: unknown = typeof value === 'object' && value !== null ? Reflect.get(value, name) : undefined
  return typeof found === 'string' ? found : undefined
}
