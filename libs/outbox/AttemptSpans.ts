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
import type { DispatchResult } from './dispatchItem.js'
import type { LeasedItem } from './LeasedItem.js'
import { remoteParent, traceContextOf } from './traces.js'

/**
 * Records each attempt as a span. The parent of the span is the request that enqueued the item, if that request was
 * traced. The span links to the previous attempt if this process made that attempt. The rail receives the context of
 * the span.
 */
export class AttemptSpans {
  readonly #workerId: string
  /** Last span of each item without a terminal outcome, oldest first. */
  readonly #previous = new Map<string, SpanContext>()

  constructor(workerId: string) {
    this.#workerId = workerId
  }

  /** Runs the attempt once and returns its result. An error of the tracing SDK or an exporter loses only the span. */
  async traceAttempt(
    tracer: Tracer,
    leased: LeasedItem,
    attempt: () => Promise<DispatchResult>,
  ): Promise<DispatchResult> {
    const { outboxId } = leased.item
    let running: Promise<DispatchResult> | undefined
    const once = () => (running ??= attempt())
    let span: Span | undefined
    ignoringErrors(() => {
      const [begun, active] = this.#begin(tracer, leased)
      span = begun
      leased.trace = decodeTraceContext(traceContextOf(begun.spanContext()))
      void context.with(active, once)
    })
    try {
      const result = await once()
      ignoringErrors(() => {
        if (span === undefined) return
        describe(span, result)
        if (hasEnded(result)) this.#previous.delete(outboxId)
        else this.#store(outboxId, span.spanContext())
      })
      return result
    } catch (error) {
      // The `outbox.fault` event has the error. Its text must not reach a tracing backend.
      ignoringErrors(() => span?.setStatus({ code: SpanStatusCode.ERROR, message: 'nothing was sent' }))
      throw error
    } finally {
      ignoringErrors(() => span?.end())
    }
  }

  #begin(tracer: Tracer, { item }: LeasedItem): [Span, Context] {
    const parent = remoteParent(item.traceContext)
    const parentContext = parent === undefined ? ROOT_CONTEXT : trace.setSpanContext(ROOT_CONTEXT, parent)
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
      parentContext,
    )
    return [span, trace.setSpan(parentContext, span)]
  }

  #store(outboxId: string, span: SpanContext): void {
    this.#previous.delete(outboxId)
    this.#previous.set(outboxId, span)
    if (this.#previous.size <= SPANS_MAX) return
    const [oldest] = this.#previous.keys()
    if (oldest !== undefined) this.#previous.delete(oldest)
  }
}

function ignoringErrors(report: () => void): void {
  try {
    report()
  } catch {
    // An error of the tracing SDK loses only the span.
  }
}

/** Sets the outcome of an attempt as attributes, without the payload. */
function describe(span: Span, result: DispatchResult): void {
  if (result.kind !== 'complete') {
    span.setAttribute('symphony.outcome', result.kind.toUpperCase())
    return
  }
  const { state, errorCode, railCode, outcomeUnknown } = result.outcome
  span.setAttribute('symphony.outcome', state)
  if (typeof railCode === 'string') span.setAttribute('symphony.rail_code', railCode)
  if (outcomeUnknown === true) span.setAttribute('symphony.outcome_unknown', true)
  if (state !== 'DISPATCHED') span.setStatus({ code: SpanStatusCode.ERROR, message: errorCode ?? state })
}

function hasEnded(result: DispatchResult): boolean {
  return result.kind === 'complete' && result.outcome.state !== 'RETRYABLE'
}

/**
 * Maximum number of remembered spans. Beyond it the oldest is dropped, and the next attempt of its item has no link.
 */
const SPANS_MAX = 10_000
