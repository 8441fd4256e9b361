import { between, type Random } from '../../libs/cli/commands/demo/seededRandom.js'
import type { JsonObject } from '../../libs/core/index.js'
import type { OutboxInstruction } from '../../libs/outbox/index.js'
import type { SimulatedBehaviour } from '../../libs/rails/index.js'
import { buildInstruction } from '../support/outboxItems.js'

/**
 * Rails of most scenarios: one with an inquiry, one idempotent. Both answer quickly, so that the injected faults
 * determine the duration.
 */
export const USUAL_RAILS = `[
  simulatedRail({ type: 'inquire', onUnknown: 'inquire', bookUrl, latencyMs: { min: 1, max: 5 }, slowMs: 300, timeoutMs: 1000, settleMs: 1000 }),
  simulatedRail({ type: 'resend', onUnknown: 'resend', bookUrl, latencyMs: { min: 1, max: 5 }, slowMs: 300, timeoutMs: 1000 }),
]`

/**
 * Behaviours of the rail, one per attempt, each list with its number of payments per thousand. The last behaviour
 * repeats.
 */
const SCRIPTS: readonly { readonly perThousand: number; readonly script: readonly SimulatedBehaviour[] }[] = [
  { perThousand: 10, script: ['terminal'] },
  { perThousand: 10, script: ['slow'] },
  { perThousand: 15, script: ['retryable', 'success'] },
  { perThousand: 5, script: ['retryable', 'terminal'] },
  { perThousand: 10, script: ['refused', 'success'] },
  { perThousand: 5, script: ['timeoutAfterPaying', 'success'] },
  { perThousand: 5, script: ['garbage', 'success'] },
  { perThousand: 5, script: ['duplicate', 'success'] },
]

/** Builds a payment with the behaviour of its rail. The same number and seed give the same payment. */
export function buildPayment(number: number, random: Random): OutboxInstruction {
  const instructionId = `payment-${String(number).padStart(8, '0')}`
  const script = chooseScript(random)
  // A duplicated request is paid twice by a rail that is not idempotent, so such a payment goes to the idempotent rail.
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

/** Builds a plain payment for a rail. */
export function buildPaymentOn(railType: string, payload: JsonObject = {}): OutboxInstruction {
  return buildInstruction({
    railType,
    payload: { amount: '10.50', currency: 'EUR', destination: 'account-1', ...payload },
  })
}

function chooseScript(random: Random): readonly SimulatedBehaviour[] | undefined {
  let place = random() * 1_000
  return SCRIPTS.find(({ perThousand }) => (place -= perThousand) < 0)?.script
}
