import { randomUUID } from 'node:crypto'
import { Client } from 'pg'
import { beforeAll, describe, expect, test } from 'vitest'
import { ApiKeys, newApiKey, parseApiKey } from '../../libs/access/index.js'
import { withActor, quoteIdentifier } from '../../libs/db/index.js'
import {
  approveOutboxLimit,
  placeOutboxHold,
  proposeOutboxLimit,
  proposePaymentOutbox,
  resolveOutboxHold,
  withdrawOutboxProposal,
  type ClaimedItem,
} from '../../libs/outbox/index.js'
import { type TestDatabase, type TestLogin, useTestDatabase, withTestDatabase } from '../support/database.js'
import { fingerprint, rowHashes, type Fingerprint } from '../support/fingerprint.js'
import { brokenLedgerRules, readLedgerText } from '../support/ledgerRules.js'
import { createKey } from '../support/httpFixture.js'
import {
  buildInstruction,
  claim,
  claimOnly,
  complete,
  enqueue,
  enqueueAndClaim,
  eventRows,
  WORKER,
} from '../support/outboxItems.js'
import { approve, createPerson, enqueueHeld, propose } from '../support/outboxPeople.js'
import { failureOf } from '../support/race.js'
import { refusalIn, sqlstateOf } from '../support/refusal.js'
import { callStatement, PUBLIC_FUNCTIONS } from '../support/sqlFunctions.js'

/**
 * Attacks with a stolen runtime login, which inherits one role, may create temporary objects and owns a schema. Each
 * statement commits. Afterwards every row, object and grant must be unchanged.
 */

const ROLES = ['control', 'ingest', 'executor', 'readonly', 'auditor', 'auth'] as const
type Role = (typeof ROLES)[number]

interface Attempt {
  readonly title: string
  readonly as: Role
  /** Statements; the last one is the attempt. `$S` is our schema, `$ME` the login, `$DB` the database. */
  readonly steps: readonly string[]
  /**
   * SQLSTATEs that refuse the attempt. `harmless` marks a statement that PostgreSQL allows to any role, and which must
   * change nothing.
   */
  readonly ends: readonly string[] | 'harmless'
}

const NO_RIGHT = ['42501']

