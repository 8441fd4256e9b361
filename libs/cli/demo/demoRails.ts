import { simulatedRail } from '../../rails/index.js'
import { INQUIRING_RAIL, RESENDING_RAIL } from './demoPayments.js'

/** The variable by which the demo tells its workers where the rail's book is kept. */
export const BOOK_URL = 'SYMPHONY_DEMO_BOOK_URL'

const shared = {
  bookUrl: process.env[BOOK_URL] ?? '',
  latencyMs: { min: 5, max: 60 },
  slowMs: 500,
  timeoutMs: 1_000,
  settleMs: 1_000,
}

/** What a person would write in a file of rails: one that can be asked, one that is idempotent. */
export default [
  simulatedRail({ ...shared, type: INQUIRING_RAIL, onUnknown: 'inquire' }),
  simulatedRail({ ...shared, type: RESENDING_RAIL, onUnknown: 'resend' }),
]
