import { AppError, ArgumentRangeError, InvalidArgumentError } from '../core/index.js'
import { ProblemError, PROBLEMS, type Problem, type ProblemCode } from './Problem.js'

/** What a client is told about an error. Whatever was not foreseen is INTERNAL, and says nothing of itself. */
export function toProblem(error: unknown, requestId: string): Problem {
  const { code, detail, argument } = judge(error)
  const { status, title } = PROBLEMS[code]
  return {
    type: `urn:symphony:problem:${code.toLowerCase().replaceAll('_', '-')}`,
    title,
    status,
    code,
    ...(detail === undefined ? {} : { detail }),
    ...(argument === undefined ? {} : { argument }),
    requestId,
  }
}

interface Judgement {
  readonly code: ProblemCode
  readonly detail?: string | undefined
  readonly argument?: string
}

function judge(error: unknown): Judgement {
  if (error instanceof ProblemError) return { code: error.code, detail: error.detail }
  if (error instanceof InvalidArgumentError || error instanceof ArgumentRangeError) {
    return { code: 'INVALID_INSTRUCTION', detail: error.message, argument: error.argument }
  }
  if (error instanceof AppError) return judgeDatabase(error)
  return { code: ofFramework(error) }
}

function judgeDatabase(error: AppError): Judgement {
  if (error.code === 'IDEMPOTENCY_CONFLICT') {
    return {
      code: 'IDEMPOTENCY_CONFLICT',
      detail:
        'This instruction and key are known with another participant, rail or payload. A new payment needs a new key.',
    }
  }
  // The same limits once more, in the database: its message names the argument and never the value.
  if (error.code === 'INVALID_PARAMETER') return { code: 'INVALID_INSTRUCTION', detail: error.message }
  const disposition = 'disposition' in error ? error.disposition : undefined
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
