import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { enqueuePaymentOutboxBatch, pauseOutbox, type ClaimedItem } from '../../libs/outbox/index.js'
import { createTestDatabase, type TestDatabase } from '../support/database.js'
import {
  buildInstruction,
  claim,
  claimOnly,
  complete,
  enqueue,
  enqueueAndClaim,
  WORKER,
} from '../support/outboxItems.js'
import { createPerson, enqueueHeld, propose, type Person } from '../support/outboxPeople.js'
import { insertMany, PlanRecorder, scansOf, indexesOf, type Execution } from '../support/plans.js'

/**
 * Tests that plans do not depend on when a table was last analysed, and that a claim reads no items that it cannot
 * claim. The tests count rows and pages inside the functions, not time. The tables are analysed while empty, then
 * filled with 20,000 pending items that cannot be claimed, 2,000 that can, and 15,000 ended ones.
 */

const LARGE_TABLES = [
  'payment_outbox_pending',
  'payment_outbox_attempts',
  'payment_outbox_identities',
  'payment_outbox_events',
] as const

/** Number of items per operation. */
const BATCH = 50
/**
 * Maximum number of rows that one scan may read: four per item of the batch. A scan of a filled table reads thousands.
 */
const ROWS_MAX = 4 * BATCH

const CROWDED_RAIL = 'rail-crowded'
const PAUSED_RAIL = 'rail-paused'

interface Fixture {
  readonly db: TestDatabase
  /** Person who proposes decisions. */
  readonly ann: Person
}

interface Operation {
  readonly role: 'symphony_ingest' | 'symphony_executor' | 'symphony_control'
  readonly name: string
  /** Creates items for the operation and returns its arguments. */
  readonly prepare: (fixture: Fixture) => Promise<readonly unknown[]>
}

