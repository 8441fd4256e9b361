import { SymphonyError } from '../core/index.js'

/**
 * Thrown by an adapter that is certain that nothing reached the rail: a refused connection, an unresolved name, a token
 * that could not be fetched. Do not throw it for a connection that broke later: that outcome is unknown.
 */
export class NotSentError extends SymphonyError {
  constructor(message: string, options: { readonly cause?: unknown } = {}) {
    super(NOT_SENT, message, options)
  }
}

/**
 * Recognises the error by class or name, because a rail file may import another copy of this package or define its own
 * error. Ignores the cause, because the outer error may have happened after something was sent.
 */
export function isNotSentError(error: unknown): error is Error {
  try {
    return error instanceof NotSentError || (error instanceof Error && error.name === 'NotSentError')
  } catch {
    // The value has a proxy or a getter that throws, so its class and name are unknown.
    return false
  }
}

const NOT_SENT = 'NOT_SENT'
