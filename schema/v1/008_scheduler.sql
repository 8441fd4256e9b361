-- The scheduler: tables, indexes and what timers and job runs have in common. Timers are in 008_scheduler_timers.sql,
-- jobs and their runs in 008_scheduler_jobs.sql.
--
--   scheduler_timers      something to be done once, at a moment
--   scheduler_jobs        something to be done again and again: a cron expression, and when it is due next
--   scheduler_job_runs    one row per occurrence of a job, made by the scheduler or by a person who triggered it
--
-- A due timer or run either becomes a message of the outbox, in the transaction that marks it ENQUEUED, or is claimed
-- under a lease by whoever works it off. A crash leaves a row that is READY, or a lease that expires. Cron expressions are
-- read by the scheduler processes; here they are text, and what counts is next_due_at. A job that no scheduler could read
-- keeps it, and is put off beside it: the occurrence is not forgotten because nobody knew what came after it.

-- Tables --------------------------------------------------------------------------------------------------------------

CREATE TABLE IF NOT EXISTS scheduler_timers (
  timer_id uuid PRIMARY KEY,
  topic text NOT NULL,
  participant_id text,
  payload jsonb NOT NULL,
  delivery text NOT NULL,
  due_at timestamptz NOT NULL,
  state text NOT NULL DEFAULT 'READY',
  attempt_count integer NOT NULL DEFAULT 0,
  claimed_by text,
  lease_token uuid,
  lease_expires_at timestamptz,
  started_at timestamptz,
  finished_at timestamptz,
  error_message text,
  outbox_id uuid,
  created_at timestamptz NOT NULL DEFAULT now(),
  CONSTRAINT scheduler_timers_known_state
    CHECK (state IN ('READY', 'CLAIMED', 'DONE', 'ENQUEUED', 'FAILED', 'CANCELLED')),
  CONSTRAINT scheduler_timers_to_the_outbox_or_claimed CHECK (delivery IN ('outbox', 'claim')),
  CONSTRAINT scheduler_timers_payload_is_object CHECK (jsonb_typeof(payload) = 'object'),
  CONSTRAINT scheduler_timers_attempt_count_within_ceiling CHECK (attempt_count BETWEEN 0 AND 20),
  CONSTRAINT scheduler_timers_leased_while_claimed
    CHECK (num_nonnulls(claimed_by, lease_token, lease_expires_at) = CASE WHEN state = 'CLAIMED' THEN 3 ELSE 0 END),
  CONSTRAINT scheduler_timers_end_when_finished CHECK ((state IN ('READY', 'CLAIMED')) = (finished_at IS NULL)),
  CONSTRAINT scheduler_timers_enqueued_names_its_item CHECK ((state = 'ENQUEUED') = (outbox_id IS NOT NULL))
);
COMMENT ON TABLE scheduler_timers IS 'What is to be done once, at a moment. Rows stay until retention removes what has ended.';
COMMENT ON COLUMN scheduler_timers.topic IS 'The rail_type of the message that the timer becomes.';
COMMENT ON COLUMN scheduler_timers.participant_id IS 'Whose stream the message belongs to; null: its own, so that no row is hot.';
COMMENT ON COLUMN scheduler_timers.delivery IS 'outbox: the scheduler makes it a message; claim: it waits for whoever claims it.';
COMMENT ON COLUMN scheduler_timers.attempt_count IS 'Claims so far, counted when claimed, so that a crash counts.';
COMMENT ON COLUMN scheduler_timers.lease_token IS 'The fence: fresh for each claim, known to the claimer alone.';
COMMENT ON COLUMN scheduler_timers.outbox_id IS 'The outbox item that it became.';

