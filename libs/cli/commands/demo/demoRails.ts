import type { OutboxInstruction } from '../../../outbox/index.js'
import { simulatedRail, type SimulatedBehaviour } from '../../../rails/index.js'
import { between, type Random } from './seededRandom.js'

const INQUIRING_RAIL = 'demo-inquire'
const RESENDING_RAIL = 'demo-resend'
export const DEMO_RAILS: readonly string[] = [INQUIRING_RAIL, RESENDING_RAIL]

export const BOOK_URL = 'SYMPHONY_DEMO_BOOK_URL'

const shared = {
  bookUrl: process.env[BOOK_URL] ?? '',
  latencyMs: { min: 5, max: 60 },
  slowMs: 500,
  timeoutMs: 1_000,
  settleMs: 1_000,
}

/** Rails that the workers load: one answers inquiries, one is idempotent. */
export default [
  simulatedRail({ ...shared, type: INQUIRING_RAIL, onUnknown: 'inquire' }),
  simulatedRail({ ...shared, type: RESENDING_RAIL, onUnknown: 'resend' }),
]

/**
 * Behaviours of the rail per attempt; the last one repeats. Of 1,000 payments, `perThousand` get the script. Payments
 * without a script succeed.
 */
const SCRIPTS: readonly { readonly perThousand: number; readonly script: readonly SimulatedBehaviour[] }[] = [
  { perThousand: 40, script: ['terminal'] },
  { perThousand: 40, script: ['slow'] },
  { perThousand: 60, script: ['retryable', 'success'] },
  { perThousand: 20, script: ['retryable', 'terminal'] },
  { perThousand: 40, script: ['refused', 'success'] },
  { perThousand: 50, script: ['timeoutAfterPaying', 'success'] },
  { perThousand: 30, script: ['garbage', 'success'] },
  { perThousand: 30, script: ['duplicate', 'success'] },
]

export function demoPayment(number: number, run: string, random: Random): OutboxInstruction {
  const instructionId = `${run}-${String(number).padStart(7, '0')}`
  const script = chooseScript(random)
  // A duplicated request pays twice on a rail that is not idempotent, so only the idempotent rail gets duplicates.
  const railType = script.includes('duplicate') || random() < 0.3 ? RESENDING_RAIL : INQUIRING_RAIL
  return {
    instructionId,
    participantId: `participant-${between(random, 1, 20)}`,
    idempotencyKey: instructionId,
    railType,
    payload: {
      amount: `${between(random, 1, 9_999)}.${String(between(random, 0, 99)).padStart(2, '0')}`,
      currency: 'EUR',
      destination: 'DE89370400440532013000',
      simulate: script,
    },
  }
}

function chooseScript(random: Random): readonly SimulatedBehaviour[] {
  let place = random() * 1_000
  for (const { perThousand, script } of SCRIPTS) {
    place -= perThousand
    if (place < 0) return script
  }
  return ['success']
}
