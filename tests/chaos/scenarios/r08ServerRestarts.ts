import { setTimeout as delay } from 'node:timers/promises'
import { between } from '../../../libs/cli/commands/demo/seededRandom.js'
import { buildPayment, USUAL_RAILS } from '../../scorecard/payments.js'
import { RelayScenario, type ServerCycle } from '../../scorecard/RelayScenario.js'
import { defineScenario } from '../../scorecard/Scenario.js'
import { retryUntilSuccess, waitUntil } from '../../scorecard/waitUntil.js'
import { ask } from '../../support/standby.js'

const WORKERS = 3
const RESUME_MS_MAX = 1_000
/** Queue length that ensures that some items are due after each restart of the server. */
const BACKLOG = 1_500
const DOWN_MS_MAX = 3_000

export default defineScenario({
  id: 'R8',
  title: 'PostgreSQL is restarted under load, every third time by `kill -9`, and is down for up to 3 s.',
  bar: `100 restarts; 0 worker exits; work resumes within ${RESUME_MS_MAX} ms after the server accepts connections.`,
  sizes: { full: { restarts: 100 }, short: { restarts: 3 } },
  async run(fixture, { restarts }) {
    const scenario = await RelayScenario.create(fixture, { rails: USUAL_RAILS })
    const fleet = scenario.fleet({
      // With short leases, items that were leased when the server died are due again soon.
      words: ['--lease-seconds', '3', '--concurrency', '8', '--batch-size', '20'],
      env: { LEASE_REPAIR_INTERVAL_MS: '2000' },
    })
    await fleet.start(WORKERS)
    const ofPayments = fixture.randomFor('payments')
    let accepted = 0
    const fill = async () => {
      for (
        let { pendingCount } = await scenario.status();
        pendingCount < BACKLOG;
        { pendingCount } = await scenario.status()
      ) {
        await scenario.enqueue(Array.from({ length: 500 }, () => buildPayment((accepted += 1), ofPayments)))
      }
    }

    const resumes: number[] = []
    for (let restart = 0; restart < restarts; restart += 1) {
      await fill()
      await delay(between(fixture.random, 0, 300))
      const downMs = between(fixture.random, 0, DOWN_MS_MAX)
      resumes.push(await resumedAfterMs(scenario, { kill: restart % 3 === 2, downMs }))
      fixture.progress(`${restart + 1} restarts, the latest resumed after ${resumes.at(-1)} ms`)
    }
    await scenario.untilDrained()
    const exitCodes = await fleet.stop()
    const { report, defects } = await scenario.audit()
    const late = resumes.filter((ms) => ms > RESUME_MS_MAX)
    return {
      figures: {
        restarts,
        kills: scenario.serverKills,
        payments: accepted,
        resumeMsMax: Math.max(...resumes),
        resumeMsMedian: resumes.toSorted((left, right) => left - right)[Math.floor(resumes.length / 2)] ?? 0,
        resumedTooLate: late.length,
        workerExits: fleet.unexpectedExits.length,
        doubleRailEffects: report.doublePaid,
      },
      defects: [
        ...defects,
        ...fleet.unexpectedExits,
        ...(late.length === 0
          ? []
          : [`${late.length} of ${restarts} times work resumed only after ${late.join(', ')} ms`]),
        ...exitCodes
          .filter((exitCode) => exitCode !== 0)
          .map((exitCode) => `a worker exited with ${exitCode} after a clean stop, expected 0`),
      ],
    }
  },
})

/** Measures, by the server's clock, from the first accepted connection to the first ledger row of a worker. */
async function resumedAfterMs(scenario: RelayScenario, cycle: ServerCycle): Promise<number> {
  const { db } = scenario
  let accepting: Promise<string> = Promise.reject(new Error('the server was never down'))
  accepting.catch(() => {})
  // Tries to connect every 3 ms. With a slower loop the workers could resume before the clock is read.
  const whenDown = () => {
    accepting = retryUntilSuccess('the server accepts', async () => String(await ask(db.url, NOW)), { everyMs: 3 })
  }
  await scenario.cycleServer({ ...cycle, whenDown })
  const [acceptedAt = '', firstId = ''] = (await accepting).split(' | ')
  return waitUntil('a worker records an outcome', async () => {
    const { rows } = await db.as('symphony_auditor').query<{ ms: number }>(
      `SELECT (extract(epoch FROM created_at - $1::timestamptz) * 1000)::int AS ms
       FROM ${db.qualify('payment_outbox_attempts')} WHERE attempt_id >= $2::uuid AND created_at >= $1::timestamptz
       ORDER BY created_at LIMIT 1`,
      [acceptedAt, firstId],
    )
    return rows[0]?.ms
  })
}

/** Reads the time and the smallest UUIDv7 of that time. The id finds the newest rows without a scan. */
const NOW = `
  SELECT now || ' | ' || rpad(lpad(to_hex(floor(extract(epoch FROM now) * 1000)::bigint), 12, '0'), 32, '0') AS answer
  FROM clock_timestamp() AS now`
