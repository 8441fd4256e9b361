import { Gauge, type Counter, type Registry } from 'prom-client'
import type { PlatformEvent } from '../platform/index.js'
import { faultsCounter } from './faultsCounter.js'

/** Which databases of a fleet answer, as this process sees it. */
export class FleetMetrics {
  readonly #up: Gauge<'database'>
  readonly #faults: Counter<'during'>

  constructor(registry: Registry) {
    this.#up = new Gauge({
      name: 'fleet_database_up',
      help: '1 while a database of the fleet answers, 0 while it is left alone.',
      labelNames: ['database'],
      registers: [registry],
    })
    this.#faults = faultsCounter(registry)
  }

  readonly onEvent = (event: PlatformEvent): void => {
    switch (event.type) {
      case 'databaseAdded':
      case 'databaseUp':
        return this.#up.set({ database: event.database }, 1)
      case 'databaseDown':
        return this.#up.set({ database: event.database }, 0)
      case 'databaseRemoved':
      case 'servedElsewhere':
        return this.#up.remove({ database: event.database })
      case 'discoveryFailed':
        return this.#faults.inc({ during: 'discovering databases' })
      case 'fault':
        return this.#faults.inc({ during: event.worker })
    }
  }
}
