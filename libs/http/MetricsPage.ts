import type { Registry } from 'prom-client'
import { registryOfStatus, type SystemStatus } from '../observability/index.js'

/**
 * What Prometheus scrapes: the counters of this process, and how things stand now. While the database does not answer, the
 * gauges are left out: an old depth, or a zero, would be a lie that no alert can see through.
 */
export class MetricsPage {
  readonly contentType: string
  readonly #counters: Registry
  readonly #readStatus: () => Promise<SystemStatus>

  constructor(counters: Registry, readStatus: () => Promise<SystemStatus>) {
    this.contentType = counters.contentType
    this.#counters = counters
    this.#readStatus = readStatus
  }

  async read(): Promise<string> {
    return [await this.#counters.metrics(), await this.#gauges()].join('\n')
  }

  async #gauges(): Promise<string> {
    try {
      return await registryOfStatus(await this.#readStatus()).metrics()
    } catch {
      return ''
    }
  }
}
