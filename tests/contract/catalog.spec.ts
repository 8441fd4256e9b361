import { describe, expect, test } from 'vitest'
import { quoteIdentifier } from '../../libs/db/index.js'
import { useTestDatabase } from '../support/database.js'
import { complete, enqueue, enqueueAndClaim } from '../support/outboxItems.js'
import { failureOf } from '../support/race.js'
import { VOLATILITIES } from '../support/sqlFunctions.js'

/** Checks the deployed schema against the catalog of PostgreSQL. */

// Branch counters would change the function bodies that these tests read.
const db = await useTestDatabase({ countBranches: false })

/** Runs a query that can read the OID of the schema from `ours`. */
async function ask<R>(sql: string): Promise<R[]> {
  const { rows } = await db.queryNoRole<R>(
    `WITH ours AS (SELECT n.oid FROM pg_namespace n WHERE n.nspname = $1) ${sql}`,
    [db.schema],
  )
  return rows
}

/** Returns the only column of the rows. */
async function list(sql: string): Promise<unknown[]> {
  return (await ask<Record<string, unknown>>(sql)).map((row) => Object.values(row)[0])
}

describe('functions', () => {
  test('each SECURITY DEFINER or string-body function sets search_path to our schema and pg_temp', async () => {
    const path = `search_path=${quotedIfNeeded(db.schema)}, pg_temp`
    const offenders = await ask<{ name: string; path: string | null }>(
      `SELECT p.proname AS name, (SELECT c FROM unnest(p.proconfig) c WHERE c LIKE 'search_path=%') AS path
       FROM pg_proc p, ours WHERE p.pronamespace = ours.oid AND (p.prosqlbody IS NULL OR p.prosecdef)`,
    )
    expect(offenders.filter((one) => one.path !== path)).toEqual([])
  })

  test('only 4 functions with a string body are SECURITY INVOKER, not counting trigger functions', async () => {
    expect(
      await list(
        `SELECT p.proname FROM pg_proc p, ours
         WHERE p.pronamespace = ours.oid AND NOT p.prosecdef AND p.prosqlbody IS NULL
           AND p.prorettype <> 'trigger'::regtype ORDER BY 1`,
      ),
    ).toEqual(['record_deployment', 'refuse_argument', 'require_read_committed', 'set_actor_gateway'])
  })

  test('the three trigger functions are SECURITY INVOKER', async () => {
    expect(
      await list(
        `SELECT p.proname FROM pg_proc p, ours
         WHERE p.pronamespace = ours.oid AND p.prorettype = 'trigger'::regtype AND NOT p.prosecdef ORDER BY 1`,
      ),
    ).toEqual(['notify_outbox_pending', 'record_full_trail', 'refuse_mutation'])
  })

  test('every function that disables a planner method also sets jit = off', async () => {
    const configured = await ask<{ name: string; forbids: boolean; compiles: boolean }>(
      `SELECT p.proname AS name, bool_or(c LIKE 'enable_%=off') AS forbids, NOT bool_or(c = 'jit=off') AS compiles
       FROM pg_proc p CROSS JOIN unnest(p.proconfig) c, ours WHERE p.pronamespace = ours.oid GROUP BY p.oid, p.proname`,
    )
    expect(configured.filter(({ forbids }) => forbids).length).toBeGreaterThan(50)
    expect(configured.filter(({ forbids, compiles }) => forbids && compiles)).toEqual([])
  })

  test('no function is executable by PUBLIC, explicitly or by default', async () => {
    expect(
      await list(
        `SELECT p.proname FROM pg_proc p, ours
         WHERE p.pronamespace = ours.oid AND (p.proacl IS NULL OR EXISTS (
           SELECT 1 FROM aclexplode(p.proacl) a WHERE a.grantee = 0))`,
      ),
    ).toEqual([])
  })

  test('no function is STRICT, so a NULL argument is never skipped silently', async () => {
    expect(
      await list(`SELECT p.proname FROM pg_proc p, ours WHERE p.pronamespace = ours.oid AND p.proisstrict`),
    ).toEqual([])
  })

  test('no function is LEAKPROOF', async () => {
    expect(
      await list(`SELECT p.proname FROM pg_proc p, ours WHERE p.pronamespace = ours.oid AND p.proleakproof`),
    ).toEqual([])
  })

  test('every function has the volatility that VOLATILITIES lists', async () => {
    const functions = await ask<{ name: string; volatility: string }>(
      `SELECT p.proname AS name,
         CASE p.provolatile WHEN 'i' THEN 'immutable' WHEN 's' THEN 'stable' ELSE 'volatile' END AS volatility
       FROM pg_proc p, ours WHERE p.pronamespace = ours.oid`,
    )
    expect(Object.fromEntries(functions.map(({ name, volatility }) => [name, volatility]))).toEqual(VOLATILITIES)
  })

  test('no function with a string body contains a backslash', async () => {
    expect(
      await list(
        `SELECT p.proname FROM pg_proc p, ours
         WHERE p.pronamespace = ours.oid AND p.prosqlbody IS NULL AND strpos(p.prosrc, chr(92)) > 0`,
      ),
    ).toEqual([])
  })

  test('no function runs dynamic SQL with EXECUTE', async () => {
    expect(
      await list(
        `SELECT p.proname FROM pg_proc p, ours
         WHERE p.pronamespace = ours.oid AND p.prosrc ~* '(^|[;[:space:]])EXECUTE[[:space:]]'`,
      ),
    ).toEqual([])
  })

  test('every set-returning plpgsql function has #variable_conflict use_column', async () => {
    expect(
      await list(
        `SELECT p.proname FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang, ours
         WHERE p.pronamespace = ours.oid AND l.lanname = 'plpgsql' AND p.proretset
           AND p.prosrc !~ '#variable_conflict use_column'`,
      ),
    ).toEqual([])
  })
})

