-- Tasks of both kinds (p_kind: timer, run): claim, end claims, release, enqueue, purge. The public functions of
-- timers.sql and job_runs.sql call these. The lease token fences each call that ends a claim.

-- Locks the job's row first, because delete_job may run concurrently. If it commits before the lock is granted, this
-- function cancels the job's runs. Otherwise delete_job waits for the lock, finds the runs READY, and deletes them.
CREATE OR REPLACE FUNCTION release_tasks(p_task_ids uuid[], p_error_message text, p_retry_delay_seconds integer)
RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
#variable_conflict use_column
DECLARE
  v_now timestamptz;
BEGIN
  PERFORM 1 FROM scheduler_jobs j
  WHERE j.job_name = ANY (ARRAY(SELECT t.job_name FROM scheduler_tasks t WHERE t.task_id = ANY (p_task_ids)))
  ORDER BY j.job_name FOR KEY SHARE;
  v_now := clock_timestamp();
  UPDATE scheduler_tasks t
  SET state = g.state, finished_at = CASE WHEN g.state = 'READY' THEN NULL ELSE v_now END,
    due_at = CASE WHEN p_retry_delay_seconds > 0
      THEN v_now + make_interval(secs => p_retry_delay_seconds) ELSE t.due_at END,
    error_message = COALESCE(p_error_message, format('the claim of %s expired', t.claimed_by)),
    claimed_by = NULL, lease_token = NULL, lease_expires_at = NULL
  FROM (
    SELECT n.task_id, CASE
      WHEN n.kind = 'run' AND NOT EXISTS (SELECT 1 FROM scheduler_jobs j WHERE j.job_name = n.job_name OFFSET 0)
      THEN 'CANCELLED'
      WHEN n.attempt_count >= 20 THEN 'FAILED'
      ELSE 'READY'
    END AS state
    FROM scheduler_tasks n WHERE n.task_id = ANY (p_task_ids)
  ) g
  WHERE t.task_id = g.task_id;
END
$$;
COMMENT ON FUNCTION release_tasks(uuid[], text, integer) IS
  'Internal: returns locked tasks to READY; fails those claimed twenty times, cancels runs of a deleted job.';

CREATE OR REPLACE FUNCTION release_expired_tasks(p_kind text) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
#variable_conflict use_column
DECLARE
  v_now CONSTANT timestamptz := clock_timestamp();
  v_expired CONSTANT uuid[] := ARRAY(
    SELECT t.task_id FROM scheduler_tasks t
    WHERE t.kind = p_kind AND t.state = 'CLAIMED' AND t.lease_expires_at <= v_now
    ORDER BY t.lease_expires_at LIMIT 1000 FOR UPDATE SKIP LOCKED);
BEGIN
  IF cardinality(v_expired) > 0 THEN
    PERFORM release_tasks(v_expired, NULL, 0);
  END IF;
END
$$;
COMMENT ON FUNCTION release_expired_tasks(text) IS 'Internal: releases the tasks of a kind whose claim expired.';

-- One transaction enqueues the message and ends the task, so that a crash neither loses nor duplicates it.
--
-- An enqueue locks the rows of its participants, and an application may hold such a row for minutes. The first attempt
-- waits briefly for these rows (lock_timeout of enqueue_scheduled_messages), so that a participant with many short
-- writers gets its turn. If that fails, tasks of locked participants are left for the next call and the batch is filled
-- with others. The loop ends: each turn after the first leaves out one more participant, succeeds or raises.
CREATE OR REPLACE FUNCTION enqueue_due_tasks(p_kind text, p_batch_size integer) RETURNS SETOF scheduler_tasks
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: batch
#variable_conflict use_column
DECLARE
  v_now timestamptz;
  v_due scheduler_tasks[];
  v_has_waited boolean := false;
  v_participants text[];
  v_known text[];
  v_free text[];
  -- Participants whose tasks this call leaves out.
  v_busy text[] := '{}';
