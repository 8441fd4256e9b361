import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Queryable } from '../../libs/db/index.js'
import { placeOutboxHold, recordLateOutcome } from '../../libs/outbox/index.js'
import { createTestDatabase, withTestDatabase, type TestDatabase } from '../support/database.js'
import { exportLedger, ledgerDefects, type LedgerText } from '../support/ledgerChain.js'
import { complete, enqueue, enqueueAndClaim, eventRows, WORKER } from '../support/outboxItems.js'
import { RandomOutbox, type RandomHands } from '../support/outboxRandom.js'
import { openConnection, race } from '../support/race.js'

let db: TestDatabase
let ledger: LedgerText
beforeAll(async () => {
  db = await createTestDatabase()
  await db.queryNoRole('UPDATE symphony_settings SET full_trail = true')
  await new RandomOutbox(db, 11, await oddHands(db)).run(300)
  ledger = await exportLedger(db.as('symphony_auditor'))
})
afterAll(() => db.drop())

/** Settings that change how PostgreSQL writes times, numbers and bytes as text. */
const ODD_SETTINGS = [
  { TimeZone: 'UTC', DateStyle: 'ISO, MDY' },
  { TimeZone: 'Asia/Kathmandu', DateStyle: 'German, DMY', IntervalStyle: 'sql_standard' },
  { TimeZone: 'America/St_Johns', DateStyle: 'SQL, DMY', bytea_output: 'escape', extra_float_digits: '-15' },
  { TimeZone: '<-12:34>+12:34', DateStyle: 'Postgres, MDY', IntervalStyle: 'iso_8601', extra_float_digits: '3' },
]

/** One session with each of the settings, taken in turn. */
async function oddSessions(open: () => Promise<Queryable>): Promise<() => Queryable> {
  const all: Queryable[] = []
  for (const settings of ODD_SETTINGS) {
    const session = await open()
    for (const [name, value] of Object.entries(settings)) {
      await session.query('SELECT set_config($1, $2, false)', [name, value])
    }
    all.push(session)
  }
  let turn = 0
  return () => all[turn++ % all.length]!
}

/** Every call in a session with other settings than the one before. */
async function oddHands(database: TestDatabase): Promise<RandomHands> {
  const person = async (name: string) => {
    const login = await database.createLogin(name, { roles: ['symphony_control'] })
    return oddSessions(async () => {
      const client = await login.connect()
      await client.query('SET ROLE symphony_control')
      return {
        schema: database.schema,
        query: (text, values) => client.query<never>(text, values === undefined ? undefined : [...values]),
      }
    })
  }
  return {
    ingest: await oddSessions(() => openConnection(database, 'symphony_ingest')),
    executor: await oddSessions(() => openConnection(database, 'symphony_executor')),
    people: [await person('olga'), await person('pavel')],
  }
}

describe('every hash of the ledger', () => {
  test('comes out again from exported text, whatever the sessions that wrote it were set to', () => {
    expect(ledgerDefects(ledger)).toEqual([])
    // The work went through every door of the ledger.
    expect(ledger.attempts.map((row) => row.state)).toEqual(
      expect.arrayContaining(['DISPATCHED', 'FAILED', 'RETRYABLE', 'ZOMBIE_REQUEUE']),
    )
    expect(ledger.attempts.some((row) => row.error_code === 'OPERATOR_DECISION')).toBe(true)
    expect(ledger.identities.some((row) => row.redrive_of !== null)).toBe(true)
    expect(ledger.events.some((row) => row.scope !== null)).toBe(true)
  })

  test('comes out again whatever the session that exports it is set to', async () => {
    for (const settings of ODD_SETTINGS) {
      const session = await openConnection(db, 'symphony_auditor')
      for (const [name, value] of Object.entries(settings)) {
        await session.query('SELECT set_config($1, $2, false)', [name, value])
      }
      const exported = await exportLedger(session)
      expect(ledgerDefects(exported)).toEqual([])
      expect(exported.attempts).toEqual(ledger.attempts)
      await session.close()
    }
  })

  test('is there', () => {
    const rows = [...ledger.identities, ...ledger.attempts, ...ledger.events]
    for (const { row_hash: hash } of rows) expect(hash).toMatch(/^[0-9a-f]{64}$/)
    expect(new Set(rows.map((row) => row.row_hash)).size).toBe(rows.length)
  })
})

