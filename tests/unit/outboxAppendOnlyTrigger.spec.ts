import type { Client } from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { deploy } from '../../libs/deployment/index.js'
import { acquireLease } from '../../libs/lease/index.js'
import { placeOutboxHold } from '../../libs/outbox/index.js'
import { type TestDatabase, useTestDatabase, withTestDatabase } from '../support/database.js'
import { rowHashes } from '../support/fingerprint.js'
import { complete, enqueue, enqueueAndClaim } from '../support/outboxItems.js'
import { failureOf } from '../support/race.js'

/** Tests that ledger rows cannot be changed or removed: not by the owner, not by a superuser, not in replica mode. */

const LEDGERS = [
  'payment_outbox_attempts',
  'payment_outbox_identities',
  'payment_outbox_events',
  'payment_outbox_blocks',
  'symphony_deployments',
] as const
type Ledger = (typeof LEDGERS)[number]

/** For each ledger, the key for ON CONFLICT, and a column that statements try to change. */
const COLUMNS: Readonly<Record<Ledger, { readonly key: string; readonly column: string }>> = {
  payment_outbox_attempts: { key: 'attempt_id', column: 'worker_id' },
  payment_outbox_identities: { key: 'outbox_id', column: 'rail_type' },
  payment_outbox_events: { key: 'event_id', column: 'actor' },
  payment_outbox_blocks: { key: 'block_no', column: 'entries' },
  symphony_deployments: { key: 'deployment_no, file', column: 'release' },
}

/** Other tables that refuse TRUNCATE, each with a column that a statement can set. */
const NEVER_TRUNCATED = [
  ['payment_outbox_pending', 'participant_id'],
  ['participant_outbox_sequences', 'participant_id'],
  ['symphony_leases', 'owner'],
  ['symphony_lease_floor', 'fencing_token'],
] as const

/** Session settings and role of each actor. Settings come before SET ROLE, because only a superuser may change them. */
const ACTORS: Readonly<Record<string, readonly string[]>> = {
  owner: ['SET ROLE symphony_owner'],
  superuser: [],
  'owner in replica mode': ['SET session_replication_role = replica', 'SET ROLE symphony_owner'],
  'superuser in replica mode': ['SET session_replication_role = replica'],
  'superuser in local mode': ['SET session_replication_role = local'],
}
const actors = Object.keys(ACTORS)

/** Statements that change or remove rows, and the operation that the guard's message must name. */
const MUTATIONS: readonly {
  readonly title: string
  readonly operation: 'UPDATE' | 'DELETE' | 'TRUNCATE'
  readonly sql: (table: Ledger) => readonly string[]
}[] = [
  { title: 'UPDATE', operation: 'UPDATE', sql: (t) => [`UPDATE ${t} SET ${change(t)}`] },
  { title: 'UPDATE of no row', operation: 'UPDATE', sql: (t) => [`UPDATE ${t} SET ${change(t)} WHERE false`] },
  { title: 'UPDATE ONLY', operation: 'UPDATE', sql: (t) => [`UPDATE ONLY ${t} SET ${change(t)}`] },
  {
    title: 'UPDATE inside a query',
    operation: 'UPDATE',
    sql: (t) => [`WITH changed AS (UPDATE ${t} SET ${change(t)} RETURNING 1) SELECT 1 WHERE false`],
  },
  {
    title: 'UPDATE through a view',
    operation: 'UPDATE',
    sql: (t) => [`CREATE VIEW way_around AS SELECT * FROM ${t}`, `UPDATE way_around SET ${change(t)}`],
  },
  {
    title: 'UPDATE of a cursor row',
    operation: 'UPDATE',
    sql: (t) => [
      `DECLARE at CURSOR FOR SELECT * FROM ${t} FOR UPDATE`,
      'FETCH at',
      `UPDATE ${t} SET ${change(t)} WHERE CURRENT OF at`,
    ],
  },
  {
    title: 'INSERT with ON CONFLICT DO UPDATE',
    operation: 'UPDATE',
    sql: (t) => [
      `INSERT INTO ${t} SELECT * FROM ${t} LIMIT 1 ON CONFLICT (${COLUMNS[t].key}) DO UPDATE SET ${change(t)}`,
    ],
  },
  {
    title: 'MERGE that updates',
    operation: 'UPDATE',
    sql: (t) => [`MERGE INTO ${t} t USING (SELECT 1) s ON true WHEN MATCHED THEN UPDATE SET ${change(t)}`],
  },
  {
    title: 'MERGE that would update no row',
    operation: 'UPDATE',
    sql: (t) => [`MERGE INTO ${t} t USING (SELECT 1) s ON false WHEN MATCHED THEN UPDATE SET ${change(t)}`],
  },
  { title: 'DELETE', operation: 'DELETE', sql: (t) => [`DELETE FROM ${t}`] },
  { title: 'DELETE of no row', operation: 'DELETE', sql: (t) => [`DELETE FROM ${t} WHERE false`] },
  { title: 'DELETE USING', operation: 'DELETE', sql: (t) => [`DELETE FROM ${t} t USING (SELECT 1) s`] },
  {
    title: 'MERGE that deletes',
    operation: 'DELETE',
    sql: (t) => [`MERGE INTO ${t} t USING (SELECT 1) s ON true WHEN MATCHED THEN DELETE`],
  },
  { title: 'TRUNCATE', operation: 'TRUNCATE', sql: (t) => [`TRUNCATE ${t}`] },
  { title: 'TRUNCATE ONLY', operation: 'TRUNCATE', sql: (t) => [`TRUNCATE ONLY ${t} RESTART IDENTITY`] },
  { title: 'TRUNCATE CASCADE', operation: 'TRUNCATE', sql: (t) => [`TRUNCATE ${t} CASCADE`] },
  {
    title: 'TRUNCATE beside another table',
    operation: 'TRUNCATE',
    sql: (t) => [`CREATE TEMP TABLE harmless (a int)`, `TRUNCATE harmless, ${t}`],
  },
]

