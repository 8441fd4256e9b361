import { AppError } from './AppError.js'

/** Thrown by a handler: trying again would fail again. The message ends here, with this error as its reason. */
export class PermanentFailureError extends AppError {
  constructor(message: string, options: { readonly cause?: unknown } = {}) {
    super('PERMANENT_FAILURE', message, options)
  }
}
