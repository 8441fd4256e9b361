import { isDeepStrictEqual } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { withSchema } from '../../libs/db/index.js'
import { enqueuePaymentOutboxBatch, readReplays, repairExpiredLeases } from '../../libs/outbox/index.js'
import { PENDING_COLUMNS } from '../../libs/outbox/reads/replay.js'
import { asQueryable, createTestDatabase, type TestDatabase } from '../support/database.js'
import { buildInstruction } from '../support/outboxItems.js'
import { createPerson } from '../support/outboxPeople.js'
import { RandomOutbox, type RandomWorkers } from '../support/outboxRandom.js'
import { foldTrails, itemIds } from '../support/outboxTrail.js'

/** Event types written with and without the full trail, because no ledger row holds the same data. */
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
/** Event types written only while the full trail is on. */
const FULL = [
  'ATTEMPT_COMPLETED',
  'BLOCKED',
  'DISPATCH_BEGUN',
  'ENQUEUED',
  'FULL_TRAIL_SET',
  'LEASE_CLAIMED',
  'LEASE_EXPIRED_REPAIRED',
  'LEASE_RELEASED',
  'LEASE_RENEWED',
  'MARKED_UNKNOWN',
  'RESCHEDULED',
  'UNBLOCKED',
]

async function workAtRandom(
  seed: number,
  steps: number,
  fullTrail: boolean,
  afterStep?: (db: TestDatabase, step: number) => Promise<void>,
): Promise<TestDatabase> {
  const db = await createTestDatabase()
  await db.queryNoRole('UPDATE symphony_settings SET full_trail = $1', [fullTrail])
  const outbox = new RandomOutbox(db, seed, await workersOf(db))
  await outbox.run(steps, (step) => afterStep?.(db, step) ?? Promise.resolve())
  return db
}

async function workersOf(db: TestDatabase): Promise<RandomWorkers> {
  const olga = await createPerson(db, 'olga')
  const pavel = await createPerson(db, 'pavel')
  return {
    ingest: () => db.as('symphony_ingest'),
    executor: () => db.as('symphony_executor'),
    people: [() => olga.control, () => pavel.control],
  }
}

async function eventTypes(db: TestDatabase): Promise<string[]> {
  const { rows } = await db.queryNoRole<{ event_type: string }>('SELECT DISTINCT event_type FROM payment_outbox_events')
  return rows.map((row) => row.event_type).toSorted()
}

/** Returns the ordered event numbers of each item and each scope. */
async function eventNumbers(db: TestDatabase): Promise<number[][]> {
  const { rows } = await db.queryNoRole<{ numbers: bigint[] }>(
    'SELECT array_agg(event_no ORDER BY event_no) AS numbers FROM payment_outbox_events GROUP BY outbox_id, scope',
  )
  return rows.map(({ numbers }) => numbers.map(Number))
}

describe.for([1, 2, 3])('the full trail of random operations (seed %i)', (seed) => {
  let db: TestDatabase
  const foldsThatDiffer: number[] = []
  /** Columns that had a value other than null, false and 0. */
  const seen = new Set<string>()
  beforeAll(async () => {
    db = await workAtRandom(seed, 150, true, async (own, step) => {
      if (step % 10 !== seed) return
      const { folded, pending } = await foldTrails(own)
      if (!isDeepStrictEqual(folded, pending)) foldsThatDiffer.push(step)
      for (const row of pending.values()) {
        for (const [column, value] of Object.entries(row)) if (value) seen.add(column)
      }
    })
  })
  afterAll(() => db.drop())

  test('reproduces every column of every pending row, checked after every ten operations', async () => {
    const { folded, pending } = await foldTrails(db)
    expect(folded).toEqual(pending)
    expect(foldsThatDiffer).toEqual([])
    expect([...seen].toSorted()).toEqual(Object.keys(PENDING_COLUMNS).toSorted())
  })

  test('replays with the verdict "equal" for every item, read as symphony_auditor', async () => {
    const replays = await readReplays(db.as('symphony_auditor'), await itemIds(db))
    expect(replays.filter(({ verdict }) => verdict !== 'equal')).toEqual([])
    expect(replays.filter(({ pending }) => pending === null).length).toBeGreaterThan(5)
  })

  test('has event numbers without gaps', async () => {
    const numbers = await eventNumbers(db)
    expect(numbers).toEqual(numbers.map((row) => row.map((_, index) => index + 1)))
    expect(numbers.length).toBeGreaterThan(10)
  })
})

test('PENDING_COLUMNS lists exactly the columns of payment_outbox_pending', async () => {
  await using db = await createTestDatabase()
  const { rows } = await db.queryNoRole<{ name: string }>(
    `SELECT attname AS name FROM pg_attribute
     WHERE attrelid = 'payment_outbox_pending'::regclass AND attnum > 0 AND NOT attisdropped ORDER BY attnum`,
  )
  expect(Object.keys(PENDING_COLUMNS)).toEqual(rows.map(({ name }) => name))
})

