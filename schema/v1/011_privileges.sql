-- All privileges, per role, with the reason. Every deployment applies this file last, which also revokes manual grants
-- to these roles. No role here can write a table: only the functions change data.

-- Revokes every privilege of the runtime roles and PUBLIC in this schema before the grants below.
DO $$
DECLARE
  v_roles CONSTANT text :=
    'symphony_control, symphony_ingest, symphony_executor, symphony_readonly, symphony_auditor, symphony_auth';
  v_grantees CONSTANT text := 'PUBLIC, ' || v_roles;
  v_type regtype;
BEGIN
  EXECUTE format('REVOKE ALL ON SCHEMA %I FROM %s', current_schema(), v_grantees);
  EXECUTE format('REVOKE ALL ON ALL TABLES IN SCHEMA %I FROM %s', current_schema(), v_grantees);
  EXECUTE format('REVOKE ALL ON ALL SEQUENCES IN SCHEMA %I FROM %s', current_schema(), v_grantees);
  EXECUTE format('REVOKE ALL ON ALL ROUTINES IN SCHEMA %I FROM %s', current_schema(), v_grantees);
  -- Includes row types: a table of another owner with a column of our row type would make our ALTER TABLE fail.
  FOR v_type IN
    SELECT t.oid FROM pg_type t WHERE t.typnamespace = to_regnamespace(quote_ident(current_schema()))
      AND t.typcategory <> 'A'
  LOOP
    EXECUTE format('REVOKE ALL ON TYPE %s FROM %s', v_type, v_grantees);
  END LOOP;
  EXECUTE format('GRANT USAGE ON SCHEMA %I TO %s', current_schema(), v_roles);
END
$$;
-- Covers objects that are created later. Uses the form without IN SCHEMA, because only that form revokes from PUBLIC.
ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC;
ALTER DEFAULT PRIVILEGES REVOKE USAGE ON TYPES FROM PUBLIC;

-- symphony_ingest: applications. They enqueue payments, messages and timers in their own transaction. They cannot read
-- the queue or take a sequence number.
GRANT EXECUTE ON FUNCTION
  enqueue_payment_outbox(text, text, text, text, jsonb, timestamptz, boolean, text, boolean, text, text, uuid),
  enqueue_payment_outbox_batch(text[], text[], text[], text[], jsonb[], timestamptz[], boolean[], text[], boolean,
  text, text[], uuid[]),
  enqueue_outbox_packed(text[], text[], text[], text[], jsonb[], timestamptz[], boolean[], text[], boolean, text,
  text[], uuid[]),
  propose_payment_outbox(text, text, text, text, jsonb, text, text, uuid, text),
  enqueue_inbox_message(text, text, text, jsonb, timestamptz),
  enqueue_inbox_messages(text[], text[], text[], jsonb[], timestamptz[]),
  schedule_timer(text, jsonb, timestamptz, text, text, uuid),
  cancel_timer(uuid)
TO symphony_ingest;
-- Applications stop their payments in their own transaction. A login can cancel any unsent item that it can name: the
-- function cannot tell which application enqueued it.
GRANT EXECUTE ON FUNCTION cancel_outbox_item(uuid, text), cancel_outbox_instruction(text, text, text)
  TO symphony_ingest, symphony_control;
-- Applications that encrypt fields need the wrapped keys of their subjects, which are useless without the master key,
-- and may add keys.
GRANT EXECUTE ON FUNCTION ensure_subject_keys(text[], uuid[], text[], text) TO symphony_ingest;
-- The API and the command line warn of a rail without a worker. The function answers only for the rails given.
GRANT EXECUTE ON FUNCTION unserved_outbox_rails(text[]) TO symphony_ingest;