const OPERATIONS: Readonly<Record<string, Operation>> = {
  // The two enqueues of many items come first, so that they also run while no row exists at all. The planner then
  // prefers sequential scans.
  'enqueue of many items': ingest('enqueue_payment_outbox_batch', async () => {
    const rows = Array.from({ length: BATCH }, () => instructionValues())
    return [0, 1, 2, 3, 4].map((column) => rows.map((row) => row[column]))
  }),
  'enqueue of many ordered items': ingest('enqueue_payment_outbox_batch', async () => {
    const rows = Array.from({ length: BATCH }, () => instructionValues())
    return [...[0, 1, 2, 3, 4].map((column) => rows.map((row) => row[column])), null, rows.map(() => true)]
  }),
  'claim of any rail': executor('claim_outbox_batch', async ({ db }) => {
    await dueItems(db)
    await dueItems(db)
    return [BATCH, WORKER, 600]
  }),
  'claim of one rail': executor('claim_outbox_batch', async ({ db }) => [BATCH, WORKER, 600, [await dueItems(db)]]),
  'claim of payments': executor('claim_outbox_batch', async ({ db }) => {
    return [BATCH, WORKER, 600, [await dueItems(db)], null, false, null, false]
  }),
  'claim of messages': executor('claim_outbox_batch', async ({ db }) => {
    await dueItems(db)
    await dueMessages(db)
    return [BATCH, WORKER, 600, null, null, false, null, true]
  }),
  'claim of several rails': executor('claim_outbox_batch', async ({ db }) => {
    const rails = [await dueItems(db), await dueItems(db), CROWDED_RAIL, PAUSED_RAIL]
    return [BATCH, WORKER, 600, rails]
  }),
  'claim that takes expired leases over': executor('claim_outbox_batch', async ({ db }) => {
    const [item] = await expiredItems(db)
    return [BATCH, WORKER, 600, [item!.railType], null, true]
  }),
  'repair of expired leases': executor('repair_expired_leases', async ({ db }) => {
    await expiredItems(db)
    return [BATCH, WORKER]
  }),
  'repair with nothing to do': executor('repair_expired_leases', async () => [1000, WORKER]),
  'completion of many items': executor('complete_outbox_attempts', async ({ db }) => {
    const items = await leasedItems(db)
    return [...leasesOf(items), items.map((_, index) => ['DISPATCHED', 'RETRYABLE', 'FAILED'][index % 3])]
  }),
  'completion of many items as DISPATCHED': executor('complete_outbox_attempts', async ({ db }) => {
    const items = await leasedItems(db)
    return [...leasesOf(items), items.map(() => 'DISPATCHED'), items.map(({ outboxId }) => `ref-${outboxId}`)]
  }),
  'acknowledgement of messages': executor('complete_outbox_attempts', async ({ db }) => {
    const items = await claim(db, await dueMessages(db), { batchSize: BATCH })
    const states = items.map(() => 'DISPATCHED')
    return [...leasesOf(items), states, null, null, null, null, null, null, null, null, true]
  }),
  'completion of many lost or recorded leases': executor('complete_outbox_attempts', async ({ db }) => {
    const items = await leasedItems(db)
    for (const item of items.slice(0, 10)) await complete(db, item, { state: 'DISPATCHED', railReference: 'ref' })
    const forged = items.map((item, index) => (index < 10 ? item : { ...item, leaseToken: randomUUID() }))
    return [...leasesOf(forged), items.map(() => 'DISPATCHED')]
  }),
  'completion of one item': executor('complete_outbox_attempt', async ({ db }) => [
    ...leaseOf(await enqueueAndClaim(db)),
    'DISPATCHED',
    'ref',
  ]),
  'completion that holds the item': executor('complete_outbox_attempt', async ({ db }) => {
    const lease = leaseOf(await enqueueAndClaim(db))
    return [...lease, 'RETRYABLE', null, null, null, null, null, null, null, 'odd']
  }),
  'completion of an ordered head': executor('complete_outbox_attempt', async ({ db }) => {
    const { participantId, railType } = await enqueue(db, { ordered: true })
    await enqueueMany(db, { participantId, railType, ordered: true })
    const [head] = await claim(db, railType)
    return [...leaseOf(head!), 'DISPATCHED', 'ref']
  }),
  'enqueue of one item': ingest('enqueue_payment_outbox', async () => instructionValues()),
  'enqueue of a known item': ingest('enqueue_payment_outbox', async ({ db }) => instructionValues(await enqueue(db))),
  'enqueue of an ended item': ingest('enqueue_payment_outbox', async ({ db }) => {
    const instruction = buildInstruction()
    await complete(db, await enqueueAndClaim(db, instruction), { state: 'DISPATCHED', railReference: 'ref' })
    return instructionValues(instruction)
  }),
  'enqueue of an ordered item': ingest('enqueue_payment_outbox', async ({ db }) => {
    const { participantId } = await enqueue(db, { ordered: true })
    return [...instructionValues({ ...buildInstruction(), participantId }), null, true]
  }),
  'renewal of many leases': executor('renew_outbox_leases', async ({ db }) => [
    ...leasesOf(await leasedItems(db)),
    600,
  ]),
  'renewal of one lease': executor('renew_outbox_lease', async ({ db }) => [
    ...leaseOf(await enqueueAndClaim(db)),
    600,
  ]),
  'release of many leases': executor('release_outbox_leases', async ({ db }) => leasesOf(await leasedItems(db))),
  'release of one lease': executor('release_outbox_lease', async ({ db }) => leaseOf(await enqueueAndClaim(db))),
  'dispatch mark of a call': executor('begin_outbox_dispatch', async ({ db }) => leaseOf(await enqueueAndClaim(db))),
  'a worker’s hold': executor('hold_leased_outbox_item', async ({ db }) => [
    ...leaseOf(await enqueueAndClaim(db)),
    'odd',
  ]),
  'late outcome of a waiting item': executor('record_late_outcome', async ({ db }) => [
    ...leaseOf(await enqueueAndClaim(db)),
    'DISPATCHED',
    'ref',
  ]),
  'late outcome of an ended item': executor('record_late_outcome', async ({ db }) => {
    const item = await enqueueAndClaim(db)
    await complete(db, item, { state: 'FAILED' })
    return [...leaseOf(item), 'DISPATCHED', 'ref']
  }),
  'the next event': executor('next_outbox_event', async () => [null]),
  'the next event of some rails': executor('next_outbox_event', async () => [[CROWDED_RAIL, PAUSED_RAIL, 'nothing']]),
  'an operator’s hold': control('place_outbox_hold', async ({ db }) => [(await enqueue(db)).outboxId, 'odd']),
  'a note': control('note_outbox_item', async ({ db, ann }) => [(await enqueueHeld(db, ann)).outboxId, 'odd', null]),
  'resolving a hold': control('resolve_outbox_hold', async ({ db, ann }) => [
    (await enqueueHeld(db, ann)).outboxId,
    'RETRY',
    'checked',
  ]),
  'approving FAILED': control('approve_outbox_proposal', async ({ db, ann }) => {
    const { outboxId } = await enqueueHeld(db, ann)
    return [await propose(ann, outboxId, 'FAILED')]
  }),
  'approving a redrive': control('approve_outbox_proposal', async ({ db, ann }) => {
    const item = await enqueueAndClaim(db)
    await complete(db, item, { state: 'FAILED' })
    return [await propose(ann, item.outboxId, 'REDRIVE')]
  }),
  'approving a redrive in a halted stream': control('approve_outbox_proposal', async ({ db, ann }) => {
    const { participantId, railType } = await enqueue(db, { ordered: true })
    await enqueueMany(db, { participantId, railType, ordered: true })
    const head = await claimOnly(db, railType)
    await pauseOutbox(ann.control, 'stream', participantId, 'in order')
    await complete(db, head, { state: 'FAILED' })
    return [await propose(ann, head.outboxId, 'REDRIVE')]
  }),
  'pausing a participant': control('pause_outbox', async ({ db }) => {
    const { participantId } = await enqueueMany(db)
    return ['participant', participantId, 'audit']
  }),
  'resuming a participant': control('resume_outbox', async ({ db, ann }) => {
    const { participantId } = await enqueueMany(db)
    await pauseOutbox(ann.control, 'participant', participantId, 'audit')
    return ['participant', participantId, 'over']
  }),
}
const titles = Object.keys(OPERATIONS)

