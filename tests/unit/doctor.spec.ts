import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { deploy, doctor, type Finding } from '../../libs/deployment/index.js'
import { readManifest } from '../../libs/deployment/manifest.js'
import { createTestDatabase, withTestDatabase, type TestDatabase } from '../support/database.js'

/** Change by a privileged user, and the finding that doctor must report. */
interface Drift {
  readonly title: string
  readonly sql: string
  readonly code: string
  readonly object: string
  /** Repair: a deployment, a deployment with `reapply`, or a person (`hand`). */
  readonly repairedBy: 'deploy' | 'reapply' | 'hand'
}

/** Signature from the manifest, so that new parameters of the function do not break these tests. */
const CLAIM = [...readManifest(18).get('functions')!.keys()].find((name) => name.startsWith('claim_outbox_batch('))!

const DRIFTS: readonly Drift[] = [
  {
    title: 'PUBLIC may execute a function',
    sql: 'GRANT EXECUTE ON FUNCTION claim_outbox_batch TO PUBLIC',
    code: 'GRANT_UNEXPECTED',
    object: `EXECUTE on function ${CLAIM} to PUBLIC`,
    repairedBy: 'deploy',
  },
  {
    title: 'PUBLIC may read a table',
    sql: 'GRANT SELECT ON payment_outbox_attempts TO PUBLIC',
    code: 'GRANT_UNEXPECTED',
    object: 'SELECT on table payment_outbox_attempts to PUBLIC',
    repairedBy: 'deploy',
  },
  {
    title: 'PUBLIC may use the schema',
    sql: 'DO $$ BEGIN EXECUTE format($f$GRANT USAGE ON SCHEMA %I TO PUBLIC$f$, current_schema()); END $$',
    code: 'GRANT_UNEXPECTED',
    object: 'USAGE on the schema to PUBLIC',
    repairedBy: 'deploy',
  },
  {
    title: 'a worker may write the queue',
    sql: 'GRANT UPDATE ON payment_outbox_pending TO symphony_executor',
    code: 'GRANT_UNEXPECTED',
    object: 'UPDATE on table payment_outbox_pending to symphony_executor',
    repairedBy: 'deploy',
  },
  {
    title: 'a grant with the grant option',
    sql: 'GRANT SELECT ON payment_outbox_attempts TO symphony_auditor WITH GRANT OPTION',
    code: 'GRANT_UNEXPECTED',
    object: 'SELECT on table payment_outbox_attempts to symphony_auditor with grant option',
    repairedBy: 'deploy',
  },
  {
    title: 'a grant to a foreign role',
    sql: 'GRANT INSERT ON payment_outbox_attempts TO pg_monitor',
    code: 'GRANT_UNEXPECTED',
    object: 'INSERT on table payment_outbox_attempts to pg_monitor',
    repairedBy: 'hand',
  },
  {
    title: 'a grant on one column too many',
    sql: 'GRANT SELECT (lease_token) ON payment_outbox_pending TO symphony_control',
    code: 'GRANT_COLUMNS_UNEXPECTED',
    object: 'SELECT on columns of table payment_outbox_pending to symphony_control',
    repairedBy: 'deploy',
  },
  {
    title: 'a column grant to a role without one',
    sql: 'GRANT UPDATE (payload) ON payment_outbox_pending TO symphony_ingest',
    code: 'GRANT_UNEXPECTED',
    object: 'UPDATE on columns of table payment_outbox_pending to symphony_ingest',
    repairedBy: 'deploy',
  },
  {
    title: 'a missing grant',
    sql: 'REVOKE EXECUTE ON FUNCTION claim_outbox_batch FROM symphony_executor',
    code: 'GRANT_MISSING',
    object: `EXECUTE on function ${CLAIM} to symphony_executor`,
    repairedBy: 'deploy',
  },
  {
    title: 'the owner may not insert into its own ledger',
    sql: 'REVOKE INSERT ON payment_outbox_attempts FROM symphony_owner',
    code: 'GRANT_UNEXPECTED',
    object: 'INSERT on table payment_outbox_attempts taken from its owner',
    repairedBy: 'hand',
  },
  {
    title: 'a default privilege that opens new functions to PUBLIC',
    sql: 'ALTER DEFAULT PRIVILEGES FOR ROLE symphony_owner GRANT EXECUTE ON FUNCTIONS TO PUBLIC',
    code: 'DEFAULT_PRIVILEGE_MISSING',
    object: 'functions created by symphony_owner anywhere',
    repairedBy: 'deploy',
  },
  {
    title: 'a default privilege on new tables',
    sql: 'ALTER DEFAULT PRIVILEGES FOR ROLE symphony_owner GRANT SELECT ON TABLES TO symphony_readonly',
    code: 'DEFAULT_PRIVILEGE_UNEXPECTED',
    object: 'tables created by symphony_owner anywhere',
    repairedBy: 'hand',
  },
  {
    title: 'a disabled trigger',
    sql: 'ALTER TABLE payment_outbox_attempts DISABLE TRIGGER payment_outbox_attempts_is_append_only',
    code: 'TRIGGER_ENABLED_CHANGED',
    object: 'payment_outbox_attempts.payment_outbox_attempts_is_append_only',
    repairedBy: 'reapply',
  },
  {
    title: 'a trigger that is no longer ALWAYS',
    sql: 'ALTER TABLE payment_outbox_identities ENABLE TRIGGER payment_outbox_identities_is_append_only',
    code: 'TRIGGER_ENABLED_CHANGED',
    object: 'payment_outbox_identities.payment_outbox_identities_is_append_only',
    repairedBy: 'reapply',
  },
  {
    title: 'a missing trigger',
    sql: 'DROP TRIGGER payment_outbox_events_is_append_only ON payment_outbox_events',
    code: 'TRIGGER_MISSING',
    object: 'payment_outbox_events.payment_outbox_events_is_append_only',
    repairedBy: 'reapply',
  },
  {
    title: 'a missing index',
    sql: 'DROP INDEX payment_outbox_attempts_one_terminal_per_outbox',
    code: 'INDEX_MISSING',
    object: 'payment_outbox_attempts.payment_outbox_attempts_one_terminal_per_outbox',
    repairedBy: 'reapply',
  },
  {
    title: 'an index with another predicate',
    sql: `DROP INDEX payment_outbox_attempts_one_terminal_per_outbox;
      CREATE UNIQUE INDEX payment_outbox_attempts_one_terminal_per_outbox ON payment_outbox_attempts (outbox_id)
      WHERE state = 'DISPATCHED'`,
    code: 'INDEX_DEFINITION_CHANGED',
    object: 'payment_outbox_attempts.payment_outbox_attempts_one_terminal_per_outbox',
    repairedBy: 'hand',
  },
  {
    title: 'an invalid index',
    sql: `UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'ix_pending_claimable'::regclass`,
    code: 'INDEX_VALID_CHANGED',
    object: 'payment_outbox_pending.ix_pending_claimable',
    repairedBy: 'hand',
  },
  {
    title: 'a changed function body',
    sql: `CREATE OR REPLACE FUNCTION outbox_attempt_ceiling() RETURNS integer LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN 21`,
    code: 'FUNCTION_BODY_CHANGED',
    object: 'outbox_attempt_ceiling()',
    repairedBy: 'reapply',
  },
  {
    title: 'a SECURITY DEFINER function without search_path',
    sql: 'ALTER FUNCTION claim_outbox_batch RESET search_path',
    code: 'FUNCTION_SETTINGS_MISSING',
    object: CLAIM,
    repairedBy: 'reapply',
  },
  {
    title: 'a SECURITY DEFINER function with another search_path',
    sql: 'ALTER FUNCTION claim_outbox_batch SET search_path = public, pg_temp',
    code: 'FUNCTION_SETTINGS_UNEXPECTED',
    object: CLAIM,
    repairedBy: 'reapply',
  },
  {
    title: 'a function that is no longer SECURITY DEFINER',
    sql: 'ALTER FUNCTION claim_outbox_batch SECURITY INVOKER',
    code: 'FUNCTION_SECURITY_DEFINER_CHANGED',
    object: CLAIM,
    repairedBy: 'reapply',
  },
  {
    title: 'a function with another volatility',
    sql: 'ALTER FUNCTION epoch_micros IMMUTABLE',
    code: 'FUNCTION_VOLATILITY_CHANGED',
    object: 'epoch_micros(timestamp with time zone)',
    repairedBy: 'reapply',
  },
  {
    title: 'an extra function',
    sql: 'CREATE FUNCTION back_door() RETURNS void LANGUAGE sql SECURITY DEFINER BEGIN ATOMIC END',
    code: 'FUNCTION_UNEXPECTED',
    object: 'back_door()',
    repairedBy: 'hand',
  },
  {
    title: 'a missing function',
    sql: 'DROP FUNCTION renew_outbox_lease',
    code: 'FUNCTION_MISSING',
    object: 'renew_outbox_lease(uuid, uuid, text, integer)',
    repairedBy: 'reapply',
  },
  {
    title: 'a table of another owner',
    sql: 'ALTER TABLE payment_outbox_attempts OWNER TO postgres',
    code: 'RELATION_OWNER_CHANGED',
    object: 'payment_outbox_attempts',
    repairedBy: 'hand',
  },
  {
    title: 'a function of another owner',
    sql: 'ALTER FUNCTION claim_outbox_batch OWNER TO postgres',
    code: 'FUNCTION_OWNER_CHANGED',
    object: CLAIM,
    repairedBy: 'hand',
  },
  {
    title: 'a schema of another owner',
    sql: 'DO $$ BEGIN EXECUTE format($f$ALTER SCHEMA %I OWNER TO postgres$f$, current_schema()); END $$',
    code: 'SCHEMA_OWNER_CHANGED',
    object: 'the schema',
    repairedBy: 'deploy',
  },
  {
    title: 'a dropped constraint',
    sql: 'ALTER TABLE payment_outbox_pending DROP CONSTRAINT payment_outbox_pending_lease_all_or_none',
    code: 'CONSTRAINT_MISSING',
    object: 'payment_outbox_pending.payment_outbox_pending_lease_all_or_none',
    repairedBy: 'hand',
  },
  {
    title: 'a constraint that was not validated',
    sql: `ALTER TABLE payment_outbox_attempts DROP CONSTRAINT payment_outbox_attempts_numbered_from_one;
      ALTER TABLE payment_outbox_attempts ADD CONSTRAINT payment_outbox_attempts_numbered_from_one
      CHECK (attempt_no >= 1) NOT VALID`,
    code: 'CONSTRAINT_DEFINITION_CHANGED',
    object: 'payment_outbox_attempts.payment_outbox_attempts_numbered_from_one',
    repairedBy: 'hand',
  },
  {
    title: 'a column that may be null',
    sql: 'ALTER TABLE payment_outbox_pending ALTER COLUMN payload DROP NOT NULL',
    code: 'COLUMN_NOT_NULL_CHANGED',
    object: 'payment_outbox_pending.payload',
    repairedBy: 'hand',
  },
  {
    title: 'a dropped default',
    sql: 'ALTER TABLE payment_outbox_pending ALTER COLUMN attempt_count DROP DEFAULT',
    code: 'COLUMN_DEFAULT_CHANGED',
    object: 'payment_outbox_pending.attempt_count',
    repairedBy: 'hand',
  },
  {
    title: 'an extra column',
    sql: 'ALTER TABLE payment_outbox_pending ADD COLUMN note text',
    code: 'COLUMN_UNEXPECTED',
    object: 'payment_outbox_pending.note',
    repairedBy: 'hand',
  },
  {
    title: 'an extra table',
    sql: 'CREATE TABLE scratch (id int PRIMARY KEY)',
    code: 'RELATION_UNEXPECTED',
    object: 'scratch',
    repairedBy: 'hand',
  },
  {
    title: 'an unlogged table',
    sql: 'ALTER TABLE outbox_pauses SET UNLOGGED',
    code: 'RELATION_PERSISTENCE_CHANGED',
    object: 'outbox_pauses',
    repairedBy: 'hand',
  },
  {
    title: 'a table without its fillfactor',
    sql: 'ALTER TABLE payment_outbox_pending RESET (fillfactor)',
    code: 'RELATION_OPTIONS_MISSING',
    object: 'payment_outbox_pending',
    repairedBy: 'hand',
  },
  {
    title: 'row level security on a table',
    sql: 'ALTER TABLE payment_outbox_pending ENABLE ROW LEVEL SECURITY',
    code: 'RELATION_ROW_SECURITY_CHANGED',
    object: 'payment_outbox_pending',
    repairedBy: 'hand',
  },
  {
    title: 'a row security policy',
    sql: 'CREATE POLICY nothing ON payment_outbox_pending USING (false)',
    code: 'POLICY_UNEXPECTED',
    object: 'payment_outbox_pending.nothing',
    repairedBy: 'hand',
  },
  {
    title: 'a rule that swallows writes',
    sql: 'CREATE RULE swallow AS ON INSERT TO payment_outbox_events DO INSTEAD NOTHING',
    code: 'RULE_UNEXPECTED',
    object: 'payment_outbox_events.swallow',
    repairedBy: 'hand',
  },
  {
    title: 'a table that inherits from the ledger',
    sql: 'CREATE TABLE public.child () INHERITS (payment_outbox_attempts)',
    code: 'RELATION_CHILDREN_UNEXPECTED',
    object: 'payment_outbox_attempts',
    repairedBy: 'hand',
  },
  {
    title: 'a ledger table that was renamed',
    sql: 'ALTER TABLE payment_outbox_attempts RENAME TO hidden',
    code: 'RELATION_MISSING',
    object: 'payment_outbox_attempts',
    repairedBy: 'hand',
  },
  {
    title: 'a ledger table in another schema',
    sql: 'ALTER TABLE payment_outbox_identities SET SCHEMA public',
    code: 'RELATION_MISSING',
    object: 'payment_outbox_identities',
    repairedBy: 'hand',
  },
  {
    title: 'a dropped ledger table',
    sql: 'DROP TABLE payment_outbox_events CASCADE',
    code: 'RELATION_MISSING',
    object: 'payment_outbox_events',
    repairedBy: 'hand',
  },
  {
    title: 'a ledger table that became a partition',
    sql: `CREATE TABLE public.whole (LIKE payment_outbox_attempts) PARTITION BY LIST (state);
      ALTER TABLE public.whole ATTACH PARTITION payment_outbox_attempts DEFAULT`,
    code: 'RELATION_PARENTS_UNEXPECTED',
    object: 'payment_outbox_attempts',
    repairedBy: 'hand',
  },
  {
    title: 'a trigger that acts only in replica mode',
    sql: 'ALTER TABLE payment_outbox_events ENABLE REPLICA TRIGGER payment_outbox_events_is_append_only',
    code: 'TRIGGER_ENABLED_CHANGED',
    object: 'payment_outbox_events.payment_outbox_events_is_append_only',
    repairedBy: 'reapply',
  },
  {
    title: 'a view with another definition',
    sql: `CREATE OR REPLACE VIEW outbox_operational_status WITH (security_barrier = true) AS
      SELECT * FROM (TABLE outbox_operational_status LIMIT 0) nothing`,
    code: 'RELATION_DEFINITION_CHANGED',
    object: 'outbox_operational_status',
    repairedBy: 'reapply',
  },
  {
    title: 'a view without security_barrier',
    sql: 'ALTER VIEW supervisor_outbox_status RESET (security_barrier)',
    code: 'RELATION_OPTIONS_MISSING',
    object: 'supervisor_outbox_status',
    repairedBy: 'reapply',
  },
  {
    title: 'a view with security_invoker',
    sql: 'ALTER VIEW supervisor_outbox_status SET (security_invoker = true)',
    code: 'RELATION_OPTIONS_UNEXPECTED',
    object: 'supervisor_outbox_status',
    repairedBy: 'reapply',
  },
  {
    title: 'an additional enum label',
    sql: `ALTER TYPE outbox_attempt_state ADD VALUE 'MAYBE'`,
    code: 'TYPE_LABELS_CHANGED',
    object: 'outbox_attempt_state',
    repairedBy: 'hand',
  },
  {
    title: 'a type that PUBLIC may use',
    sql: 'GRANT USAGE ON TYPE outbox_attempt_state TO PUBLIC',
    code: 'GRANT_UNEXPECTED',
    object: 'USAGE on type outbox_attempt_state to PUBLIC',
    repairedBy: 'deploy',
  },
  {
    title: 'an object of a kind that Symphony does not use',
    sql: `CREATE COLLATION strange (provider = libc, locale = 'C')`,
    code: 'OTHER_UNEXPECTED',
    object: 'collation strange',
    repairedBy: 'hand',
  },
  {
    title: 'a changed comment',
    sql: `COMMENT ON COLUMN payment_outbox_pending.attempt_count IS 'The truth.'`,
    code: 'COLUMN_COMMENT_CHANGED',
    object: 'payment_outbox_pending.attempt_count',
    repairedBy: 'reapply',
  },
]