const ATTEMPTS: readonly Attempt[] = [
  // Use of another identity
  attempt('executor', 'SET ROLE to the owner', 'SET ROLE symphony_owner'),
  attempt('executor', 'SET ROLE to the operators', 'SET ROLE symphony_control'),
  attempt('control', 'SET ROLE to the workers', 'SET ROLE symphony_executor'),
  attempt('readonly', 'SET ROLE to the superuser', 'SET ROLE postgres'),
  attempt('executor', 'the role by set_config', `SELECT set_config('role', 'symphony_owner', false)`),
  attempt('executor', 'SET SESSION AUTHORIZATION to the owner', 'SET SESSION AUTHORIZATION symphony_owner'),
  attempt('control', 'SET SESSION AUTHORIZATION to the superuser', 'SET SESSION AUTHORIZATION postgres'),
  attempt('executor', 'membership in the owner', 'GRANT symphony_owner TO $ME'),
  attempt('executor', 'membership in the operators', 'GRANT symphony_control TO $ME'),
  attempt('ingest', 'membership in a predefined role', 'GRANT pg_write_all_data TO $ME'),
  attempt('executor', 'making itself a superuser', 'ALTER ROLE $ME SUPERUSER'),
  attempt('executor', 'giving itself CREATEROLE', 'ALTER ROLE $ME CREATEROLE'),
  attempt('executor', 'giving itself BYPASSRLS', 'ALTER ROLE $ME BYPASSRLS'),
  attempt('control', 'a login for the owner', `ALTER ROLE symphony_owner LOGIN PASSWORD 'x'`),
  attempt('control', 'a role of its own', 'CREATE ROLE accomplice LOGIN'),
  attempt('executor', 'settings for all executors', `ALTER ROLE symphony_executor SET search_path = mine`),
  attempt('executor', 'settings for the database', `ALTER DATABASE $DB SET search_path = mine`),
  attempt('executor', 'settings for the server', `ALTER SYSTEM SET fsync = off`),

  // Rights and ownership
  attempt(
    'executor',
    'default privileges of the owner',
    'ALTER DEFAULT PRIVILEGES FOR ROLE symphony_owner GRANT ALL ON TABLES TO PUBLIC',
  ),
  attempt('executor', 'REASSIGN OWNED', 'REASSIGN OWNED BY symphony_owner TO $ME'),
  attempt('executor', 'DROP OWNED', 'DROP OWNED BY symphony_owner'),
  harmless(
    'executor',
    'granting EXECUTE on a function to PUBLIC',
    'GRANT EXECUTE ON FUNCTION $S.claim_outbox_batch TO PUBLIC',
  ),
  harmless(
    'control',
    'granting SELECT on the ledger to PUBLIC',
    'GRANT SELECT ON $S.payment_outbox_attempts TO PUBLIC',
  ),
  attempt('executor', 'granting itself a table', 'GRANT ALL ON $S.payment_outbox_pending TO $ME'),
  harmless('ingest', 'taking a right from another role', 'REVOKE ALL ON SCHEMA $S FROM symphony_executor'),
  attempt('control', 'becoming the owner of a table', 'ALTER TABLE $S.payment_outbox_attempts OWNER TO $ME'),
  attempt('control', 'becoming the owner of the schema', 'ALTER SCHEMA $S OWNER TO $ME'),

  // The functions themselves
  attempt(
    'executor',
    'another body for a function',
    `CREATE OR REPLACE FUNCTION $S.is_id(p_value text) RETURNS boolean LANGUAGE sql AS 'SELECT true'`,
  ),
  attempt(
    'executor',
    'an overload that would be found first',
    `CREATE FUNCTION $S.is_id(varchar) RETURNS boolean LANGUAGE sql AS 'SELECT true'`,
  ),
  attempt('executor', 'a function made SECURITY INVOKER', 'ALTER FUNCTION $S.claim_outbox_batch SECURITY INVOKER'),
  attempt('executor', 'a function without its search_path', 'ALTER FUNCTION $S.claim_outbox_batch RESET search_path'),
  attempt(
    'executor',
    'a function with another search_path',
    'ALTER FUNCTION $S.claim_outbox_batch SET search_path = mine',
  ),
  attempt('executor', 'a function renamed', 'ALTER FUNCTION $S.raise_lease_lost RENAME TO x'),
  attempt('executor', 'a function dropped', 'DROP FUNCTION $S.raise_lease_lost CASCADE'),
  attempt(
    'control',
    'a function that depends on an extension',
    'ALTER FUNCTION $S.is_id(text) DEPENDS ON EXTENSION plpgsql',
  ),
  attempt('executor', 'an internal function called', `SELECT $S.append_outbox_events('HOLD_PLACED', 'x', '{}', '{}')`),
  attempt('ingest', 'a sequence number', `SELECT $S.bump_participant_outbox_seq('p')`),
  attempt('executor', 'a payment cancelled by a worker', `SELECT $S.cancel_outbox_item(gen_random_uuid(), 'x')`),
  attempt(
    'ingest',
    'a finding closed by the application',
    `SELECT $S.close_reconciliation_finding(gen_random_uuid(), 'x')`,
  ),
  attempt('auditor', 'a statement staged by an auditor', `SELECT $S.discard_reconciliation_upload(gen_random_uuid())`),
  attempt('readonly', 'amounts that a rail hides', 'SELECT amount FROM $S.reconciliation_entries'),
  attempt('readonly', 'the references of bank entries', 'SELECT reference FROM $S.reconciliation_entries'),
  attempt('readonly', 'the detail of findings', 'SELECT detail FROM $S.reconciliation_findings'),
  attempt('control', 'a run of its own', 'DELETE FROM $S.reconciliation_runs'),
  attempt('auditor', 'a payment cancelled by an auditor', `SELECT $S.cancel_outbox_instruction('i', 'k', 'x')`),
  attempt(
    'ingest',
    'the function that ends an item without a check',
    `SELECT $S.end_outbox_item(gen_random_uuid(), 'DISPATCHED', 'decided', 'x', 'x', 'x', 'x')`,
  ),
  attempt(
    'executor',
    'the function that applies decisions',
    `SELECT $S.apply_outbox_decision(NULL, 'DISPATCHED', 'x', 'x', 'x', 'x')`,
  ),
  attempt(
    'executor',
    'a trigger function attached to one’s own table',
    'CREATE TABLE mine.t (a int)',
    'CREATE TRIGGER t AFTER INSERT ON mine.t EXECUTE FUNCTION $S.notify_outbox_pending()',
  ),

  // Objects in our schema, or on our objects
  attempt('executor', 'a table in our schema', 'CREATE TABLE $S.payment_outbox_pending2 (a int)'),
  attempt(
    'control',
    'an operator in our schema',
    'CREATE OPERATOR $S.= (LEFTARG = uuid, RIGHTARG = uuid, FUNCTION = uuid_ne)',
  ),
  attempt(
    'control',
    'moving one’s own table into our schema',
    'CREATE TABLE mine.t (a int)',
    'ALTER TABLE mine.t SET SCHEMA $S',
  ),
  attempt(
    'control',
    'moving one’s own function into our schema',
    `CREATE FUNCTION mine.is_id(int) RETURNS boolean LANGUAGE sql AS 'SELECT true'`,
    'ALTER FUNCTION mine.is_id(int) SET SCHEMA $S',
  ),
  attempt(
    'control',
    'a rule on the queue',
    'CREATE RULE r AS ON UPDATE TO $S.payment_outbox_pending DO INSTEAD NOTHING',
  ),
  attempt('auditor', 'a policy on the ledger', 'CREATE POLICY p ON $S.payment_outbox_attempts USING (false)'),
  attempt(
    'control',
    'a trigger on the queue',
    'CREATE TRIGGER t BEFORE UPDATE ON $S.payment_outbox_pending EXECUTE FUNCTION suppress_redundant_updates_trigger()',
  ),
  attempt('control', 'an index on the queue', 'CREATE INDEX ON $S.payment_outbox_pending (payload)'),
  attempt(
    'control',
    'statistics on the queue',
    'CREATE STATISTICS mine.s ON rail_type, participant_id FROM $S.payment_outbox_pending',
  ),
  attempt(
    'control',
    'no autovacuum for the queue',
    'ALTER TABLE $S.payment_outbox_pending SET (autovacuum_enabled = false)',
  ),
  attempt('control', 'rows slipped in by inheritance', 'CREATE TABLE mine.t () INHERITS ($S.payment_outbox_attempts)'),
  attempt(
    'control',
    'a foreign key into the ledger, to lock its rows',
    'CREATE TABLE mine.t (a uuid REFERENCES $S.payment_outbox_attempts (attempt_id))',
  ),
  attempt(
    'control',
    'a column of a row type, to keep a table from being altered',
    'CREATE TEMP TABLE t (a $S.payment_outbox_pending)',
  ),
  attempt('executor', 'a column of our enum', 'CREATE TEMP TABLE t (a $S.outbox_attempt_state)'),
  attempt(
    'executor',
    'a cast of our enum',
    `CREATE FUNCTION mine.f(text) RETURNS int LANGUAGE sql AS 'SELECT 1'`,
    'CREATE CAST ($S.outbox_attempt_state AS int) WITH INOUT AS IMPLICIT',
  ),
  attempt(
    'executor',
    'a cast of text, for all to use',
    "CREATE TYPE mine.e AS ENUM ('a')",
    'CREATE CAST (text AS uuid) WITH INOUT AS IMPLICIT',
  ),
  attempt(
    'executor',
    'an operator class',
    'CREATE OPERATOR CLASS mine.o DEFAULT FOR TYPE uuid USING btree AS OPERATOR 1 <',
  ),
  attempt('control', 'a comment', `COMMENT ON TABLE $S.payment_outbox_attempts IS 'not trustworthy'`),
  attempt('executor', 'a publication of everything', 'CREATE PUBLICATION p FOR ALL TABLES'),
  attempt('control', 'a publication of the ledger', 'CREATE PUBLICATION p FOR TABLE $S.payment_outbox_attempts'),
  attempt(
    'executor',
    'an event trigger',
    `CREATE FUNCTION mine.e() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN END'`,
    'CREATE EVENT TRIGGER e ON ddl_command_start EXECUTE FUNCTION mine.e()',
  ),
  attempt('executor', 'a replication slot', `SELECT pg_create_logical_replication_slot('s', 'pgoutput')`),
  attempt('executor', 'a language', 'CREATE LANGUAGE mine HANDLER plpgsql_call_handler'),
  attempt('executor', 'a foreign data wrapper', 'CREATE FOREIGN DATA WRAPPER w'),
  attempt('executor', 'a schema', 'CREATE SCHEMA another'),

  // Reads of hidden data
  attempt('executor', 'the queue', 'SELECT 1 FROM $S.payment_outbox_pending'),
  attempt('control', 'a lease token', 'SELECT lease_token FROM $S.payment_outbox_pending'),
  attempt(
    'control',
    'a lease token in a condition',
    `SELECT 1 FROM $S.payment_outbox_pending WHERE lease_token::text LIKE '0%'`,
  ),
  attempt('control', 'a lease token in an order', 'SELECT 1 FROM $S.payment_outbox_pending ORDER BY lease_token'),
  attempt(
    'control',
    'a lease token by grouping',
    'SELECT count(*) FROM $S.payment_outbox_pending GROUP BY lease_token',
  ),
  attempt(
    'control',
    'a lease token by a join',
    'SELECT 1 FROM $S.payment_outbox_pending p JOIN $S.payment_outbox_attempts a USING (lease_token)',
  ),
  attempt(
    'control',
    'a lease token by a natural join',
    'SELECT 1 FROM $S.payment_outbox_pending NATURAL JOIN $S.payment_outbox_attempts',
  ),
  attempt('control', 'a lease token in the whole row', 'SELECT to_jsonb(p) FROM $S.payment_outbox_pending p'),
  attempt('control', 'a lease token in the row as text', 'SELECT p::text FROM $S.payment_outbox_pending p'),
  attempt('control', 'a lease token in a window', 'SELECT first_value(p) OVER () FROM $S.payment_outbox_pending p'),
  attempt('control', 'a lease token by COPY', 'COPY $S.payment_outbox_pending TO STDOUT'),
  attempt(
    'control',
    'a lease token by COPY of a query',
    'COPY (SELECT lease_token FROM $S.payment_outbox_pending) TO STDOUT',
  ),
  attempt(
    'control',
    'a lease token through its own view',
    'CREATE VIEW mine.v AS SELECT lease_token FROM $S.payment_outbox_pending',
    'SELECT * FROM mine.v',
  ),
  attempt(
    'control',
    'a lease token through its own SECURITY DEFINER function',
    `CREATE FUNCTION mine.f() RETURNS uuid LANGUAGE sql SECURITY DEFINER AS 'SELECT lease_token FROM $S.payment_outbox_pending'`,
    'SELECT mine.f()',
  ),
  attempt(
    'control',
    'a lease token by query_to_xml',
    `SELECT query_to_xml('SELECT lease_token FROM $S.payment_outbox_pending', true, true, '')`,
  ),
  attempt(
    'control',
    'a lease token by a cursor',
    'BEGIN',
    'DECLARE c CURSOR FOR SELECT lease_token FROM $S.payment_outbox_pending',
  ),
  attempt(
    'control',
    'a lease token by PREPARE',
    'PREPARE p AS SELECT lease_token FROM $S.payment_outbox_pending',
    'EXECUTE p',
  ),
  attempt('control', 'a lease token by DO', `DO 'BEGIN PERFORM lease_token FROM $S.payment_outbox_pending; END'`),
  attempt('control', 'a lease token by EXPLAIN', 'EXPLAIN SELECT lease_token FROM $S.payment_outbox_pending'),
  attempt('control', 'a lease token in its own table', 'CREATE TEMP TABLE t AS TABLE $S.payment_outbox_pending'),
  attempt('executor', 'the shape of the queue by LIKE', 'CREATE TEMP TABLE t (LIKE $S.payment_outbox_pending)'),
  attempt('readonly', 'a payload', 'SELECT payload FROM $S.payment_outbox_pending'),
  attempt('readonly', 'a payload in the ledger', 'SELECT payload FROM $S.payment_outbox_attempts'),
  attempt('readonly', 'a payload in a condition', `SELECT 1 FROM $S.payment_outbox_attempts WHERE payload @> '{}'`),
  attempt('auditor', 'the sequence of each participant', 'SELECT * FROM $S.participant_outbox_sequences'),
  attempt('readonly', 'the sequence of each participant', 'SELECT 1 FROM $S.participant_outbox_sequences'),
  attempt('control', 'the settings', 'SELECT * FROM $S.symphony_settings'),
  attempt('readonly', 'the statistics', 'SELECT * FROM pg_statistic'),
  attempt('readonly', 'a file of the server', `SELECT pg_read_file('postgresql.conf')`),
  attempt('readonly', 'a folder of the server', `SELECT pg_ls_dir('.')`),
  attempt('readonly', 'a file by COPY', `CREATE TEMP TABLE t (a text)`, `COPY t FROM '/etc/passwd'`),
  attempt('auditor', 'a program by COPY', `COPY (SELECT 1) TO PROGRAM 'true'`),
  attempt('auditor', 'the ledger into a file', `COPY $S.payment_outbox_attempts TO '/tmp/ledger'`),
  attempt('readonly', 'a file by a large object', `SELECT lo_import('/etc/passwd')`),
  attempt('readonly', 'a large object into a file', `SELECT lo_export(lo_from_bytea(0, 'x'), '/tmp/x')`),
  attempt('readonly', 'LOAD of a library', `LOAD 'auto_explain'`),
  attempt('readonly', 'a library for later sessions', `SET session_preload_libraries = 'auto_explain'`),

  // Disturbance of other sessions
  attempt('executor', 'a row lock', 'SELECT 1 FROM $S.payment_outbox_pending FOR UPDATE'),
  attempt('control', 'a row lock where it may read', 'SELECT 1 FROM $S.payment_outbox_attempts FOR UPDATE'),
  attempt('control', 'the weakest row lock', 'SELECT 1 FROM $S.payment_outbox_pending FOR KEY SHARE'),
  attempt('control', 'a table lock that stops writers', 'BEGIN', 'LOCK TABLE $S.payment_outbox_attempts IN SHARE MODE'),
  attempt('control', 'REINDEX', 'REINDEX TABLE $S.payment_outbox_pending'),
  attempt('control', 'CLUSTER', 'CLUSTER $S.payment_outbox_pending USING ux_pending_participant_sequence'),
  harmless('control', 'VACUUM FULL, which PostgreSQL skips with a warning', 'VACUUM (FULL) $S.payment_outbox_attempts'),
  harmless('control', 'ANALYZE, which PostgreSQL skips with a warning', 'ANALYZE $S.payment_outbox_attempts'),
  attempt(
    'executor',
    'ending others’ sessions',
    `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'postgres' AND datname = current_database()`,
  ),
  attempt(
    'executor',
    'cancelling others’ statements',
    `SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE usename = 'postgres' AND datname = current_database()`,
  ),
  attempt('executor', 'a reset of the statistics', 'SELECT pg_stat_reset()'),
  attempt('executor', 'a reload of the settings', 'SELECT pg_reload_conf()'),
  attempt('executor', 'a CHECKPOINT', 'CHECKPOINT'),
  attempt('executor', 'log_statement', `SET log_statement = 'all'`),
  attempt('executor', 'replica mode', 'SET session_replication_role = replica'),
  attempt(
    'executor',
    'another resolution of name conflicts',
    `DO 'BEGIN END'`,
    'SET plpgsql.variable_conflict = use_variable',
  ),
  harmless('readonly', 'a large object of its own', `SELECT lo_from_bytea(0, 'x')`),
  harmless('executor', 'a temporary table named like ours', 'CREATE TEMP TABLE payment_outbox_pending (a int)'),
  harmless('executor', 'a read-only session', 'SET default_transaction_read_only = on'),
  harmless('executor', 'another person as actor', `SET symphony.actor = 'alice'`),

  // Calls of our functions without a valid lease or argument
  attempt(
    'executor',
    'a guessed token',
    { ends: ['P7002'] },
    `SELECT $S.complete_outbox_attempt('$ITEM', gen_random_uuid(), '${WORKER}', 'DISPATCHED', 'x')`,
  ),
  attempt(
    'executor',
    'the nil token',
    { ends: ['P7002'] },
    `SELECT $S.complete_outbox_attempt('$ITEM', '00000000-0000-0000-0000-000000000000', '${WORKER}', 'DISPATCHED', 'x')`,
  ),
  attempt(
    'executor',
    'no token',
    { ends: ['22023'] },
    `SELECT $S.complete_outbox_attempt('$ITEM', NULL, '${WORKER}', 'DISPATCHED', 'x')`,
  ),
  attempt(
    'executor',
    'another worker’s token',
    { ends: ['P7002'] },
    `SELECT $S.complete_outbox_attempt('$ITEM', '$TOKEN', 'mallory', 'DISPATCHED', 'x')`,
  ),
  attempt(
    'executor',
    'another worker’s lease renewed',
    { ends: ['P7002'] },
    `SELECT $S.renew_outbox_lease('$ITEM', '$TOKEN', 'mallory', 3600)`,
  ),
  attempt(
    'executor',
    'another worker’s lease released',
    { ends: ['P7002'] },
    `SELECT $S.release_outbox_lease('$ITEM', '$TOKEN', 'mallory')`,
  ),
  attempt(
    'executor',
    'evidence about another worker’s item',
    { ends: ['P7002'] },
    `SELECT $S.record_late_outcome('$ITEM', '$TOKEN', 'mallory', 'DISPATCHED', 'x')`,
  ),
  harmless(
    'executor',
    'a thousand guessed tokens at once',
    `SELECT $S.complete_outbox_attempts(array_fill('$ITEM'::uuid, ARRAY[1000]), ARRAY(SELECT gen_random_uuid() FROM generate_series(1, 1000)), '${WORKER}', array_fill('DISPATCHED'::text, ARRAY[1000]))`,
  ),
  attempt(
    'executor',
    'a state that only lease repair writes',
    { ends: ['P7003'] },
    `SELECT $S.complete_outbox_attempt('$ITEM', '$TOKEN', '${WORKER}', 'ZOMBIE_REQUEUE')`,
  ),
  attempt(
    'ingest',
    'a redrive key',
    { ends: ['22023'] },
    `SELECT $S.enqueue_payment_outbox('i', 'p', 'k~redrive~1', 'r', '{}')`,
  ),
  attempt(
    'executor',
    'SQL as a worker id',
    { ends: ['22023'] },
    `SELECT $S.claim_outbox_batch(1, $$w'; DROP TABLE payment_outbox_pending; --$$, 60)`,
  ),
  harmless(
    'executor',
    'SQL without spaces as a rail',
    `SELECT $S.claim_outbox_batch(1, 'w', 60, ARRAY[$$r');DROP/**/TABLE/**/payment_outbox_pending;--$$])`,
  ),
  attempt(
    'executor',
    'a claim in a read-only transaction',
    { ends: ['25006'] },
    'BEGIN READ ONLY',
    `SELECT $S.claim_outbox_batch(1, 'w', 60)`,
  ),
  attempt(
    'readonly',
    'a write through a view',
    { ends: ['42501', '55000'] },
    `DELETE FROM $S.outbox_operational_status`,
  ),
  attempt(
    'readonly',
    'a write through the other view',
    { ends: ['42501', '55000'] },
    `UPDATE $S.supervisor_outbox_status SET pending_count = 0`,
  ),
  attempt('auth', 'the status view', 'SELECT * FROM $S.supervisor_outbox_status'),
]