const db = await useTestDatabase()
let before: Record<string, string>
beforeAll(async () => {
  const item = await enqueue(db)
  await complete(db, await enqueueAndClaim(db), { state: 'RETRYABLE', errorCode: 'BUSY' })
  await complete(db, await enqueueAndClaim(db), { state: 'DISPATCHED', railReference: 'ref-1' })
  await placeOutboxHold(db.as('symphony_control'), item.outboxId, 'under review')
  await acquireLease(db.as('symphony_executor'), { resource: 'r', owner: 'o', durationMs: 60_000 })
  // Inserts a block directly. Sealing would wait for every writer of the server, also in other test files.
  await db.queryNoRole(
    `INSERT INTO payment_outbox_blocks (block_no, format, row_count, last_xid, last_kind, last_id, entries, root, block_hash, sealed_at)
     VALUES (1, 1, 1, 1, 1, gen_random_uuid(), decode(repeat('00', 58), 'hex'), '', '', now())`,
  )
  before = await rowHashes(db)
})

test('every table under test has a row', async () => {
  for (const table of [...LEDGERS, ...NEVER_TRUNCATED.map(([name]) => name)]) {
    const { rows } = await db.queryNoRole(`SELECT $1::text AS table FROM ${table} LIMIT 1`, [table])
    expect(rows).toEqual([{ table }])
  }
})

describe.each(actors)('in a session of the %s,', (actor) => {
  afterAll(async () => {
    await clients.get(actor)?.end()
    clients.delete(actor)
  })

  describe.each(LEDGERS)('table %s', (table) => {
    test.each(MUTATIONS)('refuses $title (P0001)', async ({ operation, sql }) => {
      expect(await refusal(actor, sql(table))).toMatchObject(guardOf(table, operation))
    })

    test('accepts an INSERT', async () => {
      await asActor(actor, async (client) => {
        const count = await client.query(`SELECT FROM ${table}`)
        await client.query(copyOfOneRow(table))
        expect((await client.query(`SELECT FROM ${table}`)).rowCount).toBe(count.rowCount! + 1)
      })
    })
  })

  test.each(NEVER_TRUNCATED)('%s refuses TRUNCATE (P0001) and accepts UPDATE and DELETE', async (table, column) => {
    for (const truncate of [`TRUNCATE ${table}`, `TRUNCATE ${table} CASCADE`]) {
      expect(await refusal(actor, [truncate])).toMatchObject(guardOf(table, 'TRUNCATE'))
    }
    await asActor(actor, async (client) => {
      await client.query(`UPDATE ${table} SET ${column} = ${column}`)
      expect((await client.query(`DELETE FROM ${table}`)).rowCount).toBeGreaterThan(0)
    })
    expect(await rowHashes(db)).toEqual(before)
  })

  test('the statements of these tests leave every row of every table unchanged', async () => {
    expect(await rowHashes(db)).toEqual(before)
  })
})

describe('the append-only guard', () => {
  test('refuses a DELETE that cascades from a parent table (P0001)', async () => {
    const steps = [
      'CREATE TABLE parent (attempt_id uuid PRIMARY KEY)',
      'INSERT INTO parent SELECT attempt_id FROM payment_outbox_attempts',
      'ALTER TABLE payment_outbox_attempts ADD FOREIGN KEY (attempt_id) REFERENCES parent ON DELETE CASCADE',
      'DELETE FROM parent',
    ]
    expect(await refusal('superuser', steps)).toMatchObject(guardOf('payment_outbox_attempts', 'DELETE'))
  })

  test('refuses a TRUNCATE that cascades from a parent table (P0001)', async () => {
    const steps = [
      'CREATE TABLE parent (attempt_id uuid PRIMARY KEY)',
      'INSERT INTO parent SELECT attempt_id FROM payment_outbox_attempts',
      'ALTER TABLE payment_outbox_attempts ADD FOREIGN KEY (attempt_id) REFERENCES parent',
      'TRUNCATE parent CASCADE',
    ]
    expect(await refusal('superuser', steps)).toMatchObject(guardOf('payment_outbox_attempts', 'TRUNCATE'))
  })

  test('refuses an UPDATE by a rule on another table (P0001)', async () => {
    const steps = [
      'CREATE TABLE innocent (a int)',
      `CREATE RULE sneak AS ON INSERT TO innocent
       DO INSTEAD UPDATE payment_outbox_events SET actor = 'changed'`,
      'INSERT INTO innocent VALUES (1)',
    ]
    expect(await refusal('superuser', steps)).toMatchObject(guardOf('payment_outbox_events', 'UPDATE'))
  })
})

