import type { Client } from 'pg'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { quoteIdentifier } from '../../libs/db/index.js'
import { deploy } from '../../libs/deployment/index.js'
import { recordLedgerVerification } from '../../libs/ledger/index.js'
import {
  declareOutboxRails,
  heartbeatOutboxWorker,
  repairExpiredLeases,
  setParticipantOutboxPolicy,
} from '../../libs/outbox/index.js'
import { type TestLogin, useTestDatabase } from '../support/database.js'
import { fingerprint, type Fingerprint } from '../support/fingerprint.js'
import { WORKER } from '../support/outboxItems.js'
import { enqueueFailed } from '../support/outboxPeople.js'
import { failureOf } from '../support/race.js'
import { refusalIn } from '../support/refusal.js'
import {
  callersOf,
  callStatement,
  PUBLIC_FUNCTIONS,
  ROLES,
  soundArguments,
  VOLATILITIES,
  type Arguments,
  type Role,
} from '../support/sqlFunctions.js'

/**
 * Tests every role with every object and every right, on existing rows. The objects come from the catalog, so that a
 * new one without an entry here fails. The expected rights are listed here, as the specification gives them.
 */

/** PUBLIC is a login without any role. */
const ACTORS = [...ROLES, 'PUBLIC'] as const
type Actor = (typeof ACTORS)[number]

