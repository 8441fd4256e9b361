-- Jobs: define, pause, resume, trigger, delete; for schedulers: due jobs and their runs. One call creates a run and
-- moves the job's next due time, if the job is still at the revision that the scheduler read. So only one of several
-- schedulers creates the run.

CREATE OR REPLACE FUNCTION raise_unknown_job(p_job_name text) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
BEGIN
  RAISE EXCEPTION 'UNKNOWN_JOB: there is no job named %', p_job_name
    USING ERRCODE = 'P7012', HINT = 'Define the job first, or check its spelling: names are case-sensitive.';
END
$$;
COMMENT ON FUNCTION raise_unknown_job(text) IS 'Internal: raises P7012 for an unknown job.';

CREATE OR REPLACE FUNCTION create_or_update_job(
  p_job_name text, p_cron text, p_time_zone text, p_topic text, p_payload jsonb, p_next_due_at timestamptz,
  p_participant_id text DEFAULT NULL, p_missed_runs text DEFAULT 'once', p_delivery text DEFAULT 'outbox'
) RETURNS TABLE (next_due_at timestamptz, state text, created boolean)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
BEGIN
  PERFORM outbox_actor();
  PERFORM check_id('p_job_name', p_job_name);
  PERFORM check_scheduled_message(p_topic, p_payload, p_participant_id, p_delivery);
  PERFORM check_text('p_cron', p_cron, 256);
  PERFORM check_id('p_time_zone', p_time_zone);
  PERFORM check_time('p_next_due_at', p_next_due_at);
  IF p_missed_runs IS NULL OR p_missed_runs NOT IN ('skip', 'once', 'all') THEN
    PERFORM refuse_argument('p_missed_runs', 'skip, once or all');
  END IF;
  INSERT INTO scheduler_jobs AS j
    (job_name, cron, time_zone, topic, participant_id, payload, delivery, missed_runs, next_due_at)
  VALUES
    (p_job_name, p_cron, p_time_zone, p_topic, p_participant_id, p_payload, p_delivery, p_missed_runs, p_next_due_at)
  ON CONFLICT (job_name) DO UPDATE
  SET cron = excluded.cron, time_zone = excluded.time_zone, topic = excluded.topic,
    participant_id = excluded.participant_id, payload = excluded.payload, delivery = excluded.delivery,
    missed_runs = excluded.missed_runs, revision = j.revision + 1, updated_at = clock_timestamp(),
    schedule_error = NULL, postponed_until = NULL,
    -- A program that registers the same schedule at each start must not move its next occurrence.
    next_due_at = CASE WHEN j.cron = excluded.cron AND j.time_zone = excluded.time_zone
      THEN j.next_due_at ELSE excluded.next_due_at END
  RETURNING j.next_due_at, j.state, j.revision = 1 INTO next_due_at, state, created;
  PERFORM wake_schedulers(next_due_at);
  RETURN NEXT;
END
$$;
COMMENT ON FUNCTION create_or_update_job(text, text, text, text, jsonb, timestamptz, text, text, text) IS
  'Defines a job by its name. With the same expression and zone its next due time stays; a paused job stays paused.';

