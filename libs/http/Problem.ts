/** Every code a client may branch on, its status, and what it says to a person. Part of the interface. */
export const PROBLEMS = Object.freeze({
  MALFORMED_JSON: { status: 400, title: 'The body is not JSON' },
  BAD_REQUEST: { status: 400, title: 'The request cannot be read' },
  INVALID_QUERY: { status: 400, title: 'A query parameter is unknown or not valid' },
  IDEMPOTENCY_KEY_MISSING: { status: 400, title: 'The header Idempotency-Key is missing' },
  UNAUTHENTICATED: { status: 401, title: 'No valid key or token' },
  KEY_EXPIRED: { status: 401, title: 'The key has expired' },
  KEY_REVOKED: { status: 401, title: 'The key was revoked' },
  SIGNATURE_INVALID: { status: 401, title: 'The signature is missing or wrong' },
  TIMESTAMP_OUT_OF_TOLERANCE: { status: 401, title: 'The signature is too old, or from the future' },
  SCOPE_MISSING: { status: 403, title: 'The key does not have the scope that this needs' },
  PARTICIPANT_REFUSED: { status: 403, title: 'The key is bound to other participants' },
  NOT_FOUND: { status: 404, title: 'There is nothing here' },
  METHOD_NOT_ALLOWED: { status: 405, title: 'This path does not take this method' },
  INSTRUCTION_NOT_FOUND: { status: 404, title: 'No such instruction' },
  ITEM_NOT_FOUND: { status: 404, title: 'No such outbox item' },
  PROPOSAL_NOT_FOUND: { status: 404, title: 'No such proposal' },
  CONTRADICTION_NOT_FOUND: { status: 404, title: 'No such contradiction' },
  JOB_NOT_FOUND: { status: 404, title: 'No such job' },
  MESSAGE_NOT_FOUND: { status: 404, title: 'No such message in the inbox' },
  WEBHOOK_SOURCE_UNKNOWN: { status: 404, title: 'No such source of webhooks' },
  IDEMPOTENCY_CONFLICT: { status: 409, title: 'This instruction id and key are known with other content' },
  KEY_REUSED: { status: 409, title: 'This idempotency key belongs to another instruction' },
  CONTENT_DIFFERS: { status: 409, title: 'This message id is known with other content' },
  ALREADY_ENDED: { status: 409, title: 'The payment has ended' },
  DECISION_REFUSED: { status: 409, title: 'Its state does not allow this now' },
  SECOND_PERSON_REQUIRED: { status: 409, title: 'This needs a second person' },
  SUBJECT_ERASED: { status: 409, title: 'The key of whom this is about was destroyed' },
  MESSAGE_NOT_DEAD: { status: 409, title: 'Only a dead message can be revived' },
  BODY_TOO_LARGE: { status: 413, title: 'The body is too large' },
  UNSUPPORTED_MEDIA_TYPE: { status: 415, title: 'The body must be application/json' },
  INVALID_INSTRUCTION: { status: 422, title: 'The instruction is not valid' },
  INVALID_PAYLOAD: { status: 422, title: 'The rail of this payment would refuse it' },
  CARD_NUMBER_REFUSED: { status: 422, title: 'A field that must not hold a card number holds one' },
  INVALID_MESSAGE: { status: 422, title: 'The message is not valid' },
  INVALID_ARGUMENT: { status: 422, title: 'An argument is not valid' },
  UNKNOWN_NAME: { status: 422, title: 'The database knows no rail or participant of that name' },
  RATE_LIMITED: { status: 429, title: 'Too many requests' },
  INTERNAL: { status: 500, title: 'Something went wrong here' },
  DATABASE_UNAVAILABLE: { status: 503, title: 'The database cannot be reached' },
  ENCRYPTION_UNAVAILABLE: { status: 503, title: 'This server has no key to encrypt a field with' },
  OPERATE_UNAVAILABLE: { status: 503, title: 'This server may not act for the caller' },
  STREAMS_EXHAUSTED: { status: 503, title: 'There are too many open streams' },
  IDENTITY_PROVIDER_UNAVAILABLE: { status: 503, title: 'The keys of the identity provider cannot be read' },
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
  /** Of KEY_REUSED: the instruction that the key belongs to. */
  readonly instructionId?: string
  readonly requestId: string
}

/** Thrown by a route to answer with a problem. */
export class ProblemError extends Error {
  readonly code: ProblemCode
  readonly detail: string | undefined
  readonly argument: string | undefined
  /** For how many seconds the same will be refused. */
  readonly retryAfterSeconds: number | undefined

  constructor(
    code: ProblemCode,
    detail?: string,
    { argument, retryAfterSeconds }: { readonly argument?: string; readonly retryAfterSeconds?: number } = {},
  ) {
    super(detail ?? PROBLEMS[code].title)
    this.name = new.target.name
    this.code = code
    this.detail = detail
    this.argument = argument
    this.retryAfterSeconds = retryAfterSeconds
  }
}
