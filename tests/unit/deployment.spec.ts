import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { deploy, doctor } from '../../libs/deployment/index.js'
import { catalogOf, namesIn } from '../support/catalogOf.js'
import { createTestDatabase, testSchema, withTestDatabase, type TestDatabase } from '../support/database.js'
import { PUBLIC_FUNCTIONS } from '../support/sqlFunctions.js'

let db: TestDatabase
const schema = testSchema()

/** Gives each test of a group its own database. Copying a deployed one is faster than a deployment. */
function eachWith(content: 'deployed' | 'empty'): void {
  beforeEach(async () => {
    db = await createTestDatabase({ content, countBranches: false })
  })
  afterEach(() => db.drop())
}

async function deployments(): Promise<readonly number[]> {
  const { rows } = await db.queryNoRole<{ deployment_no: number }>(
    'SELECT DISTINCT deployment_no FROM symphony_deployments ORDER BY 1',
  )
  return rows.map((row) => row.deployment_no)
}

async function enqueueOne(): Promise<unknown> {
  const { rows } = await db.queryNoRole(
    `SELECT * FROM enqueue_payment_outbox('instruction', 'participant', 'key', 'rail', '{"amount": "1.00"}')`,
  )
  return rows[0]
}

async function pending(): Promise<readonly unknown[]> {
  return (await db.queryNoRole('SELECT * FROM payment_outbox_pending')).rows
}

describe('PRIM-POSTGRES-SCHEMA-001 a repeated deployment', () => {
  eachWith('deployed')

  test('changes nothing and keeps the data', async () => {
    await enqueueOne()
    const before = await catalogOf(db.url, schema)
    const items = await pending()
    expect(await deploy({ url: db.url, schema })).toMatchObject({ outcome: 'unchanged' })
    expect(await catalogOf(db.url, schema)).toEqual(before)
    expect(await pending()).toEqual(items)
    expect(items).toHaveLength(1)
    expect(await deployments()).toEqual([1])
  })

  test('changes no object and keeps the data, with reapply', async () => {
    await enqueueOne()
    const before = await catalogOf(db.url, schema)
    const items = await pending()
    expect(await deploy({ url: db.url, schema, reapply: true })).toMatchObject({ outcome: 'deployed' })
    expect(await catalogOf(db.url, schema)).toEqual(before)
    expect(await pending()).toEqual(items)
    expect(await deployments()).toEqual([1, 2])
  })

  test('rewrites no table and no index, with reapply', async () => {
    await enqueueOne()
    const filenodes = `SELECT c.relname, pg_relation_filenode(c.oid)
      FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
      WHERE n.nspname = $1 AND c.relkind IN ('r', 'i') ORDER BY c.relname`
    const { rows: before } = await db.queryNoRole(filenodes, [schema])
    await deploy({ url: db.url, schema, reapply: true })
    expect((await db.queryNoRole(filenodes, [schema])).rows).toEqual(before)
    expect(before.length).toBeGreaterThan(20)
  })

  test('applies all files again if the checksum of one file differs', async () => {
    await recordOtherFiles('0.0.1')
    expect(await deploy({ url: db.url, schema })).toMatchObject({ outcome: 'deployed' })
    expect(await deployments()).toEqual([1, 2, 3])
    expect((await doctor({ url: db.url, schema })).ok).toBe(true)
  })
})

describe('PRIM-POSTGRES-SCHEMA-002 a schema with a custom name', () => {
  eachWith('empty')

  test.each(['select', 'Pay.Out-box é', `a"b it's back\\slash $$`])(
    'contains every new object, and nothing outside it changes: %s',
    async (name) => {
      const before = await everythingOutside(name)
      expect(await deploy({ url: db.url, schema: name })).toMatchObject({ outcome: 'deployed', schema: name })
      expect(await everythingOutside(name)).toEqual(before)
      expect(await doctor({ url: db.url, schema: name })).toMatchObject({ ok: true, schema: name })
    },
  )

  test('is independent of a second schema of the same database', async () => {
    await deploy({ url: db.url, schema: 'one' })
    await deploy({ url: db.url, schema: 'two' })
    await db.queryNoRole(`SELECT one.enqueue_payment_outbox('i', 'p', 'k', 'rail', '{}')`)
    const { rows } = await db.queryNoRole(
      `SELECT (SELECT count(*)::int FROM one.payment_outbox_pending) AS one,
              (SELECT count(*)::int FROM two.payment_outbox_pending) AS two`,
    )
    expect(rows).toEqual([{ one: 1, two: 0 }])
    expect((await doctor({ url: db.url, schema: 'one' })).ok).toBe(true)
  })

  test.each(['', ' ', 'x'.repeat(64), 'nul\0'])('is refused if the name is %j', async (name) => {
    await expect(deploy({ url: db.url, schema: name })).rejects.toThrow(/schema/)
  })
})

