-- Every right, on one page: role, may, why. Applied last, and again at every deploy, so that it heals what was granted
-- by hand to one of these roles. No role here can write a table: the functions are the only way to change anything.

-- Closed by default. Everything the runtime roles and PUBLIC ever had in this schema is taken back before it is given.
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
  -- Row types included: who may build a column on one can keep its table from being altered.
  FOR v_type IN
    SELECT t.oid FROM pg_type t WHERE t.typnamespace = to_regnamespace(quote_ident(current_schema()))
      AND t.typcategory <> 'A'
  LOOP
    EXECUTE format('REVOKE ALL ON TYPE %s FROM %s', v_type, v_grantees);
  END LOOP;
  EXECUTE format('GRANT USAGE ON SCHEMA %I TO %s', current_schema(), v_roles);
END
$$;
-- What is created later is closed too. The form without a schema: the other one takes nothing from PUBLIC.
ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC;
ALTER DEFAULT PRIVILEGES REVOKE USAGE ON TYPES FROM PUBLIC;

-- symphony_ingest: applications. They enqueue, now or by a timer, inside their own transaction. They cannot read the
-- queue or take a number.
GRANT EXECUTE ON FUNCTION
  enqueue_payment_outbox(text, text, text, text, jsonb, timestamptz, boolean, text, boolean, text),
  enqueue_payment_outbox_batch(text[], text[], text[], text[], jsonb[], timestamptz[], boolean[], text[], boolean,
  text),
  enqueue_outbox_packed(text[], text[], text[], text[], jsonb[], timestamptz[], boolean[], text[], boolean, text),
  enqueue_inbox_message(text, text, text, jsonb, timestamptz),
  enqueue_inbox_messages(text[], text[], text[], jsonb[], timestamptz[]),
  schedule_timer(text, jsonb, timestamptz, text, text, uuid),
  cancel_timer(uuid)
TO symphony_ingest;
-- Who encrypts needs the wrapped keys of its subjects, which read nothing without the master key, and may add some.
GRANT EXECUTE ON FUNCTION ensure_subject_keys(text[], uuid[], text[], text) TO symphony_ingest;
-- The API and the command line warn of a rail without a worker. A caller learns only about rails that it names.
GRANT EXECUTE ON FUNCTION unserved_outbox_rails(text[]) TO symphony_ingest;

-- symphony_executor: workers. They move items through functions that check their lease; they can read no table, so a
-- stolen worker login shows no payload that it did not lease and no token that it was not given.
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
  outbox_backoff(integer, uuid),
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
-- Who dispatches decrypts: the wrapped keys that a leased payload names, and which master keys it takes to start.
GRANT EXECUTE ON FUNCTION read_subject_keys(uuid[]), master_keys_in_use() TO symphony_executor;
-- Workers also seal and verify the ledger. The functions take only bounds: a stolen worker login can close a block
-- early and learn how many rows it has, and which rows were changed. A role of its own would be one more login to keep.
GRANT EXECUTE ON FUNCTION seal_ledger_block(integer, integer), verify_ledger_block(integer, integer)
  TO symphony_executor;
-- The same of the scheduler: what is due, what becomes of it, and what may be forgotten.
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

-- symphony_control: operators. They read everything but lease tokens, with which they could complete another's work,
-- and act through functions that leave an event.
GRANT SELECT ON
  payment_outbox_attempts, payment_outbox_identities, payment_outbox_events, payment_outbox_proposals,
  payment_outbox_blocks, participant_outbox_sequences, participant_outbox_policies, outbox_pauses, outbox_workers,
  outbox_rails, dispatch_epochs, symphony_deployments,
  supervisor_outbox_status, supervisor_inbox_status, supervisor_scheduler_status, supervisor_lease_status,
  outbox_operational_status, outbox_throughput, inbox_events, scheduler_jobs, scheduler_timers, scheduler_job_runs
TO symphony_control;
GRANT SELECT (
  outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type, payload, attempt_count,
  next_attempt_at, created_at, claimed_by, lease_expires_at, claimed_at, dispatch_mark, outcome_unknown, expiry_streak,
  late_outcome, hold_reason, held_by, held_at, ordered, blocked, block_unverified, trace_context,
  is_message, stream_position
) ON payment_outbox_pending TO symphony_control, symphony_auditor;
GRANT SELECT (
  source, message_id, topic, payload, content_hash, state, sightings, attempt_count, attempts_max, due_at,
  first_seen_at,
  last_seen_at, ended_at, last_error, claimed_by, claim_expires_at, claimed_at
) ON inbox_messages TO symphony_control, symphony_auditor;
GRANT EXECUTE ON FUNCTION
  place_outbox_hold(uuid, text),
  resolve_outbox_hold(uuid, text, text, text),
  redrive_outbox_item(uuid, text),
  approve_outbox_proposal(uuid),
  withdraw_outbox_proposal(uuid, text),
  review_outbox_contradiction(uuid, text),
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
  is_actor_gateway(boolean),
  -- An API that knows the rails declares them. A declaration can only make more fields secret.
  declare_outbox_rail(text, boolean, jsonb, text, boolean)