test('the full trail reproduces the queue after two concurrent actors used the same items', async () => {
  await using db = await createTestDatabase()
  await db.queryNoRole('UPDATE symphony_settings SET full_trail = true')
  const workers = await workersOf(db)
  // Both actors use the same seed, and so the same participants and rails.
  await Promise.all([1, 2].map(() => new RandomOutbox(db, 5, workers).runRandomSteps(120)))
  // Repairs leases that one actor expired while the other had locked them.
  await repairExpiredLeases(db.as('symphony_executor'), 1000, 'repairer')
  const { folded, pending } = await foldTrails(db)
  expect(folded).toEqual(pending)
  expect(pending.size).toBeGreaterThan(10)
})

describe('a replay of the full trail', () => {
  let db: TestDatabase
  beforeAll(async () => {
    db = await workAtRandom(6, 0, true)
  })
  afterAll(() => db.drop())

  test.for(Object.keys(PENDING_COLUMNS).filter((column) => column !== 'lease_token'))(
    'reports a change of %s that no event records',
    async (column) => {
      const client = await db.connect()
      await client.query('BEGIN')
      await client.query(
        `UPDATE payment_outbox_pending SET ${column} = ${await otherValue(column)}
         WHERE outbox_id = (SELECT min(outbox_id::text)::uuid FROM payment_outbox_pending WHERE ${ROWS[column] ?? 'true'})`,
      )
      const replays = await readReplays(withSchema(asQueryable(client), db.schema), await itemIds(db))
      await client.query('ROLLBACK')
      const found = replays.flatMap(({ differences }) => differences.map((one) => one.column))
      expect(found).toEqual([column === 'outbox_id' ? null : column])
    },
  )

  /** Returns an SQL expression for another value of the column that its constraints accept. */
  async function otherValue(column: string): Promise<string> {
    const { rows } = await db.queryNoRole<{ type: string }>(
      `SELECT format_type(atttypid, NULL) AS type FROM pg_attribute
       WHERE attrelid = 'payment_outbox_pending'::regclass AND attname = $1`,
      [column],
    )
    const ofType: Readonly<Record<string, string>> = {
      text: `'another ' || outbox_id`,
      uuid: 'gen_random_uuid()',
      bigint: '999',
      integer: '9',
      boolean: `NOT ${column}`,
      bytea: `sha256('another')`,
      jsonb: `'{"another": true}'`,
      'timestamp with time zone': `COALESCE(${column}, now()) + interval '1 microsecond'`,
    }
    return column === 'dispatch_mark' ? `'begun'` : ofType[rows[0]!.type]!
  }

  /** Condition per column. It finds a row in which the constraints allow that column to change alone. */
  const ROWS: Readonly<Record<string, string>> = {
    claimed_by: 'lease_token IS NOT NULL',
    lease_expires_at: 'lease_token IS NOT NULL',
    dispatch_mark: 'lease_token IS NOT NULL AND dispatch_mark IS NULL',
    hold_reason: 'hold_reason IS NOT NULL',
    held_by: 'hold_reason IS NOT NULL',
    held_at: 'hold_reason IS NOT NULL',
    blocked: 'NOT blocked',
    block_unverified: 'blocked',
  }
})

test('the trail of ordered items that one call enqueued replays as “equal”', async () => {
  await using db = await createTestDatabase()
  await db.queryNoRole('UPDATE symphony_settings SET full_trail = true')
  const participantId = 'ordered-call'
  const instructions = Array.from({ length: 4 }, () => buildInstruction({ participantId, ordered: true }))
  await enqueuePaymentOutboxBatch(db.as('symphony_ingest'), instructions)
  await enqueuePaymentOutboxBatch(
    db.as('symphony_ingest'),
    instructions.map(() => buildInstruction({ participantId, ordered: true })),
  )
  const replays = await readReplays(db.as('symphony_auditor'), await itemIds(db))
  expect(replays.map(({ verdict }) => verdict)).toEqual(Array.from({ length: 8 }, () => 'equal'))
})

test('the full trail adds events, such as LEASE_CLAIMED, to the events that are always written', async () => {
  await using on = await workAtRandom(4, 0, true)
  await using off = await workAtRandom(4, 0, false)
  expect(await eventTypes(on)).toEqual([...ALWAYS, ...FULL].toSorted())
  expect(await eventTypes(off)).toEqual(ALWAYS)
  const numbers = await eventNumbers(off)
  expect(numbers).toEqual(numbers.map((row) => row.map((_, index) => index + 1)))
})