describe('owners and comments', () => {
  test('symphony_owner owns the schema and every object in it', async () => {
    expect(
      await list(
        `SELECT o.name FROM ours CROSS JOIN LATERAL (
           SELECT 'schema' AS name, n.nspowner AS owner FROM pg_namespace n WHERE n.oid = ours.oid
           UNION ALL SELECT c.relname, c.relowner FROM pg_class c WHERE c.relnamespace = ours.oid
           UNION ALL SELECT p.proname, p.proowner FROM pg_proc p WHERE p.pronamespace = ours.oid
           UNION ALL SELECT t.typname, t.typowner FROM pg_type t WHERE t.typnamespace = ours.oid
         ) o WHERE o.owner <> 'symphony_owner'::regrole`,
      ),
    ).toEqual([])
  })

  test('symphony_owner owns nothing outside the schema', async () => {
    expect(
      await list(
        `SELECT pg_describe_object(d.classid, d.objid, d.objsubid)
         FROM pg_shdepend d JOIN pg_database b ON b.oid = d.dbid AND b.datname = current_database(), ours
         WHERE d.refclassid = 'pg_authid'::regclass AND d.refobjid = 'symphony_owner'::regrole AND d.deptype = 'o'
           AND NOT EXISTS (SELECT 1 FROM pg_class c WHERE d.classid = 'pg_class'::regclass AND c.oid = d.objid AND c.relnamespace = ours.oid)
           AND NOT EXISTS (SELECT 1 FROM pg_proc p WHERE d.classid = 'pg_proc'::regclass AND p.oid = d.objid AND p.pronamespace = ours.oid)
           AND NOT EXISTS (SELECT 1 FROM pg_type t WHERE d.classid = 'pg_type'::regclass AND t.oid = d.objid AND t.typnamespace = ours.oid)
           AND NOT (d.classid = 'pg_namespace'::regclass AND d.objid = ours.oid)
           AND d.classid <> 'pg_default_acl'::regclass`,
      ),
    ).toEqual([])
  })

  test('every table, view, function and type has a comment', async () => {
    expect(
      await list(
        `SELECT o.name FROM ours CROSS JOIN LATERAL (
           SELECT c.relname AS name, obj_description(c.oid, 'pg_class') AS comment FROM pg_class c
           WHERE c.relnamespace = ours.oid AND c.relkind IN ('r', 'p', 'v', 'm', 'f')
           UNION ALL SELECT p.proname, obj_description(p.oid, 'pg_proc') FROM pg_proc p WHERE p.pronamespace = ours.oid
           UNION ALL SELECT t.typname, obj_description(t.oid, 'pg_type') FROM pg_type t
           WHERE t.typnamespace = ours.oid AND t.typrelid = 0 AND t.typcategory <> 'A'
         ) o WHERE COALESCE(btrim(o.comment), '') = ''`,
      ),
    ).toEqual([])
  })

  test.each([
    [
      'outbox_attempt_state',
      `obj_description('outbox_attempt_state'::regtype, 'pg_type')`,
      /DISPATCHING is a historical .*leased/,
    ],
    [
      'payment_outbox_attempts_one_terminal_per_outbox',
      `obj_description('payment_outbox_attempts_one_terminal_per_outbox'::regclass, 'pg_class')`,
      /second terminal outcome .* refused/,
    ],
    ['attempt_count', columnComment('payment_outbox_pending', 'attempt_count'), /cache/],
    ['lease_token', columnComment('payment_outbox_pending', 'lease_token'), /fence/],
    ['content_hash', columnComment('payment_outbox_identities', 'content_hash'), /SHA-256/],
    ['block_hash', columnComment('payment_outbox_blocks', 'block_hash'), /SHA-256/],
  ])('the comment of %s has the words that the specification requires', async (_what, comment, pattern) => {
    const { rows } = await db.queryNoRole<{ comment: string }>(`SELECT ${comment} AS comment`)
    expect(rows[0]!.comment).toMatch(pattern)
  })
})

