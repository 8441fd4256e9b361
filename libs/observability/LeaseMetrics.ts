import { Counter, type Registry } from 'prom-client'
import type { LeaseEvent } from '../lease/index.js'
import { faultsCounter } from './faultsCounter.js'

/** The metrics of named leases: what this process acquired and lost. */
export class LeaseMetrics {
  readonly #acquired: Counter
  readonly #renewed: Counter
  readonly #released: Counter
  readonly #lost: Counter<'reason'>
  readonly #renewFailures: Counter
  readonly #faults: Counter<'during'>

  constructor(registry: Registry) {
    const registers = [registry]
    const counter = (name: string, help: string) => new Counter({ name, help, registers })
    this.#acquired = counter('leases_acquired_total', 'Leases acquired by this process.')
    this.#renewed = counter('leases_renewed_total', 'Renewals that the database granted.')
    this.#released = counter('leases_released_total', 'Leases given back.')
    this.#lost = new Counter({
      name: 'leases_lost_total',
      help: 'Leases that ended otherwise: expired, refused by the database, superseded by the same owner.',
      labelNames: ['reason'],
      registers,
    })
    this.#renewFailures = counter('leases_renew_failures_total', 'Renewals that failed and were tried again.')
    this.#faults = faultsCounter(registry)
    for (const reason of ['expired', 'refused', 'superseded']) this.#lost.inc({ reason }, 0)
  }

  readonly onEvent = (event: LeaseEvent): void => {
    switch (event.type) {
      case 'acquired':
        return this.#acquired.inc()
      case 'renewed':
        return this.#renewed.inc()
      case 'ended':
        return event.reason === 'released' ? this.#released.inc() : this.#lost.inc({ reason: event.reason })
      case 'interrupted':
        return this.#faults.inc({ during: 'leading' })
      case 'fault':
        if (event.during === RENEWING) this.#renewFailures.inc()
        return this.#faults.inc({ during: event.during })
    }
  }
}

/** As `Lease` says it. */
const RENEWING = 'renewing a lease'
