import {
  createTraceState,
  isSpanContextValid,
  ProxyTracerProvider,
  trace,
  type SpanContext,
  type Tracer,
} from '@opentelemetry/api'
import { decodeTraceContext, encodeTraceContext } from '../core/index.js'

/**
 * Spans and the texts that carry them, by OpenTelemetry's API alone: whether anything is traced, and where to, is decided by
 * the SDK of whoever runs the process. Without one all of this is nothing.
 */

/** The active span, as it is kept with an instruction; undefined where nothing traces. */
export function activeTraceContext(): string | undefined {
  const active = trace.getActiveSpan()?.spanContext()
  return active === undefined ? undefined : traceContextOf(active)
}

/**
 * What a request's headers ask to continue, to be spread into an instruction. A span that is active already, such as that of
 * an instrumented server, is nearer than the headers it was made from.
 */
export function continuedTrace(headers: { readonly [name: string]: unknown }): { readonly traceContext?: string } {
  const traceContext = activeTraceContext() ?? encodeTraceContext(headers['traceparent'], headers['tracestate'])
  return traceContext === undefined ? {} : { traceContext }
}

export function traceContextOf(span: SpanContext): string | undefined {
  if (!isSpanContextValid(span)) return undefined
  const flags = (span.traceFlags & 0xff).toString(16).padStart(2, '0')
  return encodeTraceContext(`00-${span.traceId}-${span.spanId}-${flags}`, span.traceState?.serialize())
}

/** A kept context as the parent of what happens here. */
export function remoteParent(traceContext: string | null): SpanContext | undefined {
  const kept = decodeTraceContext(traceContext)
  if (kept === undefined) return undefined
  const [, traceId = '', spanId = '', flags = '00'] = kept.traceparent.split('-')
  return {
    traceId,
    spanId,
    traceFlags: Number.parseInt(flags, 16),
    isRemote: true,
    ...(kept.tracestate === undefined ? {} : { traceState: createTraceState(kept.tracestate) }),
  }
}

/** Undefined where no SDK is registered: then no span is begun, and nothing is paid for one. */
export function tracerIfAny(): Tracer | undefined {
  const provider = trace.getTracerProvider()
  return provider instanceof ProxyTracerProvider ? provider.getDelegateTracer(NAME) : provider.getTracer(NAME)
}

const NAME = 'symphony-pg'
