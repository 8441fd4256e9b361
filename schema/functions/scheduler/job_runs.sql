-- Runs of jobs: make messages of, claim, end, forget. The same as for timers, function by function; but a run that comes
-- back after its job was deleted is cancelled.

-- What a run becomes when it is given back. Its job's row is locked first: a deletion under way either has not looked for
-- runs yet, and will find this one ready, or is waited for, and then the job is gone.
CREATE OR REPLACE FUNCTION give_back_job_runs(
  p_run_ids uuid[], p_error_message text, p_retry_delay_seconds integer
) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
#variable_conflict use_column
DECLARE
  v_now timestamptz;
BEGIN
  PERFORM 1 FROM scheduler_jobs j
  WHERE j.job_name = ANY (ARRAY(SELECT r.job_name FROM scheduler_job_runs r WHERE r.run_id = ANY (p_run_ids)))
  ORDER BY j.job_name FOR KEY SHARE;
  v_now := clock_timestamp();
  UPDATE scheduler_job_runs r
  SET state = g.state, finished_at = CASE WHEN g.state = 'READY' THEN NULL ELSE v_now END,
    due_at = CASE WHEN p_retry_delay_seconds > 0 THEN v_now + make_interval(secs => p_retry_delay_seconds) ELSE r.due_at END,
    error_message = COALESCE(p_error_message, format('the claim of %s expired', r.claimed_by)),
    claimed_by = NULL, lease_token = NULL, lease_expires_at = NULL
  FROM (
    SELECT n.run_id, CASE
      WHEN NOT EXISTS (SELECT 1 FROM scheduler_jobs j WHERE j.job_name = n.job_name OFFSET 0) THEN 'CANCELLED'
      WHEN n.attempt_count >= 20 THEN 'FAILED'
      ELSE 'READY'
    END AS state
    FROM scheduler_job_runs n WHERE n.run_id = ANY (p_run_ids)
  ) g
  WHERE r.run_id = g.run_id;
END
$$;
COMMENT ON FUNCTION give_back_job_runs(uuid[], text, integer) IS
  'Internal: returns locked runs to ready; fails those claimed twenty times, cancels those whose job is gone.';

-- A claim that expired is a claim that crashed.
CREATE OR REPLACE FUNCTION return_expired_job_runs() RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
#variable_conflict use_column
DECLARE
  v_now timestamptz := clock_timestamp();
  v_expired uuid[];
BEGIN
  v_expired := ARRAY(
    SELECT r.run_id FROM scheduler_job_runs r WHERE r.state = 'CLAIMED' AND r.lease_expires_at <= v_now
    ORDER BY r.lease_expires_at LIMIT 1000 FOR UPDATE SKIP LOCKED);
  IF cardinality(v_expired) > 0 THEN
    PERFORM give_back_job_runs(v_expired, NULL, 0);
  END IF;
END
$$;
COMMENT ON FUNCTION return_expired_job_runs() IS 'Internal: gives back the runs whose claim expired.';