-- symphony_executor: workers. They change items through functions that check the lease, and can read no table. A stolen
-- worker login sees only the payloads and tokens that it claims.
GRANT EXECUTE ON FUNCTION
  claim_outbox_batch(integer, text, integer, text[], text[], boolean, uuid, boolean),
  claim_outbox_packed(integer, text, integer, text[], text[], boolean, uuid, boolean),
  check_dispatch_epoch(text, uuid, bigint, timestamptz),
  renew_outbox_lease(uuid, uuid, text, integer),
  renew_outbox_leases(uuid[], uuid[], text, integer),
  release_outbox_lease(uuid, uuid, text),
  release_outbox_leases(uuid[], uuid[], text),
  begin_outbox_dispatch(uuid, uuid, text),
  hold_leased_outbox_item(uuid, uuid, text, text),
  complete_outbox_attempt(uuid, uuid, text, text, text, text, text, text, integer, integer, boolean, text, text),
  complete_outbox_attempt(uuid, uuid, text, outbox_attempt_state, text, text, text, text, integer, integer, boolean,
  text, text),
  complete_outbox_attempts(uuid[], uuid[], text, text[], text[], text[], text[], text[], integer[], integer[],
  boolean[], text[], boolean, text[]),
  complete_outbox_packed(uuid[], uuid[], text, text[], text[], text[], text[], text[], integer[], integer[], boolean[],
  text[], boolean, text[]),
  record_late_outcome(uuid, uuid, text, text, text, text, text, text, integer),
  repair_expired_leases(integer, text, boolean),
  outbox_backoff(integer, uuid, integer),
  next_outbox_event(text[], boolean),
  heartbeat_outbox_worker(text, jsonb),
  declare_outbox_rail(text, boolean, jsonb, text, boolean),
  deregister_outbox_worker(text, jsonb),
  acquire_lease(text, text, integer, jsonb),
  renew_lease(text, text, uuid, integer),
  release_lease(text, text, uuid),
  purge_idle_leases(integer, integer),
  record_inbox_sighting(text, text, text, jsonb),
  mark_inbox_processing(text, text),
  mark_inbox_processed(text, text),
  mark_inbox_dead(text, text, text),
  claim_inbox_batch(integer, text, integer, integer),
  ack_inbox_messages(text[], text[], uuid[], text),
  abandon_inbox_messages(text[], text[], uuid[], text, text[], integer[], boolean),
  fail_inbox_messages(text[], text[], uuid[], text, text[]),
  next_inbox_event(),
  purge_inbox_messages(integer, integer)
TO symphony_executor;
-- An inbox handler records a return that the rail reported by webhook. symphony_ingest may not: an invented return
-- would allow a second payment of the same debt.
GRANT EXECUTE ON FUNCTION record_outbox_return(uuid, numeric, text, text, text, timestamptz) TO symphony_executor;
-- Workers decrypt fields: they need the wrapped keys that a payload refers to, and the list of master keys in use.
GRANT EXECUTE ON FUNCTION read_subject_keys(uuid[]), master_keys_in_use() TO symphony_executor;
-- Workers also seal and verify the ledger. The functions take only limits: a stolen worker login can seal a block early
-- and learn its row count and which rows were changed. A separate role would need one more login.
GRANT EXECUTE ON FUNCTION seal_ledger_block(integer, integer), verify_ledger_block(integer, integer)
  TO symphony_executor;
-- Workers also project sealed blocks for search and charts. The functions return counts only.
GRANT EXECUTE ON FUNCTION project_ledger_block(), purge_ledger_projection(integer, integer) TO symphony_executor;
-- Workers also run the scheduler: due jobs and timers, their claims, and purges.
GRANT EXECUTE ON FUNCTION
  due_jobs(integer),
  create_job_runs(text[], bigint[], timestamptz[], timestamptz[]),
  postpone_job(text, bigint, text),
  next_scheduler_event(boolean),
  enqueue_due_timers(integer),
  claim_timers(integer, text, integer, text[]),
  ack_timers(uuid[], uuid[], text),
  abandon_timers(uuid[], uuid[], text, text, integer),
  fail_timers(uuid[], uuid[], text, text),
  purge_finished_timers(integer, integer),
  enqueue_due_job_runs(integer),
  claim_job_runs(integer, text, integer, text[]),
  ack_job_runs(uuid[], uuid[], text),
  abandon_job_runs(uuid[], uuid[], text, text, integer),
  fail_job_runs(uuid[], uuid[], text, text),
  purge_finished_job_runs(integer, integer)
TO symphony_executor;

