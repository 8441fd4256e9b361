import { SymphonyError, ArgumentRangeError, InvalidArgumentError } from '../core/index.js'

/** Problem codes for clients, with status and title. Part of the public API. */
export const PROBLEMS = Object.freeze({
  MALFORMED_JSON: { status: 400, title: 'The body is not JSON' },
  BAD_REQUEST: { status: 400, title: 'The request cannot be read' },
  INVALID_QUERY: { status: 400, title: 'A query parameter is unknown or not valid' },
  IDEMPOTENCY_KEY_MISSING: { status: 400, title: 'The header Idempotency-Key is missing' },
  UNAUTHENTICATED: { status: 401, title: 'No valid key or token' },
  KEY_EXPIRED: { status: 401, title: 'The key has expired' },
  KEY_REVOKED: { status: 401, title: 'The key was revoked' },
  SESSION_ENDED: { status: 401, title: 'The session has ended: sign in again' },
  SIGNATURE_INVALID: { status: 401, title: 'The signature is missing or wrong' },
  TIMESTAMP_OUT_OF_TOLERANCE: { status: 401, title: 'The signature is too old, or from the future' },
  SIGN_IN_REFUSED: { status: 403, title: 'The sign-in was refused' },
  CROSS_SITE_REQUEST: { status: 403, title: 'The request does not come from the dashboard' },
  SCOPE_MISSING: { status: 403, title: 'The key does not have the required scope' },
  PARTICIPANT_REFUSED: { status: 403, title: 'The key is restricted to other participants' },
  NOT_FOUND: { status: 404, title: 'Not found' },
  METHOD_NOT_ALLOWED: { status: 405, title: 'This path does not support this method' },
  INSTRUCTION_NOT_FOUND: { status: 404, title: 'No such instruction' },
  ITEM_NOT_FOUND: { status: 404, title: 'No such outbox item' },
  PROPOSAL_NOT_FOUND: { status: 404, title: 'No such proposal' },
  CONTRADICTION_NOT_FOUND: { status: 404, title: 'No such contradiction' },
  RUN_NOT_FOUND: { status: 404, title: 'No such reconciliation' },
  JOB_NOT_FOUND: { status: 404, title: 'No such job' },
  MESSAGE_NOT_FOUND: { status: 404, title: 'No such message in the inbox' },
  WEBHOOK_SOURCE_UNKNOWN: { status: 404, title: 'No such source of webhooks' },
  IDEMPOTENCY_CONFLICT: { status: 409, title: 'This id or key already exists with other content' },
  KEY_REUSED: { status: 409, title: 'This idempotency key belongs to another instruction' },
  CONTENT_DIFFERS: { status: 409, title: 'This message id already exists with other content' },
  ALREADY_ENDED: { status: 409, title: 'The payment has ended' },
  RETURN_EXCEEDS_PAYMENT: { status: 409, title: 'The returns would exceed the payment' },
  NOT_REPLACEABLE: { status: 409, title: 'The payment cannot be replaced' },
  NOT_CANCELLABLE: { status: 409, title: 'The payment cannot be cancelled' },
  DECISION_REFUSED: { status: 409, title: 'The current state does not allow this' },
  SECOND_PERSON_REQUIRED: { status: 409, title: 'This needs a second person' },
  SUBJECT_ERASED: { status: 409, title: 'The encryption key of the subject was destroyed' },
  MESSAGE_NOT_DEAD: { status: 409, title: 'Only a dead message can be revived' },
  BODY_TOO_LARGE: { status: 413, title: 'The body is too large' },
  UNSUPPORTED_MEDIA_TYPE: { status: 415, title: 'The route does not take a body of this media type' },
  INVALID_INSTRUCTION: { status: 422, title: 'The instruction is not valid' },
  INVALID_PAYLOAD: { status: 422, title: 'The rail would refuse this payload' },
  CARD_NUMBER_REFUSED: { status: 422, title: 'A field contains a card number, which is forbidden there' },
  INVALID_MESSAGE: { status: 422, title: 'The message is not valid' },
  STATEMENT_INVALID: { status: 422, title: 'The statement cannot be read' },
  INVALID_ARGUMENT: { status: 422, title: 'An argument is not valid' },
  UNKNOWN_NAME: { status: 422, title: 'The database knows no rail or participant of that name' },
  RATE_LIMITED: { status: 429, title: 'Too many requests' },
  INTERNAL: { status: 500, title: 'Internal error' },
  DATABASE_UNAVAILABLE: { status: 503, title: 'The database cannot be reached' },
  ENCRYPTION_UNAVAILABLE: { status: 503, title: 'This server has no key to encrypt or decrypt a field with' },
  DESTINATION_SEARCH_UNAVAILABLE: { status: 503, title: 'This server cannot search by destination now' },
  OPERATE_UNAVAILABLE: { status: 503, title: 'This server may not act for the caller' },
  STREAMS_EXHAUSTED: { status: 503, title: 'Too many open streams' },
  IDENTITY_PROVIDER_UNAVAILABLE: { status: 503, title: 'The identity provider does not answer' },
})