const db = await useTestDatabase()
let leased: ClaimedItem
const logins = new Map<Role, TestLogin>()

beforeAll(async () => {
  await db.queryNoRole(`GRANT TEMP ON DATABASE ${db.name} TO PUBLIC`)
  leased = await enqueueAndClaim(db)
  await complete(db, await enqueueAndClaim(db), { state: 'RETRYABLE', errorCode: 'BUSY', retryDelaySeconds: 3600 })
  await db.queryNoRole('ANALYZE')
  for (const role of ROLES) {
    const login = await db.createLogin(`stolen_${role}`, { roles: [`symphony_${role}`], inherit: true })
    logins.set(role, login)
  }
})

describe('a stolen login of one role', () => {
  let before: Fingerprint
  beforeAll(async () => {
    before = await fingerprint(db)
  })

  test.each(ATTEMPTS)('changes nothing as $as: $title', async ({ as, steps, ends }) => {
    const outcome = await run(as, steps)
    expect(ends === 'harmless' ? ['succeeded'] : ends).toContain(outcome)
    expect(await rowHashes(db)).toEqual(before.rows)
  })

  // Runs once after all attempts, because reading the catalog takes longer than an attempt.
  test('has changed no object, owner or grant after all attempts of this spec', async () => {
    expect(await fingerprint(db)).toEqual(before)
  })

  test('is tested with at least 60 different attempts', () => {
    const statements = ATTEMPTS.map(({ as, steps }) => [as, ...steps].join(';'))
    expect(new Set(statements).size).toBe(ATTEMPTS.length)
    expect(ATTEMPTS.length).toBeGreaterThanOrEqual(60)
    process.stdout.write(`escalation: ${ATTEMPTS.length} attempts\n`)
  })
})