-- symphony_control: operators. They read the queue and the ledger with payloads, but no token of a live lease, with
-- which they could complete items of workers. They change data only through functions.
GRANT SELECT ON
  payment_outbox_attempts, payment_outbox_identities, payment_outbox_events, payment_outbox_proposals,
  payment_outbox_blocks, participant_outbox_sequences, participant_outbox_policies, outbox_pauses, outbox_workers,
  outbox_rails, dispatch_epochs, symphony_deployments,
  supervisor_outbox_status, supervisor_inbox_status, supervisor_scheduler_status, supervisor_lease_status,
  outbox_operational_status, outbox_queue_status, outbox_throughput, inbox_events, scheduler_jobs, scheduler_timers,
  scheduler_job_runs
TO symphony_control;
GRANT SELECT (
  outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type, payload, attempt_count,
  next_attempt_at, created_at, claimed_by, lease_expires_at, claimed_at, dispatch_mark, outcome_unknown, expiry_streak,
  late_outcome, hold_reason, held_by, held_at, ordered, blocked, block_unverified, trace_context,
  is_message, stream_position, outcome_topic
) ON payment_outbox_pending TO symphony_control, symphony_auditor;
GRANT SELECT (
  source, message_id, topic, payload, content_hash, state, sightings, attempt_count, attempts_max, due_at,
  first_seen_at,
  last_seen_at, ended_at, last_error, claimed_by, claim_expires_at, claimed_at
) ON inbox_messages TO symphony_control, symphony_auditor;
GRANT EXECUTE ON FUNCTION
  place_outbox_hold(uuid, text),
  note_outbox_item(uuid, text, text),
  resolve_outbox_hold(uuid, text, text, text),
  redrive_outbox_item(uuid, text),
  approve_outbox_proposal(uuid),
  withdraw_outbox_proposal(uuid, text),
  review_outbox_contradiction(uuid, text),
  record_outbox_return(uuid, numeric, text, text, text, timestamptz),
  pause_outbox(text, text, text),
  resume_outbox(text, text, text),
  set_participant_outbox_policy(text, text),
  freeze_dispatch(text),
  lift_dispatch_freeze(text),
  revive_inbox_message(text, text, text),
  create_or_update_job(text, text, text, text, jsonb, timestamptz, text, text, text),
  pause_job(text),
  resume_job(text, bigint, timestamptz),
  trigger_job(text),
  delete_job(text),
  cancel_timer(uuid),
  create_api_key(text, bytea, text[], text, text[], timestamptz),
  revoke_api_key(text),
  revoke_browser_session(text),
  is_actor_gateway(boolean),
  -- An API that knows the rails declares them. A declaration can only make field classes stricter.
  declare_outbox_rail(text, boolean, jsonb, text, boolean)
TO symphony_control;

-- Keys of the HTTP API, without the hash of the secret.
GRANT SELECT (
  key_id, scopes, owner, participants, created_by, created_at, expires_at, revoked_at, revoked_by, last_used_at
) ON api_keys TO symphony_control, symphony_auditor;
-- Sessions of the dashboard, without the hash of the secret.
GRANT SELECT (
  session_id, scopes, owner, participants, issuer, created_by, created_at, expires_at, revoked_at, revoked_by
) ON browser_sessions TO symphony_control, symphony_auditor;

-- Data keys of encrypted fields: operators rewrap and destroy them, so they read the whole table. Auditors see which
-- keys exist and which were destroyed, but not the wrapped keys.
GRANT EXECUTE ON FUNCTION
  rewrap_subject_keys(uuid[], text[], text, text),
  destroy_subject_key(text, text),
  master_keys_in_use(),
  -- A reconciliation decrypts amounts.
  read_subject_keys(uuid[])
TO symphony_control;
GRANT SELECT ON subject_keys TO symphony_control;
GRANT SELECT (
  key_id, subject, master_key_id, created_at, destroyed_at, destroyed_by, destroyed_because
) ON subject_keys TO symphony_auditor;