const untouched = { countBranches: false } as const

function failures(findings: readonly Finding[]): readonly Finding[] {
  return findings.filter(({ severity }) => severity !== 'note')
}

async function examine(db: TestDatabase): Promise<readonly Finding[]> {
  const { ok, findings } = await doctor({ url: db.url, schema: db.schema })
  expect(ok).toBe(failures(findings).length === 0)
  return failures(findings)
}

describe('a fresh deployment', () => {
  test('gets no failure and two notes from doctor', async () => {
    await withTestDatabase(async (db) => {
      const { ok, findings } = await doctor({ url: db.url, schema: db.schema })
      expect(ok).toBe(true)
      expect(findings.map(({ code }) => code).toSorted()).toEqual(['DATABASE_PUBLIC_TEMPORARY', 'LOGIN_IS_SUPERUSER'])
    }, untouched)
  })

  test('can be examined by an auditor that is no superuser', async () => {
    await withTestDatabase(async (db) => {
      const auditor = await db.createLogin('auditor', { roles: ['symphony_auditor'] })
      const { ok, findings } = await doctor({ url: auditor.url, schema: db.schema, full: true })
      expect(failures(findings)).toEqual([])
      expect(ok).toBe(true)
    }, untouched)
  })

  test('cannot be examined by a login without the auditor role (DOCTOR_ROLE_MISSING)', async () => {
    await withTestDatabase(async (db) => {
      const reader = await db.createLogin('reader', { roles: ['symphony_readonly'] })
      await expect(doctor({ url: reader.url, schema: db.schema })).rejects.toMatchObject({
        code: 'DOCTOR_ROLE_MISSING',
        remedy: expect.stringContaining('--create-login NAME=auditor'),
      })
    }, untouched)
  })
})