/** Statements inside the functions, by operation. */
type Recording = Readonly<Record<string, Execution>>

const recordings: Record<string, Recording> = {}
const pages = { crowded: 0, clean: 0 }
const databases: TestDatabase[] = []
let full: Fixture

beforeAll(async () => {
  recordings['empty, never analysed'] = await record(await createFixture({ isAnalysed: false }))
  const fixture = await createFixture()
  full = fixture
  recordings['empty'] = await record(fixture)
  await fill(fixture.db, 'payment_outbox_pending', CROWD)
  await fill(fixture.db, 'payment_outbox_identities', ENDED_IDENTITIES)
  await fill(fixture.db, 'payment_outbox_attempts', ENDED_ATTEMPTS)
  await fill(fixture.db, 'payment_outbox_events', ENDED_EVENTS)
  await pauseOutbox(fixture.ann.control, 'rail', PAUSED_RAIL, 'maintenance')
  recordings['full'] = await record(fixture)
  await fixture.db.queryNoRole('UPDATE symphony_settings SET full_trail = true')
  recordings['full, with the full trail'] = await record(fixture)
  await fixture.db.queryNoRole('UPDATE symphony_settings SET full_trail = false')
  await fixture.db.queryNoRole('ANALYZE')
  recordings['full, analysed again'] = await record(fixture)
  pages.crowded = await pagesOfAClaim(fixture.db)

  const clean = await createFixture()
  await fill(clean.db, 'payment_outbox_pending', DUE)
  await clean.db.queryNoRole('ANALYZE')
  pages.clean = await pagesOfAClaim(clean.db)
}, 300_000)
afterAll(() => Promise.all(databases.map((db) => db.drop())))

