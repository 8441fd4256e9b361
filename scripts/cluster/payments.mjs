/** Simulated rail results per attempt, by payment number modulo 100. All other payments succeed at once. */
const SCRIPTS = new Map([
  [7, ['terminal']],
  [17, ['slow']],
  [27, ['retryable', 'success']],
  [37, ['refused', 'success']],
  [47, ['timeoutAfterPaying', 'success']],
  [57, ['garbage', 'success']],
])
const PARTICIPANTS = 50

/** Builds the payment of this number. The same number always gives the same payment. */
export function paymentOf(number) {
  const script = SCRIPTS.get(number % 100)
  return {
    instructionId: `payment-${String(number).padStart(7, '0')}`,
    idempotencyKey: `payment-${number}`,
    participantId: `participant-${number % PARTICIPANTS}`,
    railType: number % 2 === 0 ? 'resend' : 'inquire',
    payload: {
      amount: `${1 + (number % 900)}.50`,
      currency: 'EUR',
      destination: 'DE89370400440532013000',
      ...(script === undefined ? {} : { simulate: script }),
    },
  }
}