describe('PRIM-POSTGRES-SCHEMA-003 a deployment', () => {
  /** Catalog of the one deployment that these tests share. */
  let seen: ReturnType<typeof catalogOf> | undefined
  const catalogOfOneDeployment = () =>
    (seen ??= withTestDatabase(({ url }) => catalogOf(url, schema), { countBranches: false }))

  test('creates exactly the listed tables and views', async () => {
    expect(namesIn(await catalogOfOneDeployment(), 'relations')).toEqual([
      'api_keys',
      'browser_sessions',
      'dispatch_epochs',
      'inbox_events',
      'inbox_messages',
      'ledger_projection',
      'ledger_verification_passes',
      'ledger_verifications',
      'outbox_attempt_series',
      'outbox_attempt_tallies',
      'outbox_attempt_totals',
      'outbox_breaker_changes',
      'outbox_contradictions',
      'outbox_limit_proposals',
      'outbox_limit_usage',
      'outbox_limits',
      'outbox_operational_status',
      'outbox_pauses',
      'outbox_queue_counts',
      'outbox_queue_parts',
      'outbox_queue_status',
      'outbox_rails',
      'outbox_series',
      'outbox_throughput',
      'outbox_worker_series',
      'outbox_workers',
      'participant_outbox_policies',
      'participant_outbox_sequences',
      'payment_outbox_attempts',
      'payment_outbox_blocks',
      'payment_outbox_events',
      'payment_outbox_identities',
      'payment_outbox_pending',
      'payment_outbox_proposals',
      'payment_search',
      'payment_search_destinations',
      'reconciliation_closings',
      'reconciliation_entries',
      'reconciliation_findings',
      'reconciliation_open_findings',
      'reconciliation_payment_entries',
      'reconciliation_runs',
      'reconciliation_upload_payments',
      'reconciliation_uploads',
      'scheduler_job_runs',
      'scheduler_jobs',
      'scheduler_tasks',
      'scheduler_timers',
      'subject_keys',
      'supervisor_inbox_status',
      'supervisor_lease_status',
      'supervisor_outbox_status',
      'supervisor_scheduler_status',
      'symphony_deployments',
      'symphony_lease_floor',
      'symphony_leases',
      'symphony_settings',
    ])
  })

  test('creates exactly the listed indexes, besides those of constraints', async () => {
    const catalog = await catalogOfOneDeployment()
    const constraints = namesIn(catalog, 'constraints')
    expect(namesIn(catalog, 'indexes').filter((name) => !constraints.includes(name))).toEqual([
      'inbox_events.ix_inbox_events_by_message',
      'inbox_events.ux_inbox_events_one_per_content',
      'inbox_messages.ix_inbox_claim_expiry',
      'inbox_messages.ix_inbox_claimable',
      'inbox_messages.ix_inbox_dead',
      'inbox_messages.ix_inbox_done',
      'inbox_messages.ix_inbox_sighted',
      'ledger_verifications.ix_ledger_verifications_by_time',
      'outbox_attempt_series.ix_outbox_attempt_series_by_time',
      'outbox_limit_proposals.ux_limit_proposals_one_open_per_limit',
      'outbox_limit_usage.ix_limit_usage_expired',
      'outbox_limits.ix_limits_by_participant',
      'outbox_limits.ix_limits_by_rail',
      'outbox_series.ix_outbox_series_by_time',
      'payment_outbox_attempts.ix_attempts_by_outbox',
      'payment_outbox_attempts.ix_attempts_by_rail_reference',
      'payment_outbox_attempts.ix_attempts_failed',
      'payment_outbox_attempts.ix_attempts_recorded',
      'payment_outbox_attempts.payment_outbox_attempts_one_terminal_per_outbox',
      'payment_outbox_blocks.ix_blocks_by_last_xid',
      'payment_outbox_events.ix_events_recorded',
      'payment_outbox_events.ix_events_returned',
      'payment_outbox_identities.ix_identities_recorded',
      'payment_outbox_identities.ix_identities_redrive_of',
      'payment_outbox_identities.ix_identities_replaces',
      'payment_outbox_identities.payment_outbox_identities_one_instruction_per_scoped_key',
      'payment_outbox_pending.ix_pending_block_unverified',
      'payment_outbox_pending.ix_pending_claimable',
      'payment_outbox_pending.ix_pending_lease_expired',
      'payment_outbox_pending.ix_pending_ordered',
      'payment_outbox_proposals.ux_proposals_one_open_per_item',
      'payment_search.ix_payment_search_by_amount',
      'payment_search.ix_payment_search_by_instruction',
      'payment_search.ix_payment_search_by_key',
      'payment_search.ix_payment_search_by_participant',
      'payment_search.ix_payment_search_by_rail',
      'payment_search.ix_payment_search_by_reference',
      'payment_search.ix_payment_search_by_state',
      'payment_search_destinations.ix_payment_search_destinations_by_item',
      'reconciliation_entries.ix_reconciliation_entries_by_payment',
      'reconciliation_entries.ix_reconciliation_entries_by_run',
      'reconciliation_findings.ix_reconciliation_findings_by_payment',
      'reconciliation_findings.ix_reconciliation_findings_by_run',
      'reconciliation_findings.ix_reconciliation_findings_by_severity',
      'reconciliation_open_findings.ix_reconciliation_open_findings',
      'reconciliation_open_findings.ix_reconciliation_open_findings_by_severity',
      'reconciliation_runs.ux_reconciliation_runs_one_per_file',
      'reconciliation_uploads.ix_reconciliation_uploads_unmatched',
      'scheduler_jobs.ix_jobs_looked_at',
      'scheduler_tasks.ix_tasks_finished',
      'scheduler_tasks.ix_tasks_leased',
      'scheduler_tasks.ix_tasks_ready',
      'scheduler_tasks.ix_tasks_ready_for_outbox',
      'scheduler_tasks.scheduler_job_runs_one_per_occurrence',
    ])
  })

  test('creates exactly the listed triggers, enabled as listed', async () => {
    const triggers = (await catalogOfOneDeployment()).get('triggers')!
    expect([...triggers].map(([name, { enabled }]) => `${name} ${String(enabled)}`).toSorted()).toEqual([
      'inbox_events.inbox_events_is_append_only always',
      'inbox_messages.inbox_messages_done_is_final always',
      'inbox_messages.inbox_messages_is_not_truncated always',
      'inbox_messages.inbox_messages_unfinished_is_not_removed always',
      'ledger_verifications.ledger_verifications_is_append_only always',
      'participant_outbox_sequences.participant_outbox_sequences_is_not_truncated always',
      'payment_outbox_attempts.payment_outbox_attempts_is_append_only always',
      'payment_outbox_blocks.payment_outbox_blocks_is_append_only always',
      'payment_outbox_events.payment_outbox_events_is_append_only always',
      'payment_outbox_identities.payment_outbox_identities_is_append_only always',
      'payment_outbox_pending.payment_outbox_pending_is_not_truncated always',
      'payment_outbox_pending.payment_outbox_pending_notifies origin',
      'reconciliation_closings.reconciliation_closings_is_append_only always',
      'reconciliation_entries.reconciliation_entries_is_append_only always',
      'reconciliation_findings.reconciliation_findings_is_append_only always',
      'reconciliation_runs.reconciliation_runs_is_append_only always',
      'symphony_deployments.symphony_deployments_is_append_only always',
      'symphony_lease_floor.symphony_lease_floor_is_not_truncated always',
      'symphony_leases.symphony_leases_is_not_truncated always',
      'symphony_settings.symphony_settings_record_full_trail always',
    ])
  })

  test('lets each role call exactly the listed functions', async () => {
    const grants = namesIn(await catalogOfOneDeployment(), 'grants')
    const callable = grants.flatMap((grant) => {
      const [, name, role] = /^EXECUTE on function (\w+)\(.*\) to symphony_(\w+)$/.exec(grant) ?? []
      return name === undefined ? [] : [`${role}: ${name}`]
    })
    const expected = Object.entries(PUBLIC_FUNCTIONS).flatMap(([name, { callers, overloads = 1 }]) =>
      callers.flatMap((role) => Array<string>(overloads).fill(`${role}: ${name}`)),
    )
    expect(callable.toSorted()).toEqual(expected.toSorted())
  })

  test('grants only EXECUTE, SELECT and USAGE, and nothing to PUBLIC', async () => {
    const grants = namesIn(await catalogOfOneDeployment(), 'grants')
    const others = grants.filter((grant) => !grant.startsWith('EXECUTE on function'))
    expect(others.filter((grant) => !/^(?:SELECT on (?:columns of )?table|USAGE on the schema) /.test(grant))).toEqual(
      [],
    )
    expect(grants.filter((grant) => grant.includes('PUBLIC'))).toEqual([])
    expect(grants.filter((grant) => grant.includes('symphony_auth'))).toEqual([
      'EXECUTE on function authenticate_api_key(text, bytea) to symphony_auth',
      'EXECUTE on function authenticate_browser_session(text, bytea) to symphony_auth',
      'EXECUTE on function create_browser_session(text, bytea, text[], text, text, integer, text[]) to symphony_auth',
      'EXECUTE on function end_browser_session(text, bytea) to symphony_auth',
      'USAGE on the schema to symphony_auth',
    ])
    expect(grants.filter((grant) => grant.includes('participant_outbox_sequences'))).toEqual([
      'SELECT on table participant_outbox_sequences to symphony_control',
    ])
  })

  test('creates one enum, and makes symphony_owner the owner of every object', async () => {
    const catalog = await catalogOfOneDeployment()
    expect(namesIn(catalog, 'types')).toEqual(['outbox_attempt_state'])
    const owners = ['schemas', 'relations', 'functions', 'types'].flatMap((kind) =>
      [...catalog.get(kind)!.values()].map(({ owner }) => owner),
    )
    expect(new Set(owners)).toEqual(new Set(['symphony_owner']))
  })
})