-- symphony_auditor: auditors. They read the whole ledger with payloads, because the hashes cover the payloads. They
-- also read the settings, such as the gateways that may name an actor.
GRANT SELECT ON
  payment_outbox_attempts, payment_outbox_identities, payment_outbox_events, payment_outbox_proposals,
  payment_outbox_blocks, symphony_settings,
  participant_outbox_policies, outbox_pauses, outbox_workers, outbox_rails, dispatch_epochs, symphony_deployments,
  supervisor_outbox_status, supervisor_inbox_status, supervisor_scheduler_status, supervisor_lease_status,
  outbox_operational_status, outbox_queue_status, outbox_throughput, inbox_events, scheduler_jobs, scheduler_timers,
  scheduler_job_runs
TO symphony_auditor;

-- Auditors record the result of a verification, because every process derives its alert from the latest one. The
-- function takes two counts: a stolen auditor login can only raise or clear that alert. Every result is kept with its
-- login.
GRANT EXECUTE ON FUNCTION record_ledger_verification(bigint, bigint) TO symphony_auditor;

-- symphony_readonly: dashboards and analysts. They read no payload and no token.
GRANT SELECT ON
  payment_outbox_identities, payment_outbox_events, payment_outbox_proposals, payment_outbox_blocks,
  participant_outbox_policies, outbox_pauses, outbox_workers, outbox_rails, dispatch_epochs, symphony_deployments,
  supervisor_outbox_status, supervisor_inbox_status, supervisor_scheduler_status, supervisor_lease_status,
  outbox_operational_status, outbox_queue_status, outbox_throughput, inbox_events
TO symphony_readonly;
GRANT SELECT (
  attempt_id, outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type, attempt_no, state,
  claimed_at, completed_at, rail_reference, rail_code, error_code, error_message, latency_ms, worker_id, created_at,
  action, outcome_unknown, recorded_xid
) ON payment_outbox_attempts TO symphony_readonly;
GRANT SELECT (
  outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type, attempt_count, next_attempt_at,
  created_at, claimed_by, lease_expires_at, claimed_at, dispatch_mark, outcome_unknown, expiry_streak, hold_reason,
  held_by, held_at, ordered, blocked, trace_context, is_message, stream_position,
  outcome_topic
) ON payment_outbox_pending TO symphony_readonly;
GRANT SELECT (
  source, message_id, topic, content_hash, state, sightings, attempt_count, attempts_max, due_at, first_seen_at,
  last_seen_at, ended_at, last_error, claimed_by, claim_expires_at, claimed_at
) ON inbox_messages TO symphony_readonly;
GRANT SELECT (
  job_name, cron, time_zone, topic, participant_id, delivery, missed_runs, state, next_due_at, postponed_until,
  revision,
  schedule_error, created_at, updated_at
) ON scheduler_jobs TO symphony_readonly;
GRANT SELECT (
  timer_id, topic, participant_id, delivery, due_at, state, attempt_count, claimed_by, lease_expires_at, started_at,
  finished_at, error_message, outbox_id, created_at
) ON scheduler_timers TO symphony_readonly;
GRANT SELECT (
  run_id, job_name, scheduled_for, triggered_by, topic, participant_id, delivery, due_at, state, attempt_count,
  claimed_by,
  lease_expires_at, started_at, finished_at, error_message, outbox_id, created_at
) ON scheduler_job_runs TO symphony_readonly;

-- Contradictions: ids, times and the operator's reason, for every reader.
GRANT SELECT ON outbox_contradictions TO symphony_control, symphony_auditor, symphony_readonly;

-- Limits: one operator proposes, another approves. Every reader sees rules, proposals and the usage of windows.
GRANT EXECUTE ON FUNCTION
  propose_outbox_limit(text, text, numeric, text, text, text, text, integer, integer),
  propose_outbox_limit_removal(text, text),
  approve_outbox_limit(uuid),
  withdraw_outbox_limit(uuid, text)
TO symphony_control;
GRANT SELECT ON outbox_limits, outbox_limit_proposals, outbox_limit_usage
  TO symphony_control, symphony_auditor, symphony_readonly;