describe('a new connection with a stolen login', () => {
  test.each(['role=symphony_owner', 'session_replication_role=replica', 'session_authorization=postgres'])(
    'is refused if its start-up options set %s',
    async (option) => {
      const client = new Client({ connectionString: logins.get('executor')!.url, options: `-c ${option}` })
      client.on('error', () => {})
      expect(['42501', '22023']).toContain(await sqlstateOf(client.connect()))
    },
  )

  test('is refused if it logs in as a role of Symphony', async () => {
    for (const role of [...ROLES, 'owner']) {
      const url = new URL(logins.get('executor')!.url)
      url.username = `symphony_${role}`
      const client = new Client({ connectionString: url.href })
      client.on('error', () => {})
      expect(['28000', '28P01']).toContain(await sqlstateOf(client.connect()))
    }
  })
})

describe('a stolen login that tries to read data of others', () => {
  test('cannot read hidden values of a view by a low-cost function in WHERE', async () => {
    const client = await stolen('readonly')
    const seen = await notices(client, async () => {
      await client.query(
        `CREATE FUNCTION mine.peek(anyelement) RETURNS boolean LANGUAGE plpgsql COST 0.0000001
         AS 'BEGIN RAISE NOTICE ''%'', $1; RETURN true; END'`,
      )
      const schema = quoteIdentifier(db.schema)
      await client.query(`SELECT 1 FROM ${schema}.outbox_operational_status v WHERE mine.peek(v) AND state = 'LEASED'`)
      await client.query(`SELECT 1 FROM ${schema}.supervisor_outbox_status v WHERE mine.peek(v)`)
      await client.query(`SELECT 1 FROM ${schema}.payment_outbox_pending WHERE mine.peek(outbox_id)`)
    })
    expect(seen).toContain(leased.outboxId)
    for (const secret of [leased.leaseToken, 'amountMinor']) expect(seen).not.toContain(secret)
    // The amount as a field of its own: the digits may be part of a random id or of a time.
    expect(seen).not.toMatch(/(?<![\w.-])1050(?![\w.-])/)
  })

  test('sees no planner statistics of hidden columns', async () => {
    for (const [role, hidden] of [
      ['readonly', ['payload', 'lease_token']],
      ['executor', ['payload', 'lease_token', 'outbox_id', 'claimed_by']],
    ] as const) {
      const client = await stolen(role)
      const { rows } = await client.query(
        `SELECT attname FROM pg_stats WHERE tablename LIKE 'payment\\_outbox\\_%' AND attname = ANY ($1)`,
        [hidden],
      )
      expect(rows.filter(({ attname }) => hidden.includes(attname))).toEqual([])
    }
    const { rows } = await db.queryNoRole(`SELECT 1 FROM pg_stats WHERE attname = 'payload' AND schemaname = $1`, [
      db.schema,
    ])
    expect(rows.length).toBeGreaterThan(0)
  })

  test('does not see the statements of other sessions', async () => {
    const other = await db.connect()
    await other.query(`SELECT '${leased.leaseToken}'`)
    const client = await stolen('readonly')
    const { rows } = await client.query<{ query: string }>('SELECT query FROM pg_stat_activity')
    expect(rows.map(({ query }) => query).join()).not.toContain(leased.leaseToken)
    expect(rows.map(({ query }) => query)).toContain('<insufficient privilege>')
  })

  test('finds no lease token of another worker in the debug output of the server', async () => {
    const client = await stolen('executor')
    const schema = quoteIdentifier(db.schema)
    const guess = randomUUID()
    const seen = await notices(client, async () => {
      await client.query('SET client_min_messages = debug5; SET debug_print_parse = on; SET debug_print_rewritten = on')
      await client.query('SET debug_print_plan = on; SET debug_pretty_print = off')
      await client.query('SET plan_cache_mode = force_custom_plan')
      await client.query(`SELECT ${schema}.claim_outbox_batch(10, 'w', 60)`)
      await client.query(`SELECT ${schema}.next_outbox_event()`)
      await client.query(`SELECT ${schema}.repair_expired_leases(10, 'w')`)
      await failureOf(client.query(`SELECT ${schema}.renew_outbox_lease('${leased.outboxId}', '${guess}', 'w', 60)`))
    })
    // The output contains the guessed token, so it would contain the real token in the same form.
    expect(withoutSpace(seen)).toContain(asPrinted(guess))
    expect(withoutSpace(seen)).not.toContain(asPrinted(leased.leaseToken))
    expect(seen).not.toContain(leased.leaseToken)
  })

  test('gets a notification without any data of the item', async () => {
    const client = await stolen('auth')
    const received: (string | undefined)[] = []
    client.on('notification', ({ payload }) => received.push(payload))
    await client.query('LISTEN outbox_pending')
    await enqueue(db, { notBefore: new Date(Date.now() + 3_600_000) })
    // Notifications are delivered before the answer to the next statement.
    await client.query('SELECT 1')
    expect(received).toEqual(['new_work'])
  })
})

