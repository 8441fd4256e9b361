import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { parseMoney } from '../../../libs/core/index.js'
import type { Random } from '../../../libs/cli/commands/demo/seededRandom.js'
import {
  approveOutboxLimit,
  enqueuePaymentOutboxBatch,
  proposeOutboxLimit,
  resolveOutboxHold,
  type LimitRule,
  type OutboxInstruction,
} from '../../../libs/outbox/index.js'
import type { TestDatabase } from '../../support/database.js'
import { createPerson, type Person } from '../../support/outboxPeople.js'
import { openConnection, type Connection } from '../../support/race.js'
import { defineScenario } from '../../scorecard/Scenario.js'

/** Participant with a limit on the sum of its payments per time window. */
interface Limited {
  readonly participantId: string
  readonly limit: string
  readonly windowSeconds: number
}

const WRITERS = 16
const RAIL = 'sepa'
const APPROVAL_ABOVE = '95.00'
const DAY = 86_400
/** Shortest window that a limit may have. */
const MINUTE = 60
const AVERAGE = 50

export default defineScenario({
  id: 'R26',
  title:
    'Sixteen writers enqueue for participants with limits, while people release payments and set the limits again.',
  bar: 'In no window does the sum of payments that passed without a person exceed the limit; 0 payments are lost.',
  sizes: { full: { payments: 100_000 }, short: { payments: 2_000 } },
  async run(fixture, { payments }) {
    const db = await fixture.createDatabase(await fixture.startServer())
    const [olga, pavel] = [await createPerson(db, 'olga'), await createPerson(db, 'pavel')]
    const limited = participants(payments)
    const set = async (name: string, rule: LimitRule) =>
      approveOutboxLimit(pavel.control, await proposeOutboxLimit(olga.control, name, rule, 'scenario'))
    for (const one of limited) await set(one.participantId, amountRule(one))
    await set('large', { kind: 'approval', limit: APPROVAL_ABOVE, currency: 'EUR', approvals: 1, railType: RAIL })

    const run = { left: payments, committed: 0, rolledBack: 0, repeated: 0, released: 0, limitsSet: 0 }
    const writers = Array.from({ length: WRITERS }, async (_, index) => {
      const connection = await openConnection(db, 'symphony_ingest')
      const random = fixture.randomFor(`writer ${index}`)
      while (run.left > 0) {
        await enqueueSome(connection, limited, random, run)
        fixture.progress(`${run.committed} payments committed`)
      }
      await connection.close()
    })
    const writing = Promise.all(writers)
    const ended = new AbortController()
    const people = decide(db, olga, limited, fixture.randomFor('people'), run, set, ended.signal)
    await writing.finally(() => ended.abort())
    await people

    const { figures, defects } = await check(db, limited)
    const { committed, rolledBack, repeated, released, limitsSet } = run
    return {
      figures: { committed, ...figures, rolledBack, repeated, released, limitsSet },
      defects: [
        ...defects,
        ...(figures.stored === committed ? [] : [`${committed} payments committed, ${figures.stored} stored`]),
      ],
    }
  },
})

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

interface Run {
  left: number
  committed: number
  rolledBack: number
  repeated: number
}

/** Enqueues one to three batches of one participant in a transaction, which it sometimes rolls back. */
async function enqueueSome(connection: Connection, limited: readonly Limited[], random: Random, run: Run) {
  const { participantId } = limited[Math.floor(random() * limited.length)]!
  let created = 0
  let last: OutboxInstruction[] = []
  await connection.query('BEGIN')
  for (let calls = 1 + Math.floor(random() * 3); calls > 0; calls -= 1) {
    const isRepeat = last.length > 0 && random() < 0.2
    if (!isRepeat) last = Array.from({ length: 1 + Math.floor(random() * 5) }, () => instruction(participantId, random))
    run.repeated += isRepeat ? last.length : 0
    const items = await enqueuePaymentOutboxBatch(connection, last)
    created += items.filter((item) => item.created).length
  }
  const isRolledBack = random() < 0.1
  await connection.query(isRolledBack ? 'ROLLBACK' : 'COMMIT')
  run.left -= created
  if (isRolledBack) run.rolledBack += created
  else run.committed += created
}

function instruction(participantId: string, random: Random): OutboxInstruction {
  const id = randomUUID()
  const amount = (0.01 + Math.floor(random() * 9_999) / 100).toFixed(2)
  return {
    instructionId: id,
    idempotencyKey: id,
    participantId,
    railType: RAIL,
    payload: { amount, currency: random() < 0.02 ? 'USD' : 'EUR' },
  }
}

/** Releases held payments and renews limits, until the writers have ended. */
async function decide(
  db: TestDatabase,
  { control }: Person,
  limited: readonly Limited[],
  random: Random,
  run: { released: number; limitsSet: number },
  set: (name: string, rule: LimitRule) => Promise<unknown>,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    const { rows } = await db.queryNoRole<{ outbox_id: string }>(
      'SELECT outbox_id FROM payment_outbox_pending WHERE hold_reason IS NOT NULL ORDER BY held_at DESC LIMIT 3',
    )
    for (const { outbox_id: outboxId } of rows) {
      await resolveOutboxHold(control, outboxId, 'RETRY', 'checked')
      run.released += 1
    }
    const one = limited[Math.floor(random() * limited.length)]!
    await set(one.participantId, amountRule(one))
    run.limitsSet += 1
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

/** Compares the payments in the queue with the limits. No worker claims, so the queue has all payments. */
async function check(db: TestDatabase, limited: readonly Limited[]) {
  const { rows } = await db.queryNoRole<Payment>(
    `SELECT p.participant_id, extract(epoch FROM p.created_at)::float8 AS at, p.payload ->> 'amount' AS amount,
       p.payload ->> 'currency' AS currency, p.hold_reason,
       EXISTS (SELECT 1 FROM payment_outbox_events e WHERE e.outbox_id = p.outbox_id AND e.event_type = 'HOLD_PLACED')
         AS held_ever
     FROM payment_outbox_pending p ORDER BY p.created_at`,
  )
  const defects: string[] = []
  const passed = rows.filter((row) => !row.held_ever)
  const isLarge = ({ amount }: Payment) => minorOf(amount) > minorOf(APPROVAL_ABOVE)
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
