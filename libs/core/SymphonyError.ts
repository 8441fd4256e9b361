import type { ErrorCode } from './ErrorCode.js'

/**
 * Base class of Symphony's own errors: a code for programs, a sentence for people, and the cause.
 * Callers branch on `code`, never on the message. A message never holds a payload or a secret.
 */
export class SymphonyError extends Error {
  readonly code: ErrorCode
  readonly remedy: string | undefined

  constructor(code: ErrorCode, message: string, options: { readonly cause?: unknown; readonly remedy?: string } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.name = new.target.name
    this.code = code
    this.remedy = options.remedy
  }
}

/**
 * Name of an argument in an error. Given as a function, the name is built only for an error, which saves time in a
 * large batch.
 */
export type ArgumentName = string | (() => string)

/** An argument that is missing, blank or of the wrong kind. Thrown before any I/O. */
export class InvalidArgumentError extends TypeError {
  readonly code = 'INVALID_ARGUMENT' satisfies ErrorCode
  readonly argument: string

  constructor(argument: ArgumentName, message: string) {
    const name = typeof argument === 'string' ? argument : argument()
    super(`${name}: ${message}`)
    this.name = new.target.name
    this.argument = name
  }
}

/** An argument of the right kind outside its bounds. Thrown before any I/O. */
export class ArgumentRangeError extends RangeError {
  readonly code = 'ARGUMENT_OUT_OF_RANGE' satisfies ErrorCode
  readonly argument: string

  constructor(argument: ArgumentName, message: string) {
    const name = typeof argument === 'string' ? argument : argument()
    super(`${name}: ${message}`)
    this.name = new.target.name
    this.argument = name
  }
}

/** Error for a payload that its rail or topic refuses, or for an unknown rail or topic. Nothing was enqueued. */
export class InvalidPayloadError extends SymphonyError {
  /** Place of the fault: `payload`, or `instructions[3].railType`. */
  readonly argument: string

  constructor(
    argument: string,
    message: string,
    { code = 'INVALID_PAYLOAD', remedy }: { readonly code?: ErrorCode; readonly remedy: string },
  ) {
    super(code, `${argument}: ${message}`, { remedy })
    this.argument = argument
  }
}

/** Checks the code of an error of Node.js, such as ENOENT. */
export function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && 'code' in error && error.code === code
}

/** Thrown by a handler when no further attempt can help. The message then fails at once with this error. */
export class PermanentFailureError extends SymphonyError {
  constructor(message: string, options: { readonly cause?: unknown } = {}) {
    super('PERMANENT_FAILURE', message, options)
  }
}

/**
 * Accepts the class or its name, because a handler may use another copy of this package or its own error class.
 */
export function isPermanentFailure(error: unknown): boolean {
  return error instanceof PermanentFailureError || (error instanceof Error && error.name === 'PermanentFailureError')
}