describe.each(['empty, never analysed', 'empty', 'full', 'full, with the full trail', 'full, analysed again'])(
  'plans on tables that are %s',
  (state) => {
    test.each(titles)('%s reads only its own items, by index', (title) => {
      const execution = recordings[state]![title]!
      // Operator actions are rare and may use a bitmap scan.
      const isRare = OPERATIONS[title]!.role === 'symphony_control'
      expect(execution.scanned.filter((table) => isLarge(table))).toEqual([])
      for (const table of LARGE_TABLES) {
        const scans = scansOf(execution, table)
        expect(scans.filter(({ type }) => !BY_INDEX.has(type) && !(isRare && BITMAP.has(type)))).toEqual([])
        expect(scans.filter(({ rows }) => rows > ROWS_MAX)).toEqual([])
      }
    })

    test.each(titles)('%s scans its arguments a few times, not once per item', (title) => {
      const given = recordings[state]![title]!.statements.flatMap(({ nodes }) =>
        nodes.filter(({ type }) => type === 'Function Scan' || type === 'CTE Scan'),
      )
      expect(given.filter(({ rows }) => rows > ROWS_MAX)).toEqual([])
    })

    test.each([
      'completion of one item',
      'completion of many items',
      'completion of many items as DISPATCHED',
      'acknowledgement of messages',
      'completion of many lost or recorded leases',
      'renewal of many leases',
      'release of many leases',
      'repair of expired leases',
      'claim that takes expired leases over',
      'late outcome of a waiting item',
    ])('%s looks up items by id or ctid, and their attempts by id', (title) => {
      const execution = recordings[state]![title]!
      const inQueue = scansOf(execution, 'payment_outbox_pending').map((scan) => scan.index ?? scan.type)
      // Repair and claim find expired or claimable items by these indexes first.
      const finds = new Set(['ix_pending_lease_expired', 'ix_pending_claimable', 'ix_pending_block_unverified'])
      const lookUps = inQueue.filter((index) => !(/^(?:repair|claim)/.test(title) && finds.has(index)))
      expect(new Set(lookUps)).toEqual(
        new Set(lookUps.filter((index) => ['payment_outbox_pending_pkey', 'Tid Scan'].includes(index))),
      )
      expect(lookUps.length).toBeGreaterThan(0)
      const inLedger = scansOf(execution, 'payment_outbox_attempts').map(({ index }) => index)
      expect(inLedger.filter((index) => !LEDGER_LOOK_UPS.has(index))).toEqual([])
    })
  },
)

/** A session keeps plans from the time when the tables were empty. These plans must also suit full tables. */
describe('plans that a session caches', () => {
  test.each(titles)(
    'use the same indexes for %s on empty tables, full tables, and full tables analysed again',
    (title) => {
      const ways = indexesOf(recordings['full']![title]!, LARGE_TABLES)
      expect(ways.length).toBeGreaterThan(0)
      expect(indexesOf(recordings['empty, never analysed']![title]!, LARGE_TABLES)).toEqual(ways)
      expect(indexesOf(recordings['empty']![title]!, LARGE_TABLES)).toEqual(ways)
      expect(indexesOf(recordings['full, analysed again']![title]!, LARGE_TABLES)).toEqual(ways)
    },
  )
})

test('a claim reads at most 20 % more pages if 20,000 unclaimable items are in the queue', () => {
  expect(pages.clean).toBeGreaterThan(BATCH)
  expect(pages.crowded).toBeLessThanOrEqual(1.2 * pages.clean)
})