/** Readers of each table and view, with the columns that they may not see. A role that is missing may read nothing. */
const READERS: Readonly<Record<string, Partial<Record<Role, { readonly except: readonly string[] }>>>> = {
  symphony_settings: { auditor: whole() },
  api_keys: { control: except('secret_hash'), auditor: except('secret_hash') },
  browser_sessions: { control: except('secret_hash'), auditor: except('secret_hash') },
  // Only control rewraps keys, so only control reads the wrapped key.
  subject_keys: { control: whole(), auditor: except('wrapped_key') },
  inbox_messages: {
    control: except('fence'),
    auditor: except('fence'),
    readonly: except('fence', 'payload'),
  },
  inbox_events: { control: whole(), auditor: whole(), readonly: whole() },
  symphony_deployments: { control: whole(), auditor: whole(), readonly: whole() },
  // The sequence shows how many items each participant has enqueued, so only operators read it.
  participant_outbox_sequences: { control: whole() },
  participant_outbox_policies: { control: whole(), auditor: whole(), readonly: whole() },
  payment_outbox_identities: { control: whole(), auditor: whole(), readonly: whole() },
  payment_outbox_pending: {
    control: except('lease_token'),
    auditor: except('lease_token'),
    readonly: except('lease_token', 'payload', 'late_outcome', 'block_unverified'),
  },
  // Control and auditor may read lease_token, because the tokens in the ledger are no longer valid.
  payment_outbox_attempts: { control: whole(), auditor: whole(), readonly: except('lease_token', 'payload') },
  payment_outbox_events: { control: whole(), auditor: whole(), readonly: whole() },
  payment_outbox_blocks: { control: whole(), auditor: whole(), readonly: whole() },
  ledger_projection: { control: whole(), auditor: whole(), readonly: whole() },
  outbox_series: { control: whole(), auditor: whole(), readonly: whole() },
  outbox_attempt_series: { control: whole(), auditor: whole(), readonly: whole() },
  outbox_worker_series: { control: whole(), auditor: whole(), readonly: whole() },
  outbox_breaker_changes: { control: whole(), auditor: whole(), readonly: whole() },
  // A rail can hide the amount by its field classes, so readonly may not read this column.
  payment_search: { control: whole(), auditor: whole(), readonly: except('amount', 'currency') },
  payment_search_destinations: { auditor: whole() },
  // No role reads this table. Its results are in ledger_verifications.
  ledger_verification_passes: {},
  ledger_verifications: { control: whole(), auditor: whole(), readonly: whole() },
  payment_outbox_proposals: { control: whole(), auditor: whole(), readonly: whole() },
  outbox_contradictions: { control: whole(), auditor: whole(), readonly: whole() },
  outbox_limits: { control: whole(), auditor: whole(), readonly: whole() },
  outbox_limit_proposals: { control: whole(), auditor: whole(), readonly: whole() },
  outbox_limit_usage: { control: whole(), auditor: whole(), readonly: whole() },
  reconciliation_runs: { control: whole(), auditor: whole(), readonly: whole() },
  reconciliation_closings: { control: whole(), auditor: whole(), readonly: whole() },
  reconciliation_open_findings: { control: whole(), auditor: whole(), readonly: whole() },
  // Bank references can contain names of people, and a rail can hide the amount by its field classes. The keys are
  // hashes of both, so that readers of a key could test guesses.
  reconciliation_entries: {
    control: whole(),
    auditor: whole(),
    readonly: except('entry_key', 'account', 'bank_reference', 'reference', 'amount', 'currency'),
  },
  reconciliation_findings: { control: whole(), auditor: whole(), readonly: except('finding_key', 'detail') },
  reconciliation_uploads: {},
  reconciliation_upload_payments: {},
  outbox_pauses: { control: whole(), auditor: whole(), readonly: whole() },
  outbox_workers: { control: whole(), auditor: whole(), readonly: whole() },
  outbox_rails: { control: whole(), auditor: whole(), readonly: whole() },
  dispatch_epochs: { control: whole(), auditor: whole(), readonly: whole() },
  // lease_id is left out, because a reader could renew or release the lease with it.
  symphony_leases: {
    control: except('lease_id', 'floor_seen'),
    auditor: except('lease_id'),
    readonly: except('lease_id', 'context', 'floor_seen'),
  },
  symphony_lease_floor: { auditor: whole() },
  outbox_attempt_tallies: {},
  outbox_attempt_totals: {},
  outbox_queue_counts: {},
  outbox_queue_parts: {},
  outbox_queue_status: { control: whole(), auditor: whole(), readonly: whole() },
  scheduler_jobs: { control: whole(), auditor: whole(), readonly: except('payload') },
  scheduler_tasks: {},
  scheduler_timers: { control: whole(), auditor: whole(), readonly: except('payload') },
  scheduler_job_runs: { control: whole(), auditor: whole(), readonly: except('payload') },
  supervisor_outbox_status: { control: whole(), auditor: whole(), readonly: whole() },
  supervisor_inbox_status: { control: whole(), auditor: whole(), readonly: whole() },
  supervisor_scheduler_status: { control: whole(), auditor: whole(), readonly: whole() },
  supervisor_lease_status: { control: whole(), auditor: whole(), readonly: whole() },
  outbox_operational_status: { control: whole(), auditor: whole(), readonly: whole() },
  outbox_throughput: { control: whole(), auditor: whole(), readonly: whole() },
  reconciliation_payment_entries: { control: whole(), auditor: whole(), readonly: whole() },
}

