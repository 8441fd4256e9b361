import {
  ERROR_CODE_LENGTH_MAX,
  RAIL_REFERENCE_LENGTH_MAX,
  redact as redactByShape,
  requiredText,
} from '../core/index.js'
import type { LoadedRail } from './loadRails.js'
import type { Redact } from './fields/withholdFields.js'
import type { RailOutcome } from './types.js'

/** What an answer amounts to, once it has been checked against the contract and the rail's own table. */
export type Judgement<Kind extends string> = SuccessJudgement | Unpaid<Kind>

export interface SuccessJudgement extends JudgementDetails {
  readonly kind: 'success'
  /** The rail's own. */
  readonly reference: string
}

export interface Unpaid<Kind extends string> extends JudgementDetails {
  readonly kind: Kind
  readonly reference?: undefined
}

interface JudgementDetails {
  /** The rail's code, or one of `VERDICT_CODES` where Symphony had to judge by itself. */
  readonly code: string
  /** The rail's code, whatever was made of it. */
  readonly railCode?: string
  /** Redacted and bounded. */
  readonly message?: string
  readonly retryAfterMs?: number
  /** The rail gives a table of codes, and this answer is not covered by it: count it, and tell somebody. */
  readonly unknownCode?: true
}

/** Codes of our own in verdicts: what Symphony concluded, not what the rail said. */
export const VERDICT_CODES = Object.freeze({
  /** A success without a code. */
  success: 'OK',
  /** Not an answer of the contract: no such outcome, no code where one is required. */
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
  /** An inquiry that the rail answered without a code. */
  absent: 'RAIL_ABSENT',
  terminal: 'RAIL_TERMINAL',
  unknown: 'RAIL_UNKNOWN',
})

/** Zero would spend all attempts in a second; beyond a day it is a mistake of the rail, and the payment should be seen. */
export const RETRY_AFTER_MS = Object.freeze({ min: 1_000, max: 86_400_000 })

type UnpaidAnswer = Exclude<RailOutcome, 'success'>
type UnpaidStatus = 'terminal' | 'absent' | 'unknown'

/** Judges the answer to a dispatch. Whatever is not clearly one of the other outcomes is unknown. */
export function judgeAnswer(
  rail: LoadedRail,
  answer: unknown,
  redact: Redact = redactByShape,
): Judgement<UnpaidAnswer> {
  const said = readAnswer(answer)
  // A refusal that does not say why is not the contract's, and the payment would be declared failed on its word.
  if (said?.code === undefined && (said?.outcome === 'terminal' || said?.outcome === 'retryable')) {
    return { kind: 'unknown', code: VERDICT_CODES.malformed, ...detailsOf(said, redact) }
  }
  return judge(rail, said, isUnpaidAnswer, redact)
}

/** Judges the answer to an inquiry. */
export function judgeStatus(
  rail: LoadedRail,
  status: unknown,
  redact: Redact = redactByShape,
): Judgement<UnpaidStatus> {
  return judge(rail, readAnswer(status), isUnpaidStatus, redact)
}

function judge<Kind extends UnpaidAnswer | UnpaidStatus>(
  rail: LoadedRail,
  said: SaidByRail | undefined,
  isUnpaid: (outcome: unknown) => outcome is Kind,
  redact: Redact,
): Judgement<Kind | 'unknown'> {
  if (said === undefined) return { kind: 'unknown', code: VERDICT_CODES.malformed }
  const { outcome, reference, code } = said
  const details = detailsOf(said, redact)
  if (outcome !== 'success' && !isUnpaid(outcome)) {
    return { kind: 'unknown', code: VERDICT_CODES.malformed, ...details }
  }
  const objection = objectionOf(rail, outcome, code)
  if (objection !== undefined) return { kind: 'unknown', code: objection, unknownCode: true, ...details }
  if (outcome !== 'success') return { kind: outcome, code: details.railCode ?? CODE_WITHOUT[outcome], ...details }
  if (reference !== undefined) {
    return { kind: 'success', reference, code: details.railCode ?? VERDICT_CODES.success, ...details }
  }
  const { badReference } = said
  if (badReference === undefined) return { kind: 'unknown', code: VERDICT_CODES.noReference, ...details }
  // Not redacted, as a usable reference is not: people need it to find the payment.
  const message = details.message === undefined ? badReference : `${badReference}; ${details.message}`
  return { kind: 'unknown', code: VERDICT_CODES.badReference, ...details, message }
}

