/**
 * W3C Trace Context, as it is kept with an instruction: a traceparent and, after a space, a tracestate. It comes from
 * strangers' headers, and no payment depends on it: what is none is dropped, and nobody is refused for it. The database
 * draws the same line (`trace_context_or_null`).
 */
export interface TraceContext {
  readonly traceparent: string
  readonly tracestate?: string
}

/** What two headers say, as one text to keep; undefined if the first is no traceparent of version 00. */
export function encodeTraceContext(traceparent: unknown, tracestate?: unknown): string | undefined {
  if (typeof traceparent !== 'string' || !isTraceparent(traceparent)) return undefined
  const state = typeof tracestate === 'string' ? tracestate.trim() : ''
  // A tracestate that cannot be kept takes nothing away from the trace itself.
  return state.length <= TRACESTATE_LENGTH_MAX && TRACESTATE.test(state) ? `${traceparent} ${state}` : traceparent
}

/** The two headers again; undefined for a text that `encodeTraceContext` did not make. */
export function decodeTraceContext(text: string | null | undefined): TraceContext | undefined {
  if (text === null || text === undefined) return undefined
  const traceparent = text.slice(0, TRACEPARENT_LENGTH)
  if (!isTraceparent(traceparent)) return undefined
  if (text.length === TRACEPARENT_LENGTH) return { traceparent }
  const tracestate = text.slice(TRACEPARENT_LENGTH + 1)
  const isKept = text[TRACEPARENT_LENGTH] === ' ' && tracestate.length <= TRACESTATE_LENGTH_MAX
  return isKept && TRACESTATE.test(tracestate) ? { traceparent, tracestate } : undefined
}

/** All zeros name nothing, by the standard. */
function isTraceparent(text: string): boolean {
  return TRACEPARENT.test(text) && !ZEROS.test(text)
}

const TRACEPARENT = /^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$/
const ZEROS = /^00-(?:0{32}|.{33}0{16})/
const TRACEPARENT_LENGTH = 55
/** Printable ASCII: whatever is sent on as a header cannot break out of it. */
const TRACESTATE = /^[!-~][ -~]*$/
const TRACESTATE_LENGTH_MAX = 512
