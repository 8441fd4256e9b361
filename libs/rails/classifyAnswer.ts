import {
  ERROR_CODE_LENGTH_MAX,
  RAIL_REFERENCE_LENGTH_MAX,
  redact as redactByShape,
  requiredText,
} from '../core/index.js'
import type { LoadedRail } from './loadRails.js'
import type { Redact } from './fields/redactFields.js'
import type { RailOutcome } from './types.js'

/** Answer of a rail after the checks against the contract and the rail's table of codes. */
export type ClassifiedAnswer<Kind extends string> = PaidAnswer | UnsuccessfulAnswer<Kind>

export interface PaidAnswer extends AnswerDetails {
  readonly kind: 'success'
  readonly reference: string
}

export interface UnsuccessfulAnswer<Kind extends string> extends AnswerDetails {
  readonly kind: Kind
  readonly reference?: undefined
}

interface AnswerDetails {
  /** Code of the rail, or one of `RAIL_RESULT_CODES` if Symphony classified the answer itself. */
  readonly code: string
  /** Code in the rail's answer, also if `code` is one of Symphony's. */
  readonly railCode?: string
  /** Error text, redacted and bounded. */
  readonly message?: string
  readonly retryAfterMs?: number
  /** True if the rail's table of codes does not allow this answer. The relayer reports such answers. */
  readonly unknownCode?: true
}

/** Codes that Symphony assigns to a result. All other codes are the rail's. */
export const RAIL_RESULT_CODES = Object.freeze({
  /** A success without a code. */
  success: 'OK',
  /** An answer that breaks the contract, such as an undefined outcome or a refusal without a code. */
  malformed: 'RAIL_ANSWER_MALFORMED',
  noReference: 'RAIL_REFERENCE_MISSING',
  /** A success whose reference is too long or has characters that cannot be stored or printed. */
  badReference: 'RAIL_REFERENCE_INVALID',
  codeNotListed: 'RAIL_CODE_NOT_LISTED',
  codeDisagrees: 'RAIL_CODE_DISAGREES',
  threw: 'RAIL_THREW',
  timeout: 'RAIL_TIMEOUT',
  aborted: 'RAIL_ABORTED',
  notSent: 'RAIL_NOT_SENT',
  /** An inquiry at a rail that has no `queryStatus`. */
  notAskable: 'RAIL_NOT_ASKABLE',
  /** An answer `absent` without a code of the rail. */
  absent: 'RAIL_ABSENT',
  terminal: 'RAIL_TERMINAL',
  unknown: 'RAIL_UNKNOWN',
})

/** Bounds of `retryAfterMs`. Zero would use all attempts within a second. More than a day is a mistake of the rail. */
export const RETRY_AFTER_MS = Object.freeze({ min: 1_000, max: 86_400_000 })

type UnsuccessfulOutcome = Exclude<RailOutcome, 'success'>
type UnsuccessfulStatus = 'terminal' | 'absent' | 'unknown'

/** Classifies the answer to a dispatch. An answer without a clear outcome is unknown. */
export function classifyAnswer(
  rail: LoadedRail,
  returned: unknown,
  redact: Redact = redactByShape,
): ClassifiedAnswer<UnsuccessfulOutcome> {
  const answer = parseAnswer(returned)
  // A refusal without a code is malformed, so its outcome is unknown: it must not end the payment as FAILED.
  if (answer?.code === undefined && (answer?.outcome === 'terminal' || answer?.outcome === 'retryable')) {
    return { kind: 'unknown', code: RAIL_RESULT_CODES.malformed, ...detailsOf(answer, redact) }
  }
  return classify(rail, answer, isUnsuccessfulOutcome, redact)
}

export function classifyStatus(
  rail: LoadedRail,
  status: unknown,
  redact: Redact = redactByShape,
): ClassifiedAnswer<UnsuccessfulStatus> {
  return classify(rail, parseAnswer(status), isUnsuccessfulStatus, redact)
}

function classify<Kind extends UnsuccessfulOutcome | UnsuccessfulStatus>(
  rail: LoadedRail,
  answer: ParsedAnswer | undefined,
  isUnsuccessful: (outcome: unknown) => outcome is Kind,
  redact: Redact,
): ClassifiedAnswer<Kind | 'unknown'> {
  if (answer === undefined) return { kind: 'unknown', code: RAIL_RESULT_CODES.malformed }
  const { outcome, reference, code } = answer
  const details = detailsOf(answer, redact)
  if (outcome !== 'success' && !isUnsuccessful(outcome)) {
    return { kind: 'unknown', code: RAIL_RESULT_CODES.malformed, ...details }
  }
  const problem = findCodeProblem(rail, outcome, code)
  if (problem !== undefined) return { kind: 'unknown', code: problem, unknownCode: true, ...details }
  if (outcome !== 'success') return { kind: outcome, code: details.railCode ?? CODE_WITHOUT[outcome], ...details }
  if (reference !== undefined) {
    return { kind: 'success', reference, code: details.railCode ?? RAIL_RESULT_CODES.success, ...details }
  }
  const { badReference } = answer
  if (badReference === undefined) return { kind: 'unknown', code: RAIL_RESULT_CODES.noReference, ...details }
  // Not redacted, because operators need the reference to find the payment.
  const message = details.message === undefined ? badReference : `${badReference}; ${details.message}`
  return { kind: 'unknown', code: RAIL_RESULT_CODES.badReference, ...details, message }
}

