import {
  context,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  trace,
  type Context,
  type Span,
  type SpanContext,
  type Tracer,
} from '@opentelemetry/api'
import { decodeTraceContext } from '../core/index.js'
import type { Landing } from './carryItem.js'
import type { Flight } from './Flight.js'
import { remoteParent, traceContextOf, tracerIfAny } from './traces.js'

/**
 * Each attempt as a span: a child of the request that enqueued the item, and linked to the attempt before it where this
 * process made that one too. What the rail is sent names the span. Without an SDK no span is begun, and the rail is sent the
 * context that was kept: whoever traces further on finds the same trace.
 */
export class AttemptSpans {
  readonly #workerId: string
  /** The latest attempt of items that have not ended, oldest first. */
  readonly #previous = new Map<string, SpanContext>()

  constructor(workerId: string) {
    this.#workerId = workerId
  }

  carry(flight: Flight, attempt: () => Promise<Landing>): Promise<Landing> {
    const tracer = tracerIfAny()
    if (tracer !== undefined) return this.#carryAsSpan(tracer, flight, attempt)
    if (flight.item.traceContext !== null) flight.trace = decodeTraceContext(flight.item.traceContext)
    return attempt()
  }

  /** An SDK or exporter that throws costs a span: the attempt runs once, and its landing is returned, in any case. */
  async #carryAsSpan(tracer: Tracer, flight: Flight, attempt: () => Promise<Landing>): Promise<Landing> {
    const { outboxId } = flight.item
    let running: Promise<Landing> | undefined
    const once = () => (running ??= attempt())
    let span: Span | undefined
    ignoringErrors(() => {
      const [begun, active] = this.#begin(tracer, flight)
      span = begun
      flight.trace = decodeTraceContext(traceContextOf(begun.spanContext()))
      void context.with(active, once)
    })
    try {
      const landing = await once()
      ignoringErrors(() => {
        if (span === undefined) return
        describe(span, landing)
        if (hasEnded(landing)) this.#previous.delete(outboxId)
        else this.#remember(outboxId, span.spanContext())
      })
      return landing
    } catch (error) {
      // The error itself is told as an event; its text is not for a tracing backend.
      ignoringErrors(() => span?.setStatus({ code: SpanStatusCode.ERROR, message: 'nothing was sent' }))
      throw error
    } finally {
      ignoringErrors(() => span?.end())
    }
  }

  #begin(tracer: Tracer, { item }: Flight): [Span, Context] {
    const parent = remoteParent(item.traceContext)
    const surroundings = parent === undefined ? ROOT_CONTEXT : trace.setSpanContext(ROOT_CONTEXT, parent)
    const previous = this.#previous.get(item.outboxId)
    const span = tracer.startSpan(
      `dispatch ${item.railType}`,
      {
        kind: SpanKind.CLIENT,
        attributes: {
          'symphony.outbox_id': item.outboxId,
          'symphony.rail': item.railType,
          'symphony.attempt': item.attemptCount + 1,
          'symphony.worker_id': this.#workerId,
        },
        links: previous === undefined ? [] : [{ context: previous }],
      },
      surroundings,
    )
    return [span, trace.setSpan(surroundings, span)]
  }

  #remember(outboxId: string, span: SpanContext): void {
    this.#previous.delete(outboxId)
    this.#previous.set(outboxId, span)
    if (this.#previous.size <= REMEMBERED_MAX) return
    const [oldest] = this.#previous.keys()
    if (oldest !== undefined) this.#previous.delete(oldest)
  }
}

function ignoringErrors(tell: () => void): void {
  try {
    tell()
  } catch {
    // Nothing depends on a span.
  }
}

/** The outcome of an attempt as attributes, without the payload. */
function describe(span: Span, landing: Landing): void {
  if (landing.kind !== 'complete') {
    span.setAttribute('symphony.outcome', landing.kind.toUpperCase())
    return
  }
  const { state, errorCode, railCode, outcomeUnknown } = landing.outcome
  span.setAttribute('symphony.outcome', state)
  if (typeof railCode === 'string') span.setAttribute('symphony.rail_code', railCode)
  if (outcomeUnknown === true) span.setAttribute('symphony.outcome_unknown', true)
  if (state !== 'DISPATCHED') span.setStatus({ code: SpanStatusCode.ERROR, message: errorCode ?? state })
}

function hasEnded(landing: Landing): boolean {
  return landing.kind === 'complete' && landing.outcome.state !== 'RETRYABLE'
}

/** Items that wait for a retry, of one process: more than these lose the link, not the trace. */
const REMEMBERED_MAX = 10_000