describe('settings of the database', () => {
  test('change neither the result of a deployment nor the findings of doctor', async () => {
    await withTestDatabase(
      async (db) => {
        const settings = {
          search_path: 'public',
          standard_conforming_strings: 'off',
          check_function_bodies: 'off',
          quote_all_identifiers: 'on',
          intervalstyle: 'iso_8601',
          timezone: 'Australia/Lord_Howe',
          datestyle: 'SQL, DMY',
          extra_float_digits: '-15',
          default_transaction_read_only: 'on',
          default_transaction_isolation: 'serializable',
          // Long enough for BEGIN on a busy machine. After BEGIN the timeout of Symphony applies.
          statement_timeout: '500ms',
          lock_timeout: '1ms',
          role: 'pg_monitor',
        }
        for (const [name, value] of Object.entries(settings)) {
          await db.queryNoRole(`ALTER DATABASE ${db.name} SET ${name} = '${value}'`)
        }
        expect(await deploy({ url: db.url, schema: db.schema })).toMatchObject({ outcome: 'deployed' })
        expect(await examine(db)).toEqual([])
      },
      { content: 'empty' },
    )
  })
})

/** Returns the objects of Symphony that a statement names. Two drifts of one object could hide each other. */
function objectsIn({ sql }: Drift): readonly string[] {
  return (sql.match(/\b[a-z]+(?:_[a-z]+)+\b/g) ?? []).filter((name) => !/^(?:symphony|pg|current)_/.test(name))
}

