import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import { aPerson } from '../support/outboxPeople.js'
import { RandomOutbox } from '../support/outboxRandom.js'
import { foldTrail, readPending } from '../support/outboxTrail.js'

/** Always written: what no ledger row says. */
const ALWAYS = [
  'CONTRADICTION_REVIEWED',
  'DECISION_PROPOSED',
  'DECISION_WITHDRAWN',
  'HOLD_PLACED',
  'HOLD_RESOLVED',
  'LATE_OUTCOME',
  'PAUSED',
  'POLICY_SET',
  'REDRIVE_CREATED',
  'REDRIVE_PROPOSED',
  'RESUMED',
  'TERMINAL_BLOCKED',
]
/** Written where the full trail is on. */
const FULL = [
  'ATTEMPT_COMPLETED',
  'DISPATCH_BEGUN',
  'ENQUEUED',
  'LEASE_CLAIMED',
  'LEASE_EXPIRED_REPAIRED',
  'LEASE_RELEASED',
  'LEASE_RENEWED',
  'RESCHEDULED',
  'UNBLOCKED',
]

async function workAtRandom(seed: number, steps: number, fullTrail: boolean): Promise<TestDatabase> {
  const db = await createTestDatabase()
  await db.queryNoRole('UPDATE symphony_settings SET full_trail = $1', [fullTrail])
  const olga = await aPerson(db, 'olga')
  const pavel = await aPerson(db, 'pavel')
  const outbox = new RandomOutbox(db, seed, {
    ingest: () => db.as('symphony_ingest'),
    executor: () => db.as('symphony_executor'),
    people: [() => olga.control, () => pavel.control],
  })
  await outbox.run(steps)
  return db
}

async function eventTypes(db: TestDatabase): Promise<string[]> {
  const { rows } = await db.queryNoRole<{ event_type: string }>('SELECT DISTINCT event_type FROM payment_outbox_events')
  return rows.map((row) => row.event_type).toSorted()
}

/** Of each item and each scope, the numbers of its events in their order. */
async function eventNumbers(db: TestDatabase): Promise<number[][]> {
  const { rows } = await db.queryNoRole<{ numbers: bigint[] }>(
    'SELECT array_agg(event_no ORDER BY event_no) AS numbers FROM payment_outbox_events GROUP BY outbox_id, scope',
  )
  return rows.map(({ numbers }) => numbers.map(Number))
}

describe.for([1, 2, 3])('the full trail, after all that can be done (seed %i)', (seed) => {
  let db: TestDatabase
  beforeAll(async () => {
    db = await workAtRandom(seed, 150, true)
  })
  afterAll(() => db.drop())

  test('folded, gives exactly what is pending', async () => {
    const pending = await readPending(db)
    expect(await foldTrail(db)).toEqual(pending)
    // There was something of every kind to compare.
    const items = [...pending.values()]
    expect(items.some((item) => item.claimedBy !== null)).toBe(true)
    expect(items.some((item) => item.holdReason !== null)).toBe(true)
    expect(items.some((item) => item.outcomeUnknown)).toBe(true)
    expect(items.some((item) => item.blocked)).toBe(true)
    expect(items.some((item) => item.attemptCount > 0)).toBe(true)
  })

  test('is numbered without a gap', async () => {
    const numbers = await eventNumbers(db)
    expect(numbers).toEqual(numbers.map((row) => row.map((_, index) => index + 1)))
    expect(numbers.length).toBeGreaterThan(10)
  })
})

test('with the full trail every step is named; without it only what no ledger row says', async () => {
  await using on = await workAtRandom(4, 0, true)
  await using off = await workAtRandom(4, 0, false)
  expect(await eventTypes(on)).toEqual([...ALWAYS, ...FULL].toSorted())
  expect(await eventTypes(off)).toEqual(ALWAYS)
  const numbers = await eventNumbers(off)
  expect(numbers).toEqual(numbers.map((row) => row.map((_, index) => index + 1)))
})