describe('a login with two roles', () => {
  test('cannot keep a right through a prepared statement after SET ROLE (42501)', async () => {
    const client = await db.connect('symphony_control')
    await client.query('PREPARE peek AS SELECT payload FROM payment_outbox_attempts')
    expect((await client.query('EXECUTE peek')).rowCount).toBeGreaterThan(0)
    await client.query('SET ROLE symphony_executor')
    expect(await failureOf(client.query('EXECUTE peek'))).toMatchObject({ code: '42501' })
    await client.query('SET ROLE symphony_readonly')
    expect(await failureOf(client.query('EXECUTE peek'))).toMatchObject({ code: '42501' })
  })

  test('counts as one person even after it changes symphony.actor and its role (P7007)', async () => {
    await withTestDatabase(async (own) => {
      const login = await own.createLogin('alice', { roles: ['symphony_control', 'symphony_executor'] })
      const control = login.database.as('symphony_control')
      const { outboxId } = await enqueueHeld(own, { name: login.name, control })
      const { proposalId } = await resolveOutboxHold(control, outboxId, 'DISPATCHED', 'paid', 'ref-1')
      const client = await login.connect()
      for (const setting of [
        `SET symphony.actor = 'bob'`,
        `SET application_name = 'bob'`,
        `SET ROLE symphony_control`,
      ]) {
        await client.query(setting)
      }
      const approval = client.query('SELECT approve_outbox_proposal($1)', [proposalId])
      expect(await failureOf(approval)).toMatchObject({ code: 'P7007' })
      expect(new Set((await eventRows(own, outboxId)).map(({ actor }) => actor))).toEqual(new Set([login.name]))
    })
  })
})

