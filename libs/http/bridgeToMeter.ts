import type { Attributes, BatchObservableCallback, Meter, Observable } from '@opentelemetry/api'
import type { Registry } from 'prom-client'
import { createStatusRegistry, type Metrics, type SystemStatus } from '../observability/index.js'
import { partsOf, readSystemStatus, type AnySymphony } from '../symphony/index.js'

export type ObservingMeter = Pick<
  Meter,
  'createObservableCounter' | 'createObservableGauge' | 'addBatchObservableCallback' | 'removeBatchObservableCallback'
>

export interface BridgeOptions {
  readonly meter: ObservingMeter
  /** Metrics of this process. Connect them by `symphony.events.on('*', metrics.onEvent)`. */
  readonly metrics: Metrics
  /** Symphony whose status is read at each collection. */
  readonly symphony: AnySymphony
}

/**
 * Registers every metric on an OpenTelemetry meter under the same name; the SDK reads them at each collection. A
 * histogram becomes `_bucket`, `_sum` and `_count`, because OpenTelemetry has no observable histogram. Returns a
 * function that unregisters all metrics.
 */
export function bridgeToMeter({ meter, metrics, symphony }: BridgeOptions): () => void {
  const readStatus = () => readSystemStatus(partsOf(symphony).database)
  const instruments = new Map<string, Observable>()
  for (const { name, help, type } of [metrics.registry, createStatusRegistry()].flatMap((registry) =>
    registry.getMetricsAsArray(),
  )) {
    const kind = String(type)
    const parts = kind === 'histogram' ? ['_bucket', '_sum', '_count'] : ['']
    for (const part of parts) instruments.set(`${name}${part}`, create(meter, kind, `${name}${part}`, help))
  }
  const observe: BatchObservableCallback = async (result) => {
    for (const registry of [metrics.registry, ...(await statusIfAny(readStatus))]) {
      for (const { name, values } of await registry.getMetricsAsJSON()) {
        for (const sample of values) {
          const instrument = instruments.get(nameOf(sample) ?? name)
          if (instrument !== undefined) result.observe(instrument, sample.value, attributesOf(sample.labels))
        }
      }
    }
  }
  const observed = [...instruments.values()]
  meter.addBatchObservableCallback(observe, observed)
  return () => meter.removeBatchObservableCallback(observe, observed)
}

function create(meter: ObservingMeter, kind: string, name: string, description: string): Observable {
  return kind === 'gauge'
    ? meter.createObservableGauge(name, { description })
    : meter.createObservableCounter(name, { description })
}

/** Returns the gauges of the database; none while the database does not answer, as on the metrics page. */
async function statusIfAny(readStatus: () => Promise<SystemStatus>): Promise<Registry[]> {
  try {
    return [createStatusRegistry(await readStatus())]
  } catch {
    return []
  }
}

/** Returns the name of a histogram's part (`_bucket`, `_sum`, `_count`), which prom-client's types do not declare. */
function nameOf(sample: object): string | undefined {
  return 'metricName' in sample && typeof sample.metricName === 'string' ? sample.metricName : undefined
}

function attributesOf(labels: Partial<Record<string, string | number>>): Attributes {
  return Object.fromEntries(Object.entries(labels).map(([name, value]) => [name, String(value)]))
}