test('a claim of payments reads no message of its rail, and a claim of messages no payment', async () => {
  const { db } = full
  await fill(db, 'payment_outbox_pending', DUE_OF_BOTH_KINDS)
  for (const isMessage of [false, true]) {
    const rail = isMessage ? PAYMENTS_AND_A_MESSAGE : MESSAGES_AND_A_PAYMENT
    const recorder = await PlanRecorder.open(db, 'symphony_executor')
    const execution = await recorder.run('SELECT * FROM claim_outbox_batch($1, $2, 600, $3, p_is_message => $4)', [
      BATCH,
      WORKER,
      [rail],
      isMessage,
    ])
    await recorder.close()
    const scans = scansOf(execution, 'payment_outbox_pending')
    expect(scans.filter(({ index, rows }) => index === 'ix_pending_claimable' && rows === 1)).toHaveLength(1)
    expect(scans.filter(({ rows }) => rows > 1)).toEqual([])
  }
})

describe('rows of outbox limits', () => {
  test('are queried once by an enqueue of a payment, and not by an enqueue of a message', async () => {
    const payment = await recordEnqueue(instructionValues())
    const message = await recordEnqueue(instructionValues(), true)
    expect(scansOf(payment, 'outbox_limits')).toMatchObject([{ loops: 1 }])
    expect(scansOf(message, 'outbox_limits')).toMatchObject([{ loops: 0 }])
    expect(message.statements).toHaveLength(payment.statements.length)
  })

  test('are read by index if they apply to the payment, and so is their usage; others are not read', async () => {
    const { participantId, railType } = buildInstruction()
    await fill(full.db, 'outbox_limits', limitsBeside(participantId, railType))
    await fill(full.db, 'outbox_limit_usage', USAGE)
    // The first payment adds a bucket to two limits, the second exceeds one of them.
    for (const amount of ['10.00', '100.00']) {
      const payload = { amount, currency: 'EUR' }
      const execution = await recordEnqueue(instructionValues(buildInstruction({ participantId, railType, payload })))
      for (const [table, rowsMax] of [
        ['outbox_limits', 3],
        ['outbox_limit_usage', LIVE_BUCKETS + 2],
        ['payment_outbox_pending', 1],
      ] as const) {
        const scans = scansOf(execution, table)
        expect(scans.filter(({ loops }) => loops > 0).length).toBeGreaterThan(0)
        expect(scans.filter(({ type }) => !BY_INDEX.has(type) && !BITMAP.has(type))).toEqual([])
        expect(scans.filter(({ rows }) => rows > rowsMax)).toEqual([])
        expect(execution.scanned).not.toContain(table)
      }
    }
  })
})

test('queries for expired leases and for attempts of an item use their indexes', async () => {
  const { db } = full
  for (const [sql, index] of [
    [
      `SELECT 1 FROM payment_outbox_pending WHERE lease_token IS NOT NULL AND lease_expires_at <= now()`,
      'ix_pending_lease_expired',
    ],
    [
      `SELECT claimed_by, count(*) FROM payment_outbox_pending WHERE lease_expires_at IS NOT NULL GROUP BY claimed_by`,
      'ix_pending_lease_expired',
    ],
    [
      `SELECT 1 FROM payment_outbox_identities i JOIN payment_outbox_attempts a USING (outbox_id)
       WHERE i.instruction_id = 'l-1' AND i.idempotency_key = 'k'`,
      'ix_attempts_by_outbox',
    ],
    [`SELECT 1 FROM payment_outbox_attempts WHERE outbox_id = gen_random_uuid_v4()`, 'ix_attempts_by_outbox'],
  ] as const) {
    const { rows } = await db.queryNoRole<Record<string, string>>(
      `EXPLAIN (COSTS OFF) ${sql.replace('gen_random_uuid_v4()', `'${randomUUID()}'`)}`,
    )
    expect(rows.map((row) => row['QUERY PLAN']).join('\n')).toContain(index)
  }
})

