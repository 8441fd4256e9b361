import type { Client } from 'pg'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { deploy } from '../../libs/deployment/index.js'
import { acquireLease } from '../../libs/lease/index.js'
import { placeOutboxHold } from '../../libs/outbox/index.js'
import { createTestDatabase, withTestDatabase, type TestDatabase } from '../support/database.js'
import { rowHashes } from '../support/fingerprint.js'
import { complete, enqueue, enqueueAndClaim } from '../support/outboxItems.js'
import { failureOf } from '../support/race.js'

/** History cannot be rewritten: not by the owner, not by a superuser who forgets what he is doing, not in replica mode. */

const LEDGERS = [
  'payment_outbox_attempts',
  'payment_outbox_identities',
  'payment_outbox_events',
  'payment_outbox_blocks',
  'symphony_deployments',
] as const
type Ledger = (typeof LEDGERS)[number]

/** A column of each that a statement can try to change, and the key by which rows conflict. */
const COLUMNS: Readonly<Record<Ledger, { readonly key: string; readonly column: string }>> = {
  payment_outbox_attempts: { key: 'attempt_id', column: 'worker_id' },
  payment_outbox_identities: { key: 'outbox_id', column: 'rail_type' },
  payment_outbox_events: { key: 'event_id', column: 'actor' },
  payment_outbox_blocks: { key: 'block_no', column: 'entries' },
  symphony_deployments: { key: 'deployment_no, file', column: 'release' },
}

/** Not ledgers, but nothing may empty them; each with a column that a statement can set. */
const NEVER_TRUNCATED = [
  ['payment_outbox_pending', 'participant_id'],
  ['participant_outbox_sequences', 'participant_id'],
  ['symphony_leases', 'owner'],
  ['symphony_lease_floor', 'fencing_token'],
] as const

/** Who tries. Settings of the session are made before the role is taken, as only a superuser could. */
const ACTORS: Readonly<Record<string, readonly string[]>> = {
  owner: ['SET ROLE symphony_owner'],
  superuser: [],
  'owner in replica mode': ['SET session_replication_role = replica', 'SET ROLE symphony_owner'],
  'superuser in replica mode': ['SET session_replication_role = replica'],
  'superuser in local mode': ['SET session_replication_role = local'],
}
const actors = Object.keys(ACTORS)

/** Every statement that changes or removes a row, and the word the guard must use for it. */
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
    title: 'INSERT that updates what it meets',
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

let db: TestDatabase
let before: Record<string, string>

beforeAll(async () => {
  db = await createTestDatabase()
  const item = await enqueue(db)
  await complete(db, await enqueueAndClaim(db), { state: 'RETRYABLE', errorCode: 'BUSY' })
  await complete(db, await enqueueAndClaim(db), { state: 'DISPATCHED', railReference: 'ref-1' })
  await placeOutboxHold(db.as('symphony_control'), item.outboxId, 'under review')
  await acquireLease(db.as('symphony_executor'), { resource: 'r', owner: 'o', durationMs: 60_000 })
  // By hand: sealing waits for every writer of the server, those of other test files too.
  await db.queryNoRole(
    `INSERT INTO payment_outbox_blocks (block_no, format, row_count, last_xid, last_kind, last_id, entries, root, block_hash, sealed_at)
     VALUES (1, 1, 1, 1, 1, gen_random_uuid(), decode(repeat('00', 58), 'hex'), '', '', now())`,
  )
  before = await rowHashes(db)
})
afterAll(() => db.drop())

test('every ledger of these proofs has rows to lose', async () => {
  for (const table of [...LEDGERS, ...NEVER_TRUNCATED.map(([name]) => name)]) {
    const { rows } = await db.queryNoRole(`SELECT $1::text AS table FROM ${table} LIMIT 1`, [table])
    expect(rows).toEqual([{ table }])
  }
})

