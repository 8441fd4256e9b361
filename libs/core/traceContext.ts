/**
 * W3C Trace Context as stored with an instruction: a traceparent and, after a space, a tracestate. The headers are
 * untrusted and no payment depends on them, so an invalid context is dropped without an error. The SQL function
 * `trace_context_or_null` applies the same rule.
 */
export interface TraceContext {
  readonly traceparent: string
  readonly tracestate?: string
}

/** Encodes two headers as one text; undefined if the first is no traceparent of version 00. */
export function encodeTraceContext(traceparent: unknown, tracestate?: unknown): string | undefined {
  if (typeof traceparent !== 'string' || !isTraceparent(traceparent)) return undefined
  const state = typeof tracestate === 'string' ? tracestate.trim() : ''
  // An invalid tracestate is dropped, and the trace itself is kept.
  return state.length <= TRACESTATE_LENGTH_MAX && TRACESTATE.test(state) ? `${traceparent} ${state}` : traceparent
}

/** Decodes the two headers; undefined for a text that `encodeTraceContext` did not make. */
export function decodeTraceContext(text: string | null | undefined): TraceContext | undefined {
  if (text === null || text === undefined) return undefined
  const traceparent = text.slice(0, TRACEPARENT_LENGTH)
  if (!isTraceparent(traceparent)) return undefined
  if (text.length === TRACEPARENT_LENGTH) return { traceparent }
  const tracestate = text.slice(TRACEPARENT_LENGTH + 1)
  const isKept = text[TRACEPARENT_LENGTH] === ' ' && tracestate.length <= TRACESTATE_LENGTH_MAX
  return isKept && TRACESTATE.test(tracestate) ? { traceparent, tracestate } : undefined
}

/** Checks a traceparent. By the standard, ids of all zeros are invalid. */
function isTraceparent(text: string): boolean {
  return TRACEPARENT.test(text) && !ZEROS.test(text)
}

const TRACEPARENT = /^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/
const ZEROS = /^00-(?:0{32}|.{33}0{16})/
const TRACEPARENT_LENGTH = 55
/** Printable ASCII, so that the value cannot inject another header. */
const TRACESTATE = /^[!-~][ -~]*$/
const TRACESTATE_LENGTH_MAX = 512