type Kind = 'identities' | 'attempts' | 'events'
type Row = Readonly<Record<string, string | null>>

/** Two fields of each that are hashed one after the other. */
const NEIGHBOURS = {
  identities: ['instruction_id', 'idempotency_key'],
  attempts: ['rail_code', 'error_code'],
  events: ['event_type', 'actor'],
} as const

/** The ledger with one row replaced, or removed. */
function altered(kind: Kind, index: number, ...replacement: readonly Row[]): LedgerText {
  const rows: Row[] = [...ledger[kind]]
  rows.splice(index, 1, ...replacement)
  return { ...ledger, [kind]: rows }
}

/** The same, and of the rest only what is about the same item or scope: enough, and a thousand times faster. */
function withRow(kind: Kind, index: number, forged: Row): LedgerText {
  const subject = (row: Row) => row['outbox_id'] ?? row['scope']
  const original = subject(ledger[kind][index]!)
  const isRelated = (row: Row) => row === forged || subject(row) === original
  const { identities, attempts, events, pending } = altered(kind, index, forged)
  return {
    identities: identities.filter(isRelated),
    attempts: attempts.filter(isRelated),
    events: events.filter(isRelated),
    pending: pending.filter(isRelated),
  }
}

/** A few rows that between them have every kind of content: one per state or type, each with a neighbour. */
function samples(kind: Kind): { readonly index: number; readonly row: Row }[] {
  const seen = new Set<string>()
  const rows: readonly Row[] = ledger[kind]
  return rows.flatMap((row, index) => {
    const filled = Object.keys(row).filter((field) => row[field] !== null)
    const likeness = [row['state'], row['event_type'], ...filled].join(' ')
    if (seen.has(likeness)) return []
    seen.add(likeness)
    return [{ index, row }]
  })
}

/** The same text with one character changed: first, last and in the middle. */
function flips(text: string): string[] {
  return [0, Math.floor(text.length / 2), text.length - 1]
    .filter((at) => at >= 0 && at < text.length)
    .map((at) => `${text.slice(0, at)}${text[at] === '7' ? '8' : '7'}${text.slice(at + 1)}`)
}

describe.for(['identities', 'attempts', 'events'] as const)('a change to the %s is found', (kind) => {
  test('in any field, at any place in it', () => {
    const unfound: string[] = []
    const fields = new Set<string>()
    for (const { index, row } of samples(kind)) {
      for (const [field, text] of Object.entries(row)) {
        // A null may not become an empty text either, nor the other way round.
        const forgeries = text === null ? ['', 'x'] : [...flips(text), `${text} `, null]
        for (const forged of forgeries) {
          const found = ledgerDefects(withRow(kind, index, { ...row, [field]: forged }))
          if (found.length === 0) unfound.push(`${field}: ${text} became ${forged}`)
          fields.add(field)
        }
      }
    }
    expect(unfound).toEqual([])
    expect([...fields].toSorted()).toEqual(Object.keys(ledger[kind][0]!).toSorted())
  })

  test('where bytes move from one field to its neighbour', () => {
    const [first, second] = NEIGHBOURS[kind]
    const rows: readonly Row[] = ledger[kind]
    const index = rows.findIndex((row) => row[first] !== null && row[second] !== null)
    const row = rows[index]!
    const moved = { ...row, [first]: row[first]!.slice(0, -1), [second]: `${row[first]!.slice(-1)}${row[second]}` }
    expect(ledgerDefects(altered(kind, index, moved))).not.toEqual([])
  })
})

