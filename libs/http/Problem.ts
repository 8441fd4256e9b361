/** Every code a client may branch on, its status, and what it says to a person. Part of the interface. */
export const PROBLEMS = Object.freeze({
  MALFORMED_JSON: { status: 400, title: 'The body is not JSON' },
  BAD_REQUEST: { status: 400, title: 'The request cannot be read' },
  IDEMPOTENCY_KEY_MISSING: { status: 400, title: 'The header Idempotency-Key is missing' },
  UNAUTHENTICATED: { status: 401, title: 'No valid access token' },
  SIGNATURE_INVALID: { status: 401, title: 'The signature is missing or wrong' },
  TIMESTAMP_OUT_OF_TOLERANCE: { status: 401, title: 'The signature is too old, or from the future' },
  NOT_FOUND: { status: 404, title: 'There is nothing here' },
  INSTRUCTION_NOT_FOUND: { status: 404, title: 'No such instruction' },
  WEBHOOK_SOURCE_UNKNOWN: { status: 404, title: 'No such source of webhooks' },
  IDEMPOTENCY_CONFLICT: { status: 409, title: 'The same key was used with other content' },
  CONTENT_DIFFERS: { status: 409, title: 'This message id is known with other content' },
  BODY_TOO_LARGE: { status: 413, title: 'The body is too large' },
  UNSUPPORTED_MEDIA_TYPE: { status: 415, title: 'The body must be application/json' },
  INVALID_INSTRUCTION: { status: 422, title: 'The instruction is not valid' },
  INVALID_MESSAGE: { status: 422, title: 'The message is not valid' },
  INTERNAL: { status: 500, title: 'Something went wrong here' },
  DATABASE_UNAVAILABLE: { status: 503, title: 'The database cannot be reached' },
})

export type ProblemCode = keyof typeof PROBLEMS

/** The body of an answer that is not a success (RFC 9457). It never quotes a payload. */
export interface Problem {
  readonly type: string
  readonly title: string
  readonly status: number
  readonly code: ProblemCode
  readonly detail?: string
  /** The name of the argument that is wrong. */
  readonly argument?: string
  readonly requestId: string
}

/** Thrown by a route to answer with a problem. */
export class ProblemError extends Error {
  readonly code: ProblemCode
  readonly detail: string | undefined

  constructor(code: ProblemCode, detail?: string) {
    super(detail ?? PROBLEMS[code].title)
    this.name = new.target.name
    this.code = code
    this.detail = detail
  }
}
