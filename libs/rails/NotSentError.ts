import { SymphonyError } from '../core/index.js'

/**
 * Thrown by an adapter that is certain that nothing reached the rail: a refused connection, a name that does not
 * resolve, a token that could not be fetched. Never for a connection that broke later: that outcome is unknown.
 */
export class NotSentError extends SymphonyError {
  constructor(message: string, options: { readonly cause?: unknown } = {}) {
    super(NOT_SENT, message, options)
  }
}

/**
 * Recognises the error by class and by name: a rail file may import another copy of this package, or define its own
 * error of that name. Ignores the cause, because the outer error may have happened after something was sent.
 */
export function isNotSentError(error: unknown): error is Error {
  try {
    return error instanceof NotSentError || (error instanceof Error && error.name === 'NotSentError')
  } catch {
    // A proxy or a getter that throws gives no certainty.
    return false
  }
}

const NOT_SENT = 'NOT_SENT'
