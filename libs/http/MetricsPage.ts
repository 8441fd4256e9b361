import { Registry } from 'prom-client'
import { StatusGauges } from '../observability/index.js'
import type { OutboxStatus } from '../outbox/index.js'

/**
 * What Prometheus scrapes: the counters of this process, and what the queue looks like now. While the database does not
 * answer, the gauges are left out: an old depth, or a zero, would be a lie that no alert can see through.
 */
export class MetricsPage {
  readonly contentType: string
  readonly #counters: Registry
  readonly #readStatus: () => Promise<OutboxStatus>

  constructor(counters: Registry, readStatus: () => Promise<OutboxStatus>) {
    this.contentType = counters.contentType
    this.#counters = counters
    this.#readStatus = readStatus
  }

  async read(): Promise<string> {
    return [await this.#counters.metrics(), await this.#gauges()].join('\n')
  }

  async #gauges(): Promise<string> {
    const registry = new Registry()
    try {
      const status = await this.#readStatus()
      new StatusGauges(registry).set(status)
    } catch {
      return ''
    }
    return registry.metrics()
  }
}
