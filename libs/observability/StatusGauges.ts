import { Gauge, type Registry } from 'prom-client'
import type { OutboxStatus } from '../outbox/index.js'

/** What the queue looks like, read from the database at each scrape. */
export class StatusGauges {
  readonly #gauges: readonly { readonly gauge: Gauge; readonly read: (status: OutboxStatus) => number }[]

  constructor(registry: Registry) {
    const gauge = (name: string, help: string, read: (status: OutboxStatus) => number) => ({
      gauge: new Gauge({ name, help, registers: [registry] }),
      read,
    })
    this.#gauges = [
      gauge('outbox_pending_depth', 'Items that have not ended.', (s) => Number(s.pendingCount)),
      gauge('outbox_due_depth', 'Items that are due and leased by nobody.', (s) => Number(s.dueUnleasedCount)),
      gauge('outbox_leased_count', 'Items in flight.', (s) => Number(s.leasedCount)),
      gauge('outbox_held_count', 'Items that wait for a person.', (s) => Number(s.heldCount)),
      gauge('outbox_blocked_count', 'Items that wait for an earlier one or for a pause to end.', (s) =>
        Number(s.blockedCount),
      ),
      gauge(
        'oldest_pending_age_seconds',
        'Age of the oldest item that has not ended.',
        (s) => s.oldestPendingAgeSeconds,
      ),
      gauge(
        'oldest_due_age_seconds',
        'How long the longest-waiting due item has been due.',
        (s) => s.oldestDueAgeSeconds,
      ),
      gauge('dlq_depth', 'Items that ended as FAILED.', (s) => Number(s.dlqDepth)),
      gauge('expired_lease_count', 'Leases that have expired and are not repaired yet.', (s) =>
        Number(s.expiredLeaseCount),
      ),
      gauge('stuck_dispatching_count', 'The same as expired_lease_count, under its historical name.', (s) =>
        Number(s.expiredLeaseCount),
      ),
    ]
  }

  set(status: OutboxStatus): void {
    for (const { gauge, read } of this.#gauges) gauge.set(read(status))
  }
}