function isUnpaidAnswer(outcome: unknown): outcome is UnpaidAnswer {
  return outcome === 'terminal' || outcome === 'retryable' || outcome === 'unknown'
}

function isUnpaidStatus(outcome: unknown): outcome is UnpaidStatus {
  return outcome === 'terminal' || outcome === 'absent' || outcome === 'unknown'
}

function objectionOf(rail: LoadedRail, outcome: RailOutcome | 'absent', code: string | undefined): string | undefined {
  if (rail.codes === undefined || code === undefined) return undefined
  const listed = rail.codes.get(code)
  if (listed === undefined) return VERDICT_CODES.codeNotListed
  return listed === outcome ? undefined : VERDICT_CODES.codeDisagrees
}

/** For an answer that gives none where none is required. */
const CODE_WITHOUT: Readonly<Record<UnpaidAnswer | UnpaidStatus, string>> = {
  terminal: VERDICT_CODES.terminal,
  retryable: VERDICT_CODES.malformed,
  absent: VERDICT_CODES.absent,
  unknown: VERDICT_CODES.unknown,
}

interface SaidByRail {
  readonly outcome: unknown
  readonly reference: string | undefined
  /** Description of a reference that cannot be recorded as it is: evidence for the people who decide. */
  readonly badReference: string | undefined
  readonly code: string | undefined
  readonly message: string | undefined
  readonly retryAfterMs: number | undefined
}

/** Each property is read once: an adapter may hand over anything, and a second look might see something else. */
function readAnswer(answer: unknown): SaidByRail | undefined {
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

/** Text that can be stored as it is. A reference that had to be repaired would no longer find the payment. */
function readText(value: unknown, lengthMax: number): string | undefined {
  if (value === undefined) return undefined
  try {
    return requiredText('text', value, lengthMax)
  } catch {
    return undefined
  }
}

/** Bounded, and escaped so that it can be stored and printed. Undefined for a reference that is blank or no text. */
function describeBadReference(reference: unknown): string | undefined {
  if (typeof reference !== 'string' || reference.trim() === '') return undefined
  const shown = reference.slice(0, BAD_REFERENCE_SHOWN).replaceAll(NOT_PLAIN, escapeUnit)
  const rest = reference.length > BAD_REFERENCE_SHOWN ? '…' : ''
  return `reference of ${reference.length} characters: "${shown}${rest}"`
}

function escapeUnit(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`
}

/** UTF-16 units other than printable ASCII, and the characters that quote and escape. */
const NOT_PLAIN = /[^ -~]|["\\]/g
const BAD_REFERENCE_SHOWN = 200

function readRetryAfter(value: unknown): number | undefined {
  if (typeof value !== 'number' || !(value >= 0)) return undefined
  return Math.ceil(Math.min(Math.max(value, RETRY_AFTER_MS.min), RETRY_AFTER_MS.max))
}

function detailsOf(
  { outcome, code, message, retryAfterMs }: SaidByRail,
  redact: Redact,
): {
  railCode?: string
  message?: string
  retryAfterMs?: number
} {
  // A success mostly says nothing else.
  if (code === undefined && message === undefined && retryAfterMs === undefined) return {}
  return {
    ...(code === undefined ? {} : { railCode: redact(code, ERROR_CODE_LENGTH_MAX) }),
    ...(message === undefined ? {} : { message: redact(message) }),
    ...(retryAfterMs === undefined || outcome === 'success' || outcome === 'terminal' ? {} : { retryAfterMs }),
  }
}