describe('the record of deployments', () => {
  eachWith('deployed')

  test('names the deployed files and the login that deployed them', async () => {
    const { rows } = await db.queryNoRole<{ file: string; deployed_by: string; release: string }>(
      'SELECT file, deployed_by, release FROM symphony_deployments',
    )
    expect(rows.map(({ file }) => file)).toContain('v1/011_privileges.sql')
    expect(rows.map(({ file }) => file)).toContain('views/outbox_status_view.sql')
    expect(new Set(rows.map(({ deployed_by: by }) => by))).toEqual(new Set(['postgres']))
  })

  test('cannot be changed, not even by the owner', async () => {
    const owner = await db.connect('symphony_owner')
    await expect(owner.query(`UPDATE symphony_deployments SET release = '9.9.9'`)).rejects.toThrow(/append-only/)
    await expect(owner.query('TRUNCATE symphony_deployments')).rejects.toThrow(/append-only/)
  })
})

describe('a deployment over an earlier release', () => {
  eachWith('deployed')

  test('drops functions that this release does not have', async () => {
    const owner = await db.connect('symphony_owner')
    await owner.query(`CREATE FUNCTION outdated_helper() RETURNS int LANGUAGE sql RETURN 1`)
    await owner.query(`CREATE FUNCTION outdated_outbox_call(p int) RETURNS int LANGUAGE sql RETURN outdated_helper()`)
    await recordOtherFiles('0.0.1')
    await deploy({ url: db.url, schema })
    expect(await doctor({ url: db.url, schema })).toMatchObject({ ok: true })
  })

  test('replaces a function whose return type differs, and drops functions that depend on it', async () => {
    const owner = await db.connect('symphony_owner')
    await owner.query(`DROP FUNCTION next_outbox_event;
      CREATE FUNCTION next_outbox_event(p_rails text[]) RETURNS int LANGUAGE sql RETURN 1;
      CREATE FUNCTION built_on_it() RETURNS int LANGUAGE sql RETURN next_outbox_event('{}')`)
    await deploy({ url: db.url, schema, reapply: true })
    expect(await doctor({ url: db.url, schema })).toMatchObject({ ok: true })
  })

  test('replaces a view whose columns differ, and drops an unknown view', async () => {
    const owner = await db.connect('symphony_owner')
    await owner.query(`DROP VIEW outbox_operational_status;
      CREATE VIEW outbox_operational_status AS SELECT 1 AS gone, ''::text AS outbox_id;
      CREATE VIEW forgotten AS SELECT 1 AS one`)
    await deploy({ url: db.url, schema, reapply: true })
    expect(await doctor({ url: db.url, schema })).toMatchObject({ ok: true })
  })

  test('keeps the OIDs of unchanged functions', async () => {
    // Prepared statements of running workers refer to functions by OID.
    const numbers = `SELECT p.oid FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = $1 ORDER BY 1`
    const { rows: before } = await db.queryNoRole(numbers, [schema])
    await deploy({ url: db.url, schema, reapply: true })
    expect((await db.queryNoRole(numbers, [schema])).rows).toEqual(before)
  })
})