describe('tables', () => {
  test('no table is partitioned or inherited, and only tables of staged uploads are unlogged', async () => {
    expect(
      await list(
        `SELECT c.relname FROM pg_class c, ours
         WHERE c.relnamespace = ours.oid AND (c.relkind NOT IN ('r', 'v', 'i') OR c.relispartition
           OR (c.relpersistence <> 'p') <> (c.relname ~ '^(ix_)?reconciliation_upload')
           OR EXISTS (SELECT 1 FROM pg_inherits i WHERE c.oid IN (i.inhrelid, i.inhparent)))`,
      ),
    ).toEqual([])
  })

  test.each<[string, readonly string[]]>([
    ['participant_outbox_sequences', ['participant_id text', 'next_sequence_id bigint']],
    [
      'payment_outbox_pending',
      [
        'outbox_id uuid',
        'instruction_id text',
        'participant_id text',
        'sequence_id bigint',
        'idempotency_key text',
        'rail_type text',
        'payload jsonb',
        'attempt_count integer',
        'next_attempt_at timestamp with time zone',
        'created_at timestamp with time zone',
        'claimed_by text?',
        'lease_token uuid?',
        'lease_expires_at timestamp with time zone?',
        'claimed_at timestamp with time zone?',
        'outcome_unknown boolean',
      ],
    ],
    [
      'payment_outbox_attempts',
      [
        'attempt_id uuid',
        'outbox_id uuid',
        'instruction_id text',
        'participant_id text',
        'sequence_id bigint',
        'idempotency_key text',
        'rail_type text',
        'payload jsonb',
        'attempt_no integer',
        'state outbox_attempt_state',
        'claimed_at timestamp with time zone?',
        'completed_at timestamp with time zone?',
        'rail_reference text?',
        'rail_code text?',
        'error_code text?',
        'error_message text?',
        'latency_ms integer?',
        'worker_id text?',
        'lease_token uuid?',
        'created_at timestamp with time zone',
      ],
    ],
    [
      'payment_outbox_identities',
      [
        'outbox_id uuid',
        'instruction_id text',
        'idempotency_key text',
        'participant_id text',
        'sequence_id bigint',
        'content_hash bytea',
      ],
    ],
    [
      'payment_outbox_events',
      [
        'event_id uuid',
        'outbox_id uuid?',
        'event_type text',
        'attempt_id uuid?',
        'actor text',
        'detail jsonb',
        'created_at timestamp with time zone',
      ],
    ],
  ])('table %s has the columns of the specification', async (table, columns) => {
    const { rows } = await db.queryNoRole<{ column: string }>(
      `SELECT format('%s %s%s', a.attname, format_type(a.atttypid, a.atttypmod), CASE WHEN NOT a.attnotnull THEN '?' END)
         AS column
       FROM pg_attribute a WHERE a.attrelid = $1::regclass AND a.attnum > 0 AND NOT a.attisdropped`,
      [table],
    )
    expect(rows.map(({ column }) => column)).toEqual(expect.arrayContaining([...columns]))
  })

  test('the lease columns have no defaults', async () => {
    expect(
      await list(
        `SELECT a.attname FROM pg_attribute a, ours WHERE a.attrelid = 'payment_outbox_pending'::regclass
           AND a.attname IN ('claimed_by', 'lease_token', 'lease_expires_at') AND a.atthasdef`,
      ),
    ).toEqual([])
  })

  test('outbox_attempt_state has the five specified labels in order', async () => {
    expect(
      await list(
        `SELECT e.enumlabel FROM pg_enum e, ours WHERE e.enumtypid = 'outbox_attempt_state'::regtype ORDER BY e.enumsortorder`,
      ),
    ).toEqual(['DISPATCHING', 'DISPATCHED', 'RETRYABLE', 'FAILED', 'ZOMBIE_REQUEUE'])
  })

  test.each([
    ['payment_outbox_pending', 'PRIMARY KEY (outbox_id)'],
    ['payment_outbox_pending', 'UNIQUE (participant_id, sequence_id)', 'ux_pending_participant_sequence'],
    ['payment_outbox_pending', 'UNIQUE (instruction_id, idempotency_key)'],
    ['payment_outbox_pending', 'CHECK (num_nonnulls(claimed_by, lease_token, lease_expires_at) = ANY (ARRAY[0, 3]))'],
    ['payment_outbox_pending', 'CHECK (attempt_count >= 0 AND attempt_count <= 20)'],
    ['payment_outbox_pending', `CHECK (jsonb_typeof(payload) = 'object'::text)`],
    ['payment_outbox_attempts', 'PRIMARY KEY (attempt_id)'],
    ['payment_outbox_attempts', 'CHECK (attempt_no >= 1)'],
    ['payment_outbox_attempts', 'CHECK (latency_ms >= 0)'],
    ['payment_outbox_attempts', `CHECK (state <> 'DISPATCHING'::outbox_attempt_state)`],
    ['payment_outbox_identities', 'PRIMARY KEY (outbox_id)'],
    ['payment_outbox_identities', 'UNIQUE (instruction_id, idempotency_key)'],
    ['payment_outbox_identities', 'UNIQUE (participant_id, sequence_id)'],
    ['payment_outbox_events', 'PRIMARY KEY (event_id)'],
    ['participant_outbox_sequences', 'PRIMARY KEY (participant_id)'],
  ])('table %s has the constraint %s', async (table, definition, name?: string) => {
    const { rows } = await db.queryNoRole<{ name: string }>(
      `SELECT c.conname AS name FROM pg_constraint c
       WHERE c.conrelid = $1::regclass AND pg_get_constraintdef(c.oid, true) = $2 AND c.convalidated`,
      [table, definition],
    )
    expect(rows.map((row) => (name === undefined ? undefined : row.name))).toEqual([name])
  })
})