describe('the append-only triggers', () => {
  test('lose ENABLE ALWAYS when they are created again; a deployment restores it', async () => {
    await withTestDatabase(
      async (fresh) => {
        const { rows: triggers } = await fresh.queryNoRole<{ table: string; trigger: string; redeclare: string }>(
          `SELECT t.tgrelid::regclass::text AS table, t.tgname AS trigger,
             replace(pg_get_triggerdef(t.oid), 'CREATE TRIGGER', 'CREATE OR REPLACE TRIGGER') AS redeclare
           FROM pg_trigger t WHERE t.tgfoid = 'refuse_mutation'::regproc ORDER BY 1`,
        )
        for (const { redeclare } of triggers) await fresh.queryNoRole(redeclare)
        expect(new Set(await guardModes(fresh))).toEqual(new Set(['O']))

        await deploy({ url: fresh.url, schema: fresh.schema, reapply: true })
        // Tests of the inbox, of the ledger and of reconciliations cover the guards of their tables.
        const reconciliations = ['runs', 'entries', 'findings', 'closings'].map((name) => `reconciliation_${name}`)
        const elsewhere = ['inbox_events', 'inbox_messages', 'ledger_verifications', ...reconciliations]
        const guarded = [...LEDGERS, ...NEVER_TRUNCATED.map(([table]) => table), ...elsewhere]
        expect(new Set(triggers.map(({ table }) => table))).toEqual(new Set(guarded))
        expect(new Set(await guardModes(fresh))).toEqual(new Set(['A']))
        await fresh.queryNoRole('SET session_replication_role = replica')
        expect(await failureOf(fresh.queryNoRole('DELETE FROM symphony_deployments'))).toMatchObject(
          guardOf('symphony_deployments', 'DELETE'),
        )
      },
      { countBranches: false },
    )
  })
})

async function guardModes(database: TestDatabase): Promise<string[]> {
  const { rows } = await database.queryNoRole<{ mode: string }>(
    `SELECT tgenabled AS mode FROM pg_trigger WHERE tgfoid = 'refuse_mutation'::regproc`,
  )
  return rows.map(({ mode }) => mode)
}

/** Returns the guard's error. Its message, schema and table distinguish it from any other P0001. */
function guardOf(table: string, operation: string): Record<string, string> {
  const message = `append-only: ${operation} of table ${table} is refused`
  return { code: 'P0001', message, schema: db.schema, table }
}

/** Runs the steps in one transaction that is rolled back, and returns the error of the last step. */
async function refusal(actor: string, steps: readonly string[]): Promise<unknown> {
  let error: unknown
  await asActor(actor, async (client) => {
    for (const step of steps.slice(0, -1)) await client.query(step)
    error = await failureOf(client.query(steps.at(-1)!))
  })
  return error
}

/** Runs the body as the actor, in a transaction that is rolled back. */
async function asActor(actor: string, body: (client: Client) => Promise<void>): Promise<void> {
  const client = clients.get(actor) ?? (await connectAs(actor))
  await client.query('BEGIN')
  try {
    await body(client)
  } finally {
    await client.query('ROLLBACK')
  }
}

/** One session per actor. */
const clients = new Map<string, Client>()

async function connectAs(actor: string): Promise<Client> {
  const client = await db.connect()
  for (const setting of ACTORS[actor]!) await client.query(setting)
  clients.set(actor, client)
  return client
}

function change(table: Ledger): string {
  return `${COLUMNS[table].column} = 'changed'`
}

/** Returns an INSERT that copies one row, with new values in its unique columns. */
function copyOfOneRow(table: Ledger): string {
  const fresh: Readonly<Record<Ledger, string>> = {
    payment_outbox_attempts: `'{"attempt_no": 999, "state": "ZOMBIE_REQUEUE"}'::jsonb || jsonb_build_object('attempt_id', gen_random_uuid())`,
    payment_outbox_identities: `jsonb_build_object('outbox_id', gen_random_uuid(), 'idempotency_key', 'other', 'sequence_id', 999)`,
    payment_outbox_events: `jsonb_build_object('event_id', gen_random_uuid(), 'event_no', 999)`,
    payment_outbox_blocks: `'{"block_no": 999}'::jsonb`,
    symphony_deployments: `'{"deployment_no": 999}'::jsonb`,
  }
  return `INSERT INTO ${table} SELECT r.* FROM (SELECT * FROM ${table} LIMIT 1) t
    CROSS JOIN LATERAL jsonb_populate_record(t::${table}, ${fresh[table]}) r`
}