/** Statements that change or lock a table, its rows or its definition. */
const WRITES: readonly { readonly right: string; readonly sql: (table: Relation) => string }[] = [
  { right: 'INSERT', sql: ({ name }) => `INSERT INTO ${name} DEFAULT VALUES` },
  { right: 'INSERT by COPY', sql: ({ name }) => `COPY ${name} FROM STDIN` },
  { right: 'UPDATE', sql: ({ name, columns }) => `UPDATE ${name} SET ${columns[0]} = DEFAULT` },
  { right: 'UPDATE of no row', sql: ({ name, columns }) => `UPDATE ${name} SET ${columns[0]} = NULL WHERE false` },
  { right: 'DELETE', sql: ({ name }) => `DELETE FROM ${name}` },
  { right: 'MERGE', sql: ({ name }) => `MERGE INTO ${name} t USING (SELECT 1) s ON true WHEN MATCHED THEN DELETE` },
  { right: 'TRUNCATE', sql: ({ name }) => `TRUNCATE ${name}` },
  { right: 'row locks', sql: ({ name }) => `SELECT 1 FROM ${name} FOR UPDATE` },
  { right: 'the weakest row lock', sql: ({ name }) => `SELECT 1 FROM ${name} FOR KEY SHARE` },
  { right: 'table locks', sql: ({ name }) => `LOCK TABLE ${name} IN ROW EXCLUSIVE MODE` },
  { right: 'the strongest table lock', sql: ({ name }) => `LOCK TABLE ${name} IN ACCESS EXCLUSIVE MODE NOWAIT` },
  { right: 'TRIGGER', sql: ({ name }) => `CREATE TRIGGER t AFTER INSERT ON ${name} EXECUTE FUNCTION scratch.f()` },
  { right: 'MAINTAIN', sql: ({ name }) => `REINDEX TABLE ${name}` },
  { right: 'a rule', sql: ({ name }) => `CREATE RULE r AS ON INSERT TO ${name} DO INSTEAD NOTHING` },
  { right: 'an index', sql: ({ name, columns }) => `CREATE INDEX ON ${name} (${columns[0]})` },
  { right: 'ALTER', sql: ({ name }) => `ALTER TABLE ${name} ADD COLUMN mine int` },
  { right: 'DISABLE TRIGGER', sql: ({ name }) => `ALTER TABLE ${name} DISABLE TRIGGER ALL` },
  { right: 'RENAME', sql: ({ name }) => `ALTER TABLE ${name} RENAME TO mine` },
  { right: 'OWNER', sql: ({ name }) => `ALTER TABLE ${name} OWNER TO CURRENT_USER` },
  { right: 'DROP', sql: ({ name }) => `DROP TABLE ${name}` },
]

interface Relation {
  /** Name with its schema, quoted. */
  readonly name: string
  readonly kind: 'table' | 'view'
  readonly columns: readonly string[]
  readonly primaryKey: readonly { readonly name: string; readonly type: string }[]
}

// Branch counters would change the functions in the catalog.
const db = await useTestDatabase({ countBranches: false })
let unprivileged: TestLogin
let relations: ReadonlyMap<string, Relation>
let functions: ReadonlyMap<string, { readonly signature: string; readonly nulls: string }>
let sound: ReadonlyMap<string, Arguments>
let deployed: Fingerprint
const clients = new Map<Actor, Client>()

beforeAll(async () => {
  unprivileged = await db.createLogin('unprivileged')
  deployed = await fingerprint(db)
  sound = await soundArguments(db)
  await putARowInEveryTable()
  relations = await readRelations()
  functions = await readFunctions()
  // A schema in which every actor may create the objects that a statement needs.
  await db.queryNoRole(`CREATE SCHEMA scratch; GRANT ALL ON SCHEMA scratch TO PUBLIC;
    CREATE FUNCTION scratch.f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';`)
  for (const role of ROLES) clients.set(role, await db.connect(`symphony_${role}`))
  clients.set('PUBLIC', await unprivileged.connect())
})
afterAll(async () => {
  process.stdout.write(`privileges: ${statements} statements\n`)
})

test('every table and view has an entry in READERS', () => {
  expect([...relations.keys()].toSorted()).toEqual(Object.keys(READERS).toSorted())
})

test('every function has an entry in tests/support/sqlFunctions.ts', () => {
  expect([...functions.keys()].toSorted()).toEqual(Object.keys(VOLATILITIES).toSorted())
})

test('every table and view under test contains at least one row', async () => {
  for (const { name } of relations.values()) {
    const { rows } = await db.queryNoRole(`SELECT $1::text AS name FROM ${name} LIMIT 1`, [name])
    expect(rows).toEqual([{ name }])
  }
})