describe('indexes', () => {
  test.each([
    [
      'ix_pending_claimable',
      'CREATE INDEX ix_pending_claimable ON payment_outbox_pending USING btree (rail_type, is_message, next_attempt_at, created_at, sequence_id) WHERE lease_token IS NULL AND hold_reason IS NULL AND NOT blocked',
    ],
    [
      'ix_pending_lease_expired',
      'CREATE INDEX ix_pending_lease_expired ON payment_outbox_pending USING btree (lease_expires_at) WHERE lease_expires_at IS NOT NULL',
    ],
    [
      'ix_attempts_by_outbox',
      'CREATE UNIQUE INDEX ix_attempts_by_outbox ON payment_outbox_attempts USING btree (outbox_id, attempt_no)',
    ],
    [
      'payment_outbox_attempts_one_terminal_per_outbox',
      `CREATE UNIQUE INDEX payment_outbox_attempts_one_terminal_per_outbox ON payment_outbox_attempts USING btree (outbox_id) WHERE state = ANY (ARRAY['DISPATCHED'::outbox_attempt_state, 'FAILED'::outbox_attempt_state])`,
    ],
    [
      'ix_inbox_claimable',
      `CREATE INDEX ix_inbox_claimable ON inbox_messages USING btree (due_at, first_seen_at) WHERE state = 'seen'::text AND topic IS NOT NULL`,
    ],
    [
      'ix_inbox_claim_expiry',
      'CREATE INDEX ix_inbox_claim_expiry ON inbox_messages USING btree (claim_expires_at) WHERE fence IS NOT NULL',
    ],
    ['ix_inbox_done', `CREATE INDEX ix_inbox_done ON inbox_messages USING btree (ended_at) WHERE state = 'done'::text`],
    [
      'ix_inbox_sighted',
      `CREATE INDEX ix_inbox_sighted ON inbox_messages USING btree (first_seen_at) WHERE state = 'seen'::text AND topic IS NULL`,
    ],
  ])('index %s has the specified definition and is valid and ready', async (name, definition) => {
    const { rows } = await db.queryNoRole(
      `SELECT pg_get_indexdef(i.indexrelid, 0, true) AS definition, i.indisvalid AND i.indisready AND i.indislive AS usable
       FROM pg_index i WHERE i.indexrelid = $1::regclass`,
      [name],
    )
    expect(rows).toEqual([{ definition, usable: true }])
  })

  test('no index predicate calls a function such as now()', async () => {
    expect(
      await list(
        `SELECT pg_get_expr(i.indpred, i.indrelid) FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid, ours
         WHERE c.relnamespace = ours.oid AND pg_get_expr(i.indpred, i.indrelid) ~ '[a-z_]\\('`,
      ),
    ).toEqual([])
  })
})

