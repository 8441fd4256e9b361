import { Client } from 'pg'
import { setTimeout as delay } from 'node:timers/promises'
import { between } from '../../../libs/cli/commands/demo/seededRandom.js'
import { buildPaymentOn, USUAL_RAILS } from '../../scorecard/payments.js'
import { RelayScenario } from '../../scorecard/RelayScenario.js'
import { defineScenario } from '../../scorecard/Scenario.js'
import type { ScenarioFixture } from '../../scorecard/ScenarioFixture.js'
import { TcpProxy } from '../../support/tcpProxy.js'

const POLL_MS = 500
/** Time for a claim on a busy machine, in addition to the poll interval. */
const GRACE_MS = 250
/** Minimum notification queue of PostgreSQL 17 and later, in pages: 512 KiB instead of 8 GiB. */
const QUEUE_PAGES_MIN = '64'

type NotificationFault = 'LISTEN silently dead' | 'NOTIFY queue full' | 'NOTIFY off'
const NOTIFICATION_FAULTS: readonly NotificationFault[] = ['LISTEN silently dead', 'NOTIFY queue full', 'NOTIFY off']

export default defineScenario({
  id: 'R13',
  title:
    'Notifications do not arrive: the LISTEN connection is dead without an error, the NOTIFY queue is full, or NOTIFY is off.',
  bar: `0 failed enqueues; every payment is claimed at the next poll: within ${POLL_MS} ms, and ${GRACE_MS} ms for the claim.`,
  sizes: { full: { paymentsEach: 500 }, short: { paymentsEach: 10 } },
  async run(fixture, { paymentsEach }) {
    const scenario = await RelayScenario.create(fixture, {
      rails: USUAL_RAILS,
      settings: { max_notify_queue_pages: QUEUE_PAGES_MIN },
    })
    const proxy = await TcpProxy.before(scenario.server.url)
    fixture.defer(() => proxy.close())
    const listenUrl = new URL(scenario.workerUrl)
    listenUrl.port = String(proxy.port)
    const fleet = scenario.fleet({ env: { SYMPHONY_LISTEN_URL: listenUrl.href } })
    await fleet.start(1)

    const failures: string[] = []
    const late: string[] = []
    let slowestMs = 0
    for (const silence of NOTIFICATION_FAULTS) {
      const restore = await startFault(silence, { fixture, scenario, proxy })
      for (let number = 0; number < paymentsEach; number += 1) {
        try {
          // Waits up to 100 ms, so that the enqueues fall at random times between two polls.
          await delay(between(fixture.random, 0, 2 * POLL_MS) / 10)
          await scenario.enqueueOnce(buildPaymentOn('resend'))
        } catch (error) {
          failures.push(`${silence}: an enqueue failed: ${String(error)}`)
        }
      }
      await scenario.untilDrained()
      const pickUps = await pickUpsMs(scenario)
      slowestMs = Math.max(slowestMs, ...pickUps)
      late.push(
        ...pickUps.filter((ms) => ms > POLL_MS + GRACE_MS).map((ms) => `${silence}: picked up only after ${ms} ms`),
      )
      await restore()
      fixture.progress(`${silence}: the slowest pick-up so far took ${slowestMs} ms`)
    }
    await fleet.stop()
    const { defects } = await scenario.audit()
    return {
      figures: {
        enqueues: NOTIFICATION_FAULTS.length * paymentsEach,
        failedEnqueues: failures.length,
        slowestPickUpMs: slowestMs,
        late: late.length,
      },
      defects: [...failures.slice(0, 5), ...late.slice(0, 5), ...fleet.unexpectedExits, ...defects],
    }
  },
})

interface Bench {
  readonly fixture: ScenarioFixture
  readonly scenario: RelayScenario
  readonly proxy: TcpProxy
}

/** Suppresses notifications. Returns a function that restores them. */
async function startFault(
  silence: NotificationFault,
  { fixture, scenario, proxy }: Bench,
): Promise<() => Promise<unknown>> {
  const { db } = scenario
  switch (silence) {
    case 'LISTEN silently dead':
      // The proxy drops all bytes without a reset or an end, so the connection looks alive to both sides.
      proxy.traffic = 'vanishes'
      return async () => {
        proxy.traffic = 'flows'
        proxy.cut()
      }
    case 'NOTIFY queue full': {
      const stuck = await fillQueue(db.url)
      fixture.defer(() => stuck.end().catch(() => {}))
      return () => stuck.end()
    }
    case 'NOTIFY off':
      await db.queryNoRole('UPDATE symphony_settings SET notify_enabled = false')
      return () => db.queryNoRole('UPDATE symphony_settings SET notify_enabled = true')
  }
}

/**
 * Fills the queue. A listener inside a transaction keeps PostgreSQL from removing notifications. Returns that listener.
 */
async function fillQueue(url: string): Promise<Client> {
  const [stuck, chatty] = [new Client({ connectionString: url }), new Client({ connectionString: url })]
  for (const client of [stuck, chatty]) {
    client.on('error', () => {})
    await client.connect()
  }
  await stuck.query('LISTEN chatter')
  await stuck.query('BEGIN; SELECT 1')
  const full = async () => {
    for (let number = 0; ; number += 1) {
      await chatty.query(`SELECT pg_notify('chatter', $1)`, [`${number} ${'x'.repeat(7_000)}`])
    }
  }
  // `full()` throws when the queue is full.
  const reason: unknown = await full().catch((error: unknown) => error)
  await chatty.end()
  if (!String(reason).includes('NOTIFY queue')) throw reason
  return stuck
}

/** Returns the time from each enqueue to its first claim, by the database clock. */
async function pickUpsMs({ db }: RelayScenario): Promise<readonly number[]> {
  const { rows } = await db.queryNoRole<{ ms: number }>(
    `SELECT (extract(epoch FROM a.claimed_at - i.created_at) * 1000)::int AS ms
     FROM payment_outbox_attempts a JOIN payment_outbox_identities i USING (outbox_id) WHERE a.attempt_no = 1`,
  )
  return rows.map(({ ms }) => ms)
}