const BY_INDEX = new Set(['Index Scan', 'Index Only Scan', 'Tid Scan'])
const BITMAP = new Set(['Bitmap Heap Scan', 'Bitmap Index Scan'])
const LEDGER_LOOK_UPS = new Set<string | undefined>([
  'ix_attempts_by_outbox',
  'payment_outbox_attempts_one_terminal_per_outbox',
  'payment_outbox_attempts_pkey',
])

/** 4,000 items each that are leased, held, blocked, in the future or of a paused rail, and 2,000 claimable ones. */
const CROWD = `
  INSERT INTO payment_outbox_pending
    (outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type, payload, next_attempt_at, created_at,
      claimed_by, lease_token, lease_expires_at, claimed_at, hold_reason, held_by, held_at, ordered, blocked)
  SELECT uuid_v7(), 'i-' || n, 'p-' || n % 500, n, 'k', CASE WHEN kind = 'paused' THEN '${PAUSED_RAIL}' ELSE '${CROWDED_RAIL}' END,
    '{"amountMinor": "1050", "currency": "EUR"}',
    CASE WHEN kind = 'future' THEN now() + interval '1 day' ELSE now() - interval '2 hours' END + n * interval '1 ms',
    now() - interval '2 hours',
    CASE WHEN kind = 'leased' THEN 'w-' || n % 100 END, CASE WHEN kind = 'leased' THEN gen_random_uuid() END,
    CASE WHEN kind = 'leased' THEN now() + interval '1 hour' + n * interval '1 ms' END,
    CASE WHEN kind = 'leased' THEN now() END,
    CASE WHEN kind = 'held' THEN 'odd' END, CASE WHEN kind = 'held' THEN 'ann' END, CASE WHEN kind = 'held' THEN now() END,
    kind = 'blocked', kind = 'blocked'
  FROM (
    SELECT n, CASE WHEN n > 20000 THEN 'due' ELSE (ARRAY['leased', 'held', 'blocked', 'future', 'paused'])[n % 5 + 1] END AS kind
    FROM generate_series(1, 22000) n
  ) AS crowd`

const MESSAGES_AND_A_PAYMENT = 'rail-of-messages'
const PAYMENTS_AND_A_MESSAGE = 'rail-of-payments'
/** 5,000 due messages and one younger payment on one rail, and the reverse on another. */
const DUE_OF_BOTH_KINDS = `
  INSERT INTO payment_outbox_pending
    (outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type, payload, next_attempt_at, created_at,
      is_message)
  SELECT uuid_v7(), 'b-' || n, 'b-' || n % 500, n, 'k',
    CASE WHEN n > 5001 THEN '${PAYMENTS_AND_A_MESSAGE}' ELSE '${MESSAGES_AND_A_PAYMENT}' END, '{}',
    now() - interval '2 hours' + n * interval '1 ms', now() - interval '2 hours', n NOT BETWEEN 5001 AND 10001
  FROM generate_series(1, 10002) n`

/** Three limits of this participant and rail, and 10,000 of others. */
const limitsBeside = (participantId: string, railType: string) => `
  INSERT INTO outbox_limits
    (limit_name, kind, rail_type, participant_id, currency, limit_value, window_seconds, approvals, set_by, set_at)
  SELECT 'other-' || n, 'count', CASE WHEN n % 2 = 0 THEN 'r-' || n END, CASE WHEN n % 2 = 1 THEN 'p-' || n END, NULL::text, 5,
    3600, NULL::integer, 'ann', now()
  FROM generate_series(1, 10000) n
  UNION ALL
  VALUES ('own-amount', 'amount', NULL, '${participantId}', 'EUR', 50, 3600, NULL, 'ann', now()),
    ('own-count', 'count', '${railType}', NULL, NULL, 1000000, 3600, NULL, 'ann', now()),
    ('own-approval', 'approval', '${railType}', '${participantId}', 'EUR', 1000, NULL, 1, 'ann', now())`