describe('triggers', () => {
  test('refuse_mutation refuses UPDATE, DELETE and TRUNCATE on 11 tables, and TRUNCATE on 5 more', async () => {
    expect(
      await ask(
        `SELECT c.relname AS table, t.tgenabled AS mode,
           (t.tgtype & 2 = 2) AS before, (t.tgtype & 1 = 1) AS "perRow", concat_ws(' ',
             CASE WHEN t.tgtype & 4 > 0 THEN 'INSERT' END, CASE WHEN t.tgtype & 16 > 0 THEN 'UPDATE' END,
             CASE WHEN t.tgtype & 8 > 0 THEN 'DELETE' END, CASE WHEN t.tgtype & 32 > 0 THEN 'TRUNCATE' END) AS events,
           t.tgqual IS NULL AND t.tgattr = '' AS unconditional
         FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid, ours
         WHERE c.relnamespace = ours.oid AND t.tgfoid = 'refuse_mutation'::regproc AND t.tgqual IS NULL
         ORDER BY c.relname COLLATE "C"`,
      ),
    ).toEqual(
      (
        [
          ['inbox_events', 'UPDATE DELETE TRUNCATE'],
          ['inbox_messages', 'TRUNCATE'],
          ['ledger_verifications', 'UPDATE DELETE TRUNCATE'],
          ['participant_outbox_sequences', 'TRUNCATE'],
          ['payment_outbox_attempts', 'UPDATE DELETE TRUNCATE'],
          ['payment_outbox_blocks', 'UPDATE DELETE TRUNCATE'],
          ['payment_outbox_events', 'UPDATE DELETE TRUNCATE'],
          ['payment_outbox_identities', 'UPDATE DELETE TRUNCATE'],
          ['payment_outbox_pending', 'TRUNCATE'],
          ['reconciliation_closings', 'UPDATE DELETE TRUNCATE'],
          ['reconciliation_entries', 'UPDATE DELETE TRUNCATE'],
          ['reconciliation_findings', 'UPDATE DELETE TRUNCATE'],
          ['reconciliation_runs', 'UPDATE DELETE TRUNCATE'],
          ['symphony_deployments', 'UPDATE DELETE TRUNCATE'],
          ['symphony_lease_floor', 'TRUNCATE'],
          ['symphony_leases', 'TRUNCATE'],
        ] as const
      ).map(([table, events]) => ({ table, mode: 'A', before: true, perRow: false, events, unconditional: true })),
    )
  })

  test('inbox_messages refuses to reopen a done row and to delete an unfinished one', async () => {
    expect(
      await ask(
        `SELECT pg_get_triggerdef(t.oid, true) AS definition, t.tgenabled AS mode
         FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid, ours
         WHERE c.relnamespace = ours.oid AND t.tgqual IS NOT NULL AND t.tgfoid = 'refuse_mutation'::regproc ORDER BY t.tgname`,
      ),
    ).toEqual([
      {
        definition: `CREATE TRIGGER inbox_messages_done_is_final BEFORE UPDATE ON inbox_messages FOR EACH ROW WHEN (old.state = 'done'::text AND new.state <> 'done'::text) EXECUTE FUNCTION refuse_mutation()`,
        mode: 'A',
      },
      {
        definition: `CREATE TRIGGER inbox_messages_unfinished_is_not_removed BEFORE DELETE ON inbox_messages FOR EACH ROW WHEN (old.state <> 'done'::text AND (old.state <> 'seen'::text OR old.topic IS NOT NULL)) EXECUTE FUNCTION refuse_mutation()`,
        mode: 'A',
      },
    ])
  })

  test('every trigger calls refuse_mutation, except worker notification and the full_trail record', async () => {
    expect(
      await list(
        `SELECT pg_get_triggerdef(t.oid, true) FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid, ours
         WHERE c.relnamespace = ours.oid AND NOT t.tgisinternal AND t.tgfoid <> 'refuse_mutation'::regproc ORDER BY t.tgname`,
      ),
    ).toEqual([
      'CREATE TRIGGER payment_outbox_pending_notifies AFTER INSERT ON payment_outbox_pending REFERENCING NEW TABLE AS enqueued FOR EACH STATEMENT EXECUTE FUNCTION notify_outbox_pending()',
      'CREATE TRIGGER symphony_settings_record_full_trail AFTER UPDATE OF full_trail ON symphony_settings FOR EACH ROW WHEN (old.full_trail <> new.full_trail) EXECUTE FUNCTION record_full_trail()',
    ])
  })

  test('the schema has no rules except those of views, and no policies', async () => {
    expect(
      await list(
        `SELECT r.rulename FROM pg_rewrite r JOIN pg_class c ON c.oid = r.ev_class, ours
         WHERE c.relnamespace = ours.oid AND NOT (c.relkind = 'v' AND r.rulename = '_RETURN')`,
      ),
    ).toEqual([])
    expect(
      await list(
        `SELECT p.polname FROM pg_policy p JOIN pg_class c ON c.oid = p.polrelid, ours WHERE c.relnamespace = ours.oid`,
      ),
    ).toEqual([])
  })
})

