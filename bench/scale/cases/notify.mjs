// Cost of the NOTIFY trigger for 16 writers and one listener, with the trigger alternately on and off.
import { enqueue } from '../../../dist/libs/outbox/index.js'
import { median } from '../../statistics.mjs'
import { interleavedRates } from '../writers.mjs'

const WRITERS = 16

export async function notify({ fixture, rounds, roundSeconds, print }) {
  return fixture.withDatabase(async (database) => {
    const [owner, listener] = [await database.connect(), await database.connect()]
    let received = 0
    listener.on('notification', () => (received += 1))
    await listener.query('LISTEN outbox_pending')
    const ingest = database.open({ connectionsMax: WRITERS }).as('symphony_ingest')
    const setTrigger = (state) =>
      owner.query(`ALTER TABLE payment_outbox_pending ${state} TRIGGER payment_outbox_pending_notifies`)
    const rates = await interleavedRates({
      writers: WRITERS,
      rounds,
      roundSeconds,
      settings: {
        off: { prepare: () => setTrigger('DISABLE'), write: (n) => enqueue(payment(n), { tx: ingest }) },
        on: { prepare: () => setTrigger('ENABLE'), write: (n) => enqueue(payment(n), { tx: ingest }) },
      },
      print,
    })
    if (received === 0) throw new Error('no notification arrived while the trigger was on')
    const ratio = median(rates.on) / median(rates.off)
    return {
      figures: [
        {
          figure: `enqueue by ${WRITERS} writers with the NOTIFY trigger ÷ without it`,
          bound: '≥ 0.9',
          measured: `${ratio.toFixed(2)} (${Math.round(median(rates.on))} ÷ ${Math.round(median(rates.off))} a second)`,
          ok: ratio >= 0.9,
        },
      ],
    }
  })
}

function payment(n) {
  return {
    instructionId: `i-${n}`,
    idempotencyKey: 'key',
    participantId: `p-${n % 1_000}`,
    railType: 'bank',
    payload: { amount: '12.50', currency: 'EUR' },
  }
}
