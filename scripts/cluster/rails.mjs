// Rails of the two worker hosts: one answers inquiries, one is idempotent. Both record payments in a rail book outside
// the databases.
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