-- From a due run to a message, in one transaction: a crash neither loses nor doubles it.
CREATE OR REPLACE FUNCTION enqueue_due_job_runs(p_batch_size integer)
RETURNS TABLE (
  run_id uuid, job_name text, scheduled_for timestamptz, topic text, outbox_id uuid, error_message text
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: batch
#variable_conflict use_column
DECLARE
  v_now timestamptz;
  v_due scheduler_job_runs[];
BEGIN
  IF p_batch_size IS NULL OR p_batch_size NOT BETWEEN 1 AND 1000 THEN
    PERFORM refuse_argument('p_batch_size', '1 to 1000');
  END IF;
  PERFORM return_expired_job_runs();
  v_now := clock_timestamp();
  v_due := ARRAY(
    SELECT r FROM scheduler_job_runs r
    WHERE r.state = 'READY' AND r.delivery = 'outbox' AND r.due_at <= v_now
    ORDER BY r.due_at, r.run_id LIMIT p_batch_size FOR UPDATE SKIP LOCKED);
  IF cardinality(v_due) = 0 THEN
    RETURN;
  END IF;
  RETURN QUERY
  WITH enqueued AS MATERIALIZED (
    SELECT m.message_id, m.outbox_id, m.error_message
    FROM enqueue_scheduled_messages(
      ARRAY(SELECT d.run_id FROM unnest(v_due) d), ARRAY(SELECT d.participant_id FROM unnest(v_due) d),
      ARRAY(SELECT d.topic FROM unnest(v_due) d), ARRAY(SELECT d.payload FROM unnest(v_due) d)) m
  ), ended AS (
    UPDATE scheduler_job_runs r
    SET state = CASE WHEN e.outbox_id IS NULL THEN 'FAILED' ELSE 'ENQUEUED' END, outbox_id = e.outbox_id,
      error_message = e.error_message, started_at = v_now, finished_at = clock_timestamp()
    FROM enqueued e WHERE r.run_id = e.message_id
    RETURNING r.*
  )
  SELECT n.run_id, n.job_name, n.scheduled_for, n.topic, n.outbox_id, n.error_message FROM ended n ORDER BY n.due_at, n.run_id;
END
$$;
COMMENT ON FUNCTION enqueue_due_job_runs(integer) IS
  'Makes due runs messages of the outbox, in order, at most the batch size; one that the outbox refuses fails alone.';

CREATE OR REPLACE FUNCTION claim_job_runs(
  p_batch_size integer, p_worker_id text, p_lease_seconds integer, p_topics text[] DEFAULT NULL
) RETURNS TABLE (
  run_id uuid, job_name text, scheduled_for timestamptz, topic text, participant_id text, payload jsonb,
  attempt_count integer, lease_token uuid, lease_expires_at timestamptz
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: batch
#variable_conflict use_column
DECLARE
  v_now timestamptz;
  v_due uuid[];
BEGIN
  PERFORM check_scheduler_claim(p_batch_size, p_worker_id, p_lease_seconds, p_topics);
  PERFORM return_expired_job_runs();
  v_now := clock_timestamp();
  v_due := ARRAY(
    SELECT r.run_id FROM scheduler_job_runs r
    WHERE r.state = 'READY' AND r.due_at <= v_now AND (p_topics IS NULL OR r.topic = ANY (p_topics))
    ORDER BY r.due_at, r.run_id LIMIT p_batch_size FOR UPDATE SKIP LOCKED);
  v_now := clock_timestamp();
  RETURN QUERY
  WITH leased AS (
    UPDATE scheduler_job_runs r
    SET state = 'CLAIMED', claimed_by = p_worker_id, lease_token = gen_random_uuid(),
      lease_expires_at = v_now + make_interval(secs => p_lease_seconds), attempt_count = r.attempt_count + 1, started_at = v_now
    WHERE r.run_id = ANY (v_due)
    RETURNING r.*
  )
  -- UPDATE … RETURNING has no order of its own.
  SELECT l.run_id, l.job_name, l.scheduled_for, l.topic, l.participant_id, l.payload, l.attempt_count, l.lease_token,
    l.lease_expires_at
  FROM leased l ORDER BY l.due_at, l.run_id;
END
$$;
COMMENT ON FUNCTION claim_job_runs(integer, text, integer, text[]) IS
  'Leases due runs to one worker, at most the batch size, in order; each with its token.';

-- Ends claims: what is not claimed by this worker under this token, or no longer, is left out of the answer.
CREATE OR REPLACE FUNCTION end_job_run_claims(
  p_run_ids uuid[], p_lease_tokens uuid[], p_worker_id text, p_state text, p_error_message text,
  p_retry_delay_seconds integer
) RETURNS SETOF uuid
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: batch
#variable_conflict use_column
DECLARE
  v_now timestamptz;
  -- Which of the claims shown are held.
  v_shown bigint[];
  v_held uuid[];
BEGIN
  PERFORM check_scheduler_leases('p_run_ids', p_run_ids, p_lease_tokens, p_worker_id, p_error_message, p_retry_delay_seconds);
  v_shown := ARRAY(
    SELECT g.ordinal
    FROM unnest(p_run_ids, p_lease_tokens) WITH ORDINALITY AS g(run_id, lease_token, ordinal)
    JOIN scheduler_job_runs r ON r.run_id = g.run_id
    WHERE r.state = 'CLAIMED' AND r.lease_token = g.lease_token AND r.claimed_by = p_worker_id
    ORDER BY r.run_id FOR UPDATE OF r);
  -- The rows are locked: only now does the clock say whether the leases still live.
  v_now := clock_timestamp();
  v_held := ARRAY(
    SELECT r.run_id
    FROM unnest(p_run_ids) WITH ORDINALITY AS g(run_id, ordinal)
    JOIN scheduler_job_runs r ON r.run_id = g.run_id
    WHERE g.ordinal = ANY (v_shown) AND r.lease_expires_at > v_now
    GROUP BY r.run_id ORDER BY min(g.ordinal));
  IF p_state = 'READY' THEN
    PERFORM give_back_job_runs(v_held, COALESCE(p_error_message, 'abandoned'), p_retry_delay_seconds);
    PERFORM wake_schedulers(v_now + make_interval(secs => p_retry_delay_seconds));
  ELSE
    UPDATE scheduler_job_runs r
    SET state = p_state, finished_at = v_now, error_message = p_error_message, claimed_by = NULL, lease_token = NULL,
      lease_expires_at = NULL
    WHERE r.run_id = ANY (v_held);
  END IF;
  RETURN QUERY SELECT h.run_id FROM unnest(v_held) AS h(run_id);
END
$$;
COMMENT ON FUNCTION end_job_run_claims(uuid[], uuid[], text, text, text, integer) IS
  'Internal: moves live claims of a worker to a state; returns those that it moved.';

CREATE OR REPLACE FUNCTION ack_job_runs(p_run_ids uuid[], p_lease_tokens uuid[], p_worker_id text) RETURNS SETOF uuid
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$ SELECT end_job_run_claims(p_run_ids, p_lease_tokens, p_worker_id, 'DONE', NULL, 0) $$;
COMMENT ON FUNCTION ack_job_runs(uuid[], uuid[], text) IS 'Ends claimed runs as done; returns those that were.';

CREATE OR REPLACE FUNCTION abandon_job_runs(
  p_run_ids uuid[], p_lease_tokens uuid[], p_worker_id text, p_error_message text DEFAULT NULL,
  p_retry_delay_seconds integer DEFAULT 0
) RETURNS SETOF uuid
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$ SELECT end_job_run_claims(p_run_ids, p_lease_tokens, p_worker_id, 'READY', p_error_message, p_retry_delay_seconds) $$;
COMMENT ON FUNCTION abandon_job_runs(uuid[], uuid[], text, text, integer) IS
  'Returns claimed runs to ready, due as before or after a delay; the twentieth time they fail instead.';

CREATE OR REPLACE FUNCTION fail_job_runs(
  p_run_ids uuid[], p_lease_tokens uuid[], p_worker_id text, p_error_message text DEFAULT NULL
) RETURNS SETOF uuid
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$ SELECT end_job_run_claims(p_run_ids, p_lease_tokens, p_worker_id, 'FAILED', p_error_message, 0) $$;
COMMENT ON FUNCTION fail_job_runs(uuid[], uuid[], text, text) IS 'Ends claimed runs as failed, for good; returns those that were.';

CREATE OR REPLACE FUNCTION purge_finished_job_runs(p_retention_seconds integer, p_batch_size integer) RETURNS integer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
#variable_conflict use_column
DECLARE
  v_before timestamptz := clock_timestamp() - make_interval(secs => p_retention_seconds);
  v_purged integer;
BEGIN
  PERFORM check_scheduler_retention(p_retention_seconds, p_batch_size);
  DELETE FROM scheduler_job_runs d WHERE d.run_id = ANY (ARRAY(
    SELECT r.run_id FROM scheduler_job_runs r WHERE r.finished_at IS NOT NULL AND r.finished_at < v_before
    ORDER BY r.finished_at LIMIT p_batch_size FOR UPDATE SKIP LOCKED));
  GET DIAGNOSTICS v_purged = ROW_COUNT;
  RETURN v_purged;
END
$$;
COMMENT ON FUNCTION purge_finished_job_runs(integer, integer) IS
  'Deletes runs that ended longer ago than that, oldest first, at most the batch size; returns how many.';
