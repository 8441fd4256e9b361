import { LeaseRepairWorker } from '../../../libs/repair/index.js'
import { readBook } from '../../../libs/rails/index.js'
import { buildPaymentOn } from '../../scorecard/payments.js'
import { RelayScenario } from '../../scorecard/RelayScenario.js'
import { defineScenario } from '../../scorecard/Scenario.js'
import { waitUntil } from '../../scorecard/waitUntil.js'

const WORKERS = 4

/** Rail that pays and never answers. It has no inquiry and pays again when called again. */
const rails = (callsEach: number) => `[
  simulatedRail({ type: 'hold', onUnknown: 'hold', bookUrl, behaviour: 'timeoutAfterPaying', timeoutMs: 600000, concurrency: ${callsEach} }),
]`

export default defineScenario({
  id: 'R12',
  title: 'A rail that is not idempotent and has no inquiry is called, and its workers are killed during the calls.',
  bar: '10,000 calls; 0 blind resends; each payment is held with its reason.',
  sizes: { full: { payments: 10_000, callsEach: 250 }, short: { payments: 200, callsEach: 25 } },
  async run(fixture, { payments, callsEach }) {
    const scenario = await RelayScenario.create(fixture, { rails: rails(callsEach) })
    const { db } = scenario
    const words = ['--concurrency', String(callsEach), '--batch-size', String(callsEach)]
    for (let enqueued = 0; enqueued < payments; enqueued += 1_000) {
      await scenario.enqueue(Array.from({ length: Math.min(1_000, payments - enqueued) }, () => buildPaymentOn('hold')))
    }

    let kills = 0
    for (let called = 0; called < payments;) {
      const fleet = scenario.fleet({ name: `fleet-${kills}`, words })
      await fleet.start(WORKERS)
      called = Math.min(payments, called + WORKERS * callsEach)
      await waitUntil(
        `${called} calls are in the rail's book`,
        async () => (await readBook(scenario.bookFile)).size >= called,
        {
          everyMs: 100,
        },
      )
      await fleet.killAll()
      kills += WORKERS
      // Expires the leases of the killed workers. The next fleet takes them over; lease repair handles the last ones.
      await db.queryNoRole(
        `UPDATE payment_outbox_pending SET lease_expires_at = clock_timestamp() - interval '1 second' WHERE lease_token IS NOT NULL`,
      )
      fixture.progress(`${called} of ${payments} calls were killed`)
    }
    const repair = new LeaseRepairWorker(db.as('symphony_executor'))
    await waitUntil('every lease is repaired', async () => {
      await repair.runOnce()
      return (await scenario.status()).leasedCount === 0n
    })
    await findBlindResends(scenario, words)

    const { report, defects } = await scenario.audit()
    const { rows } = await db.queryNoRole<{ reason: string | null; unknown: boolean; items: number }>(
      `SELECT hold_reason AS reason, outcome_unknown AS unknown, count(*)::int AS items
       FROM payment_outbox_pending GROUP BY 1, 2`,
    )
    const held = rows.find(({ reason, unknown }) => reason === 'OUTCOME_UNKNOWN' && unknown)?.items ?? 0
    return {
      figures: {
        payments,
        kills,
        callsInTheRailsBook: report.railEffects,
        blindResends: report.railEffects - payments,
        heldAsUnknown: held,
      },
      defects: [
        ...defects,
        ...(report.railEffects === payments ? [] : [`${payments} payments, and ${report.railEffects} calls`]),
        ...(held === payments ? [] : [`not all are held as unknown: ${JSON.stringify(rows)}`]),
      ],
    }
  },
})

/** Runs two more workers for a few polls. A worker that resends blindly would do so here. */
async function findBlindResends(scenario: RelayScenario, words: readonly string[]): Promise<void> {
  const fleet = scenario.fleet({ name: 'last', words: [...words, '--poll-ms', '50'] })
  await fleet.start(2)
  let reads = 0
  await waitUntil('the workers have polled', async () => {
    await scenario.status()
    return (reads += 1) > 50
  })
  await fleet.killAll()
}
