import { beforeAll, describe, expect, test } from 'vitest'
import type { Queryable } from '../../libs/db/index.js'
import { sealLedgerBlock, verifyLedgerBlock } from '../../libs/ledger/db.js'
import { databaseSource, verifyLedger } from '../../libs/ledger/index.js'
import { closeAfterAll } from '../support/afterAll.js'
import type { TestDatabase } from '../support/database.js'
import { brokenLedgerRules, readLedgerText, type LedgerText } from '../support/ledgerRules.js'
import { LedgerFixture } from '../support/ledgerFixture.js'
import { RandomOutbox, type RandomWorkers } from '../support/outboxRandom.js'
import { openConnection, type Connection } from '../support/race.js'

/** Settings that change how PostgreSQL reads and writes times, numbers, bytes and messages as text. */
const ODD_SETTINGS = [
  { TimeZone: 'UTC', DateStyle: 'ISO, MDY' },
  { TimeZone: 'Asia/Kathmandu', DateStyle: 'German, DMY', IntervalStyle: 'sql_standard', lc_numeric: 'C' },
  { TimeZone: 'America/St_Johns', DateStyle: 'SQL, DMY', bytea_output: 'escape', extra_float_digits: '-15' },
  {
    TimeZone: '<-12:34>+12:34',
    DateStyle: 'Postgres, MDY',
    IntervalStyle: 'iso_8601',
    extra_float_digits: '3',
    lc_monetary: 'C',
    lc_time: 'C',
  },
]

async function configure(session: Queryable, settings: Readonly<Record<string, string>>): Promise<void> {
  for (const [name, value] of Object.entries(settings)) {
    await session.query('SELECT set_config($1, $2, false)', [name, value])
  }
}

/** Opens one session per set of settings. The returned function returns the sessions in turn. */
async function oddSessions<S extends Queryable>(open: () => Promise<S>): Promise<() => S> {
  const all: S[] = []
  for (const settings of ODD_SETTINGS) {
    const session = await open()
    await configure(session, settings)
    all.push(session)
  }
  let turn = 0
  return () => all[turn++ % all.length]!
}

/** Returns workers that use another session, with other settings, for each call. */
async function workersWithOddSettings(database: TestDatabase): Promise<RandomWorkers> {
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

const fixture = closeAfterAll(await LedgerFixture.open())
let ledger: LedgerText
beforeAll(async () => {
  const { db } = fixture
  await db.queryNoRole('UPDATE symphony_settings SET full_trail = true')
  const workers = await workersWithOddSettings(db)
  await new RandomOutbox(db, 11, workers).run(300, async (step) => {
    if (step % 20 === 0) await sealLedgerBlock(workers.executor(), 50)
  })
  ledger = await readLedgerText(fixture.auditor)
  // Seals the remaining rows, each block in another session.
  while ((await sealLedgerBlock(workers.executor(), 50)) !== undefined);
  await fixture.sealAll()
})

describe('a ledger written and sealed by sessions with unusual settings', () => {
  test('breaks no ledger rule and has attempts in every state, an operator decision and a redrive', () => {
    expect(brokenLedgerRules(ledger)).toEqual([])
    expect(ledger.attempts.map((row) => row.state)).toEqual(
      expect.arrayContaining(['DISPATCHED', 'FAILED', 'RETRYABLE', 'ZOMBIE_REQUEUE']),
    )
    expect(ledger.attempts.some((row) => row.error_code === 'OPERATOR_DECISION')).toBe(true)
    expect(ledger.identities.some((row) => row.redrive_of !== null)).toBe(true)
    expect(ledger.events.some((row) => row.scope !== null)).toBe(true)
  })

  test.for(ODD_SETTINGS)('verifies in a session with %o', async (settings) => {
    const auditor = await openConnection(fixture.db, 'symphony_auditor')
    await configure(auditor, settings)
    const { rows: given } = await auditor.query<{ name: string; setting: string }>(
      'SELECT name, setting FROM pg_settings WHERE name = ANY ($1)',
      [Object.keys(settings)],
    )
    expect(Object.fromEntries(given.map(({ name, setting }) => [name, setting]))).toEqual(settings)
    const report = await verifyLedger(databaseSource(auditor))
    await auditor.close()
    expect(report).toMatchObject({
      breaks: [],
      openRows: 0,
      identities: ledger.identities.length,
      attempts: ledger.attempts.length,
      events: ledger.events.length,
    })
    expect(report.blocks).toBeGreaterThan(5)
  })

  test.for(ODD_SETTINGS)('gets the same block entries in a session with %o', async (settings) => {
    const session = await openConnection(fixture.db)
    await configure(session, settings)
    const { rows } = await session.query<{ now: Buffer; sealed: Buffer }>(
      `SELECT (SELECT string_agg(e.entry, '' ORDER BY e.ordinality)
          FROM outbox_block_entries(0, 0::smallint, '00000000-0000-0000-0000-000000000000',
            9223372036854775807, 3::smallint, 'ffffffff-ffff-ffff-ffff-ffffffffffff', 1000000) WITH ORDINALITY e) AS now,
         (SELECT string_agg(b.entries, '' ORDER BY b.block_no) FROM payment_outbox_blocks b) AS sealed`,
    )
    await session.close()
    expect(rows[0]!.now.equals(rows[0]!.sealed)).toBe(true)
  })
})

describe('a session whose client_encoding is not UTF8', () => {
  const refusal = {
    sqlstate: '55000',
    message: expect.stringContaining('client_encoding is SQL_ASCII'),
    hint: 'SET client_encoding TO UTF8 in this session.',
  }

  test('is refused by seal_ledger_block (55000)', async () => {
    await expect(withPlainBytes('symphony_executor', (session) => sealLedgerBlock(session, 50))).rejects.toMatchObject(
      refusal,
    )
  })

  test('is refused by verify_ledger_block (55000)', async () => {
    await expect(
      withPlainBytes('symphony_executor', (session) => verifyLedgerBlock(session, 1_000, 0)),
    ).rejects.toMatchObject(refusal)
  })

  test('is refused by verifyLedger (INVALID_ENCODING)', async () => {
    await expect(
      withPlainBytes('symphony_auditor', (session) => verifyLedger(databaseSource(session))),
    ).rejects.toMatchObject({ code: 'INVALID_ENCODING' })
  })
})

async function withPlainBytes<T>(role: string, run: (session: Connection) => Promise<T>): Promise<T> {
  const session = await openConnection(fixture.db, role)
  try {
    await session.query('SET client_encoding TO SQL_ASCII')
    return await run(session)
  } finally {
    await session.close()
  }
}