test('an ingest key for an invented owner does not count as one of two people (P7007)', async () => {
  await withTestDatabase(async (own) => {
    const { login } = await gatewayOf(own)
    const [bob, carol] = [await createPerson(own, 'bob'), await createPerson(own, 'carol')]
    const aliceLogin = await own.createLogin('alice', { roles: ['symphony_control', 'symphony_ingest'] })
    const alice = { name: aliceLogin.name, control: aliceLogin.database.as('symphony_control') }
    const { railType, ...rest } = buildInstruction({ payload: { amount: '10.01', currency: 'EUR' } })
    const rule = { kind: 'approval', limit: '10', currency: 'EUR', railType, approvals: 2 } as const
    await approveOutboxLimit(bob.control, await proposeOutboxLimit(carol.control, 'large', rule, 'RISK-1'))

    const { key } = await new ApiKeys(aliceLogin.database).create({ scopes: ['ingest'], owner: 'mallory' })
    const mallory = withActor(login.database.as('symphony_ingest'), { apiKey: parseApiKey(key)! })
    const entered = await proposePaymentOutbox(mallory, { railType, ...rest }, 'an invoice')
    expect(await approve(alice, entered.proposalId!)).toMatchObject({ applied: false })
    expect(await failureOf(approve(alice, entered.proposalId!))).toMatchObject({ sqlstate: 'P7007' })
    expect(await claim(own, railType)).toEqual([])
    // After a withdrawal, two people release the payment as any other payment above the limit.
    await withdrawOutboxProposal(alice.control, entered.proposalId!, 'I propose it myself')
    const proposalId = await propose(alice, entered.outboxId, 'RETRY')
    expect(await failureOf(approve(alice, proposalId))).toMatchObject({ sqlstate: 'P7007' })
    expect(await approve(bob, proposalId)).toMatchObject({ applied: true })
    expect(await claimOnly(own, railType)).toMatchObject({ outboxId: entered.outboxId })
  })
})

/** Creates a login like `symphony deploy --create-login web=api`. */
async function gatewayOf(own: TestDatabase) {
  const roles = ['symphony_ingest', 'symphony_readonly', 'symphony_auditor', 'symphony_control', 'symphony_auth']
  const login = await own.createLogin('web', { roles })
  await own.queryNoRole('SELECT set_actor_gateway($1, false)', [login.name])
  return { login, control: login.database.as('symphony_control') }
}

/** Returns the value of the setting symphony.api_key for a key. */
function shown(key: string): string {
  const { keyId, secretHash } = parseApiKey(key)!
  return `${keyId}:${secretHash.toString('hex')}`
}

/** Volatile functions of symphony_control that check no actor, with the reason. */
const WITHOUT_ACTOR: Readonly<Record<string, string>> = {
  declare_outbox_rail: 'The API declares its rails at start, without a person. Field classes only become stricter.',
  ledger_sealing_status: 'Reads only.',
  store_search_destinations: 'The API hashes destinations in the background, without a person.',
}