CREATE TABLE IF NOT EXISTS scheduler_jobs (
  job_name text PRIMARY KEY,
  cron text NOT NULL,
  time_zone text NOT NULL,
  topic text NOT NULL,
  participant_id text,
  payload jsonb NOT NULL,
  delivery text NOT NULL,
  missed_runs text NOT NULL,
  state text NOT NULL DEFAULT 'ACTIVE',
  next_due_at timestamptz NOT NULL,
  revision bigint NOT NULL DEFAULT 1,
  schedule_error text,
  created_at timestamptz NOT NULL DEFAULT now(),
  updated_at timestamptz NOT NULL DEFAULT now(),
  CONSTRAINT scheduler_jobs_active_or_paused CHECK (state IN ('ACTIVE', 'PAUSED')),
  CONSTRAINT scheduler_jobs_to_the_outbox_or_claimed CHECK (delivery IN ('outbox', 'claim')),
  CONSTRAINT scheduler_jobs_skip_once_or_all CHECK (missed_runs IN ('skip', 'once', 'all')),
  CONSTRAINT scheduler_jobs_payload_is_object CHECK (jsonb_typeof(payload) = 'object')
);
-- For deployments that are older than the column.
ALTER TABLE scheduler_jobs ADD COLUMN IF NOT EXISTS postponed_until timestamptz;
COMMENT ON TABLE scheduler_jobs IS 'What is to be done again and again. Its name is its identity.';
COMMENT ON COLUMN scheduler_jobs.next_due_at IS 'The next occurrence. The scheduler makes the run and moves this in one call.';
COMMENT ON COLUMN scheduler_jobs.postponed_until IS
  'Not looked at before this, although it is due: no scheduler could read it. Null for a job that can be read.';
COMMENT ON COLUMN scheduler_jobs.revision IS
  'Grows with every change. Runs are made only from the revision that they were computed from: the fence of the schedulers.';
COMMENT ON COLUMN scheduler_jobs.missed_runs IS 'What becomes of occurrences nobody was there for: skip, once (the latest), all.';
COMMENT ON COLUMN scheduler_jobs.schedule_error IS 'Why the last scheduler that tried could not read the expression; null when one could.';

CREATE TABLE IF NOT EXISTS scheduler_job_runs (
  run_id uuid PRIMARY KEY,
  job_name text NOT NULL,
  scheduled_for timestamptz NOT NULL,
  triggered_by text,
  topic text NOT NULL,
  participant_id text,
  payload jsonb NOT NULL,
  delivery text NOT NULL,
  due_at timestamptz NOT NULL,
  state text NOT NULL DEFAULT 'READY',
  attempt_count integer NOT NULL DEFAULT 0,
  claimed_by text,
  lease_token uuid,
  lease_expires_at timestamptz,
  started_at timestamptz,
  finished_at timestamptz,
  error_message text,
  outbox_id uuid,
  created_at timestamptz NOT NULL DEFAULT now(),
  CONSTRAINT scheduler_job_runs_one_per_occurrence UNIQUE (job_name, scheduled_for),
  CONSTRAINT scheduler_job_runs_known_state
    CHECK (state IN ('READY', 'CLAIMED', 'DONE', 'ENQUEUED', 'FAILED', 'CANCELLED')),
  CONSTRAINT scheduler_job_runs_to_the_outbox_or_claimed CHECK (delivery IN ('outbox', 'claim')),
  CONSTRAINT scheduler_job_runs_payload_is_object CHECK (jsonb_typeof(payload) = 'object'),
  CONSTRAINT scheduler_job_runs_attempt_count_within_ceiling CHECK (attempt_count BETWEEN 0 AND 20),
  CONSTRAINT scheduler_job_runs_leased_while_claimed
    CHECK (num_nonnulls(claimed_by, lease_token, lease_expires_at) = CASE WHEN state = 'CLAIMED' THEN 3 ELSE 0 END),
  CONSTRAINT scheduler_job_runs_end_when_finished CHECK ((state IN ('READY', 'CLAIMED')) = (finished_at IS NULL)),
  CONSTRAINT scheduler_job_runs_enqueued_names_its_item CHECK ((state = 'ENQUEUED') = (outbox_id IS NOT NULL))
);
COMMENT ON TABLE scheduler_job_runs IS
  'One row per occurrence of a job, with the topic and payload the job had then. It outlives the job, until retention.';
COMMENT ON COLUMN scheduler_job_runs.scheduled_for IS 'The instant of the occurrence, however late the run is.';
COMMENT ON COLUMN scheduler_job_runs.triggered_by IS 'Who asked for the run; null: the schedule did.';
COMMENT ON COLUMN scheduler_job_runs.lease_token IS 'The fence: fresh for each claim, known to the claimer alone.';
COMMENT ON COLUMN scheduler_job_runs.due_at IS 'When it may be claimed: at first the occurrence, later the retry of an abandoned run.';

