import { setTimeout as delay } from 'node:timers/promises'
import { parseMoney } from '../../../libs/core/index.js'
import { between, type Random } from '../../../libs/cli/commands/demo/seededRandom.js'
import {
  approveOutboxLimit,
  proposeOutboxLimit,
  resolveOutboxHold,
  type LimitRule,
} from '../../../libs/outbox/index.js'
import type { TestDatabase } from '../../support/database.js'
import { createPerson, type Person } from '../../support/outboxPeople.js'
import { isInterrupted } from '../../scorecard/interrupted.js'
import { LimitWriters } from '../../scorecard/LimitWriters.js'
import { RelayScenario } from '../../scorecard/RelayScenario.js'
import { defineScenario } from '../../scorecard/Scenario.js'
import type { ScenarioFixture } from '../../scorecard/ScenarioFixture.js'
import { retryUntilSuccess, waitUntil } from '../../scorecard/waitUntil.js'

/** Participant with a limit on the sum of its payments per time window. */
interface Limited {
  readonly participantId: string
  readonly limit: string
  readonly windowSeconds: number
}

const RAIL = 'sepa'
const APPROVAL_ABOVE = '95.00'
const DAY = 86_400
/** Shortest window that a limit may have. */
const MINUTE = 60
const AVERAGE = 50

export default defineScenario({
  id: 'R26',
  title:
    'Sixteen processes enqueue for participants with limits, while people release payments and set the limits again. The processes and PostgreSQL are killed.',
  bar: 'In no window does the sum of payments that passed without a person exceed the limit; 0 acknowledged payments are lost, 0 transactions are stored in part.',
  sizes: {
    full: { payments: 100_000, writers: 16, writerKills: 100, serverKills: 10 },
    short: { payments: 2_000, writers: 16, writerKills: 8, serverKills: 1 },
  },
  async run(fixture, size) {
    const scenario = await RelayScenario.create(fixture, { rails: '[]' })
    const { db } = scenario
    const [olga, pavel] = [await createPerson(db, 'olga'), await createPerson(db, 'pavel')]
    const limited = participants(size.payments)
    const set = async (name: string, rule: LimitRule) => {
      // A kill of the server may have left an open proposal.
      const { rows } = await db
        .as('symphony_owner')
        .query<{ proposal_id: string }>(
          `SELECT proposal_id FROM ${db.qualify('outbox_limit_proposals')} WHERE limit_name = $1 AND status = 'OPEN'`,
          [name],
        )
      const proposalId = rows[0]?.proposal_id ?? (await proposeOutboxLimit(olga.control, name, rule, 'scenario'))
      await approveOutboxLimit(pavel.control, proposalId)
    }
    for (const one of limited) await set(one.participantId, amountRule(one))
    await set('large', { kind: 'approval', limit: APPROVAL_ABOVE, currency: 'EUR', approvals: 1, railType: RAIL })

    const writers = await LimitWriters.create({
      scenario,
      folder: await fixture.subfolder('journals'),
      seed: fixture.seed,
      participants: limited.map(({ participantId }) => participantId),
      railType: RAIL,
    })
    const { fleet } = writers
    await fleet.start(size.writers)
    const people = { released: 0, limitsSet: 0 }
    const ended = new AbortController()
    await Promise.all([
      causeKills(fixture, scenario, writers, size).finally(() => ended.abort()),
      decide(db, olga, limited, fixture.randomFor('people'), people, set, ended.signal),
    ])
    const exitCodes = await fleet.stop()

    const { figures, defects } = await check(db, limited)
    const written = await writers.check()
    return {
      figures: {
        ...figures,
        ...written.figures,
        ...people,
        writerKills: fleet.kills,
        serverKills: scenario.serverKills,
      },
      defects: [
        ...defects,
        ...written.defects.slice(0, 20),
        ...fleet.unexpectedExits,
        ...exitCodes
          .filter((exitCode) => exitCode !== 0)
          .map((exitCode) => `a writer exited with ${exitCode} after a clean stop, expected 0`),
      ],
    }
  },
})

interface KillSize {
  readonly payments: number
  readonly writers: number
  readonly writerKills: number
  readonly serverKills: number
}

/** Causes each kill after a number of stored payments. Resolves when all payments are stored. */
async function causeKills(
  fixture: ScenarioFixture,
  scenario: RelayScenario,
  { fleet }: LimitWriters,
  { payments, writers, writerKills, serverKills }: KillSize,
): Promise<void> {
  const untilStored = (target: number) =>
    waitUntil(
      `${target} payments are stored`,
      async () => {
        fleet.topUp(writers)
        const { pendingCount } = await scenario.status()
        fixture.progress(`${pendingCount} payments, ${fleet.kills} writers killed`)
        return pendingCount >= target
      },
      { timeoutMs: 600_000 },
    )
  const plan = (count: number, isServer: boolean) =>
    Array.from({ length: count }, () => ({ at: between(fixture.random, 1, payments), isServer }))
  const kills = [...plan(writerKills, false), ...plan(serverKills, true)]
  for (const { at, isServer } of kills.toSorted((left, right) => left.at - right.at)) {
    await untilStored(at)
    if (isServer) await scenario.cycleServer({ kill: true, downMs: between(fixture.random, 0, 500) })
    else {
      await waitUntil('a writer is at work', () => fleet.atWork.length > 0)
      await fleet.kill(fleet.pick(fixture.random))
    }
  }
  await untilStored(payments)
}