const LIVE_BUCKETS = 100
/** 30,000 buckets of the other limits. The limit `own-count` has 5,000 expired buckets and 100 live ones. */
const USAGE = `
  INSERT INTO outbox_limit_usage (limit_name, expires_at, slot_id, used)
  SELECT 'other-' || n % 10000, now() + interval '1 hour', gen_random_uuid(), 1 FROM generate_series(1, 30000) n
  UNION ALL
  SELECT 'own-count', now() - n * interval '1 second', gen_random_uuid(), 1 FROM generate_series(1, 5000) n
  UNION ALL
  SELECT 'own-count', now() + n * interval '30 seconds', gen_random_uuid(), 1 FROM generate_series(1, ${LIVE_BUCKETS}) n`

/** As many items as in CROWD, all of them claimable, so that the indexes have the same height. */
const DUE = `
  INSERT INTO payment_outbox_pending
    (outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type, payload, next_attempt_at, created_at)
  SELECT uuid_v7(), 'i-' || n, 'p-' || n % 500, n, 'k', '${CROWDED_RAIL}', '{"amountMinor": "1050", "currency": "EUR"}',
    now() - interval '2 hours' + n * interval '1 ms', now() - interval '2 hours'
  FROM generate_series(1, 22000) n`

const ENDED_IDENTITIES = `
  INSERT INTO payment_outbox_identities
    (outbox_id, instruction_id, idempotency_key, participant_id, sequence_id, rail_type, content_hash)
  SELECT uuid_v7(), 'l-' || n, 'k', 'p-' || n % 500, 1000000 + n, '${CROWDED_RAIL}', sha256('x')
  FROM generate_series(1, 15000) n`

const ENDED_ATTEMPTS = `
  INSERT INTO payment_outbox_attempts
    (attempt_id, outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type, payload, attempt_no,
      state, worker_id, lease_token, action, outcome_unknown)
  SELECT uuid_v7(), i.outbox_id, i.instruction_id, i.participant_id, i.sequence_id, i.idempotency_key, i.rail_type,
    '{"amountMinor": "1050", "currency": "EUR"}', 1, 'DISPATCHED', '${WORKER}', gen_random_uuid(), 'sent', false
  FROM payment_outbox_identities i WHERE i.instruction_id LIKE 'l-%'`

const ENDED_EVENTS = `
  INSERT INTO payment_outbox_events (event_id, outbox_id, event_no, event_type, actor)
  SELECT uuid_v7(), i.outbox_id, 1, 'ENQUEUED', 'app' FROM payment_outbox_identities i WHERE i.instruction_id LIKE 'l-%'`

/** Records an enqueue of one payment or message in the full database. */
async function recordEnqueue(values: readonly unknown[], isMessage = false): Promise<Execution> {
  const recorder = await PlanRecorder.open(full.db, 'symphony_ingest')
  const execution = await recorder.run('SELECT * FROM enqueue_payment_outbox($1, $2, $3, $4, $5, p_is_message => $6)', [
    ...values,
    isMessage,
  ])
  await recorder.close()
  return execution
}

/** Creates a database whose tables were analysed while empty, or never, without autovacuum. */
async function createFixture({ isAnalysed = true } = {}): Promise<Fixture> {
  const db = await createTestDatabase({ countBranches: false })
  databases.push(db)
  for (const table of LARGE_TABLES) await db.queryNoRole(`ALTER TABLE ${table} SET (autovacuum_enabled = off)`)
  if (isAnalysed) await db.queryNoRole('ANALYZE')
  return { db, ann: await createPerson(db, 'ann') }
}

async function fill(db: TestDatabase, table: string, sql: string): Promise<void> {
  const client = await db.connect()
  await client.query(`SET synchronous_commit = off; SET maintenance_work_mem = '64MB'`)
  await insertMany(client, table, sql)
  await client.end()
}