-- Indexes -------------------------------------------------------------------------------------------------------------

-- Two each for what is ready: who claims takes all, and the scheduler must not read past those that wait for claimers.
CREATE INDEX IF NOT EXISTS ix_timers_ready ON scheduler_timers (due_at, timer_id) WHERE state = 'READY';
CREATE INDEX IF NOT EXISTS ix_timers_ready_for_outbox
  ON scheduler_timers (due_at, timer_id) WHERE state = 'READY' AND delivery = 'outbox';
CREATE INDEX IF NOT EXISTS ix_timers_leased ON scheduler_timers (lease_expires_at) WHERE state = 'CLAIMED';
CREATE INDEX IF NOT EXISTS ix_timers_finished ON scheduler_timers (finished_at) WHERE finished_at IS NOT NULL;

-- GREATEST passes over a null: a job that was not put off is looked at when it is due.
CREATE INDEX IF NOT EXISTS ix_jobs_looked_at
  ON scheduler_jobs (GREATEST(next_due_at, postponed_until)) WHERE state = 'ACTIVE';
DROP INDEX IF EXISTS ix_jobs_due;

CREATE INDEX IF NOT EXISTS ix_job_runs_ready ON scheduler_job_runs (due_at, run_id) WHERE state = 'READY';
CREATE INDEX IF NOT EXISTS ix_job_runs_ready_for_outbox
  ON scheduler_job_runs (due_at, run_id) WHERE state = 'READY' AND delivery = 'outbox';
CREATE INDEX IF NOT EXISTS ix_job_runs_leased ON scheduler_job_runs (lease_expires_at) WHERE state = 'CLAIMED';
CREATE INDEX IF NOT EXISTS ix_job_runs_finished ON scheduler_job_runs (finished_at) WHERE finished_at IS NOT NULL;

-- Functions that timers and runs share --------------------------------------------------------------------------------

-- Whoever sleeps until the next event does not know that it has just come nearer. It only wakes: polling guarantees.
CREATE OR REPLACE FUNCTION wake_schedulers(p_due_at timestamptz) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
DECLARE
  v_enabled boolean;
BEGIN
  -- No scheduler sleeps longer than a minute: what is due later is seen in time, and NOTIFY takes a cluster-wide lock.
  IF p_due_at > clock_timestamp() + interval '1 minute' THEN
    RETURN;
  END IF;
  SELECT s.notify_enabled INTO v_enabled FROM symphony_settings s;
  -- A full notification queue would fail the COMMIT, and with it what was scheduled.
  IF v_enabled AND pg_notification_queue_usage() < 0.5 THEN
    NOTIFY scheduler_changed;
  END IF;
END
$$;
COMMENT ON FUNCTION wake_schedulers(timestamptz) IS
  'Internal: NOTIFY scheduler_changed for what is due within a minute, unless it is switched off or its queue is filling up.';

-- What a message needs, checked when it is scheduled: so that it is never refused when it is due.
CREATE OR REPLACE FUNCTION check_scheduled_message(
  p_topic text, p_payload jsonb, p_participant_id text, p_delivery text
) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
DECLARE
  v_payload_defect text := payload_defect(p_payload);
BEGIN
  IF NOT is_id(p_topic) THEN
    PERFORM refuse_argument('p_topic', '1 to 128 printable ASCII characters without spaces');
  END IF;
  IF v_payload_defect IS NOT NULL THEN
    PERFORM refuse_argument('p_payload', v_payload_defect);
  END IF;
  IF p_participant_id IS NOT NULL AND NOT is_id(p_participant_id) THEN
    PERFORM refuse_argument('p_participant_id', 'null, or 1 to 128 printable ASCII characters without spaces');
  END IF;
  IF p_delivery IS NULL OR p_delivery NOT IN ('outbox', 'claim') THEN
    PERFORM refuse_argument('p_delivery', 'outbox or claim');
  END IF;
END
$$;
COMMENT ON FUNCTION check_scheduled_message(text, jsonb, text, text) IS
  'Internal: raises 22023 unless a topic, payload, participant and delivery are acceptable.';

