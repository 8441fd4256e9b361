import { between, type Random } from '../../../libs/cli/commands/demo/seededRandom.js'
import type { JsonObject } from '../../../libs/core/index.js'
import type { OutboxInstruction } from '../../../libs/outbox/index.js'
import type { SimulatedBehaviour } from '../../../libs/rails/index.js'
import { buildInstruction } from '../outboxItems.js'

/** The rails of most scenarios: one that can be asked, one that is idempotent. Quick, so that the faults set the pace. */
export const USUAL_RAILS = `[
  simulatedRail({ type: 'inquire', onUnknown: 'inquire', bookUrl, latencyMs: { min: 1, max: 5 }, slowMs: 300, timeoutMs: 1000, settleMs: 1000 }),
  simulatedRail({ type: 'resend', onUnknown: 'resend', bookUrl, latencyMs: { min: 1, max: 5 }, slowMs: 300, timeoutMs: 1000 }),
]`

/** What the rail does to a payment, attempt by attempt; the last word is repeated. Per thousand payments. */
const FATES: readonly { readonly perThousand: number; readonly script: readonly SimulatedBehaviour[] }[] = [
  { perThousand: 10, script: ['terminal'] },
  { perThousand: 10, script: ['slow'] },
  { perThousand: 15, script: ['retryable', 'success'] },
  { perThousand: 5, script: ['retryable', 'terminal'] },
  { perThousand: 10, script: ['refused', 'success'] },
  { perThousand: 5, script: ['timeoutAfterPaying', 'success'] },
  { perThousand: 5, script: ['garbage', 'success'] },
  { perThousand: 5, script: ['duplicate', 'success'] },
]

/** A payment, and what its rail will do to it: the same for the same number and seed. */
export function buildPayment(number: number, random: Random): OutboxInstruction {
  const instructionId = `payment-${String(number).padStart(8, '0')}`
  const script = chooseScript(random)
  // A request that arrives twice is paid twice by a rail that is not idempotent, whatever anybody does.
  const railType = script?.includes('duplicate') === true || random() < 0.5 ? 'resend' : 'inquire'
  return {
    instructionId,
    idempotencyKey: instructionId,
    participantId: `participant-${between(random, 1, 200)}`,
    railType,
    payload: {
      amount: `${between(random, 1, 9_999)}.50`,
      currency: 'EUR',
      destination: 'DE89370400440532013000',
      ...(script === undefined ? {} : { simulate: script }),
    },
  }
}

/** A plain one for a given rail. */
export function buildPaymentOn(railType: string, payload: JsonObject = {}): OutboxInstruction {
  return buildInstruction({
    railType,
    payload: { amount: '10.50', currency: 'EUR', destination: 'account-1', ...payload },
  })
}

function chooseScript(random: Random): readonly SimulatedBehaviour[] | undefined {
  let place = random() * 1_000
  return FATES.find(({ perThousand }) => (place -= perThousand) < 0)?.script
}
