// 16 writers enqueue for one participant. Each enqueue waits for the previous one, because sequence numbers have no
// gaps. Compares one payment per call with 50 per call, and with one payment per call over a thousand participants.
import { enqueue, enqueueMany } from '../../../dist/libs/outbox/index.js'
import { median } from '../../statistics.mjs'
import { interleavedRates } from '../writers.mjs'

const WRITERS = 16
const SIZE = 50

export async function hotParticipant({ fixture, rounds, roundSeconds, print }) {
  return fixture.withDatabase(async (database) => {
    const ingest = database.open({ connectionsMax: WRITERS }).as('symphony_ingest')
    const payments = (from) => Array.from({ length: SIZE }, (_, n) => payment(from + n, 'hot'))
    const rates = await interleavedRates({
      writers: WRITERS,
      rounds,
      roundSeconds,
      settings: {
        spread: { write: (n) => enqueue(payment(n, `p-${n % 1_000}`), { tx: ingest }) },
        'per call': { write: (n) => enqueue(payment(n, 'hot'), { tx: ingest }) },
        batched: { write: (from) => enqueueMany(payments(from), { tx: ingest }), size: SIZE },
      },
      print,
    })
    const [spread, perCall, batched] = [rates.spread, rates['per call'], rates.batched].map(median)
    const ratio = batched / perCall
    return {
      figures: [
        {
          figure: `one hot participant, ${WRITERS} writers: in batches of ${SIZE} ÷ one per call`,
          bound: '≥ 2',
          measured: `${ratio.toFixed(1)} (${whole(batched)} ÷ ${whole(perCall)} a second; one per call over 1,000 participants ${whole(spread)})`,
          ok: ratio >= 2,
        },
      ],
    }
  })
}

function payment(n, participantId) {
  return {
    instructionId: `i-${n}`,
    idempotencyKey: 'key',
    participantId,
    railType: 'bank',
    payload: { amount: '12.50', currency: 'EUR' },
  }
}

function whole(value) {
  return Math.round(value).toLocaleString('en')
}