CREATE OR REPLACE FUNCTION check_scheduler_claim(
  p_batch_size integer, p_worker_id text, p_lease_seconds integer, p_topics text[]
) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
BEGIN
  IF p_batch_size IS NULL OR p_batch_size NOT BETWEEN 1 AND 1000 THEN
    PERFORM refuse_argument('p_batch_size', '1 to 1000');
  END IF;
  IF NOT is_id(p_worker_id) THEN
    PERFORM refuse_argument('p_worker_id', '1 to 128 printable ASCII characters without spaces');
  END IF;
  IF p_lease_seconds IS NULL OR p_lease_seconds NOT BETWEEN 1 AND 3600 THEN
    PERFORM refuse_argument('p_lease_seconds', '1 to 3600');
  END IF;
  IF p_topics IS NOT NULL AND NOT is_id_list(p_topics) THEN
    PERFORM refuse_argument('p_topics', 'null for all topics, or a plain list of 1 to 1000 of them');
  END IF;
END
$$;
COMMENT ON FUNCTION check_scheduler_claim(integer, text, integer, text[]) IS 'Internal: raises 22023 unless a claim is well-formed.';

CREATE OR REPLACE FUNCTION check_scheduler_leases(
  p_argument text, p_ids uuid[], p_lease_tokens uuid[], p_worker_id text, p_error_message text,
  p_retry_delay_seconds integer
) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
DECLARE
  v_count integer := cardinality(p_ids);
  v_list CONSTANT text := format('[1:%s]', v_count);
BEGIN
  IF v_count IS NULL OR v_count NOT BETWEEN 1 AND 1000 OR array_dims(p_ids) IS DISTINCT FROM v_list
    OR array_position(p_ids, NULL) IS NOT NULL
  THEN
    PERFORM refuse_argument(p_argument, 'a plain list of 1 to 1000 ids');
  END IF;
  IF array_dims(p_lease_tokens) IS DISTINCT FROM v_list OR array_position(p_lease_tokens, NULL) IS NOT NULL THEN
    PERFORM refuse_argument('p_lease_tokens', format('a plain list of tokens, as long as %s', p_argument));
  END IF;
  IF NOT is_id(p_worker_id) THEN
    PERFORM refuse_argument('p_worker_id', '1 to 128 printable ASCII characters without spaces');
  END IF;
  IF p_error_message IS NOT NULL AND NOT is_short_text(p_error_message, 2000) THEN
    PERFORM refuse_argument('p_error_message', 'null, or text of 1 to 2000 characters');
  END IF;
  IF p_retry_delay_seconds IS NULL OR p_retry_delay_seconds NOT BETWEEN 0 AND 2592000 THEN
    PERFORM refuse_argument('p_retry_delay_seconds', '0 to 2592000');
  END IF;
END
$$;
COMMENT ON FUNCTION check_scheduler_leases(text, uuid[], uuid[], text, text, integer) IS
  'Internal: raises 22023 unless what ends claims is well-formed.';

CREATE OR REPLACE FUNCTION check_scheduler_retention(p_retention_seconds integer, p_batch_size integer) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
BEGIN
  IF p_retention_seconds IS NULL OR p_retention_seconds NOT BETWEEN 60 AND 315360000 THEN
    PERFORM refuse_argument('p_retention_seconds', '60 (a minute) to 315360000 (ten years)');
  END IF;
  IF p_batch_size IS NULL OR p_batch_size NOT BETWEEN 1 AND 1000 THEN
    PERFORM refuse_argument('p_batch_size', '1 to 1000');
  END IF;
END
$$;
COMMENT ON FUNCTION check_scheduler_retention(integer, integer) IS 'Internal: raises 22023 unless a retention is well-formed.';

