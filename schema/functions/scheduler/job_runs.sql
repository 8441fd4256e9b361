-- Job runs: the public functions for tasks of the kind run (tasks.sql).

CREATE OR REPLACE FUNCTION enqueue_due_job_runs(p_batch_size integer)
RETURNS TABLE (run_id uuid, job_name text, scheduled_for timestamptz, topic text, outbox_id uuid, error_message text)
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
  SELECT t.task_id, t.job_name, t.scheduled_for, t.topic, t.outbox_id, t.error_message
  FROM enqueue_due_tasks('run', p_batch_size) t
$$;
COMMENT ON FUNCTION enqueue_due_job_runs(integer) IS
  'Enqueues due runs in the outbox as messages, in order, at most the batch size. A refused run fails; the others do '
  'not.';

CREATE OR REPLACE FUNCTION claim_job_runs(
  p_batch_size integer, p_worker_id text, p_lease_seconds integer, p_topics text[] DEFAULT NULL
) RETURNS TABLE (
  run_id uuid, job_name text, scheduled_for timestamptz, topic text, participant_id text, payload jsonb,
  attempt_count integer, lease_token uuid, lease_expires_at timestamptz
)
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
  SELECT t.task_id, t.job_name, t.scheduled_for, t.topic, t.participant_id, t.payload, t.attempt_count, t.lease_token,
    t.lease_expires_at
  FROM claim_tasks('run', p_batch_size, p_worker_id, p_lease_seconds, p_topics) t
$$;
COMMENT ON FUNCTION claim_job_runs(integer, text, integer, text[]) IS
  'Leases due runs to one worker, at most the batch size, in order; each with its token.';

CREATE OR REPLACE FUNCTION ack_job_runs(p_run_ids uuid[], p_lease_tokens uuid[], p_worker_id text) RETURNS SETOF uuid
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$ SELECT end_task_claims('run', p_run_ids, p_lease_tokens, p_worker_id, 'DONE', NULL, 0) $$;
COMMENT ON FUNCTION ack_job_runs(uuid[], uuid[], text) IS 'Ends claimed runs as done; returns those that it ended.';

CREATE OR REPLACE FUNCTION abandon_job_runs(
  p_run_ids uuid[], p_lease_tokens uuid[], p_worker_id text, p_error_message text DEFAULT NULL,
  p_retry_delay_seconds integer DEFAULT 0
) RETURNS SETOF uuid
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
  SELECT end_task_claims('run', p_run_ids, p_lease_tokens, p_worker_id, 'READY', p_error_message, p_retry_delay_seconds)
$$;
COMMENT ON FUNCTION abandon_job_runs(uuid[], uuid[], text, text, integer) IS
  'Returns claimed runs to READY, due as before or after a delay. After the 20th attempt they are FAILED; if their job '
  'was deleted, they are CANCELLED.';

CREATE OR REPLACE FUNCTION fail_job_runs(
  p_run_ids uuid[], p_lease_tokens uuid[], p_worker_id text, p_error_message text DEFAULT NULL
) RETURNS SETOF uuid
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$ SELECT end_task_claims('run', p_run_ids, p_lease_tokens, p_worker_id, 'FAILED', p_error_message, 0) $$;
COMMENT ON FUNCTION fail_job_runs(uuid[], uuid[], text, text) IS
  'Ends claimed runs as failed, which is final; returns those that it ended.';

CREATE OR REPLACE FUNCTION purge_finished_job_runs(p_retention_seconds integer, p_batch_size integer) RETURNS integer
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$ SELECT purge_finished_tasks('run', p_retention_seconds, p_batch_size) $$;
COMMENT ON FUNCTION purge_finished_job_runs(integer, integer) IS
  'Deletes runs that ended longer ago than the retention, oldest first, at most the batch size; returns their number.';