BEGIN
  PERFORM check_number('p_batch_size', p_batch_size, 1, 1000);
  PERFORM release_expired_tasks(p_kind);
  v_now := clock_timestamp();
  LOOP
    -- A task without a participant is never left out: the comparison gives null.
    v_due := ARRAY(
      SELECT t FROM scheduler_tasks t
      WHERE t.kind = p_kind AND t.state = 'READY' AND t.delivery = 'outbox' AND t.due_at <= v_now
        AND (t.participant_id <> ALL (v_busy)) IS NOT FALSE
      ORDER BY t.due_at, t.task_id LIMIT p_batch_size FOR UPDATE SKIP LOCKED);
    IF cardinality(v_due) = 0 THEN
      RETURN;
    END IF;
    IF v_has_waited THEN
      v_participants := ARRAY(
        SELECT DISTINCT d.participant_id FROM unnest(v_due) d WHERE d.participant_id IS NOT NULL);
      v_known := ARRAY(
        SELECT s.participant_id FROM participant_outbox_sequences s
        WHERE s.participant_id = ANY (v_participants));
      -- Does not wait, so that no lock of an earlier turn can be part of a deadlock.
      v_free := ARRAY(
        SELECT s.participant_id FROM participant_outbox_sequences s
        WHERE s.participant_id = ANY (v_known)
        ORDER BY s.participant_id COLLATE "C" FOR NO KEY UPDATE SKIP LOCKED);
      IF NOT v_known <@ v_free THEN
        v_busy := v_busy || ARRAY(SELECT unnest(v_known) EXCEPT SELECT unnest(v_free));
        CONTINUE;
      END IF;
    END IF;
    BEGIN
      -- The sort returns no row before all are enqueued.
      RETURN QUERY
      WITH enqueued AS MATERIALIZED (
        SELECT m.message_id, m.outbox_id, m.error_message
        FROM enqueue_scheduled_messages(
          ARRAY(SELECT d.task_id FROM unnest(v_due) d), ARRAY(SELECT d.participant_id FROM unnest(v_due) d),
          ARRAY(SELECT d.topic FROM unnest(v_due) d), ARRAY(SELECT d.payload FROM unnest(v_due) d)) m
      ), ended AS (
        UPDATE scheduler_tasks t
        SET state = CASE WHEN e.outbox_id IS NULL THEN 'FAILED' ELSE 'ENQUEUED' END, outbox_id = e.outbox_id,
          error_message = e.error_message, started_at = v_now, finished_at = clock_timestamp()
        FROM enqueued e WHERE t.task_id = e.message_id
        RETURNING t.*
      )
      SELECT n.* FROM ended n ORDER BY n.due_at, n.task_id;
      RETURN;
    EXCEPTION WHEN lock_not_available THEN
      -- After the first turn this transaction holds the row of each participant that has one. The row of a first
      -- enqueue that is not committed is invisible, so all participants without a row are left out. If there is none,
      -- something else is locked.
      IF v_has_waited THEN
        IF v_participants <@ v_known THEN
          RAISE;
        END IF;
        v_busy := v_busy || ARRAY(SELECT unnest(v_participants) EXCEPT SELECT unnest(v_known));
      END IF;
      v_has_waited := true;
    END;
  END LOOP;
END
$$;
COMMENT ON FUNCTION enqueue_due_tasks(text, integer) IS
  'Internal: enqueues due tasks of a kind in the outbox, in order. A refused task fails; the others do not. Tasks of '
  'a participant that another transaction has locked wait for the next call.';

CREATE OR REPLACE FUNCTION claim_tasks(
  p_kind text, p_batch_size integer, p_worker_id text, p_lease_seconds integer, p_topics text[]
) RETURNS SETOF scheduler_tasks
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: batch
#variable_conflict use_column
DECLARE
  v_now timestamptz;
  v_due uuid[];
BEGIN
  PERFORM check_number('p_batch_size', p_batch_size, 1, 1000);
  PERFORM check_id('p_worker_id', p_worker_id);
  PERFORM check_number('p_lease_seconds', p_lease_seconds, 1, 3600);
  IF p_topics IS NOT NULL AND NOT is_id_list(p_topics) THEN
    PERFORM refuse_argument('p_topics', 'null for all topics, or a plain list of 1 to 1000 of them');
  END IF;
  PERFORM release_expired_tasks(p_kind);
  v_now := clock_timestamp();
  v_due := ARRAY(
    SELECT t.task_id FROM scheduler_tasks t
    WHERE t.kind = p_kind AND t.state = 'READY' AND t.due_at <= v_now AND (p_topics IS NULL OR t.topic = ANY (p_topics))
    ORDER BY t.due_at, t.task_id LIMIT p_batch_size FOR UPDATE SKIP LOCKED);
  v_now := clock_timestamp();
  RETURN QUERY
  WITH leased AS (
    UPDATE scheduler_tasks t
    SET state = 'CLAIMED', claimed_by = p_worker_id, lease_token = gen_random_uuid(),
      lease_expires_at = v_now + make_interval(secs => p_lease_seconds), started_at = v_now,
      attempt_count = t.attempt_count + 1
    WHERE t.task_id = ANY (v_due)
    RETURNING t.*
  )
  -- UPDATE … RETURNING has no order of its own.
  SELECT l.* FROM leased l ORDER BY l.due_at, l.task_id;