describe.each(ACTORS)('actor %s', (actor) => {
  test.each(Object.keys(READERS))('reads only the permitted columns of %s', async (table) => {
    const { name, columns } = relations.get(table)!
    const access = actor === 'PUBLIC' ? undefined : READERS[table]![actor]
    const mayRead = (column: string) => access !== undefined && !access.except.includes(column)
    for (const column of columns) {
      expect(`${column}: ${await outcomeOf(actor, `SELECT ${quoteIdentifier(column)} FROM ${name}`)}`).toBe(
        `${column}: ${mayRead(column) ? 'rows' : '42501'}`,
      )
    }
    expect(await outcomeOf(actor, `SELECT * FROM ${name}`)).toBe(columns.every(mayRead) ? 'rows' : '42501')
    expect(await outcomeOf(actor, `SELECT t FROM ${name} t`)).toBe(columns.every(mayRead) ? 'rows' : '42501')
    expect(await outcomeOf(actor, `SELECT count(*) FROM ${name}`)).toBe(columns.some(mayRead) ? 'rows' : '42501')
    expect(access?.except.filter((column) => !columns.includes(column)) ?? []).toEqual([])
  })

  test.each(Object.keys(READERS))('cannot write, lock, alter or drop %s (42501)', async (table) => {
    const relation = relations.get(table)!
    // PostgreSQL checks some rights only after it has checked that the statement fits the kind of object.
    const refusals = relation.kind === 'table' ? ['42501'] : ['42501', '42809', '55000', '0A000']
    const outcomes: [right: string, outcome: string][] = []
    for (const { right, sql } of WRITES) outcomes.push([right, await outcomeOf(actor, sql(relation))])
    expect(outcomes.filter(([, outcome]) => !refusals.includes(outcome))).toEqual([])
    // `referencing` returns no statement for a relation without a primary key.
    for (const sql of referencing(relation)) expect(await outcomeOf(actor, sql)).toBe('42501')
  })

  test('has no right but SELECT on any table or column', async () => {
    const rights = ['INSERT', 'UPDATE', 'DELETE', 'TRUNCATE', 'REFERENCES', 'TRIGGER']
    // PostgreSQL 17 adds the right MAINTAIN.
    if (inject('postgresVersion') >= 17) rights.push('MAINTAIN')
    const { rows } = await db.queryNoRole<{ held: string }>(
      `SELECT format('%s on %s', r.name, c.relname) AS held
       FROM pg_class c CROSS JOIN unnest($2::text[]) AS r(name)
       WHERE c.relnamespace = $3::regnamespace AND c.relkind IN ('r', 'v', 'p', 'm', 'f')
         AND (has_table_privilege($1, c.oid, r.name)
           OR (r.name IN ('INSERT', 'UPDATE', 'REFERENCES') AND has_any_column_privilege($1, c.oid, r.name)))`,
      [roleName(actor), rights, quoteIdentifier(db.schema)],
    )
    expect(rows).toEqual([])
  })

  test('cannot create, rename or drop anything in the schema (42501)', async () => {
    const { rows } = await db.queryNoRole(
      `SELECT has_schema_privilege($1, $2, 'USAGE') AS usage, has_schema_privilege($1, $2, 'CREATE') AS create`,
      [roleName(actor), db.schema],
    )
    expect(rows).toEqual([{ usage: actor !== 'PUBLIC', create: false }])
    const schema = quoteIdentifier(db.schema)
    for (const statement of [
      `CREATE TABLE ${schema}.mine (a int)`,
      `CREATE VIEW ${schema}.mine AS SELECT 1`,
      `CREATE SEQUENCE ${schema}.mine`,
      `CREATE TYPE ${schema}.mine AS ENUM ('a')`,
      `CREATE FUNCTION ${schema}.is_id(text) RETURNS boolean LANGUAGE sql AS 'SELECT true'`,
      `CREATE FUNCTION ${schema}.is_id(varchar) RETURNS boolean LANGUAGE sql AS 'SELECT true'`,
      `CREATE OPERATOR ${schema}.= (LEFTARG = uuid, RIGHTARG = uuid, FUNCTION = uuid_ne)`,
      `CREATE COLLATION ${schema}."C" FROM "C"`,
      `ALTER SCHEMA ${schema} RENAME TO mine`,
      `DROP SCHEMA ${schema} CASCADE`,
    ]) {
      // Only its owner may replace a function. PostgreSQL may check the right to create in the schema first.
      expect([statement, await outcomeOf(actor, statement)]).toEqual([statement, '42501'])
    }
  })

  test('cannot use the types of the schema (42501)', async () => {
    const { rows } = await db.queryNoRole<{ name: string }>(
      `SELECT t.oid::regtype::text AS name FROM pg_type t
       WHERE t.typnamespace = $1::regnamespace AND t.typcategory <> 'A' AND has_type_privilege($2, t.oid, 'USAGE')`,
      [quoteIdentifier(db.schema), roleName(actor)],
    )
    expect(rows).toEqual([])
    for (const type of ['outbox_attempt_state', 'payment_outbox_attempts', 'outbox_operational_status']) {
      const name = `${quoteIdentifier(db.schema)}.${type}`
      expect([type, await outcomeOf(actor, `CREATE TABLE scratch.t (a ${name})`)]).toEqual([type, '42501'])
      expect([type, await outcomeOf(actor, `CREATE TABLE scratch.t (a ${name}[])`)]).toEqual([type, '42501'])
    }
  })

  test.each(Object.keys(VOLATILITIES).filter((name) => !callersOf(name).some((role) => role === actor)))(
    'cannot call %s (42501)',
    async (name) => {
      const { nulls, signature } = functions.get(name)!
      expect(await outcomeOf(actor, `SELECT ${quoteIdentifier(db.schema)}.${name}(${nulls})`)).toBe('42501')
      const { rows } = await db.queryNoRole(`SELECT has_function_privilege($1, $2::regprocedure, 'EXECUTE') AS may`, [
        roleName(actor),
        signature,
      ])
      expect(rows).toEqual([{ may: false }])
    },
  )

  test('cannot set the role to the owner or another symphony role (42501)', async () => {
    const login = await db.createLogin(`only_${actor.toLowerCase()}`, {
      roles: actor === 'PUBLIC' ? [] : [`symphony_${actor}`],
    })
    const client = await login.connect()
    for (const role of ['symphony_owner', ...ROLES.filter((other) => other !== actor).map((r) => `symphony_${r}`)]) {
      expect(await failureOf(client.query(`SET ROLE ${role}`))).toMatchObject({ code: '42501' })
    }
  })
})