describe('a stolen login of the HTTP API', () => {
  test('cannot call any operate function without an API key (P7016)', async () => {
    await withTestDatabase(async (own) => {
      const { login } = await gatewayOf(own)
      const { rows } = await own.queryNoRole<{ name: string }>(
        `SELECT DISTINCT p.proname AS name FROM pg_proc p
         WHERE p.pronamespace = $1::regnamespace AND p.provolatile = 'v'
           AND has_function_privilege('symphony_control', p.oid, 'EXECUTE') ORDER BY 1`,
        [quoteIdentifier(own.schema)],
      )
      const names = rows.map(({ name }) => name)
      expect(names).toEqual(expect.arrayContaining(Object.keys(WITHOUT_ACTOR)))
      const calls: (readonly [name: string, statement: string])[] = []
      for (const name of names.filter((one) => WITHOUT_ACTOR[one] === undefined)) {
        calls.push([name, callStatement(own, name, await PUBLIC_FUNCTIONS[name]!.sound(own))])
      }
      const before = await rowHashes(own)

      const attacker = await login.connect()
      await attacker.query('SET ROLE symphony_control')
      const outcomes: string[] = []
      for (const [name, statement] of calls) outcomes.push(`${name}: ${await sqlstateOf(attacker.query(statement))}`)
      expect(outcomes).toEqual(calls.map(([name]) => `${name}: P7016`))
      expect(await rowHashes(own)).toEqual(before)
    })
  })

  test("cannot approve without an operate key (P7016), nor with the proposer's key (P7007)", async () => {
    await withTestDatabase(async (own) => {
      const { login, control } = await gatewayOf(own)
      const alice = await createKey(own, { scopes: ['operate'], owner: 'alice' })
      const { key: readKey } = await createKey(own, { scopes: ['read'], owner: 'bob' })
      const person = withActor(control, { apiKey: parseApiKey(alice.key)! })
      const { outboxId } = await enqueue(own)
      await placeOutboxHold(person, outboxId, 'odd')
      const { proposalId } = await resolveOutboxHold(person, outboxId, 'DISPATCHED', 'paid', 'ref-1')
      const before = await fingerprint(own)

      const attacker = await login.connect()
      await attacker.query('SET ROLE symphony_control')
      const approval = 'SELECT approve_outbox_proposal($1)'
      const settings: readonly (readonly [string, string, string])[] = [
        ['bob', '', 'P7016'],
        ['bob', 'bob', 'P7016'],
        ['bob', shown(newApiKey().key), 'P7016'],
        ['bob', shown(readKey), 'P7016'],
        ['bob', `${alice.keyId}:`, 'P7016'],
        ['bob', `${alice.keyId}:${'0'.repeat(64)}`, 'P7016'],
        ['bob', shown(alice.key), 'P7007'],
        [`alice via ${login.name}`, shown(alice.key), 'P7007'],
      ]
      for (const [actor, apiKey, refusal] of settings) {
        const set = `SELECT set_config('symphony.actor', $1, false), set_config('symphony.api_key', $2, false)`
        await attacker.query(set, [actor, apiKey])
        expect([apiKey, await failureOf(attacker.query(approval, [proposalId]))]).toMatchObject([
          apiKey,
          { code: refusal },
        ])
      }
      expect(await fingerprint(own)).toEqual(before)
    })
  })

  test('cannot create a key for a person, nor read the hash of a key', async () => {
    await withTestDatabase(async (own) => {
      const { login } = await gatewayOf(own)
      const { key } = await createKey(own, { scopes: ['operate'], owner: 'alice' })
      const before = await fingerprint(own)
      const attacker = await login.connect()
      await attacker.query('SET ROLE symphony_control')
      for (const [apiKey, owner] of [
        ['', 'bob'],
        ['', login.name],
        [shown(key), 'alice'],
        [shown(key), 'bob'],
      ]) {
        await attacker.query(
          `SELECT set_config('symphony.actor', $1, false), set_config('symphony.api_key', $2, false)`,
          [owner, apiKey],
        )
        const making = attacker.query(`SELECT create_api_key('thiefkey', sha256('x'), ARRAY['operate'], $1)`, [owner])
        expect(['42501', 'P7016']).toContain(await sqlstateOf(making))
      }
      expect(await failureOf(attacker.query('SELECT secret_hash FROM api_keys'))).toMatchObject({ code: '42501' })
      expect(
        await failureOf(attacker.query('UPDATE symphony_settings SET naming_gateways = actor_gateways')),
      ).toMatchObject({
        code: '42501',
      })
      expect(await failureOf(attacker.query('SELECT set_actor_gateway($1, true)', [login.name]))).toMatchObject({
        code: '42501',
      })
      expect(await fingerprint(own)).toEqual(before)
    })
  })
})

describe('a stolen login that tries to disturb others', () => {
  test('delays no enqueue by holding the advisory lock for notifications', async () => {
    const client = await stolen('executor')
    const { rows } = await db.queryNoRole<{ oid: number }>(`SELECT 'payment_outbox_pending'::regclass::oid AS oid`)
    await client.query('SELECT pg_advisory_lock(1937337959, $1)', [rows[0]!.oid])
    const listener = await stolen('auth')
    const received: unknown[] = []
    listener.on('notification', (message) => received.push(message))
    await listener.query('LISTEN outbox_pending')

    expect(await completesPayments()).toBe('DISPATCHED')
    await listener.query('SELECT 1')
    // The lock suppresses the notification. Workers still find the item by polling.
    expect(received).toEqual([])
  })

  test('stops no work by holding 2,000 advisory locks', async () => {
    const client = await stolen('readonly')
    await client.query('SELECT count(pg_advisory_lock(n)) FROM generate_series(1, 2000) n')
    expect(await completesPayments()).toBe('DISPATCHED')
  })

  test('stops no work by 5,000 notifications on the channel of the workers', async () => {
    const client = await stolen('readonly')
    const listener = await stolen('executor')
    await listener.query('LISTEN outbox_pending')
    await client.query(`SELECT count(pg_notify('outbox_pending', 'flood ' || n)) FROM generate_series(1, 5000) n`)
    expect(await completesPayments()).toBe('DISPATCHED')
  })

  test('stops no work by a long transaction that takes every lock it may take', async () => {
    const schema = quoteIdentifier(db.schema)
    for (const role of ['control', 'auditor', 'readonly'] as const) {
      const client = await stolen(role)
      await client.query('BEGIN ISOLATION LEVEL SERIALIZABLE')
      await client.query(`SELECT count(*) FROM ${schema}.payment_outbox_pending`)
      await client.query(`LOCK TABLE ${schema}.payment_outbox_events IN ACCESS SHARE MODE`)
      await client.query(`SELECT count(*) FROM ${schema}.outbox_operational_status`)
      expect(await completesPayments()).toBe('DISPATCHED')
      await client.query('ROLLBACK')
    }
  })

  test('delays only its own participant by an open transaction after an enqueue', async () => {
    const client = await stolen('ingest')
    await client.query('BEGIN')
    const schema = quoteIdentifier(db.schema)
    await client.query(`SELECT * FROM ${schema}.enqueue_payment_outbox('i-open', 'p-open', 'k', 'r', '{}')`)
    expect(await completesPayments()).toBe('DISPATCHED')
    await client.query('ROLLBACK')
  })
})