/** Records each operation in its own session, because a session keeps the plans of a function. */
async function record(fixture: Fixture): Promise<Recording> {
  const recording: Record<string, Execution> = {}
  const sweeper = await fixture.db.connect()
  await sweeper.query('SET enable_seqscan = off')
  for (const [title, { role, name, prepare }] of Object.entries(OPERATIONS)) {
    // Removes the items of the previous operation.
    await sweeper.query(
      `DELETE FROM payment_outbox_pending WHERE instruction_id >= 'instruction' AND instruction_id LIKE 'instruction-%'`,
    )
    const values = await prepare(fixture)
    const recorder = await PlanRecorder.open(fixture.db, role)
    const placeholders = values.map((_, index) => `$${index + 1}`).join(', ')
    recording[title] = await recorder.run(`SELECT * FROM ${name}(${placeholders})`, values)
    await recorder.close()
  }
  await sweeper.end()
  return recording
}

/** Returns the pages that a claim reads. Vacuum and a repeated call exclude dead rows and catalog reads. */
async function pagesOfAClaim(db: TestDatabase): Promise<number> {
  const recorder = await PlanRecorder.open(db, 'symphony_executor')
  const counts: number[] = []
  for (const _ of [1, 2, 3, 4]) {
    await db.queryNoRole('VACUUM payment_outbox_pending')
    const { buffers } = await recorder.run('SELECT * FROM claim_outbox_batch($1, $2, 600)', [BATCH, WORKER])
    counts.push(buffers)
  }
  await recorder.close()
  return Math.min(...counts)
}

function isLarge(table: string): boolean {
  return LARGE_TABLES.some((large) => large === table)
}

function ingest(name: string, prepare: Operation['prepare']): Operation {
  return { role: 'symphony_ingest', name, prepare }
}

function executor(name: string, prepare: Operation['prepare']): Operation {
  return { role: 'symphony_executor', name, prepare }
}

function control(name: string, prepare: Operation['prepare']): Operation {
  return { role: 'symphony_control', name, prepare }
}

/** Enqueues a batch of one participant on one rail. */
async function enqueueMany(
  db: TestDatabase,
  overrides: Parameters<typeof buildInstruction>[0] = {},
): Promise<{ railType: string; participantId: string }> {
  const { railType, participantId } = buildInstruction(overrides)
  const instructions = Array.from({ length: BATCH }, () => buildInstruction({ railType, participantId, ...overrides }))
  await enqueuePaymentOutboxBatch(db.as('symphony_ingest'), instructions)
  return { railType, participantId }
}

/** Enqueues due items and returns their rail. */
async function dueItems(db: TestDatabase): Promise<string> {
  return (await enqueueMany(db)).railType
}

/** Enqueues due messages and returns their topic. */
async function dueMessages(db: TestDatabase): Promise<string> {
  const { railType } = buildInstruction()
  const messages = Array.from({ length: BATCH }, () => buildInstruction({ railType }))
  await enqueuePaymentOutboxBatch(db.as('symphony_ingest'), messages, { isMessage: true })
  return railType
}

async function leasedItems(db: TestDatabase): Promise<ClaimedItem[]> {
  return claim(db, await dueItems(db), { batchSize: BATCH })
}

async function expiredItems(db: TestDatabase): Promise<ClaimedItem[]> {
  const items = await leasedItems(db)
  await db.queryNoRole(
    `UPDATE payment_outbox_pending SET lease_expires_at = clock_timestamp() - interval '1 second' WHERE outbox_id = ANY ($1)`,
    [items.map(({ outboxId }) => outboxId)],
  )
  return items
}

function leaseOf({ outboxId, leaseToken }: ClaimedItem): readonly unknown[] {
  return [outboxId, leaseToken, WORKER]
}

function leasesOf(items: readonly ClaimedItem[]): readonly unknown[] {
  return [items.map(({ outboxId }) => outboxId), items.map(({ leaseToken }) => leaseToken), WORKER]
}

function instructionValues(instruction = buildInstruction()): readonly unknown[] {
  const { instructionId, participantId, idempotencyKey, railType, payload } = instruction
  return [instructionId, participantId, idempotencyKey, railType, payload]
}
