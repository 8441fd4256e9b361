import type { RailOutcome } from '../types.js'

/**
 * Outcomes of HTTP statuses, unless `statusOutcomes` overrides them. 2xx with a reference is a success. Any other
 * unlisted status is unknown, including redirects (303 follows a completed action) and every 5xx: a gateway that timed
 * out does not know the rail's outcome.
 */
export const HTTP_STATUS_OUTCOMES: Readonly<Record<number, RailOutcome>> = Object.freeze({
  // The rail refused the content. The next attempt would send the same content.
  400: 'terminal',
  402: 'terminal',
  413: 'terminal',
  414: 'terminal',
  422: 'terminal',
  431: 'terminal',
  // The rail refused our credentials or the address and paid nothing. An operator can correct them.
  401: 'retryable',
  403: 'retryable',
  404: 'retryable',
  405: 'retryable',
  406: 'retryable',
  407: 'retryable',
  415: 'retryable',
  421: 'retryable',
  426: 'retryable',
  // The rail refused temporarily.
  425: 'retryable',
  429: 'retryable',
  // The rail received at least a part of the request before it timed out.
  408: 'unknown',
  // A payment exists under this key, in progress or done.
  409: 'unknown',
})

export type StatusOutcomes = ReadonlyMap<number, RailOutcome>

export function mergeStatusOutcomes(given: Readonly<Record<number, RailOutcome>>): StatusOutcomes {
  return new Map(
    Object.entries({ ...HTTP_STATUS_OUTCOMES, ...given }).map(([status, outcome]) => [Number(status), outcome]),
  )
}

export function outcomeOfStatus(outcomes: StatusOutcomes, status: number): RailOutcome {
  return outcomes.get(status) ?? (isSuccessStatus(status) ? 'success' : 'unknown')
}

export function isSuccessStatus(status: number): boolean {
  return status >= 200 && status <= 299
}

/** Returns the code of an answer without a code in its body. */
export function codeOfStatus(status: number): string {
  return `HTTP_${status}`
}

/** Parses `Retry-After`: seconds, or a date. Returns undefined otherwise. `classifyAnswer` bounds the value. */
export function readRetryAfterMs(header: string | string[] | undefined, now: Date): number | undefined {
  const text = (Array.isArray(header) ? header[0] : header)?.trim()
  if (text === undefined) return undefined
  if (/^\d{1,9}$/.test(text)) return Number(text) * 1_000
  if (!HTTP_DATE.test(text)) return undefined
  const at = Date.parse(text)
  return Number.isNaN(at) ? undefined : Math.max(0, at - now.getTime())
}

/** The only date form that servers may send. `Date.parse` alone would also read `2` as a month. */
const HTTP_DATE = /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/