describe.each(ROLES)('role %s', (role) => {
  test.each(Object.keys(VOLATILITIES).filter((name) => callersOf(name).includes(role)))('can call %s', async (name) => {
    const { optional = [] } = PUBLIC_FUNCTIONS[name]!
    const given = Object.entries(sound.get(name)!).filter(([argument]) => !optional.includes(argument))
    expect(await outcomeOf(role, callStatement(db, name, Object.fromEntries(given)))).toMatch(/rows$/)
  })
})

test('symphony roles have no login, no attribute and no membership in each other', async () => {
  const { rows } = await db.queryNoRole(
    `SELECT rolname, rolsuper OR rolinherit OR rolcreaterole OR rolcreatedb OR rolcanlogin OR rolreplication
         OR rolbypassrls AS has_an_attribute,
       rolconfig, ARRAY(
         SELECT m.roleid::regrole::text FROM pg_auth_members m WHERE m.member = r.oid) AS member_of
     FROM pg_roles r WHERE NOT rolcanlogin AND rolname LIKE 'symphony\\_%' ORDER BY rolname COLLATE "C"`,
  )
  expect(rows).toEqual(
    ['auditor', 'auth', 'control', 'executor', 'ingest', 'owner', 'readonly'].map((role) => ({
      rolname: `symphony_${role}`,
      has_an_attribute: false,
      rolconfig: null,
      member_of: [],
    })),
  )
  const owners = await db.queryNoRole(
    `SELECT m.member::regrole::text FROM pg_auth_members m
     WHERE m.roleid = 'symphony_owner'::regrole AND m.member::regrole::text ~ ('^symphony_|' || current_database())`,
  )
  expect(owners.rows).toEqual([])
})