describe.each(actors)('as %s', (actor) => {
  afterAll(async () => {
    await clients.get(actor)?.end()
    clients.delete(actor)
  })

  describe.each(LEDGERS)('%s', (table) => {
    test.each(MUTATIONS)('refuses $title', async ({ operation, sql }) => {
      expect(await refusal(actor, sql(table))).toMatchObject(guardOf(table, operation))
    })

    test('takes an INSERT', async () => {
      await asActor(actor, async (client) => {
        const count = await client.query(`SELECT FROM ${table}`)
        await client.query(copyOfOneRow(table))
        expect((await client.query(`SELECT FROM ${table}`)).rowCount).toBe(count.rowCount! + 1)
      })
    })
  })

  test.each(NEVER_TRUNCATED)('%s refuses TRUNCATE, and takes UPDATE and DELETE', async (table, column) => {
    for (const truncate of [`TRUNCATE ${table}`, `TRUNCATE ${table} CASCADE`]) {
      expect(await refusal(actor, [truncate])).toMatchObject(guardOf(table, 'TRUNCATE'))
    }
    await asActor(actor, async (client) => {
      await client.query(`UPDATE ${table} SET ${column} = ${column}`)
      expect((await client.query(`DELETE FROM ${table}`)).rowCount).toBeGreaterThan(0)
    })
    expect(await rowHashes(db)).toEqual(before)
  })

  test('not one row of any table is another than before', async () => {
    expect(await rowHashes(db)).toEqual(before)
  })
})

describe('ways through another table', () => {
  test('a foreign key that would delete with its parent meets the guard', async () => {
    const steps = [
      'CREATE TABLE parent (attempt_id uuid PRIMARY KEY)',
      'INSERT INTO parent SELECT attempt_id FROM payment_outbox_attempts',
      'ALTER TABLE payment_outbox_attempts ADD FOREIGN KEY (attempt_id) REFERENCES parent ON DELETE CASCADE',
      'DELETE FROM parent',
    ]
    expect(await refusal('superuser', steps)).toMatchObject(guardOf('payment_outbox_attempts', 'DELETE'))
  })

  test('a TRUNCATE that reaches a ledger by a foreign key meets the guard', async () => {
    const steps = [
      'CREATE TABLE parent (attempt_id uuid PRIMARY KEY)',
      'INSERT INTO parent SELECT attempt_id FROM payment_outbox_attempts',
      'ALTER TABLE payment_outbox_attempts ADD FOREIGN KEY (attempt_id) REFERENCES parent',
      'TRUNCATE parent CASCADE',
    ]
    expect(await refusal('superuser', steps)).toMatchObject(guardOf('payment_outbox_attempts', 'TRUNCATE'))
  })

  test('a rule that turns an INSERT elsewhere into an UPDATE here meets the guard', async () => {
    const steps = [
      'CREATE TABLE innocent (a int)',
      `CREATE RULE sneak AS ON INSERT TO innocent
       DO INSTEAD UPDATE payment_outbox_events SET actor = 'nobody'`,
      'INSERT INTO innocent VALUES (1)',
    ]
    expect(await refusal('superuser', steps)).toMatchObject(guardOf('payment_outbox_events', 'UPDATE'))
  })
})

describe('the guards stay ALWAYS', () => {
  test('declaring a trigger again resets it, which is why a deployment says ALWAYS after each', async () => {
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
        // Inbox tests cover the guards of the inbox; ledger tests cover those of verifications.
        const elsewhere = ['inbox_events', 'inbox_messages', 'ledger_verifications']
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

/** The error of our guard, told from any other P0001 by its message, schema and table. */
function guardOf(table: string, operation: string): Record<string, string> {
  const message = `append-only: ${operation} of table ${table} is refused`
  return { code: 'P0001', message, schema: db.schema, table }
}

/** Runs the steps in one transaction, of which the last one must fail, and undoes it. */
async function refusal(actor: string, steps: readonly string[]): Promise<unknown> {
  let error: unknown
  await asActor(actor, async (client) => {
    for (const step of steps.slice(0, -1)) await client.query(step)
    error = await failureOf(client.query(steps.at(-1)!))
  })
  return error
}

/** In a transaction that is undone: what it changed is to be seen in it or not at all. */
async function asActor(actor: string, body: (client: Client) => Promise<void>): Promise<void> {
  const client = clients.get(actor) ?? (await connectAs(actor))
  await client.query('BEGIN')
  try {
    await body(client)
  } finally {
    await client.query('ROLLBACK')
  }
}

/** One session each, for all that they try. */
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

/** The columns of a table are listed by PostgreSQL; the unique ones get new values. */
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