describe('a setting of the caller’s session', () => {
  test.each([
    'standard_conforming_strings = off',
    'transform_null_equals = on',
    'array_nulls = off',
    `timezone = 'Asia/Kathmandu'`,
    `datestyle = 'German'`,
    `intervalstyle = 'sql_standard'`,
    `bytea_output = 'escape'`,
    'extra_float_digits = -15',
    `lc_monetary = 'C'`,
    `client_encoding = 'SQL_ASCII'`,
    `search_path = ''`,
    'search_path = mine, pg_catalog',
    'row_security = off',
    'enable_indexscan = off',
    'enable_nestloop = off',
    'enable_tidscan = off',
    'plan_cache_mode = force_custom_plan',
    'jit_above_cost = 0',
    `work_mem = '64kB'`,
    'from_collapse_limit = 1',
    'geqo_threshold = 2',
    `xmlbinary = 'hex'`,
    'check_function_bodies = off',
    'plpgsql.variable_conflict = use_variable',
    'quote_all_identifiers = on',
    `default_transaction_isolation = 'serializable'`,
    `default_transaction_isolation = 'repeatable read'`,
  ])('changes neither a decision nor a stored row: %s', async (setting) => {
    const participantId = await lifeUnder(setting)
    const { rows } = await db.queryNoRole(
      `SELECT a.attempt_no, a.state, a.payload FROM payment_outbox_attempts a WHERE a.participant_id = $1 ORDER BY 1`,
      [participantId],
    )
    const payload = { name: 'Zoë \\ "x"' }
    expect(rows).toEqual([
      { attempt_no: 1, state: 'RETRYABLE', payload },
      { attempt_no: 2, state: 'DISPATCHED', payload },
    ])
    expect(brokenLedgerRules(await readLedgerText(db.as('symphony_auditor')))).toEqual([])
  })
})

/** Runs an item from enqueue to its terminal outcome, each step in a session with the given setting. */
async function lifeUnder(setting: string): Promise<string> {
  const unique = randomUUID()
  const [participantId, railType] = [`p-${unique}`, `r-${unique}`]
  const schema = quoteIdentifier(db.schema)
  const ingest = await stolen('ingest')
  const executor = await stolen('executor')
  for (const client of [ingest, executor]) await client.query(`SET ${setting}`)
  await ingest.query(`SELECT * FROM ${schema}.enqueue_payment_outbox($1, $1, $1, $2, $3)`, [
    participantId,
    railType,
    String.raw`{"name": "Zo\u00eb \\ \"x\""}`,
  ])
  for (const [state, reference] of [
    ['RETRYABLE', null],
    ['DISPATCHED', `réf-${unique}`],
  ]) {
    const { rows } = await executor.query<Record<string, string>>(
      `SELECT * FROM ${schema}.claim_outbox_batch(5, 'w', 60, ARRAY[$1])`,
      [railType],
    )
    expect(rows).toMatchObject([{ participant_id: participantId }])
    const { outbox_id: outboxId, lease_token: token } = rows[0]!
    const recorded = await executor.query(
      `SELECT * FROM ${schema}.complete_outbox_attempt($1, $2, 'w', $3, $4, NULL, 'BUSY', $5, 7, 0)`,
      [outboxId, token, state, reference, 'é, and so on'],
    )
    expect(recorded.rows).toMatchObject([{ state, held: false }])
  }
  return participantId
}

/** Lets another client enqueue, claim and complete. If the attacker blocked it, the test would time out. */
async function completesPayments(): Promise<string> {
  const { railType } = await enqueue(db)
  const lease = await claimOnly(db, railType)
  const { state } = await complete(db, lease, { state: 'DISPATCHED', railReference: 'ref' })
  return state
}

/**
 * Formats a token as a plan prints it: byte by byte as `char` (signed on x86, unsigned on ARM), with line breaks
 * anywhere.
 */
function asPrinted(token: string): string {
  const bytes = Buffer.from(token.replaceAll('-', ''), 'hex')
  return (process.arch === 'x64' ? new Int8Array(bytes) : bytes).join('')
}

function withoutSpace(text: string): string {
  return text.replaceAll(/\s/g, '')
}

function attempt(
  as: Role,
  title: string,
  ...words: readonly (string | { readonly ends: readonly string[] })[]
): Attempt {
  const steps = words.filter((word) => typeof word === 'string')
  const expected = words.find((word) => typeof word === 'object')
  return { as, title, steps, ends: expected?.ends ?? NO_RIGHT }
}

function harmless(as: Role, title: string, ...steps: readonly string[]): Attempt {
  return { as, title, steps, ends: 'harmless' }
}

async function stolen(role: Role): Promise<Client> {
  const login = logins.get(role)!
  await db.queryNoRole(
    `DROP SCHEMA IF EXISTS mine CASCADE; CREATE SCHEMA mine AUTHORIZATION ${quoteIdentifier(login.name)}`,
  )
  return login.connect()
}

async function run(role: Role, steps: readonly string[]): Promise<string> {
  const client = await stolen(role)
  try {
    for (const step of steps.slice(0, -1)) await client.query(filledIn(role, step))
    await client.query(filledIn(role, steps.at(-1)!))
    return 'succeeded'
  } catch (error) {
    return refusalIn(error).code
  } finally {
    await client.end()
  }
}

function filledIn(role: Role, sql: string): string {
  return sql
    .replaceAll('$S', quoteIdentifier(db.schema).replaceAll('$', '$$$$'))
    .replaceAll('$ME', quoteIdentifier(logins.get(role)!.name))
    .replaceAll('$DB', db.name)
    .replaceAll('$ITEM', leased.outboxId)
    .replaceAll('$TOKEN', leased.leaseToken)
}

/** Returns the notices that the server sends while the body runs. */
async function notices(client: Client, body: () => Promise<void>): Promise<string> {
  const received: string[] = []
  client.on('notice', ({ message, detail }) => received.push(`${message} ${detail ?? ''}`))
  await body()
  return received.join('\n')
}
