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
 * Reads and writes trace contexts through OpenTelemetry's API only. The SDK that the application registers decides on
 * tracing.
 */

/** Returns the active span as an instruction's `traceContext`, or undefined without one. */
export function activeTraceContext(): string | undefined {
  const active = trace.getActiveSpan()?.spanContext()
  return active === undefined ? undefined : traceContextOf(active)
}

/**
 * Returns the trace context of a request, to spread into an instruction. An active span, such as one of an instrumented
 * server, takes precedence over the headers.
 */
export function traceContextFromHeaders(headers: { readonly [name: string]: unknown }): {
  readonly traceContext?: string
} {
  const traceContext = activeTraceContext() ?? encodeTraceContext(headers['traceparent'], headers['tracestate'])
  return traceContext === undefined ? {} : { traceContext }
}

export function traceContextOf(span: SpanContext): string | undefined {
  if (!isSpanContextValid(span)) return undefined
  const flags = (span.traceFlags & 0xff).toString(16).padStart(2, '0')
  return encodeTraceContext(`00-${span.traceId}-${span.spanId}-${flags}`, span.traceState?.serialize())
}

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

/** Returns the tracer, or undefined if no SDK is registered. Then no span is created. */
export function registeredTracer(): Tracer | undefined {
  const provider = trace.getTracerProvider()
  return provider instanceof ProxyTracerProvider ? provider.getDelegateTracer(NAME) : provider.getTracer(NAME)
}

const NAME = 'symphony-pg'
