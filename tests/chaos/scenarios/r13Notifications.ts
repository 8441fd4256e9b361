import { Client } from 'pg'
import { setTimeout as delay } from 'node:timers/promises'
import { between } from '../../../libs/cli/commands/demo/seededRandom.js'
import { buildPaymentOn, USUAL_RAILS } from '../../support/scorecard/payments.js'
import { RelayScenario } from '../../support/scorecard/RelayScenario.js'
import { defineScenario } from '../../support/scorecard/Scenario.js'
import type { ScenarioFixture } from '../../support/scorecard/ScenarioFixture.js'
import { TcpProxy } from '../../support/tcpProxy.js'

const POLL_MS = 500
/** What a claim may take on a busy machine, beyond the poll that finds the payment. */
const GRACE_MS = 250
/** The smallest queue of notifications that PostgreSQL 17 and later can be given: half a megabyte, not eight gigabytes. */
const QUEUE_PAGES_MIN = '64'

type Silence = 'LISTEN silently dead' | 'NOTIFY queue full' | 'NOTIFY off'
const SILENCES: readonly Silence[] = ['LISTEN silently dead', 'NOTIFY queue full', 'NOTIFY off']

export default defineScenario({
  id: 'R13',
  title: 'notifications that do not come: LISTEN silently dead, NOTIFY queue full, NOTIFY off',
  bar: `no enqueue fails; every payment is picked up within one poll (${POLL_MS} ms)`,
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
    for (const silence of SILENCES) {
      const restore = await silenced(silence, { fixture, scenario, proxy })
      for (let number = 0; number < paymentsEach; number += 1) {
        try {
          // At any moment of the worker's poll.
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
        enqueues: SILENCES.length * paymentsEach,
        failedEnqueues: failures.length,
        slowestPickUpMs: slowestMs,
        late: late.length,
      },
      defects: [...failures.slice(0, 5), ...late.slice(0, 5), ...fleet.deaths, ...defects],
    }
  },
})

interface Bench {
  readonly fixture: ScenarioFixture
  readonly scenario: RelayScenario
  readonly proxy: TcpProxy
}

/** Returns how to undo it. */
async function silenced(silence: Silence, { fixture, scenario, proxy }: Bench): Promise<() => Promise<unknown>> {
  const { db } = scenario
  switch (silence) {
    case 'LISTEN silently dead':
      // No reset, no end, no byte: the connection looks alive to both.
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

/** A listener that sleeps in a transaction keeps every notification from being forgotten. Returns it. */
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
  // It ends when the queue is full.
  const reason: unknown = await full().catch((error: unknown) => error)
  await chatty.end()
  if (!String(reason).includes('NOTIFY queue')) throw reason
  return stuck
}

/** From when each was accepted to its first claim, by the database's clock; of those not looked at before. */
async function pickUpsMs({ db }: RelayScenario): Promise<readonly number[]> {
  const { rows } = await db.queryNoRole<{ ms: number }>(
    `SELECT (extract(epoch FROM a.claimed_at - i.created_at) * 1000)::int AS ms
     FROM payment_outbox_attempts a JOIN payment_outbox_identities i USING (outbox_id) WHERE a.attempt_no = 1`,
  )
  return rows.map(({ ms }) => ms)
}
