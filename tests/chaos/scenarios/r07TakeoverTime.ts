import { setTimeout as delay } from 'node:timers/promises'
import { between, type Random } from '../../../libs/cli/commands/demo/seededRandom.js'
import { buildPaymentOn } from '../../scorecard/payments.js'
import { RelayScenario } from '../../scorecard/RelayScenario.js'
import { defineScenario } from '../../scorecard/Scenario.js'
import { waitUntil } from '../../scorecard/waitUntil.js'
import type { WorkerFleet } from '../../scorecard/WorkerFleet.js'

const DEFAULT_LEASE_SECONDS = 60
const DEFAULT_CONCURRENCY = 10
const GRACE_MS = 1_000
const STARTED_AT_ONCE = 8

/** Rail whose calls pay and never return in a victim (`HANGS=yes`), and return at once in other workers. */
const RAILS = `[
  simulatedRail({
    type: 'hangs', onUnknown: 'resend', bookUrl, timeoutMs: 600000,
    behaviour: process.env.HANGS === 'yes' ? 'timeoutAfterPaying' : 'success',
  }),
]`

export default defineScenario({
  id: 'R7',
  title:
    'A worker with leased payments is killed (`kill -9`), with default settings. The time until another worker acts on them is measured.',
  bar: `200 kills; each takeover takes at most the lease (${DEFAULT_LEASE_SECONDS} s) + 1 s by the database clock.`,
  // Each round kills many workers, because each takeover waits up to a minute for a lease to expire.
  sizes: {
    full: { kills: 200, killsPerRound: 40, leaseSeconds: DEFAULT_LEASE_SECONDS },
    short: { kills: 4, killsPerRound: 4, leaseSeconds: 3 },
  },
  async run(fixture, { kills, killsPerRound, leaseSeconds }) {
    // Allows the connections of 40 workers.
    const scenario = await RelayScenario.create(fixture, { rails: RAILS, settings: { max_connections: '400' } })
    const words = leaseSeconds === DEFAULT_LEASE_SECONDS ? [] : ['--lease-seconds', String(leaseSeconds)]
    const tookMs: number[] = []
    const defects: string[] = []
    for (let round = 1; tookMs.length < kills; round += 1) {
      const victims = scenario.fleet({ name: `victim-${round}`, words, env: { HANGS: 'yes' } })
      const killed = await killWithLeasedItems(scenario, victims, {
        count: killsPerRound,
        withinMs: leaseSeconds * 500,
        random: fixture.random,
      })
      const survivors = scenario.fleet({ name: `survivor-${round}`, words })
      await survivors.start(2)
      tookMs.push(...(await Promise.all(killed.map((kill) => actedAfterMs(scenario, kill)))))
      await survivors.stop()
      defects.push(...survivors.unexpectedExits, ...victims.unexpectedExits)
      fixture.progress(`${tookMs.length} of ${kills} kills, the longest took ${Math.max(...tookMs)} ms`)
    }
    const last = scenario.fleet({ name: 'last', words })
    await last.start(1)
    await scenario.untilDrained()
    await last.stop()
    const audited = await scenario.audit()
    const allowedMs = leaseSeconds * 1_000 + GRACE_MS
    const late = tookMs.filter((ms) => ms > allowedMs)
    return {
      figures: {
        kills: tookMs.length,
        leaseSeconds,
        longestMs: Math.max(...tookMs),
        allowedMs,
        tooLate: late.length,
        doubleRailEffects: audited.report.doublePaid,
      },
      defects: [...defects, ...audited.defects, ...late.map((ms) => `the next action came only after ${ms} ms`)],
    }
  },
})

interface Kill {
  /** Items that the victim had leased. */
  readonly outboxIds: readonly string[]
  /** Database time just before the kill, so that the measured takeover time is never too short. */
  readonly at: string
}

interface KillOptions {
  readonly count: number
  /** Period over which the kills are spread. Too many expired leases at once would delay the takeovers. */
  readonly withinMs: number
  readonly random: Random
}

async function killWithLeasedItems(
  scenario: RelayScenario,
  victims: WorkerFleet,
  { count, withinMs, random }: KillOptions,
): Promise<readonly Kill[]> {
  // Starts a few workers at a time, because a start of 40 at once exceeds the time limit of a start.
  for (let started = 0; started < count; started += STARTED_AT_ONCE) {
    for (let number = started; number < Math.min(started + STARTED_AT_ONCE, count); number += 1) victims.add()
    await victims.untilAtWork(Math.min(started + STARTED_AT_ONCE, count))
  }
  // Enqueues as many payments as the victims can call at once. The calls never end, so the victims claim no more.
  await scenario.enqueue(Array.from({ length: DEFAULT_CONCURRENCY * count }, () => buildPaymentOn('hangs')))
  const { db } = scenario
  const leases = () =>
    db.queryNoRole<{ outbox_id: string; claimed_by: string }>(
      `SELECT outbox_id, claimed_by FROM payment_outbox_pending WHERE claimed_by LIKE 'victim-%'`,
    )
  await waitUntil('every victim has a leased item', async () => {
    const { rows } = await leases()
    return new Set(rows.map(({ claimed_by }) => claimed_by)).size === count
  })
  return Promise.all(
    victims.atWork.map(async (victim) => {
      await delay(between(random, 0, withinMs))
      const { rows: now } = await db.queryNoRole<{ at: string }>('SELECT clock_timestamp()::text AS at')
      await victims.kill(victim)
      const { rows } = await leases()
      const ofWorker = rows.filter(({ claimed_by }) => claimed_by === victim.workerId)
      if (ofWorker.length === 0) throw new Error(`${victim.workerId} had no lease when it was killed`)
      return { outboxIds: ofWorker.map(({ outbox_id }) => outbox_id), at: now[0]?.at ?? '' }
    }),
  )
}

/** Measures from the kill to the last ledger row that another worker writes for the victim's items. */
async function actedAfterMs({ db }: RelayScenario, { outboxIds, at }: Kill): Promise<number> {
  return waitUntil(
    'another worker acted on every item of the victim',
    async () => {
      const { rows } = await db.queryNoRole<{ acted: number; ms: number }>(
        `SELECT count(*)::int AS acted, (extract(epoch FROM max(created_at) - $2::timestamptz) * 1000)::int AS ms
         FROM payment_outbox_attempts WHERE outbox_id = ANY ($1::uuid[]) AND attempt_no = 1`,
        [outboxIds, at],
      )
      return rows[0]?.acted === outboxIds.length ? rows[0].ms : undefined
    },
    { everyMs: 200 },
  )
}