function isUnsuccessfulOutcome(outcome: unknown): outcome is UnsuccessfulOutcome {
  return outcome === 'terminal' || outcome === 'retryable' || outcome === 'unknown'
}

function isUnsuccessfulStatus(outcome: unknown): outcome is UnsuccessfulStatus {
  return outcome === 'terminal' || outcome === 'absent' || outcome === 'unknown'
}

function findCodeProblem(
  rail: LoadedRail,
  outcome: RailOutcome | 'absent',
  code: string | undefined,
): string | undefined {
  if (rail.codes === undefined || code === undefined) return undefined
  const listed = rail.codes.get(code)
  if (listed === undefined) return RAIL_RESULT_CODES.codeNotListed
  return listed === outcome ? undefined : RAIL_RESULT_CODES.codeDisagrees
}

/** Codes for answers in which the rail gave none. */
const CODE_WITHOUT: Readonly<Record<UnsuccessfulOutcome | UnsuccessfulStatus, string>> = {
  terminal: RAIL_RESULT_CODES.terminal,
  retryable: RAIL_RESULT_CODES.malformed,
  absent: RAIL_RESULT_CODES.absent,
  unknown: RAIL_RESULT_CODES.unknown,
}

interface ParsedAnswer {
  readonly outcome: unknown
  readonly reference: string | undefined
  /** Description of a reference that cannot be stored unchanged, as evidence for operators. */
  readonly badReference: string | undefined
  readonly code: string | undefined
  readonly message: string | undefined
  readonly retryAfterMs: number | undefined
}

/** Parses the answer. Reads each property once, because a getter may return another value the second time. */
function parseAnswer(answer: unknown): ParsedAnswer | undefined {
  if (typeof answer !== 'object' || answer === null) return undefined
  try {
    const { outcome, reference, code, message, retryAfterMs }: { readonly [field: string]: unknown } = { ...answer }
    const usable = readText(reference, RAIL_REFERENCE_LENGTH_MAX)
    return {
      outcome,
      reference: usable,
      badReference: usable === undefined ? describeBadReference(reference) : undefined,
      code: readText(code, ERROR_CODE_LENGTH_MAX),
      message: typeof message === 'string' ? message : undefined,
      retryAfterMs: readRetryAfter(retryAfterMs),
    }
  } catch {
    return undefined
  }
}

/**
 * Returns the value if it is text that can be stored unchanged, else undefined. A shortened or cleaned reference would
 * not find the payment.
 */
function readText(value: unknown, lengthMax: number): string | undefined {
  if (value === undefined) return undefined
  try {
    return requiredText('text', value, lengthMax)
  } catch {
    return undefined
  }
}

/**
 * Describes a reference, bounded and escaped so that it can be stored and printed. Returns undefined if it is blank or
 * no text.
 */
function describeBadReference(reference: unknown): string | undefined {
  if (typeof reference !== 'string' || reference.trim() === '') return undefined
  const shown = reference.slice(0, BAD_REFERENCE_SHOWN).replaceAll(NOT_PLAIN, escapeUnit)
  const rest = reference.length > BAD_REFERENCE_SHOWN ? '…' : ''
  return `reference of ${reference.length} characters: "${shown}${rest}"`
}

function escapeUnit(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`
}

/** Characters to escape: everything except printable ASCII, and also the quotation mark and the backslash. */
const NOT_PLAIN = /[^ -~]|["\\]/g
const BAD_REFERENCE_SHOWN = 200

function readRetryAfter(value: unknown): number | undefined {
  if (typeof value !== 'number' || !(value >= 0)) return undefined
  return Math.ceil(Math.min(Math.max(value, RETRY_AFTER_MS.min), RETRY_AFTER_MS.max))
}

function detailsOf(
  { outcome, code, message, retryAfterMs }: ParsedAnswer,
  redact: Redact,
): {
  railCode?: string
  message?: string
  retryAfterMs?: number
} {
  // Common case: a success without a code.
  if (code === undefined && message === undefined && retryAfterMs === undefined) return {}
  return {
    ...(code === undefined ? {} : { railCode: redact(code, ERROR_CODE_LENGTH_MAX) }),
    ...(message === undefined ? {} : { message: redact(message) }),
    ...(retryAfterMs === undefined || outcome === 'success' || outcome === 'terminal' ? {} : { retryAfterMs }),
  }
}
