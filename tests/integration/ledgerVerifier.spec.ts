import { beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import type { Queryable } from '../../libs/db/index.js'
import { sealLedgerBlock, verifyLedgerBlock, type VerifiedBlock } from '../../libs/ledger/db.js'
import { LedgerVerifier, type VerifierEvent } from '../../libs/ledger/index.js'
import { closeAfterAll } from '../support/afterAll.js'
import { LedgerFixture } from '../support/ledgerFixture.js'
import { enqueue } from '../support/outboxItems.js'
import { POLL_OPTIONS } from '../support/pollOptions.js'
import { openConnection, type Connection } from '../support/race.js'

/** Tests verify_ledger_block and the worker that calls it, on a ledger of more than five blocks. */

const fixture = closeAfterAll(await LedgerFixture.open())
let blockCount: number
let rowCount: number
beforeAll(async () => {
  await fixture.fill()
  await fixture.sealAll(4)
  const { blocks, identities, attempts, events } = await fixture.verify()
  blockCount = blocks
  rowCount = identities + attempts + events
})

let earlierRecords = 0
/** Makes a new pass due before each test. */
beforeEach(async () => {
  earlierRecords = 0
  earlierRecords = (await readRecords()).length
  await fixture.db.queryNoRole(
    `UPDATE ledger_verification_passes
     SET last_block = 0, rows_checked = 0, break_count = 0, began_at = NULL, next_at = '-infinity'`,
  )
})

const executor = (): Queryable => fixture.db.as('symphony_executor')
const RATE = 1_000_000

async function makeDue(role: Queryable): Promise<void> {
  await role.query(`UPDATE ledger_verification_passes SET next_at = '-infinity'`)
}

interface Place {
  readonly lastBlock: number
  readonly rowsChecked: number
  readonly breakCount: number
  readonly beganAt: number | null
  readonly nextAt: number
}

/** Reads the state of the verification pass, with times in seconds since 1970. */
async function readPlace(role: Queryable = superuser()): Promise<Place> {
  const { rows } = await role.query<Place>(
    `SELECT last_block::integer AS "lastBlock", rows_checked::integer AS "rowsChecked", break_count::integer AS "breakCount",
       extract(epoch FROM began_at)::double precision AS "beganAt", extract(epoch FROM next_at)::double precision AS "nextAt"
     FROM ledger_verification_passes`,
  )
  return rows[0]!
}

const superuser = (): Queryable => ({
  schema: fixture.db.schema,
  query: (text, values) => fixture.db.queryNoRole(text, values),
})

/** Returns the verifications that this test recorded. */
async function readRecords(role: Queryable = superuser()): Promise<unknown[]> {
  const { rows } = await role.query(
    `SELECT rows_checked::integer AS rows, break_count::integer AS breaks
     FROM ledger_verifications ORDER BY verified_at OFFSET ${earlierRecords}`,
  )
  return rows
}

/** Runs one pass without its pauses. */
async function verifyAll(verifier: LedgerVerifier, role: Queryable = superuser()): Promise<VerifiedBlock[]> {
  const verified: VerifiedBlock[] = []
  for (;;) {
    await makeDue(role)
    const block = await verifier.runOnce()
    if (block === undefined) return verified
    verified.push(block)
  }
}

describe('a verification pass over an unchanged ledger', () => {
  test('compares each block once, and records the total number of rows when the pass ends', async () => {
    const events: VerifierEvent[] = []
    const verified = await verifyAll(new LedgerVerifier(executor(), {}, (event) => events.push(event)))
    expect(verified.map(({ blockNo }) => Number(blockNo))).toEqual(Array.from({ length: blockCount }, (_, n) => n + 1))
    expect(blockCount).toBeGreaterThan(5)
    expect(verified.reduce((sum, block) => sum + block.rowCount, 0)).toBe(rowCount)
    expect(verified.flatMap(({ breaks }) => breaks)).toEqual([])
    expect(await readRecords()).toEqual([{ rows: rowCount, breaks: 0 }])
    expect(events).toEqual([])
  })

  test('records nothing for a ledger without blocks', async () => {
    const empty = await fixture.beside()
    try {
      expect(await verifyLedgerBlock(empty.db.as('symphony_executor'), RATE, 0)).toBeUndefined()
      const { rows } = await empty.db.queryNoRole('SELECT FROM ledger_verifications')
      expect(rows).toEqual([])
    } finally {
      await empty.close()
    }
  })
})

/** Change by a superuser who disables the triggers, with the breaks that a pass names. `$1` is the id of the row. */
interface Change {
  readonly row: string
  readonly sql: readonly string[]
  readonly breaks: (id: string) => readonly string[]
}

const ATTEMPT = `SELECT attempt_id AS id FROM payment_outbox_attempts ORDER BY recorded_xid, attempt_id OFFSET 2 LIMIT 1`
const IDENTITY = `SELECT outbox_id AS id FROM payment_outbox_identities ORDER BY recorded_xid, outbox_id OFFSET 1 LIMIT 1`
const EVENT = `SELECT event_id AS id FROM payment_outbox_events ORDER BY recorded_xid, event_id OFFSET 1 LIMIT 1`
const NONE = `SELECT '00000000-0000-7000-8000-000000000000' AS id`
const REHASH = `UPDATE payment_outbox_blocks b SET block_hash = outbox_block_hash(b)`

const CHANGES: Readonly<Record<string, Change>> = {
  'a changed identity': {
    row: IDENTITY,
    sql: [`UPDATE payment_outbox_identities SET participant_id = participant_id || 'x' WHERE outbox_id = $1`],
    breaks: (id) => [`identity ${id}: differs from what was sealed`],
  },
  'a changed attempt': {
    row: ATTEMPT,
    sql: [`UPDATE payment_outbox_attempts SET rail_reference = 'forged' WHERE attempt_id = $1`],
    breaks: (id) => [`attempt ${id}: differs from what was sealed`],
  },
  'a changed event': {
    row: EVENT,
    sql: [`UPDATE payment_outbox_events SET created_at = created_at + interval '1 microsecond' WHERE event_id = $1`],
    breaks: (id) => [`event ${id}: differs from what was sealed`],
  },
  'a removed row': {
    row: EVENT,
    sql: ['DELETE FROM payment_outbox_events WHERE event_id = $1'],
    breaks: (id) => [`event ${id}: sealed, and missing`],
  },
  'an added row among sealed ones': {
    row: NONE,
    sql: [
      `INSERT INTO payment_outbox_events (event_id, scope, event_no, event_type, actor, recorded_xid)
       SELECT $1, 'rail:forged', 1, 'PAUSED', 'mallory', recorded_xid FROM payment_outbox_events ORDER BY recorded_xid LIMIT 1`,
    ],
    breaks: (id) => [`event ${id}: was not there when its block was sealed`],
  },
  'an added row before all transactions': {
    row: NONE,
    sql: [
      `INSERT INTO payment_outbox_events (event_id, scope, event_no, event_type, actor, recorded_xid)
       VALUES ($1, 'rail:forged', 1, 'PAUSED', 'mallory', -7)`,
    ],
    breaks: (id) => [`event ${id}: was not there when its block was sealed`],
  },
  'a row moved to another block': {
    row: `SELECT attempt_id AS id FROM payment_outbox_attempts ORDER BY recorded_xid DESC LIMIT 1`,
    sql: ['UPDATE payment_outbox_attempts SET recorded_xid = -1 WHERE attempt_id = $1'],
    breaks: (id) => [`attempt ${id}: was not there when its block was sealed`, `attempt ${id}: sealed, and missing`],
  },
  'a removed block': {
    row: NONE,
    sql: ['DELETE FROM payment_outbox_blocks WHERE block_no = 2 AND $1::uuid IS NOT NULL'],
    breaks: () => ['block 3: does not follow the block before it'],
  },
  'a removed first block': {
    row: NONE,
    sql: ['DELETE FROM payment_outbox_blocks WHERE block_no = 1 AND $1::uuid IS NOT NULL'],
    breaks: () => ['block 2: does not follow the block before it'],
  },
  'a changed block': {
    row: NONE,
    sql: [`UPDATE payment_outbox_blocks SET sealed_at = now() WHERE block_no = 2 AND $1::uuid IS NOT NULL`],
    breaks: () => ['block 2: differs from its hash'],
  },
  'changed entries of a block': {
    row: NONE,
    sql: [
      `UPDATE payment_outbox_blocks SET entries = set_byte(entries, 57, 255 - get_byte(entries, 57))
       WHERE block_no = 2 AND $1::uuid IS NOT NULL`,
    ],
    breaks: () => ['block 2: differs from its hash', expect.stringMatching(/: differs from what was sealed$/)],
  },
  'a changed block with a new hash': {
    row: NONE,
    sql: [
      `UPDATE payment_outbox_blocks SET sealed_at = now() WHERE block_no = 2 AND $1::uuid IS NOT NULL`,
      `${REHASH} WHERE block_no = 2 AND $1::uuid IS NOT NULL`,
    ],
    breaks: () => ['block 3: does not follow the block before it'],
  },
  'a changed format': {
    row: NONE,
    sql: [`UPDATE payment_outbox_blocks SET format = 2 WHERE block_no = 2 AND $1::uuid IS NOT NULL`],
    breaks: () => ['block 2: differs from its hash'],
  },
  'a changed format of the last block, with a new hash': {
    row: NONE,
    sql: [
      `UPDATE payment_outbox_blocks SET format = 2
       WHERE block_no = (SELECT max(block_no) FROM payment_outbox_blocks) AND $1::uuid IS NOT NULL`,
      `${REHASH} WHERE format = 2 AND $1::uuid IS NOT NULL`,
    ],
    breaks: () => [expect.stringMatching(/^block \d+: differs from its hash$/)],
  },
}

async function disableGuards(client: Queryable): Promise<void> {
  for (const table of ['identities', 'attempts', 'events', 'blocks']) {
    await client.query(`ALTER TABLE payment_outbox_${table} DISABLE TRIGGER USER`)
  }
}

/** Opens a superuser transaction with disabled triggers, which is rolled back at the end of the test. */
async function openWithoutGuards(): Promise<Connection> {
  const connection = await openConnection(fixture.db)
  onTestFinished(() => connection.close())
  await connection.query('BEGIN')
  await disableGuards(connection)
  return connection
}

describe('a verification pass over a changed ledger', () => {
  test.for(Object.entries(CHANGES))('names and records %s', async ([, { row, sql, breaks }]) => {
    const client = await openWithoutGuards()
    const { rows } = await client.query<{ id: string }>(row)
    const { id } = rows[0]!
    for (const text of sql) expect((await client.client.query(text, [id])).rowCount).toBe(1)
    const events: VerifierEvent[] = []
    const verified = await verifyAll(new LedgerVerifier(client, {}, (event) => events.push(event)), client)
    expect(verified.flatMap((block) => block.breaks)).toEqual(breaks(id))
    const broken = verified.filter((block) => block.breaks.length > 0)
    expect(events).toEqual(
      broken.map((block) => ({ type: 'ledger.broken', block: String(block.blockNo), breaks: block.breaks })),
    )
    // The pass writes one record per broken block, and one at its end.
    const records = await readRecords(client)
    expect(records).toHaveLength(broken.length + 1)
    expect(records.at(-1)).toMatchObject({ breaks: breaks(id).length })
  })

  test('names at most 100 breaks of one block', async () => {
    const client = await openWithoutGuards()
    await client.query(
      `INSERT INTO payment_outbox_events (event_id, scope, event_no, event_type, actor, recorded_xid)
       SELECT gen_random_uuid(), 'rail:forged', n, 'PAUSED', 'mallory', -1 FROM generate_series(1, 150) n`,
    )
    const verified = await verifyLedgerBlock(client, RATE, 0)
    expect(verified?.breaks).toHaveLength(100)
  })
})

/** Commits a change of the one paid attempt. */
async function forge(reference: string): Promise<void> {
  const { rows } = await fixture.db.queryNoRole<{ name: string }>(
    `SELECT tgname AS name FROM pg_trigger WHERE tgrelid = 'payment_outbox_attempts'::regclass AND NOT tgisinternal`,
  )
  const client = await openConnection(fixture.db)
  await client.query('BEGIN')
  await disableGuards(client)
  await client.query(
    `UPDATE payment_outbox_attempts SET rail_reference = $1 WHERE rail_reference IN ('TX-1', 'forged')`,
    [reference],
  )
  for (const { name } of rows) {
    await client.query(`ALTER TABLE payment_outbox_attempts ENABLE ALWAYS TRIGGER ${name}`)
  }
  await client.query('COMMIT')
  await client.close()
}

describe('a break of the ledger', () => {
  test('is recorded at once and in each later verification until a complete pass finds no break', async () => {
    await forge('forged')
    onTestFinished(() => forge('TX-1'))
    const verifier = new LedgerVerifier(executor())
    let block: VerifiedBlock | undefined
    do {
      await makeDue(superuser())
      block = await verifier.runOnce()
    } while (block?.breaks.length === 0)
    expect(Number(block?.blockNo)).toBeLessThan(blockCount)
    const { rowsChecked } = await readPlace()
    expect(await readRecords()).toEqual([{ rows: rowsChecked, breaks: 1 }])

    // Completes this pass, and runs the next pass up to its last block.
    await forge('TX-1')
    expect((await verifyAll(verifier)).flatMap(({ breaks }) => breaks)).toEqual([])
    expect((await readRecords()).at(-1)).toEqual({ rows: rowCount, breaks: 1 })
    for (let left = blockCount; left > 0; left -= 1) {
      await makeDue(superuser())
      expect(await verifier.runOnce()).toMatchObject({ breaks: [] })
    }
    expect((await readRecords()).at(-1)).toEqual({ rows: rowCount, breaks: 1 })
    await makeDue(superuser())
    expect(await verifier.runOnce()).toBeUndefined()
    expect((await readRecords()).at(-1)).toEqual({ rows: rowCount, breaks: 0 })
  })
})

test('LedgerVerifier verifies between start() and stop(), and reports a database error', async () => {
  const events: VerifierEvent[] = []
  const verifier = new LedgerVerifier(executor(), { rowsPerSecond: RATE }, (event) => events.push(event))
  await verifier.start()
  await expect.poll(() => readRecords(), POLL_OPTIONS).toEqual([{ rows: rowCount, breaks: 0 }])
  await verifier.stop()
  expect(events).toEqual([])
  const refused = new LedgerVerifier(fixture.db.as('symphony_readonly'), {}, (event) => events.push(event))
  await refused.start()
  await expect
    .poll(() => events, POLL_OPTIONS)
    .toContainEqual(
      expect.objectContaining({
        type: 'ledger.fault',
        during: 'verifying the ledger',
        error: expect.objectContaining({ sqlstate: '42501' }),
      }),
    )
  await refused.stop()
})

test('verify_ledger_block does not wait for another session that verifies; it returns nothing', async () => {
  const first = await openConnection(fixture.db, 'symphony_executor')
  await first.query('BEGIN')
  expect(await verifyLedgerBlock(first, RATE, 0)).toMatchObject({ blockNo: 1n })
  expect(await verifyLedgerBlock(executor(), RATE, 0)).toBeUndefined()
  await first.query('COMMIT')
  await first.close()
  await makeDue(superuser())
  expect(await verifyLedgerBlock(executor(), RATE, 0)).toMatchObject({ blockNo: 2n })
})

async function readClock(): Promise<number> {
  const { rows } = await fixture.db.queryNoRole<{ now: number }>(
    'SELECT extract(epoch FROM clock_timestamp())::double precision AS now',
  )
  return rows[0]!.now
}

/** Returns the result of a call with the database time before and after it. */
async function timed<T>(run: () => Promise<T>): Promise<{ value: T; before: number; after: number }> {
  const before = await readClock()
  const value = await run()
  return { value, before, after: await readClock() }
}

describe('the verification rate', () => {
  test('counts a block of fewer than 50 rows as 50 rows, and credits at most 1 s of idle time', async () => {
    const { value, before, after } = await timed(() => verifyLedgerBlock(executor(), 1, 0))
    expect(value?.rowCount).toBeLessThan(50)
    const { nextAt } = await readPlace()
    expect(nextAt).toBeGreaterThanOrEqual(before - 1 + 50 - CLOCK_STEP)
    expect(nextAt).toBeLessThanOrEqual(after - 1 + 50 + CLOCK_STEP)
    expect(await verifyLedgerBlock(executor(), RATE, 0)).toBeUndefined()
  })

  test('sets the next due time relative to the last due time, not to the time of verification', async () => {
    await fixture.db.queryNoRole(
      `UPDATE ledger_verification_passes SET next_at = clock_timestamp() - interval '10 milliseconds'`,
    )
    const { nextAt: due } = await readPlace()
    const { value, before } = await timed(() => verifyLedgerBlock(executor(), 10, 0))
    expect(value).toMatchObject({ blockNo: 1n })
    // If the test was delayed by more than a second, the rate counts from one second ago.
    const expected = Math.max(due, before - 1) + 5
    expect((await readPlace()).nextAt).toBeGreaterThanOrEqual(expected - CLOCK_STEP)
  })

  test('lets the next pass begin passSeconds after the last one began', async () => {
    const verifier = new LedgerVerifier(executor(), { passSeconds: 86_400 })
    for (let left = blockCount; left > 0; left -= 1) {
      await makeDue(superuser())
      await verifier.runOnce()
    }
    const { beganAt } = await readPlace()
    await makeDue(superuser())
    expect(await verifier.runOnce()).toBeUndefined()
    const { nextAt, ...ended } = await readPlace()
    expect(ended).toEqual({ lastBlock: 0, rowsChecked: 0, breakCount: 0, beganAt: null })
    expect(Math.abs(nextAt - (beganAt! + 86_400))).toBeLessThan(CLOCK_STEP)
    expect(await verifier.runOnce()).toBeUndefined()
    expect(await readRecords()).toHaveLength(1)
  })

  test('leaves one second between passes with passSeconds 0', async () => {
    for (let left = blockCount; left > 0; left -= 1) {
      await makeDue(superuser())
      await verifyLedgerBlock(executor(), RATE, 0)
    }
    await makeDue(superuser())
    const { before, after } = await timed(() => verifyLedgerBlock(executor(), RATE, 0))
    const { nextAt } = await readPlace()
    expect(nextAt).toBeGreaterThanOrEqual(before + 1 - CLOCK_STEP)
    expect(nextAt).toBeLessThanOrEqual(after + 1 + CLOCK_STEP)
  })
})

/** Tolerance for times as doubles, which have a resolution of about 0.25 µs today. */
const CLOCK_STEP = 0.00001

describe('seal_ledger_block with an interval', () => {
  const HOUR_MS = 3_600_000
  test('seals nothing if the last block is not full and is younger than the interval', async () => {
    const other = await fixture.beside()
    onTestFinished(() => other.close())
    const role = other.db.as('symphony_executor')
    await enqueue(other.db)
    await other.sealAll()
    await enqueue(other.db)
    expect(await sealLedgerBlock(role, 100, HOUR_MS)).toBeUndefined()
    // A block older than the interval allows the next block. With the interval 0 every block is old enough.
    await expect.poll(() => sealLedgerBlock(role, 100, 1), POLL_OPTIONS).toEqual({ blockNo: 2n, rowCount: 1 })
    await enqueue(other.db)
    await expect.poll(() => sealLedgerBlock(role, 100, 0), POLL_OPTIONS).toEqual({ blockNo: 3n, rowCount: 1 })
  })

  test('seals the next block at once after a full block', async () => {
    const other = await fixture.beside()
    onTestFinished(() => other.close())
    const role = other.db.as('symphony_executor')
    await enqueue(other.db)
    await other.sealAll()
    await enqueue(other.db)
    // The previous block is full, because it has one row and the limit is one.
    await expect.poll(() => sealLedgerBlock(role, 1, HOUR_MS), POLL_OPTIONS).toEqual({ blockNo: 2n, rowCount: 1 })
  })

  test('seals after a block dated in the future, so that a clock set back does not stop sealing', async () => {
    const other = await fixture.beside()
    onTestFinished(() => other.close())
    await enqueue(other.db)
    await other.sealAll()
    await other.db.queryNoRole('ALTER TABLE payment_outbox_blocks DISABLE TRIGGER ALL')
    await other.db.queryNoRole(`UPDATE payment_outbox_blocks SET sealed_at = sealed_at + interval '1 hour'`)
    await enqueue(other.db)
    const role = other.db.as('symphony_executor')
    await expect.poll(() => sealLedgerBlock(role, 100, HOUR_MS), POLL_OPTIONS).toEqual({ blockNo: 2n, rowCount: 1 })
  })

  test('refuses an interval that is negative or longer than an hour (22023)', async () => {
    await expect(sealLedgerBlock(executor(), 100, -1)).rejects.toMatchObject({ sqlstate: '22023' })
    await expect(sealLedgerBlock(executor(), 100, HOUR_MS + 1)).rejects.toMatchObject({ sqlstate: '22023' })
  })
})