/** Groups drifts, one database per group. Drifts of a group concern different objects and have the same repair. */
function inRounds(drifts: readonly Drift[]): { readonly repairedBy: Drift['repairedBy']; readonly drifts: Drift[] }[] {
  const rounds: {
    readonly repairedBy: Drift['repairedBy']
    readonly drifts: Drift[]
    readonly objects: Set<string>
  }[] = []
  for (const drift of drifts) {
    const { repairedBy } = drift
    const own = objectsIn(drift)
    let round = rounds.find((one) => one.repairedBy === repairedBy && own.every((name) => !one.objects.has(name)))
    if (round === undefined) rounds.push((round = { repairedBy, drifts: [], objects: new Set() }))
    round.drifts.push(drift)
    for (const name of own) round.objects.add(name)
  }
  return rounds
}

describe.each(inRounds(DRIFTS))('a drift that is repaired by $repairedBy', ({ repairedBy, drifts }) => {
  let db: TestDatabase
  let findings: readonly Finding[]
  beforeAll(async () => {
    db = await createTestDatabase(untouched)
    for (const { sql } of drifts) await db.queryNoRole(`SET allow_system_table_mods = on; ${sql}`)
    findings = await examine(db)
  })
  afterAll(() => db.drop())

  test.each(drifts)('is reported: $title', ({ code, object }) => {
    expect(findings).toContainEqual(
      expect.objectContaining({ severity: 'drift', code, object: expect.stringContaining(object) }),
    )
  })

  test('has a remedy, and is reported until it is repaired', async () => {
    expect(findings.every(({ remedy }) => remedy.length > 0)).toBe(true)
    if (repairedBy !== 'hand') await deploy({ url: db.url, schema: db.schema, reapply: repairedBy === 'reapply' })
    expect(await examine(db)).toEqual(repairedBy === 'hand' ? findings : [])
  })
})

