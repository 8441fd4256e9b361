import { AsyncLocalStorage } from 'node:async_hooks'
import { context, ROOT_CONTEXT, trace, type Context, type ContextManager } from '@opentelemetry/api'
import {
  BasicTracerProvider,
  InMemorySpanExporter,
  SimpleSpanProcessor,
  type ReadableSpan,
} from '@opentelemetry/sdk-trace-base'

/** An OpenTelemetry SDK whose spans stay in memory. One per process at a time. */
export interface Tracing {
  /** Returns ended spans in the order of their ends. */
  readonly spans: () => ReadableSpan[]
  readonly stop: () => Promise<void>
}

export function startTracing(): Tracing {
  const exporter = new InMemorySpanExporter()
  const provider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] })
  trace.setGlobalTracerProvider(provider)
  context.setGlobalContextManager(new StorageContextManager())
  return {
    spans: () => exporter.getFinishedSpans(),
    stop: async () => {
      trace.disable()
      context.disable()
      await provider.shutdown()
    },
  }
}

/** A minimal `@opentelemetry/context-async-hooks`. */
class StorageContextManager implements ContextManager {
  readonly #storage = new AsyncLocalStorage<Context>()

  active(): Context {
    return this.#storage.getStore() ?? ROOT_CONTEXT
  }

  with<A extends unknown[], F extends (...args: A) => ReturnType<F>>(
    active: Context,
    fn: F,
    thisArg?: ThisParameterType<F>,
    ...args: A
  ): ReturnType<F> {
    return this.#storage.run(active, () => fn.call(thisArg, ...args))
  }

  bind<T>(_context: Context, target: T): T {
    return target
  }

  enable(): this {
    return this
  }

  disable(): this {
    this.#storage.disable()
    return this
  }
}
