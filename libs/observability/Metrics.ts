import { Registry } from 'prom-client'
import { FleetMetrics } from './FleetMetrics.js'
import { InboxMetrics } from './InboxMetrics.js'
import { LeaseMetrics } from './LeaseMetrics.js'
import { OutboxMetrics } from './OutboxMetrics.js'
import { registerProcessMetrics } from './registerProcessMetrics.js'
import { SchedulerMetrics } from './SchedulerMetrics.js'

/** Everything that one process counts, in one registry. Each part is fed with the events of its workers. */
export class Metrics {
  readonly registry = new Registry()
  readonly outbox = new OutboxMetrics(this.registry)
  readonly inbox = new InboxMetrics(this.registry)
  readonly scheduler = new SchedulerMetrics(this.registry)
  readonly leases = new LeaseMetrics(this.registry)
  readonly fleet = new FleetMetrics(this.registry)

  constructor(build: { readonly version: string }) {
    registerProcessMetrics(this.registry, build)
  }
}