describe('doctor', () => {
  test('reports a blanket grant, which the next deployment revokes', async () => {
    await withTestDatabase(async (db) => {
      await db.queryNoRole(
        'DO $$ BEGIN EXECUTE format($f$GRANT SELECT ON ALL TABLES IN SCHEMA %I TO symphony_readonly$f$, current_schema()); END $$',
      )
      expect((await examine(db)).map(({ object }) => object)).toContain(
        'grant SELECT on table participant_outbox_sequences to symphony_readonly',
      )
      expect(await deploy({ url: db.url, schema: db.schema })).toMatchObject({ outcome: 'unchanged' })
      expect(await examine(db)).toEqual([])
      const sequences = `SELECT * FROM ${db.qualify('participant_outbox_sequences')}`
      await expect(db.as('symphony_readonly').query(sequences)).rejects.toMatchObject({
        code: 'INSUFFICIENT_PRIVILEGE',
      })
    }, untouched)
  })

  test('reports a missing view once, and none of its columns', async () => {
    await withTestDatabase(async (db) => {
      await db.queryNoRole('DROP VIEW outbox_operational_status')
      const codes = (await examine(db)).map(({ code }) => code)
      expect(codes.filter((code) => code.startsWith('RELATION'))).toEqual(['RELATION_MISSING'])
      expect(codes.filter((code) => code.startsWith('COLUMN'))).toEqual([])
    }, untouched)
  })

  test('reports a schema without a deployment, whether the schema exists or not', async () => {
    await withTestDatabase(
      async (db) => {
        expect(await examine(db)).toMatchObject([{ code: 'NOT_DEPLOYED' }])
        const { findings } = await doctor({ url: db.url, schema: 'public' })
        expect(failures(findings)).toMatchObject([{ code: 'NOT_DEPLOYED', object: 'schema public' }])
      },
      { content: 'empty' },
    )
  })

  test('reports a deployment of other files (DEPLOYED_BY_ANOTHER_RELEASE)', async () => {
    await withTestDatabase(async (db) => {
      const owner = await db.connect('symphony_owner')
      await owner.query(`SELECT record_deployment(1, '0.0.1', ARRAY['v1/x.sql'], ARRAY[repeat('0', 64)])`)
      expect(await examine(db)).toMatchObject([
        { code: 'DEPLOYED_BY_ANOTHER_RELEASE', found: expect.stringContaining('0.0.1') },
      ])
    }, untouched)
  })
})