function participants(payments: number): readonly Limited[] {
  const ofDay = `${Math.ceil((payments / 4) * AVERAGE * 0.4)}.00`
  return [
    { participantId: 'day-1', limit: ofDay, windowSeconds: DAY },
    { participantId: 'day-2', limit: '500.00', windowSeconds: DAY },
    { participantId: 'minute-1', limit: ofDay, windowSeconds: MINUTE },
    { participantId: 'minute-2', limit: '1000.00', windowSeconds: MINUTE },
  ]
}

function amountRule({ participantId, limit, windowSeconds }: Limited): LimitRule {
  return { kind: 'amount', limit, currency: 'EUR', windowSeconds, participantId }
}

/** Releases held payments and renews limits, until the signal aborts. Continues after a kill of the server. */
async function decide(
  db: TestDatabase,
  { control }: Person,
  limited: readonly Limited[],
  random: Random,
  counts: { released: number; limitsSet: number },
  set: (name: string, rule: LimitRule) => Promise<void>,
  signal: AbortSignal,
): Promise<void> {
  const decideOnce = async () => {
    const { rows } = await db.as('symphony_owner').query<{ outbox_id: string }>(
      `SELECT outbox_id FROM ${db.qualify('payment_outbox_pending')} WHERE hold_reason IS NOT NULL
         ORDER BY held_at DESC LIMIT 3`,
    )
    for (const { outbox_id: outboxId } of rows) {
      await resolveOutboxHold(control, outboxId, 'RETRY', 'checked')
      counts.released += 1
    }
    const one = limited[Math.floor(random() * limited.length)]!
    await set(one.participantId, amountRule(one))
    counts.limitsSet += 1
  }
  while (!signal.aborted) {
    await decideOnce().catch((error: unknown) => {
      if (!isInterrupted(error)) throw error
    })
    await delay(100)
  }
}

interface Payment {
  readonly participant_id: string
  readonly at: number
  readonly amount: string
  readonly currency: string
  readonly held_ever: boolean
  readonly hold_reason: string | null
}

function isLarge({ amount }: Payment): boolean {
  return minorOf(amount) > minorOf(APPROVAL_ABOVE)
}

/** Compares the payments in the queue with the limits. No worker claims, so the queue has all payments. */
async function check(db: TestDatabase, limited: readonly Limited[]) {
  const { rows } = await retryUntilSuccess('a read of the payments', () =>
    db.queryNoRole<Payment>(
      `SELECT p.participant_id, extract(epoch FROM p.created_at)::float8 AS at, p.payload ->> 'amount' AS amount,
       p.payload ->> 'currency' AS currency, p.hold_reason,
       EXISTS (SELECT 1 FROM payment_outbox_events e WHERE e.outbox_id = p.outbox_id AND e.event_type = 'HOLD_PLACED')
         AS held_ever
     FROM payment_outbox_pending p ORDER BY p.created_at`,
    ),
  )
  const defects: string[] = []
  const passed = rows.filter((row) => !row.held_ever)
  for (const row of passed.filter((one) => isLarge(one) || one.currency !== 'EUR')) {
    defects.push(`${row.amount} ${row.currency} of ${row.participant_id} passed without a person`)
  }
  for (const { participantId, limit, windowSeconds } of limited) {
    const own = passed.filter((row) => row.participant_id === participantId)
    // The limit reads its clock after created_at was set, so a window may appear shorter by the duration of a call.
    const highest = highestSum(own, windowSeconds - 1)
    if (highest > minorOf(limit)) defects.push(`${participantId}: ${highest} cents passed, the limit is ${limit}`)
    if (own.length === 0) defects.push(`${participantId}: nothing passed`)
  }
  const held = rows.filter((row) => row.held_ever).length
  return { figures: { stored: rows.length, passedAlone: passed.length, heldByLimits: held }, defects }
}

/** Returns the highest sum of the payments of any window. */
function highestSum(payments: readonly Payment[], windowSeconds: number): bigint {
  let [sum, highest, first] = [0n, 0n, 0]
  for (const payment of payments) {
    sum += minorOf(payment.amount)
    while (payments[first]!.at <= payment.at - windowSeconds) sum -= minorOf(payments[first++]!.amount)
    if (sum > highest) highest = sum
  }
  return highest
}

function minorOf(amount: string): bigint {
  return parseMoney(amount, 'EUR').amountMinor
}