describe('views', () => {
  test('views run with their owner’s rights and call built-in functions only', async () => {
    expect(
      await ask(
        `SELECT c.relname AS view, c.reloptions AS options, (
           SELECT count(*)::integer FROM pg_rewrite r JOIN pg_depend d ON d.classid = 'pg_rewrite'::regclass AND d.objid = r.oid
           WHERE r.ev_class = c.oid AND d.refclassid = 'pg_proc'::regclass) AS "ownFunctions"
         FROM pg_class c, ours WHERE c.relnamespace = ours.oid AND c.relkind = 'v' ORDER BY 1`,
      ),
    ).toEqual([
      { view: 'outbox_operational_status', options: ['security_barrier=true'], ownFunctions: 0 },
      { view: 'outbox_queue_parts', options: ['security_barrier=true'], ownFunctions: 0 },
      { view: 'outbox_queue_status', options: ['security_barrier=true'], ownFunctions: 0 },
      { view: 'outbox_throughput', options: ['security_barrier=true'], ownFunctions: 0 },
      { view: 'reconciliation_payment_entries', options: ['security_barrier=true'], ownFunctions: 0 },
      { view: 'scheduler_job_runs', options: null, ownFunctions: 0 },
      { view: 'scheduler_timers', options: null, ownFunctions: 0 },
      { view: 'supervisor_inbox_status', options: ['security_barrier=true'], ownFunctions: 0 },
      { view: 'supervisor_lease_status', options: ['security_barrier=true'], ownFunctions: 0 },
      { view: 'supervisor_outbox_status', options: ['security_barrier=true'], ownFunctions: 0 },
      { view: 'supervisor_scheduler_status', options: ['security_barrier=true'], ownFunctions: 0 },
    ])
  })

  test('no view has a column for tokens or hashes; only timers and job runs show a payload', async () => {
    expect(
      await list(
        `SELECT format('%s.%s', c.relname, a.attname) FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid, ours
         WHERE c.relnamespace = ours.oid AND c.relkind = 'v' AND a.attname ~ 'token|payload|hash' ORDER BY 1`,
      ),
    ).toEqual(['scheduler_job_runs.payload', 'scheduler_timers.payload'])
  })

  test('no view names the historical state DISPATCHING', async () => {
    expect(
      await list(
        `SELECT c.relname FROM pg_class c, ours
         WHERE c.relnamespace = ours.oid AND c.relkind = 'v' AND pg_get_viewdef(c.oid) ~ 'DISPATCHING'`,
      ),
    ).toEqual([])
  })
})

