// The rails of the two worker hosts: one that can be asked what became of a payment, one that is idempotent. What they paid is in
// a book that a process of its own keeps, outside every database.
import { simulatedRail } from '../../dist/libs/rails/index.js'

const shared = {
  bookUrl: process.env.CLUSTER_BOOK_URL ?? '',
  latencyMs: { min: 2, max: 20 },
  slowMs: 300,
  timeoutMs: 1_000,
  settleMs: 1_000,
}

export default [
  simulatedRail({ ...shared, type: 'inquire', onUnknown: 'inquire' }),
  simulatedRail({ ...shared, type: 'resend', onUnknown: 'resend' }),
]