TO symphony_control;

-- Keys of the HTTP API: whose they are and what they may do, for those who make and end them and for auditors. Never a
-- hash.
GRANT SELECT (
  key_id, scopes, owner, participants, created_by, created_at, expires_at, revoked_at, revoked_by, last_used_at
) ON api_keys TO symphony_control, symphony_auditor;

-- Data keys of encrypted fields: operators rewrap and destroy them, auditors see that it was done. The wrapped keys are
-- for those who rewrap alone.
GRANT EXECUTE ON FUNCTION
  rewrap_subject_keys(uuid[], text[], text, text),
  destroy_subject_key(text, text),
  master_keys_in_use()
TO symphony_control;
GRANT SELECT ON subject_keys TO symphony_control;
GRANT SELECT (
  key_id, subject, master_key_id, created_at, destroyed_at, destroyed_by, destroyed_because
) ON subject_keys TO symphony_auditor;

-- symphony_auditor: auditors. The whole ledger, payloads included, because the hashes are taken over them; and the
-- switches under which it is written, such as who may name another as the person acting.
GRANT SELECT ON
  payment_outbox_attempts, payment_outbox_identities, payment_outbox_events, payment_outbox_proposals,
  payment_outbox_blocks, symphony_settings,
  participant_outbox_policies, outbox_pauses, outbox_workers, outbox_rails, dispatch_epochs, symphony_deployments,
  supervisor_outbox_status, supervisor_inbox_status, supervisor_scheduler_status, supervisor_lease_status,
  outbox_operational_status, outbox_throughput, inbox_events, scheduler_jobs, scheduler_timers, scheduler_job_runs
TO symphony_auditor;

-- Auditors report what a verification found, because every process derives its alert from the last report. The function
-- takes two counts: a stolen auditor login can raise or silence that alert, and change nothing else. Every report
-- stays, with its login.
GRANT EXECUTE ON FUNCTION record_ledger_verification(bigint, bigint) TO symphony_auditor;

-- symphony_readonly: dashboards and analysts. The same without payloads and without any token.
GRANT SELECT ON
  payment_outbox_identities, payment_outbox_events, payment_outbox_proposals, payment_outbox_blocks,
  participant_outbox_policies, outbox_pauses, outbox_workers, outbox_rails, dispatch_epochs, symphony_deployments,
  supervisor_outbox_status, supervisor_inbox_status, supervisor_scheduler_status, supervisor_lease_status,
  outbox_operational_status, outbox_throughput, inbox_events
TO symphony_readonly;
GRANT SELECT (
  attempt_id, outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type, attempt_no, state,
  claimed_at, completed_at, rail_reference, rail_code, error_code, error_message, latency_ms, worker_id, created_at,
  action, outcome_unknown, recorded_xid
) ON payment_outbox_attempts TO symphony_readonly;
GRANT SELECT (
  outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type, attempt_count, next_attempt_at,
  created_at, claimed_by, lease_expires_at, claimed_at, dispatch_mark, outcome_unknown, expiry_streak, hold_reason,
  held_by, held_at, ordered, blocked, trace_context, is_message, stream_position
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

-- How far sealing is behind, and which session holds it back: what every login may see of the server's sessions.
GRANT EXECUTE ON FUNCTION ledger_sealing_status() TO symphony_control, symphony_auditor, symphony_readonly;

-- Verifications of the ledger: who verified when, and how many breaks were found.
GRANT SELECT ON ledger_verifications TO symphony_control, symphony_auditor, symphony_readonly;

-- Leases: who holds what, for everybody who watches. Never lease_id, with which one could release another's. The
-- fencing token is a number that holders show to others. What they say of themselves (context) is not for dashboards.
GRANT SELECT (
  resource, owner, fencing_token, acquired_at, renewed_at, expires_at, released_at, context
) ON symphony_leases TO symphony_control, symphony_auditor;
-- The doctor compares both.
GRANT SELECT (floor_seen) ON symphony_leases TO symphony_auditor;
GRANT SELECT ON symphony_lease_floor TO symphony_auditor;
GRANT SELECT (
  resource, owner, fencing_token, acquired_at, renewed_at, expires_at, released_at
) ON symphony_leases TO symphony_readonly;

-- symphony_auth: the HTTP API, to learn what a key that it was shown may do. This function, and a test proves that it
-- holds nothing else.
GRANT EXECUTE ON FUNCTION authenticate_api_key(text, bytea) TO symphony_auth;

-- How many payments each participant makes is business no dashboard needs. Last, so that nothing above can undo it.
REVOKE ALL ON participant_outbox_sequences FROM PUBLIC, symphony_ingest, symphony_executor, symphony_readonly,
  symphony_auditor, symphony_auth;