test('symphony_auth has rights only on the schema and on four functions of keys and sessions', async () => {
  const { rows } = await db.queryNoRole(
    `SELECT CASE classid WHEN 'pg_proc'::regclass THEN objid::regproc::text ELSE 'the schema' END AS object,
       deptype AS kind, classid = 'pg_proc'::regclass OR objid = $1::regnamespace AS known
     FROM pg_shdepend
     WHERE refclassid = 'pg_authid'::regclass AND refobjid = 'symphony_auth'::regrole
       AND dbid IN (0, (SELECT oid FROM pg_database WHERE datname = current_database())) ORDER BY object`,
    [quoteIdentifier(db.schema)],
  )
  expect(rows).toEqual([
    { object: expect.stringMatching(/authenticate_api_key$/), kind: 'a', known: true },
    { object: expect.stringMatching(/authenticate_browser_session$/), kind: 'a', known: true },
    { object: expect.stringMatching(/create_browser_session$/), kind: 'a', known: true },
    { object: expect.stringMatching(/end_browser_session$/), kind: 'a', known: true },
    { object: 'the schema', kind: 'a', known: true },
  ])
})

test('a deployment revokes rights granted to symphony roles and PUBLIC by hand', async () => {
  const { schema } = db
  await db.queryNoRole(
    `GRANT ALL ON ALL TABLES IN SCHEMA ${quoteIdentifier(schema)} TO symphony_readonly, symphony_auditor, PUBLIC;
     GRANT ALL ON ALL FUNCTIONS IN SCHEMA ${quoteIdentifier(schema)} TO symphony_auth, PUBLIC;
     GRANT USAGE ON TYPE outbox_attempt_state, payment_outbox_attempts TO symphony_executor, PUBLIC;
     GRANT ALL ON SCHEMA ${quoteIdentifier(schema)} TO symphony_auth, PUBLIC`,
  )
  await deploy({ url: db.url, schema })
  const regranted = await fingerprint(db)
  expect(regranted.objects).toEqual(deployed.objects)
})

let statements = 0

async function outcomeOf(actor: Actor, sql: string): Promise<string> {
  const client = clients.get(actor)!
  statements += 1
  await client.query('BEGIN')
  try {
    const { rows } = await client.query(sql)
    return rows.length > 0 ? 'rows' : 'no rows'
  } catch (error) {
    return refusalIn(error).code
  } finally {
    await client.query('ROLLBACK')
  }
}

function whole(): { readonly except: readonly string[] } {
  return { except: [] }
}

function except(...columns: string[]): { readonly except: readonly string[] } {
  return { except: columns }
}

function roleName(actor: Actor): string {
  return actor === 'PUBLIC' ? unprivileged.name : `symphony_${actor}`
}

/** Fills the tables that the valid calls of SQL functions left empty. */
async function putARowInEveryTable(): Promise<void> {
  const executor = db.as('symphony_executor')
  // Inserts a block directly. Sealing would wait for every writer of the server, also in other test files.
  await db.queryNoRole(
    `INSERT INTO payment_outbox_blocks (block_no, format, row_count, last_xid, last_kind, last_id, entries, root, block_hash, sealed_at)
     VALUES (1, 1, 1, 1, 1, gen_random_uuid(), decode(repeat('00', 58), 'hex'), '', '', now())`,
  )
  await db.queryNoRole(
    `INSERT INTO subject_keys (key_id, subject, master_key_id, wrapped_key, created_at)
     VALUES (gen_random_uuid(), 'subject-1', 'first', repeat('A', 80), now())`,
  )
  await recordLedgerVerification(db.as('symphony_auditor'), { rowsChecked: 1, breakCount: 0 })
  await repairExpiredLeases(executor, 10, WORKER) // Rolls up the tallies so far into the totals.
  await enqueueFailed(db)
  await heartbeatOutboxWorker(executor, WORKER)
  await declareOutboxRails(executor, [{ type: 'rail-declared', money: true, fields: [] }], WORKER, { serving: true })
  await setParticipantOutboxPolicy(db.as('symphony_control'), 'participant-1', 'halt')
  await db.queryNoRole(
    `INSERT INTO reconciliation_closings VALUES (gen_random_uuid(), gen_random_uuid(), 'olga', 'corrected', now());
     INSERT INTO reconciliation_uploads (upload_id, position, entry_key, kind) VALUES (uuid_v7(), 1, '', 'payout');
     INSERT INTO reconciliation_upload_payments (upload_id, outbox_id, covered) VALUES (uuid_v7(), uuid_v7(), true);
     INSERT INTO payment_search (outbox_id, is_message, instruction_id, idempotency_key, participant_id, rail_type, state,
       returned) VALUES (uuid_v7(), false, 'i', 'k', 'p', 'r', 'PENDING', false);
     INSERT INTO payment_search_destinations VALUES (sha256(''), uuid_v7());
     INSERT INTO outbox_series VALUES ('day', 'p', now(), 'r', false, 1, 0, 0, 0, 0, 0, 0, 0);
     INSERT INTO outbox_attempt_series VALUES ('day', 'r', now(), '', 0, 1);
     INSERT INTO outbox_worker_series VALUES (now(), 'r', 'w', 1, 0, 0);
     INSERT INTO outbox_breaker_changes VALUES ('r', now(), 'w', 'closed', 'open')`,
  )
}

