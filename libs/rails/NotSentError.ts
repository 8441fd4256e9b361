import { SymphonyError } from '../core/index.js'

/**
 * Thrown by an adapter that is certain: nothing reached the rail. A refused connection, a name that does not resolve, a
 * token that could not be fetched. Never for a connection that broke later: that is unknown.
 */
export class NotSentError extends SymphonyError {
  constructor(message: string, options: { readonly cause?: unknown } = {}) {
    super(NOT_SENT, message, options)
  }
}

/**
 * By name as well as by class: a rail file may import another copy of this package, or none and name its own error so.
 * The error itself is meant, never its cause: what wraps it may have happened after something was sent.
 */
export function isNotSentError(error: unknown): error is Error {
  try {
    return error instanceof NotSentError || (error instanceof Error && error.name === 'NotSentError')
  } catch {
    // A proxy or a getter that throws is certain of nothing.
    return false
  }
}

const NOT_SENT = 'NOT_SENT'
