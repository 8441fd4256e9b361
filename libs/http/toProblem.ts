import { AppError, ArgumentRangeError, InvalidArgumentError } from '../core/index.js'
import { ProblemError, PROBLEMS, type Problem, type ProblemCode } from './Problem.js'

export interface ProblemContext {
  readonly requestId: string
  /** What an argument that is not valid is called here. */
  readonly invalid: ProblemCode
}

/** What a client is told about an error. Whatever was not foreseen is INTERNAL, and says nothing of itself. */
export function toProblem(error: unknown, { requestId, invalid }: ProblemContext): Problem {
  const { code, detail, argument, instructionId } = judge(error, invalid)
  const { status, title } = PROBLEMS[code]
  return {
    type: `urn:symphony:problem:${code.toLowerCase().replaceAll('_', '-')}`,
    title,
    status,
    code,
    ...(detail === undefined ? {} : { detail }),
    ...(argument === undefined ? {} : { argument }),
    ...(instructionId === undefined ? {} : { instructionId }),
    requestId,
  }
}

interface Judgement {
  readonly code: ProblemCode
  readonly detail?: string | undefined
  readonly argument?: string | undefined
  readonly instructionId?: string | undefined
}

function judge(error: unknown, invalid: ProblemCode): Judgement {
  if (error instanceof ProblemError) return error
  if (error instanceof InvalidArgumentError || error instanceof ArgumentRangeError) {
    return { code: invalid, detail: error.message, argument: error.argument }
  }
  if (error instanceof AppError) return judgeDatabase(error, invalid)
  return { code: ofFramework(error) }
}

/** What our functions raise, by the name of its SQLSTATE. */
const RAISED: Readonly<Record<string, ProblemCode>> = {
  ALREADY_TERMINAL: 'ALREADY_ENDED',
  HELD: 'DECISION_REFUSED',
  APPROVAL_REQUIRED: 'SECOND_PERSON_REQUIRED',
  ACTOR_UNVERIFIED: 'UNAUTHENTICATED',
  INBOX_UNKNOWN: 'MESSAGE_NOT_FOUND',
  INBOX_TRANSITION: 'MESSAGE_NOT_DEAD',
  UNKNOWN_JOB: 'JOB_NOT_FOUND',
}

/** What the protection of fields refuses. Its messages name places, never values. */
const PROTECTED: Readonly<Record<string, ProblemCode>> = {
  CARD_NUMBER_REFUSED: 'CARD_NUMBER_REFUSED',
  INVALID_PAYLOAD: 'INVALID_PAYLOAD',
  SUBJECT_ERASED: 'SUBJECT_ERASED',
  FIELD_KEY_MISSING: 'ENCRYPTION_UNAVAILABLE',
}

function judgeDatabase(error: AppError, invalid: ProblemCode): Judgement {
  const refused = PROTECTED[error.code]
  if (refused !== undefined) return { code: refused, detail: error.message, argument: textIn(error, 'argument') }
  if (error.code === 'IDEMPOTENCY_CONFLICT') return judgeConflict(error)
  if (error.code === 'KEY_REUSED') return judgeReusedKey(error)
  if (error.code === 'UNKNOWN_NAME')
    return { code: 'UNKNOWN_NAME', detail: `${error.message} ${error.remedy}`, argument: 'name' }
  // The same limits once more, in the database: its message names the argument and never the value.
  if (error.code === 'INVALID_PARAMETER') return { code: invalid, detail: error.message }
  const raised = RAISED[error.code]
  // Messages of ours: they name items, people and states.
  if (raised !== undefined) return { code: raised, detail: sentences(error.message, textIn(error, 'hint')) }
  const disposition = textIn(error, 'disposition')
  if (disposition === 'unknown') {
    return {
      code: 'DATABASE_UNAVAILABLE',
      detail: 'It may or may not have been accepted: repeat the request with the same key, and you will be told.',
    }
  }
  if (disposition === 'retry')
    return { code: 'DATABASE_UNAVAILABLE', detail: 'Nothing was accepted: repeat the request.' }
  return { code: error.code === 'CONNECT_FAILED' ? 'DATABASE_UNAVAILABLE' : 'INTERNAL' }
}

function judgeConflict(error: AppError): Judgement {
  return {
    code: 'IDEMPOTENCY_CONFLICT',
    detail:
      'Instruction id and key identify a payment. This pair is known with another participant, rail or payload. ' +
      'Repeat the first content to read its answer; a new payment needs a new key.',
    argument: itemNamedIn(error),
  }
}

function judgeReusedKey(error: AppError): Judgement {
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

/** Place of the refused item in a batch; a request for one item has no such place. */
function itemNamedIn(error: AppError): string | undefined {
  const [, ordinal] = /"ordinal"\s*:\s*(\d+)/.exec(textIn(error, 'detail') ?? '') ?? []
  return ordinal === undefined ? undefined : `instructions[${Number(ordinal) - 1}]`
}

function sentences(message: string, hint: string | undefined): string {
  return hint === undefined ? message : `${message}. ${hint}`
}

function textIn(error: AppError, field: string): string | undefined {
  const entry = Object.entries(error).find(([name]) => name === field)?.[1]
  return typeof entry === 'string' ? entry : undefined
}

function ofFramework(error: unknown): ProblemCode {
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