export type ProblemCode = keyof typeof PROBLEMS

/** Body of a response that is not a success (RFC 9457). It never contains a payload. */
export interface Problem {
  readonly type: string
  readonly title: string
  readonly status: number
  readonly code: ProblemCode
  readonly detail?: string
  readonly argument?: string
  /** Instruction that already uses the idempotency key. Only with KEY_REUSED. */
  readonly instructionId?: string
  /** Why the payment cannot be cancelled. Only with NOT_CANCELLABLE. */
  readonly reason?: string
  readonly requestId: string
}

/** Thrown by a route to answer with a problem. */
export class ProblemError extends Error {
  readonly code: ProblemCode
  readonly detail: string | undefined
  readonly argument: string | undefined
  /** Seconds until the same request may succeed. */
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

interface ProblemContext {
  readonly requestId: string
  /** Problem code that this route uses for an invalid argument. */
  readonly invalid: ProblemCode
}

/** Turns an error into the problem for the client. An unexpected error is INTERNAL without details. */
export function toProblem(error: unknown, { requestId, invalid }: ProblemContext): Problem {
  const { code, detail, argument, instructionId, reason } = classifyError(error, invalid)
  const { status, title } = PROBLEMS[code]
  return {
    type: `urn:symphony:problem:${code.toLowerCase().replaceAll('_', '-')}`,
    title,
    status,
    code,
    ...(detail === undefined ? {} : { detail }),
    ...(argument === undefined ? {} : { argument }),
    ...(instructionId === undefined ? {} : { instructionId }),
    ...(reason === undefined ? {} : { reason }),
    requestId,
  }
}

interface ClassifiedError {
  readonly code: ProblemCode
  readonly detail?: string | undefined
  readonly argument?: string | undefined
  readonly instructionId?: string | undefined
  readonly reason?: string | undefined
}

function classifyError(error: unknown, invalid: ProblemCode): ClassifiedError {
  if (error instanceof ProblemError) return error
  if (error instanceof InvalidArgumentError || error instanceof ArgumentRangeError) {
    return { code: invalid, detail: error.message, argument: error.argument }
  }
  if (error instanceof SymphonyError) return classifyDatabaseError(error, invalid)
  return { code: codeOfFrameworkError(error) }
}

/** Problem per error that our SQL functions raise, by the name of its SQLSTATE. */
const RAISED: Readonly<Record<string, ProblemCode>> = {
  ALREADY_TERMINAL: 'ALREADY_ENDED',
  HELD: 'DECISION_REFUSED',
  RETURN_EXCEEDS_PAYMENT: 'RETURN_EXCEEDS_PAYMENT',
  NOT_REPLACEABLE: 'NOT_REPLACEABLE',
  NOT_CANCELLABLE: 'NOT_CANCELLABLE',
  APPROVAL_REQUIRED: 'SECOND_PERSON_REQUIRED',
  ACTOR_UNVERIFIED: 'UNAUTHENTICATED',
  INBOX_UNKNOWN: 'MESSAGE_NOT_FOUND',
  INBOX_TRANSITION: 'MESSAGE_NOT_DEAD',
  UNKNOWN_JOB: 'JOB_NOT_FOUND',
}

/** Problem per error of the field protection. The messages name positions in the payload, never values. */
const PROTECTED: Readonly<Record<string, ProblemCode>> = {
  CARD_NUMBER_REFUSED: 'CARD_NUMBER_REFUSED',
  INVALID_PAYLOAD: 'INVALID_PAYLOAD',
  SUBJECT_ERASED: 'SUBJECT_ERASED',
  FIELD_KEY_MISSING: 'ENCRYPTION_UNAVAILABLE',
  VAULT_KEYS_MISSING: 'ENCRYPTION_UNAVAILABLE',
  AMOUNT_UNREADABLE: 'ENCRYPTION_UNAVAILABLE',
}

function classifyDatabaseError(error: SymphonyError, invalid: ProblemCode): ClassifiedError {
  const refused = PROTECTED[error.code]
  if (refused !== undefined) return { code: refused, detail: error.message, argument: textIn(error, 'argument') }
  if (error.code === 'IDEMPOTENCY_CONFLICT') return describeConflict(error)
  if (error.code === 'KEY_REUSED') return describeReusedKey(error)
  // The messages name positions in a statement and never its values.
  if (error.code === 'STATEMENT_INVALID') {
    return { code: 'STATEMENT_INVALID', detail: `${error.message}. ${error.remedy}` }
  }
  if (error.code === 'UNKNOWN_NAME')
    return { code: 'UNKNOWN_NAME', detail: `${error.message} ${error.remedy}`, argument: 'name' }
  // The database checks the same limits again. Its message names the argument and never the value.
  if (error.code === 'INVALID_PARAMETER') return { code: invalid, detail: error.message }
  const raised = RAISED[error.code]
  // Messages of Symphony's own functions are safe to show: they name only items, people and states.
  if (raised !== undefined) {
    const reason = textIn(error, 'reason')
    return { code: raised, detail: sentences(error.message, textIn(error, 'hint')), reason }
  }
  const disposition = textIn(error, 'disposition')
  if (disposition === 'unknown') {
    return {
      code: 'DATABASE_UNAVAILABLE',
      detail: 'The request may or may not have been accepted: repeat it with the same key to find out.',
    }
  }
  if (disposition === 'retry')
    return { code: 'DATABASE_UNAVAILABLE', detail: 'Nothing was accepted: repeat the request.' }
  return { code: error.code === 'CONNECT_FAILED' ? 'DATABASE_UNAVAILABLE' : 'INTERNAL' }
}

function describeConflict(error: SymphonyError): ClassifiedError {
  const argument = itemNamedIn(error)
  // An error that names no item of a batch is about a return or a timer. Its own message says what differs.
  if (argument === undefined) {
    return { code: 'IDEMPOTENCY_CONFLICT', detail: sentences(error.message, textIn(error, 'hint')) }
  }
  return {
    code: 'IDEMPOTENCY_CONFLICT',
    detail:
      'Instruction id and key identify a payment. This pair already exists with another participant, rail or payload. ' +
      'Repeat the first content to get its result; a new payment needs a new key.',
    argument,
  }
}

function describeReusedKey(error: SymphonyError): ClassifiedError {
  const instructionId = textIn(error, 'firstInstructionId')
  return {
    code: 'KEY_REUSED',
    detail:
      `This key already belongs to instruction ${instructionId ?? ''}, and nothing was accepted. ` +
      'To repeat that payment, send its instruction id and content; a new payment needs a new key.',
    argument: itemNamedIn(error),
    instructionId,
  }
}

/** Returns the position of the refused item, such as `instructions[0]`; undefined if the error names no item. */
function itemNamedIn(error: SymphonyError): string | undefined {
  const [, ordinal] = /"ordinal"\s*:\s*(\d+)/.exec(textIn(error, 'detail') ?? '') ?? []
  return ordinal === undefined ? undefined : `instructions[${Number(ordinal) - 1}]`
}

function sentences(message: string, hint: string | undefined): string {
  return hint === undefined ? message : `${message}. ${hint}`
}

function textIn(error: SymphonyError, field: string): string | undefined {
  const entry = Object.entries(error).find(([name]) => name === field)?.[1]
  return typeof entry === 'string' ? entry : undefined
}

function codeOfFrameworkError(error: unknown): ProblemCode {
  if (!(error instanceof Error) || !('statusCode' in error)) return 'INTERNAL'
  switch (error.statusCode) {
    case 413:
      return 'BODY_TOO_LARGE'
    case 415:
      return 'UNSUPPORTED_MEDIA_TYPE'
    case 404:
      return 'NOT_FOUND'
    default:
      return Number(error.statusCode) < 500 ? 'BAD_REQUEST' : 'INTERNAL'
  }
}