CREATE OR REPLACE FUNCTION pause_job(p_job_name text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
BEGIN
  PERFORM outbox_actor();
  PERFORM check_id('p_job_name', p_job_name);
  UPDATE scheduler_jobs j SET state = 'PAUSED', revision = j.revision + 1, updated_at = clock_timestamp()
  WHERE j.job_name = p_job_name AND j.state = 'ACTIVE';
  IF FOUND THEN
    RETURN true;
  END IF;
  IF NOT EXISTS (SELECT 1 FROM scheduler_jobs j WHERE j.job_name = p_job_name) THEN
    PERFORM raise_unknown_job(p_job_name);
  END IF;
  RETURN false;
END
$$;
COMMENT ON FUNCTION pause_job(text) IS
  'Stops creating runs of a job; existing runs continue. Returns false if it was already paused.';

-- Occurrences during the pause are dropped under every missed_runs policy. The caller computed p_next_due_at from the
-- schedule of p_revision. A later revision may have another schedule, so the function does not resume it.
CREATE OR REPLACE FUNCTION resume_job(p_job_name text, p_revision bigint, p_next_due_at timestamptz) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
DECLARE
  v_resumed boolean;
BEGIN
  PERFORM outbox_actor();
  PERFORM check_id('p_job_name', p_job_name);
  IF p_revision IS NULL OR p_revision < 1 THEN
    PERFORM refuse_argument('p_revision', 'the revision of the job, from 1');
  END IF;
  PERFORM check_time('p_next_due_at', p_next_due_at);
  UPDATE scheduler_jobs j
  SET state = 'ACTIVE', revision = j.revision + 1, updated_at = clock_timestamp(), postponed_until = NULL,
    next_due_at = GREATEST(j.next_due_at, p_next_due_at)
  WHERE j.job_name = p_job_name AND j.state = 'PAUSED' AND j.revision = p_revision;
  v_resumed := FOUND;
  IF NOT EXISTS (SELECT 1 FROM scheduler_jobs j WHERE j.job_name = p_job_name) THEN
    PERFORM raise_unknown_job(p_job_name);
  END IF;
  PERFORM wake_schedulers(p_next_due_at);
  RETURN v_resumed;
END
$$;
COMMENT ON FUNCTION resume_job(text, bigint, timestamptz) IS
  'Resumes a paused job from its next occurrence. Returns false if it is not paused, or is at another revision.';

-- Also works for a paused job, because an operator asks for this one run.
CREATE OR REPLACE FUNCTION trigger_job(p_job_name text) RETURNS TABLE (run_id uuid, scheduled_for timestamptz)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
DECLARE
  v_job scheduler_jobs;
  v_run_id uuid := uuid_v7();
  v_at timestamptz;
BEGIN
  PERFORM check_id('p_job_name', p_job_name);
  -- With this lock, a concurrent deletion of the job either comes first, or also removes the new run.
  SELECT j.* INTO v_job FROM scheduler_jobs j WHERE j.job_name = p_job_name FOR SHARE;
  IF v_job.job_name IS NULL THEN
    PERFORM raise_unknown_job(p_job_name);
  END IF;
  LOOP
    v_at := clock_timestamp();
    -- Occurrences of the schedule are whole seconds, and a triggered run must not take the place of one.
    v_at := v_at + CASE WHEN v_at = date_trunc('second', v_at) THEN interval '1 microsecond' ELSE interval '0' END;
    INSERT INTO scheduler_tasks
      (task_id, kind, job_name, scheduled_for, triggered_by, topic, participant_id, payload, delivery, due_at)
    VALUES (v_run_id, 'run', p_job_name, v_at, outbox_actor(), v_job.topic, v_job.participant_id, v_job.payload,
      v_job.delivery, v_at)
    ON CONFLICT (job_name, scheduled_for) WHERE job_name IS NOT NULL DO NOTHING;
    -- Not inserted: another call triggered the job in the same microsecond.
    EXIT WHEN FOUND;
  END LOOP;
  PERFORM wake_schedulers(v_at);
  RETURN QUERY SELECT v_run_id, v_at;
END
$$;
COMMENT ON FUNCTION trigger_job(text) IS 'Creates a run of a job that is due now, in addition to its schedule.';

-- Claimed runs stay with their workers, and are cancelled if released. Ended runs stay until retention removes them.
CREATE OR REPLACE FUNCTION delete_job(p_job_name text) RETURNS TABLE (deleted boolean, runs_removed integer)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
DECLARE
  v_deleted boolean;
  v_runs_removed integer;
BEGIN
  PERFORM outbox_actor();
  PERFORM check_id('p_job_name', p_job_name);
  DELETE FROM scheduler_jobs j WHERE j.job_name = p_job_name;
  v_deleted := FOUND;
  DELETE FROM scheduler_tasks r WHERE r.job_name = p_job_name AND r.state = 'READY';
  GET DIAGNOSTICS v_runs_removed = ROW_COUNT;
  RETURN QUERY SELECT v_deleted, v_runs_removed;
END
$$;
COMMENT ON FUNCTION delete_job(text) IS
  'Deletes a job and its READY runs; returns whether it existed, and the number of runs.';

CREATE OR REPLACE FUNCTION due_jobs(p_batch_size integer)
RETURNS TABLE (
  job_name text, cron text, time_zone text, missed_runs text, next_due_at timestamptz, revision bigint,
  observed_at timestamptz
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
#variable_conflict use_column
DECLARE
  v_now timestamptz := clock_timestamp();
BEGIN
  PERFORM check_number('p_batch_size', p_batch_size, 1, 1000);
  RETURN QUERY
  SELECT j.job_name, j.cron, j.time_zone, j.missed_runs, j.next_due_at, j.revision, v_now
  FROM scheduler_jobs j WHERE j.state = 'ACTIVE' AND GREATEST(j.next_due_at, j.postponed_until) <= v_now
  ORDER BY GREATEST(j.next_due_at, j.postponed_until) LIMIT p_batch_size;
END
$$;
COMMENT ON FUNCTION due_jobs(integer) IS
  'Returns active jobs that are due and not postponed, longest due first, at most the batch size.';

-- One element per run, with the revision and the next due time of its job. A job without a run has one element whose
-- occurrence is null. A job at another revision is skipped: another scheduler was faster, or an operator changed it.
CREATE OR REPLACE FUNCTION create_job_runs(
  p_job_names text[], p_revisions bigint[], p_next_due_at timestamptz[], p_scheduled_for timestamptz[]
) RETURNS TABLE (run_id uuid, job_name text, scheduled_for timestamptz)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: batch
#variable_conflict use_column
DECLARE
  v_unchanged text[];
BEGIN
  PERFORM check_job_runs(p_job_names, p_revisions, p_next_due_at, p_scheduled_for);
  -- Locks in the order of names and skips locked jobs: another transaction is creating their runs or changing them.
  v_unchanged := ARRAY(
    SELECT j.job_name FROM scheduler_jobs j
    WHERE j.state = 'ACTIVE' AND EXISTS (
      SELECT 1 FROM unnest(p_job_names, p_revisions) AS g(job_name, revision)
      WHERE g.job_name = j.job_name AND g.revision = j.revision)
      AND j.job_name = ANY (p_job_names)
    ORDER BY j.job_name FOR UPDATE SKIP LOCKED);
  RETURN QUERY
  WITH moved AS (
    UPDATE scheduler_jobs j
    SET next_due_at = g.next_due_at, revision = j.revision + 1, schedule_error = NULL, postponed_until = NULL
    FROM (
      SELECT DISTINCT ON (u.job_name) u.job_name, u.next_due_at
      FROM unnest(p_job_names, p_next_due_at) WITH ORDINALITY AS u(job_name, next_due_at, ordinal)
      WHERE u.job_name = ANY (v_unchanged) ORDER BY u.job_name, u.ordinal
    ) g
    WHERE j.job_name = g.job_name
    RETURNING j.job_name, j.topic, j.participant_id, j.payload, j.delivery
  ), made AS (
    INSERT INTO scheduler_tasks
      (task_id, kind, job_name, scheduled_for, topic, participant_id, payload, delivery, due_at)
    SELECT uuid_v7(), 'run', m.job_name, o.scheduled_for, m.topic, m.participant_id, m.payload, m.delivery,
      o.scheduled_for
    FROM moved m
    JOIN unnest(p_job_names, p_scheduled_for) AS o(job_name, scheduled_for) ON o.job_name = m.job_name
    WHERE o.scheduled_for IS NOT NULL
    -- A job that was deleted and defined again may already have a run of this occurrence.
    ON CONFLICT (job_name, scheduled_for) WHERE job_name IS NOT NULL DO NOTHING
    RETURNING task_id, job_name, scheduled_for
  )
  SELECT n.task_id, n.job_name, n.scheduled_for FROM made n ORDER BY n.scheduled_for, n.job_name;
END
$$;
COMMENT ON FUNCTION create_job_runs(text[], bigint[], timestamptz[], timestamptz[]) IS
  'Creates runs of jobs that are still at the given revision, and moves their next due time; returns the runs.';

CREATE OR REPLACE FUNCTION check_job_runs(
  p_job_names text[], p_revisions bigint[], p_next_due_at timestamptz[], p_scheduled_for timestamptz[]
) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
DECLARE
  v_count integer := cardinality(p_job_names);
  v_list CONSTANT text := format('[1:%s]', v_count);
  v_misshapen text;
BEGIN
  IF v_count IS NULL OR v_count NOT BETWEEN 1 AND 1000 THEN
    PERFORM refuse_argument('p_job_names', 'an array of 1 to 1000 names');
  END IF;
  v_misshapen := CASE
    WHEN array_dims(p_job_names) IS DISTINCT FROM v_list THEN 'p_job_names'
    WHEN array_dims(p_revisions) IS DISTINCT FROM v_list THEN 'p_revisions'
    WHEN array_dims(p_next_due_at) IS DISTINCT FROM v_list THEN 'p_next_due_at'
    WHEN array_dims(p_scheduled_for) IS DISTINCT FROM v_list THEN 'p_scheduled_for'
  END;
  IF v_misshapen IS NOT NULL THEN
    PERFORM refuse_argument(v_misshapen, 'a plain list, as long as p_job_names');
  END IF;
  FOR v_ordinal IN 1 .. v_count LOOP
    IF NOT is_id(p_job_names[v_ordinal]) THEN
      PERFORM refuse_argument(format('p_job_name of item %s', v_ordinal),
        '1 to 128 printable ASCII characters without spaces');
    END IF;
    IF p_revisions[v_ordinal] IS NULL OR p_revisions[v_ordinal] < 1 THEN
      PERFORM refuse_argument(format('p_revision of item %s', v_ordinal), 'the revision of the job, from 1');
    END IF;
    IF p_next_due_at[v_ordinal] IS NULL
      OR p_next_due_at[v_ordinal] NOT BETWEEN now() - interval '100 years' AND now() + interval '100 years'
    THEN
      PERFORM refuse_argument(format('p_next_due_at of item %s', v_ordinal), 'a time within 100 years of now');
    END IF;
    IF p_scheduled_for[v_ordinal] NOT BETWEEN now() - interval '100 years' AND now() + interval '100 years' THEN
      PERFORM refuse_argument(format('p_scheduled_for of item %s', v_ordinal),
        'null, or a time within 100 years of now');
    END IF;
  END LOOP;
END
$$;
COMMENT ON FUNCTION check_job_runs(text[], bigint[], timestamptz[], timestamptz[]) IS
  'Internal: raises 22023 for the first invalid run.';

-- A job with a schedule that no scheduler can parse must not delay other jobs. Its due time stays: once the schedule is
-- corrected, the occurrence is late, and missed_runs decides.
CREATE OR REPLACE FUNCTION postpone_job(p_job_name text, p_revision bigint, p_error_message text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
BEGIN
  PERFORM check_id('p_job_name', p_job_name);
  IF p_revision IS NULL OR p_revision < 1 THEN
    PERFORM refuse_argument('p_revision', 'the revision of the job, from 1');
  END IF;
  PERFORM check_text('p_error_message', p_error_message, 2000);
  UPDATE scheduler_jobs j
  SET postponed_until = clock_timestamp() + interval '1 minute', revision = j.revision + 1,
    schedule_error = p_error_message
  WHERE j.job_name = p_job_name AND j.revision = p_revision;
  RETURN FOUND;
END
$$;
COMMENT ON FUNCTION postpone_job(text, bigint, text) IS
  'Postpones a job by a minute and stores the reason, for an expression that a scheduler cannot parse. Returns false '
  'if the job is at another revision.';