-- Reconciliation: operators compare statements and close findings. Every reader sees runs and findings. Account and
-- references of an entry can identify a person, and the detail of a finding repeats them: dashboards read neither. They
-- read amounts in reconciliation_payment_entries, which applies the field classes of the rail.
GRANT EXECUTE ON FUNCTION
  stage_reconciliation_entries(text[], text[], text[], text[], text[], numeric[], text[], date[], date[], text[],
  bigint[], uuid),
  discard_reconciliation_upload(uuid),
  unreadable_reconciliation_payments(uuid, text, integer, uuid),
  annotate_reconciliation_payments(uuid, uuid[], numeric[], text[], boolean[]),
  reconciliation_window(text, text[], timestamptz, timestamptz, integer),
  finish_reconciliation(uuid, bigint, text, text, bytea, text[], text[], timestamptz, timestamptz, integer, boolean,
  boolean, bytea, timestamptz),
  close_reconciliation_finding(uuid, text)
TO symphony_control;
GRANT EXECUTE ON FUNCTION reconciliation_digests(uuid) TO symphony_control, symphony_auditor;
GRANT SELECT ON reconciliation_runs, reconciliation_closings, reconciliation_open_findings,
  reconciliation_payment_entries
  TO symphony_control, symphony_auditor, symphony_readonly;
GRANT SELECT ON reconciliation_entries, reconciliation_findings TO symphony_control, symphony_auditor;
GRANT SELECT (
  occurrence, run_id, kind, outbox_id, booked_on, valued_on, return_code, position
) ON reconciliation_entries TO symphony_readonly;
GRANT SELECT (
  finding_id, run_id, kind, severity, outbox_id, created_at
) ON reconciliation_findings TO symphony_readonly;

-- Search and charts, for all readers. Dashboards do not read the amount, because the table keeps it when its field
-- class becomes stricter later. Operators rebuild the projection.
GRANT SELECT ON ledger_projection, outbox_series, outbox_attempt_series, outbox_worker_series, outbox_breaker_changes
  TO symphony_control, symphony_auditor, symphony_readonly;
GRANT SELECT ON payment_search TO symphony_control, symphony_auditor;
GRANT SELECT (
  outbox_id, is_message, instruction_id, idempotency_key, participant_id, rail_type, state, error_code, rail_reference,
  returned
) ON payment_search TO symphony_readonly;
GRANT EXECUTE ON FUNCTION rebuild_ledger_projection() TO symphony_control;
-- The API hashes destinations as symphony_control, which reads payloads and may empty these tables anyway. Only
-- symphony_auditor, which reads payloads, reads the hashes: other readers could test guesses.
GRANT EXECUTE ON FUNCTION store_search_destinations(bigint, text, uuid[], bytea[]) TO symphony_control;
GRANT SELECT ON payment_search_destinations TO symphony_auditor;

-- Age of the oldest unsealed row, and the session that delays sealing. Every login can read user and application
-- of a session in pg_stat_activity anyway.
GRANT EXECUTE ON FUNCTION ledger_sealing_status() TO symphony_control, symphony_auditor, symphony_readonly;

GRANT SELECT ON ledger_verifications TO symphony_control, symphony_auditor, symphony_readonly;

-- Leases, for all readers. No role reads lease_id, which would allow it to release the lease of another owner. The
-- fencing token is not a secret. Dashboards do not see the context.
GRANT SELECT (
  resource, owner, fencing_token, acquired_at, renewed_at, expires_at, released_at, context
) ON symphony_leases TO symphony_control, symphony_auditor;
-- symphony doctor compares floor_seen with the floor.
GRANT SELECT (floor_seen) ON symphony_leases TO symphony_auditor;
GRANT SELECT ON symphony_lease_floor TO symphony_auditor;
GRANT SELECT (
  resource, owner, fencing_token, acquired_at, renewed_at, expires_at, released_at
) ON symphony_leases TO symphony_readonly;

-- symphony_auth: the HTTP API, to authenticate a key, and to create, authenticate and end a session of the dashboard. A
-- test checks that this role may execute nothing else.
GRANT EXECUTE ON FUNCTION
  authenticate_api_key(text, bytea),
  create_browser_session(text, bytea, text[], text, text, integer, text[]),
  authenticate_browser_session(text, bytea),
  end_browser_session(text, bytea)
TO symphony_auth;

-- Only operators read the sequence counters. This REVOKE is last, so that no grant undoes it.
REVOKE ALL ON participant_outbox_sequences FROM PUBLIC, symphony_ingest, symphony_executor, symphony_readonly,
  symphony_auditor, symphony_auth;
