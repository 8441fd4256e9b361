import { AppError } from '../core/index.js'

/** The message was handed to the broker's client, and the broker has not confirmed it: it may have arrived. */
export class UnconfirmedError extends AppError {
  constructor(message: string, options: { readonly cause?: unknown } = {}) {
    super('BROKER_UNCONFIRMED', message, options)
  }
}

export function abortedError(): UnconfirmedError {
  return new UnconfirmedError('given up before the broker confirmed it')
}