describe('constraints', () => {
  test('refuse a second terminal attempt of one item (23505)', async () => {
    const item = await enqueueAndClaim(db)
    await complete(db, item, { state: 'DISPATCHED', railReference: 'ref-1' })
    for (const state of ['DISPATCHED', 'FAILED']) {
      const second = db.queryNoRole(
        `INSERT INTO payment_outbox_attempts SELECT r.* FROM payment_outbox_attempts a
         CROSS JOIN LATERAL jsonb_populate_record(a,
           jsonb_build_object('attempt_id', gen_random_uuid(), 'attempt_no', 2, 'state', $2::text)) r
         WHERE a.outbox_id = $1`,
        [item.outboxId, state],
      )
      expect(await failureOf(second)).toMatchObject({
        code: '23505',
        constraint: 'payment_outbox_attempts_one_terminal_per_outbox',
      })
    }
  })

  test.each([
    ['an attempt with state DISPATCHING', 'attempts', `'{"state": "DISPATCHING"}'`, 'dispatching_is_not_stored'],
    ['an attempt number of 0', 'attempts', `'{"attempt_no": 0}'`, 'numbered_from_one'],
    ['a negative latency', 'attempts', `'{"latency_ms": -1}'`, 'latency_not_negative'],
    ['a claimed_by without lease_token', 'pending', `'{"claimed_by": "w"}'`, 'lease_all_or_none'],
    [
      'a claimed_by with a null lease_expires_at',
      'pending',
      `'{"lease_expires_at": null, "claimed_by": "w"}'`,
      'lease_all_or_none',
    ],
    ['an attempt_count of 21', 'pending', `'{"attempt_count": 21}'`, 'attempt_count_within_ceiling'],
    ['a payload that is no object', 'pending', `'{"payload": []}'`, 'payload_is_object'],
    ['a hold_reason without held_by', 'pending', `'{"hold_reason": "odd"}'`, 'hold_all_or_none'],
    ['a dispatch mark without a lease', 'pending', `'{"dispatch_mark": "begun"}'`, 'mark_only_while_leased'],
  ])('refuse %s (23514)', async (_what, table, change, constraint) => {
    await complete(db, await enqueueAndClaim(db), { state: 'RETRYABLE' })
    await enqueue(db)
    const refused = db.queryNoRole(
      `INSERT INTO payment_outbox_${table} SELECT r.* FROM (SELECT * FROM payment_outbox_${table} LIMIT 1) t
       CROSS JOIN LATERAL jsonb_populate_record(t::payment_outbox_${table}, ${change}::jsonb) r`,
    )
    expect(await failureOf(refused)).toMatchObject({
      code: '23514',
      constraint: `payment_outbox_${table}_${constraint}`,
    })
  })
})

function columnComment(table: string, column: string): string {
  return `(SELECT col_description(a.attrelid, a.attnum) FROM pg_attribute a
    WHERE a.attrelid = '${table}'::regclass AND a.attname = '${column}')`
}

/** Quotes a name as PostgreSQL does in a setting. */
function quotedIfNeeded(name: string): string {
  return /^[a-z_][a-z0-9_$]*$/.test(name) ? name : quoteIdentifier(name)
}
