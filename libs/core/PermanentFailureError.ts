import { AppError } from './AppError.js'

/** Thrown by a handler that is certain: no further attempt can help. The message ends at once, with this as its error. */
export class PermanentFailureError extends AppError {
  constructor(message: string, options: { readonly cause?: unknown } = {}) {
    super('PERMANENT_FAILURE', message, options)
  }
}

/** By name as well as by class: a handler may import another copy of this package, or none and name its own error so. */
export function isPermanentFailure(error: unknown): boolean {
  return error instanceof PermanentFailureError || (error instanceof Error && error.name === 'PermanentFailureError')
}
