/**
 * The base of every error Symphony throws on purpose: a code for machines, a sentence for people, the cause kept.
 * Callers branch on `code` (or the class), never on the message. A message never holds a payload or a secret.
 */
export class AppError extends Error {
  readonly code: string
  /** What the person who reads this can do about it. */
  readonly remedy: string | undefined

  constructor(code: string, message: string, options: { readonly cause?: unknown; readonly remedy?: string } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.name = new.target.name
    this.code = code
    this.remedy = options.remedy
  }
}

/** What an argument is called, for the error that refuses it. In a batch of a thousand the name is made only then. */
export type ArgumentName = string | (() => string)

/** An argument that is missing, blank or of the wrong kind. Thrown before any I/O. */
export class InvalidArgumentError extends TypeError {
  readonly code = 'INVALID_ARGUMENT'
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
  readonly code = 'ARGUMENT_OUT_OF_RANGE'
  readonly argument: string

  constructor(argument: ArgumentName, message: string) {
    const name = typeof argument === 'string' ? argument : argument()
    super(`${name}: ${message}`)
    this.name = new.target.name
    this.argument = name
  }
}