async function readRelations(): Promise<ReadonlyMap<string, Relation>> {
  const { rows } = await db.queryNoRole<Omit<Relation, 'name'> & { table: string }>(
    `SELECT c.relname AS table, CASE WHEN c.relkind = 'v' THEN 'view' ELSE 'table' END AS kind,
       ARRAY(SELECT a.attname::text FROM pg_attribute a
         WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum) AS columns,
       COALESCE((SELECT jsonb_agg(jsonb_build_object('name', a.attname, 'type', format_type(a.atttypid, a.atttypmod)))
         FROM pg_index i JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = ANY (i.indkey)
         WHERE i.indrelid = c.oid AND i.indisprimary), '[]') AS "primaryKey"
     FROM pg_class c WHERE c.relnamespace = $1::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S')`,
    [quoteIdentifier(db.schema)],
  )
  return new Map(
    rows.map(({ table, ...relation }) => [
      table,
      { ...relation, name: `${quoteIdentifier(db.schema)}.${quoteIdentifier(table)}` },
    ]),
  )
}

async function readFunctions(): Promise<typeof functions> {
  const { rows } = await db.queryNoRole<{ name: string; signature: string; nulls: string }>(
    `SELECT p.proname AS name, p.oid::regprocedure::text AS signature, (
       -- Omits the types of this schema, which PUBLIC cannot use.
       SELECT COALESCE(string_agg(CASE WHEN t.typnamespace = p.pronamespace THEN 'NULL' ELSE 'NULL::' || format_type(t.oid, NULL) END,
         ', ' ORDER BY a.position), '')
       FROM unnest(p.proargtypes) WITH ORDINALITY AS a(type, position) JOIN pg_type t ON t.oid = a.type) AS nulls
     FROM pg_proc p WHERE p.pronamespace = $1::regnamespace
       -- outboxComplete.spec.ts tests the overload for the enum type.
       AND (p.proname <> 'complete_outbox_attempt' OR 'outbox_attempt_state'::regtype <> ALL (p.proargtypes))`,
    [quoteIdentifier(db.schema)],
  )
  const byName = new Map(rows.map(({ name, ...rest }) => [name, rest]))
  if (byName.size < rows.length) throw new Error('two functions have one name; the table cannot distinguish them')
  return byName
}

/**
 * Returns a statement that creates a table with a foreign key to this one. The new table is unlogged, because it may
 * then reference logged and unlogged tables.
 */
function referencing({ name, primaryKey }: Relation): readonly string[] {
  if (primaryKey.length === 0) return []
  const columns = primaryKey.map((key) => `${key.name} ${key.type}`).join(', ')
  const names = primaryKey.map((key) => key.name).join(', ')
  return [`CREATE UNLOGGED TABLE scratch.r (${columns}, FOREIGN KEY (${names}) REFERENCES ${name} (${names}))`]
}