describe.for([
  ['attempts', 'outbox_id', 'attempt_no'],
  ['events', 'outbox_id', 'event_no'],
  ['events', 'scope', 'event_no'],
] as const)('of the %s about one %s', ([kind, subject, number]) => {
  /** The first of two neighbours in a chain. */
  function middle(): number {
    const rows: readonly Row[] = ledger[kind]
    return rows.findIndex((row, index) => row[subject] !== null && rows[index + 1]?.[subject] === row[subject])
  }

  test('one that is missing is found', () => {
    expect(ledgerDefects(altered(kind, middle()))).not.toEqual([])
  })

  test('two that were swapped are found', () => {
    const index = middle()
    const [first, second]: readonly Row[] = ledger[kind].slice(index, index + 2)
    const rows: Row[] = [...ledger[kind]]
    rows[index] = { ...second!, [number]: first![number]! }
    rows[index + 1] = { ...first!, [number]: second![number]! }
    expect(ledgerDefects({ ...ledger, [kind]: rows })).not.toEqual([])
  })

  test('one that was slipped in is found', () => {
    const index = middle()
    const row: Row = ledger[kind][index]!
    expect(ledgerDefects(altered(kind, index, row, row))).not.toEqual([])
  })
})

test('what a superuser rewrites in the tables themselves is found', async () => {
  const forgeries: [table: string, change: string][] = [
    ['payment_outbox_identities', `participant_id = participant_id || 'x'`],
    ['payment_outbox_attempts', `rail_reference = 'another'`],
    ['payment_outbox_attempts', `payload = payload || '{"amount": 1}'`],
    ['payment_outbox_attempts', `created_at = created_at + interval '1 microsecond'`],
    ['payment_outbox_events', `detail = detail || '{"reason": "another"}'`],
  ]
  for (const [table, change] of forgeries) {
    const forger = await openConnection(db)
    await forger.query('BEGIN')
    await forger.query(`ALTER TABLE ${table} DISABLE TRIGGER USER`)
    await forger.query(
      `UPDATE ${table} SET ${change} WHERE ctid = (SELECT ctid FROM ${table} ORDER BY row_hash LIMIT 1)`,
    )
    expect({ change, found: ledgerDefects(await exportLedger(forger)) }).not.toEqual({ change, found: [] })
    await forger.query('ROLLBACK')
    await forger.close()
  }
})

test('events that many write about one item at once form one chain', async () => {
  await withTestDatabase(async (other) => {
    const lease = await enqueueAndClaim(other)
    const { outboxId, leaseToken } = lease
    const lock = await openConnection(other)
    await lock.query('BEGIN')
    await lock.query('SELECT FROM payment_outbox_pending WHERE outbox_id = $1 FOR UPDATE', [outboxId])
    const holding = openConnection(other, 'symphony_control').then((connection) =>
      placeOutboxHold(connection, outboxId, 'please wait'),
    )
    const { errors } = await race(
      other,
      'symphony_executor',
      12,
      (connection, index) =>
        recordLateOutcome(connection, WORKER, { outboxId, leaseToken, state: 'FAILED', railCode: `code ${index}` }),
      { releaseWhenAllWait: () => lock.query('COMMIT') },
    )
    await holding
    expect(errors).toEqual([])
    // And when the item has ended, when another lock orders them.
    await complete(other, lease, { state: 'FAILED' })
    await race(other, 'symphony_executor', 12, (connection, index) =>
      recordLateOutcome(connection, WORKER, { outboxId, leaseToken, state: 'RETRYABLE', railCode: `code ${index}` }),
    )
    expect((await eventRows(other, outboxId)).map((event) => Number(event.event_no))).toEqual(
      Array.from({ length: 25 }, (_, index) => index + 1),
    )
    expect(ledgerDefects(await exportLedger(other.as('symphony_auditor')))).toEqual([])
  })
})

test('items that were never attempted have their first link', async () => {
  await withTestDatabase(async (other) => {
    await enqueue(other, {
      idempotencyKey: randomUUID(),
      payload: { text: '€\u2028"\\', list: [1.5, 1e20, -0.0000001] },
    })
    const exported = await exportLedger(other.as('symphony_auditor'))
    expect(exported).toMatchObject({ identities: [expect.anything()], attempts: [], events: [] })
    expect(ledgerDefects(exported)).toEqual([])
  })
})