-- Puts messages into the outbox, each under its own id as instruction and key: a repeat finds the first. All at once; one
-- by one only if the outbox refuses one of them, so that it does not keep the others from going.
CREATE OR REPLACE FUNCTION enqueue_scheduled_messages(
  p_ids uuid[], p_participant_ids text[], p_topics text[], p_payloads jsonb[]
) RETURNS TABLE (message_id uuid, outbox_id uuid, error_message text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
DECLARE
  v_ids CONSTANT text[] := p_ids::text[];
  v_participant_ids CONSTANT text[] := ARRAY(
    SELECT COALESCE(g.participant_id, g.id)
    FROM unnest(v_ids, p_participant_ids) WITH ORDINALITY AS g(id, participant_id, ordinal) ORDER BY g.ordinal);
  v_outbox_ids uuid[];
  v_errors text[];
BEGIN
  BEGIN
    SELECT array_agg(e.outbox_id ORDER BY e.ordinal) INTO v_outbox_ids
    FROM enqueue_payment_outbox_batch(v_ids, v_participant_ids, v_ids, p_topics, p_payloads, p_is_message => true) e;
  EXCEPTION WHEN SQLSTATE 'P7004' OR invalid_parameter_value THEN
    FOR v_ordinal IN 1 .. cardinality(v_ids) LOOP
      BEGIN
        v_outbox_ids[v_ordinal] := (
          SELECT e.outbox_id
          FROM enqueue_payment_outbox(v_ids[v_ordinal], v_participant_ids[v_ordinal], v_ids[v_ordinal],
            p_topics[v_ordinal], p_payloads[v_ordinal], p_is_message => true) e);
      EXCEPTION WHEN SQLSTATE 'P7004' OR invalid_parameter_value THEN
        v_errors[v_ordinal] := format('refused by the outbox: %s', SQLERRM);
      END;
    END LOOP;
  END;
  RETURN QUERY
  SELECT p_ids[g.ordinal], v_outbox_ids[g.ordinal], v_errors[g.ordinal]
  FROM generate_series(1, cardinality(v_ids)) AS g(ordinal);
END
$$;
COMMENT ON FUNCTION enqueue_scheduled_messages(uuid[], text[], text[], jsonb[]) IS
  'Internal: makes scheduled messages items of the outbox; says of each which, or why it was refused.';

CREATE OR REPLACE FUNCTION next_scheduler_event(p_outbox_only boolean DEFAULT false)
RETURNS TABLE (next_event_at timestamptz, observed_at timestamptz)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT
SET jit = off SET enable_seqscan = off SET enable_bitmapscan = off SET enable_sort = off
AS $$
#variable_conflict use_column
DECLARE
  v_ready_at timestamptz;
BEGIN
  IF p_outbox_only IS NULL THEN
    PERFORM refuse_argument('p_outbox_only', 'true or false');
  END IF;
  -- The predicates are spelled out: only then are they seen to be those of the indexes.
  IF p_outbox_only THEN
    v_ready_at := LEAST(
      (SELECT t.due_at FROM scheduler_timers t WHERE t.state = 'READY' AND t.delivery = 'outbox' ORDER BY t.due_at LIMIT 1),
      (SELECT r.due_at FROM scheduler_job_runs r WHERE r.state = 'READY' AND r.delivery = 'outbox' ORDER BY r.due_at LIMIT 1));
  ELSE
    v_ready_at := LEAST(
      (SELECT t.due_at FROM scheduler_timers t WHERE t.state = 'READY' ORDER BY t.due_at LIMIT 1),
      (SELECT r.due_at FROM scheduler_job_runs r WHERE r.state = 'READY' ORDER BY r.due_at LIMIT 1));
  END IF;
  RETURN QUERY SELECT LEAST(
    v_ready_at,
    (SELECT t.lease_expires_at FROM scheduler_timers t WHERE t.state = 'CLAIMED' ORDER BY t.lease_expires_at LIMIT 1),
    (SELECT r.lease_expires_at FROM scheduler_job_runs r WHERE r.state = 'CLAIMED' ORDER BY r.lease_expires_at LIMIT 1),
    (SELECT GREATEST(j.next_due_at, j.postponed_until) FROM scheduler_jobs j WHERE j.state = 'ACTIVE'
     ORDER BY GREATEST(j.next_due_at, j.postponed_until) LIMIT 1)), clock_timestamp();
END
$$;
COMMENT ON FUNCTION next_scheduler_event(boolean) IS
  'The nearest moment at which a timer, a run, a lease or an active job is due, null when there is none; and the time now.';