describe('a database of a newer release', () => {
  eachWith('deployed')

  test.each([
    ['a newer version', '99.0.0', 1],
    ['a higher schema level', '0.0.1', 99],
  ])('is refused (DEPLOYMENT_NEWER_DATABASE): %s', async (_, release, level) => {
    await recordOtherFiles(release, level)
    const before = await catalogOf(db.url, schema)
    await expect(deploy({ url: db.url, schema })).rejects.toMatchObject({
      code: 'DEPLOYMENT_NEWER_DATABASE',
      message: expect.stringContaining(release),
    })
    await expect(deploy({ url: db.url, schema, reapply: true })).rejects.toMatchObject({
      code: 'DEPLOYMENT_NEWER_DATABASE',
    })
    expect(await catalogOf(db.url, schema)).toEqual(before)
    expect(await deployments()).toEqual([1, 2])
  })
})

/** Records a deployment of another release, in which the checksum of one file differs. */
async function recordOtherFiles(release: string, level = 1): Promise<void> {
  const owner = await db.connect('symphony_owner')
  await owner.query(
    `SELECT record_deployment($1, $2, array_agg(file),
       array_agg(CASE file WHEN 'functions/core/ids.sql' THEN repeat('0', 64) ELSE sha256 END))
     FROM symphony_deployments WHERE deployment_no = (SELECT max(deployment_no) FROM symphony_deployments)`,
    [level, release],
  )
}

/** Lists every object of the database that is outside this schema. */
async function everythingOutside(name: string): Promise<readonly unknown[]> {
  const { rows } = await db.queryNoRole(
    `SELECT 'relation' AS kind, c.oid::regclass::text AS name FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE n.nspname NOT IN ($1, 'pg_toast')
     UNION ALL SELECT 'function', p.oid::regprocedure::text FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname <> $1
     UNION ALL SELECT 'type', t.oid::regtype::text FROM pg_type t JOIN pg_namespace n ON n.oid = t.typnamespace WHERE n.nspname <> $1
     UNION ALL SELECT 'schema', n.nspname FROM pg_namespace n WHERE n.nspname <> $1
     UNION ALL SELECT 'extension', e.extname FROM pg_extension e
     UNION ALL SELECT 'event trigger', e.evtname FROM pg_event_trigger e
     UNION ALL SELECT 'acl of database', d.datacl::text FROM pg_database d WHERE d.datname = current_database()
     ORDER BY 1, 2`,
    [name],
  )
  return rows
}