END
$$;
COMMENT ON FUNCTION claim_tasks(text, integer, text, integer, text[]) IS
  'Internal: leases due tasks of a kind to one worker, at most the batch size, in order; each with its token.';

-- Leaves out tasks of the other kind, and tasks that this worker does not hold with this token.
CREATE OR REPLACE FUNCTION end_task_claims(
  p_kind text, p_task_ids uuid[], p_lease_tokens uuid[], p_worker_id text, p_state text, p_error_message text,
  p_retry_delay_seconds integer
) RETURNS SETOF uuid
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: batch
#variable_conflict use_column
DECLARE
  v_now timestamptz;
  -- Positions in p_task_ids of the tasks that this worker claimed with the given token, live or expired.
  v_shown bigint[];
  v_held uuid[];
BEGIN
  PERFORM check_scheduler_leases(
    format('p_%s_ids', p_kind), p_task_ids, p_lease_tokens, p_worker_id, p_error_message, p_retry_delay_seconds);
  -- No predicate on the state: only a CLAIMED task has a lease token, and with the predicate the planner might read the
  -- whole index of leased tasks instead of these ids.
  v_shown := ARRAY(
    SELECT g.ordinal
    FROM unnest(p_task_ids, p_lease_tokens) WITH ORDINALITY AS g(task_id, lease_token, ordinal)
    JOIN scheduler_tasks t ON t.task_id = g.task_id
    WHERE t.kind = p_kind AND t.lease_token = g.lease_token AND t.claimed_by = p_worker_id
    ORDER BY t.task_id FOR UPDATE OF t);
  -- Reads the clock after the locks, because a lease may expire while the call waits.
  v_now := clock_timestamp();
  v_held := ARRAY(
    SELECT t.task_id
    FROM unnest(p_task_ids) WITH ORDINALITY AS g(task_id, ordinal)
    JOIN scheduler_tasks t ON t.task_id = g.task_id
    WHERE g.ordinal = ANY (v_shown) AND t.lease_expires_at > v_now
    GROUP BY t.task_id ORDER BY min(g.ordinal));
  IF p_state = 'READY' THEN
    PERFORM release_tasks(v_held, COALESCE(p_error_message, 'abandoned'), p_retry_delay_seconds);
    PERFORM wake_schedulers(v_now + make_interval(secs => p_retry_delay_seconds));
  ELSE
    UPDATE scheduler_tasks t
    SET state = p_state, finished_at = v_now, error_message = p_error_message, claimed_by = NULL, lease_token = NULL,
      lease_expires_at = NULL
    WHERE t.task_id = ANY (v_held);
  END IF;
  RETURN QUERY SELECT h.task_id FROM unnest(v_held) AS h(task_id);
END
$$;
COMMENT ON FUNCTION end_task_claims(text, uuid[], uuid[], text, text, text, integer) IS
  'Internal: moves tasks of a kind that a worker holds to a state; returns those that it moved.';

CREATE OR REPLACE FUNCTION purge_finished_tasks(p_kind text, p_retention_seconds integer, p_batch_size integer)
RETURNS integer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
#variable_conflict use_column
DECLARE
  v_before timestamptz := clock_timestamp() - make_interval(secs => p_retention_seconds);
  v_purged integer;
BEGIN
  IF p_retention_seconds IS NULL OR p_retention_seconds NOT BETWEEN 60 AND 315360000 THEN
    PERFORM refuse_argument('p_retention_seconds', '60 (a minute) to 315360000 (ten years)');
  END IF;
  PERFORM check_number('p_batch_size', p_batch_size, 1, 1000);
  DELETE FROM scheduler_tasks d WHERE d.task_id = ANY (ARRAY(
    SELECT t.task_id FROM scheduler_tasks t
    WHERE t.kind = p_kind AND t.finished_at IS NOT NULL AND t.finished_at < v_before
    ORDER BY t.finished_at LIMIT p_batch_size FOR UPDATE SKIP LOCKED));
  GET DIAGNOSTICS v_purged = ROW_COUNT;
  RETURN v_purged;
END
$$;
COMMENT ON FUNCTION purge_finished_tasks(text, integer, integer) IS
  'Internal: deletes tasks of a kind that finished longer ago than the retention, oldest first; returns their number.';
