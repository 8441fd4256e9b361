-- Timers: schedule, cancel, make messages of, claim, end, forget. What ends a claim is fenced by its token.

-- An id that the caller chose before the call makes it safe to call again: the same timer under the same id is the same
-- timer, whatever has become of it; another one under it is refused. Its due time is compared until somebody has claimed
-- it: giving it back may move that.
CREATE OR REPLACE FUNCTION schedule_timer(
  p_topic text, p_payload jsonb, p_due_at timestamptz, p_participant_id text DEFAULT NULL, p_delivery text DEFAULT 'outbox',
  p_timer_id uuid DEFAULT NULL
) RETURNS uuid
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
DECLARE
  v_timer_id uuid := COALESCE(p_timer_id, uuid_v7());
  v_known scheduler_timers;
BEGIN
  PERFORM check_scheduled_message(p_topic, p_payload, p_participant_id, p_delivery);
  IF p_due_at IS NULL OR p_due_at NOT BETWEEN now() - interval '100 years' AND now() + interval '100 years' THEN
    PERFORM refuse_argument('p_due_at', 'a time within 100 years of now');
  END IF;
  LOOP
    INSERT INTO scheduler_timers (timer_id, topic, participant_id, payload, delivery, due_at)
    VALUES (v_timer_id, p_topic, p_participant_id, p_payload, p_delivery, p_due_at)
    ON CONFLICT DO NOTHING;
    IF FOUND THEN
      PERFORM wake_schedulers(p_due_at);
      RETURN v_timer_id;
    END IF;
    SELECT t.* INTO v_known FROM scheduler_timers t WHERE t.timer_id = v_timer_id;
    -- Not found: retention has removed it since the insert looked, and it is new after all.
    EXIT WHEN FOUND;
  END LOOP;
  IF (v_known.topic, v_known.participant_id, v_known.payload, v_known.delivery)
      IS DISTINCT FROM (p_topic, p_participant_id, p_payload, p_delivery)
    OR (v_known.attempt_count = 0 AND v_known.due_at <> p_due_at)
  THEN
    RAISE EXCEPTION 'IDEMPOTENCY_CONFLICT: timer %: this id already stands for another topic, participant, payload, delivery or time', v_timer_id
      USING ERRCODE = 'P7004', HINT = 'Use a new id for a new timer; repeat the first content to hear the first answer.';
  END IF;
  RETURN v_timer_id;
END
$$;
COMMENT ON FUNCTION schedule_timer(text, jsonb, timestamptz, text, text, uuid) IS
  'Schedules a message for a moment, in the caller''s transaction. One that has passed is due at once. The same again under an id that the caller chose is the same timer.';

-- A timer in somebody's hands is cancelled too: what they then say of it changes nothing.
CREATE OR REPLACE FUNCTION cancel_timer(p_timer_id uuid) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
BEGIN
  IF p_timer_id IS NULL THEN
    PERFORM refuse_argument('p_timer_id', 'an id');
  END IF;
  UPDATE scheduler_timers t
  SET state = 'CANCELLED', finished_at = clock_timestamp(), claimed_by = NULL, lease_token = NULL, lease_expires_at = NULL
  WHERE t.timer_id = p_timer_id AND t.state IN ('READY', 'CLAIMED');
  RETURN FOUND;
END
$$;
COMMENT ON FUNCTION cancel_timer(uuid) IS 'Cancels a timer that has not ended, for good; false when it has, or never was.';

CREATE OR REPLACE FUNCTION give_back_timers(
  p_timer_ids uuid[], p_error_message text, p_retry_delay_seconds integer
) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
#variable_conflict use_column
DECLARE
  v_now timestamptz := clock_timestamp();
BEGIN
  UPDATE scheduler_timers t
  SET state = CASE WHEN t.attempt_count < 20 THEN 'READY' ELSE 'FAILED' END,
    finished_at = CASE WHEN t.attempt_count < 20 THEN NULL ELSE v_now END,
    due_at = CASE WHEN p_retry_delay_seconds > 0 THEN v_now + make_interval(secs => p_retry_delay_seconds) ELSE t.due_at END,
    error_message = COALESCE(p_error_message, format('the claim of %s expired', t.claimed_by)),
    claimed_by = NULL, lease_token = NULL, lease_expires_at = NULL
  WHERE t.timer_id = ANY (p_timer_ids);
END
$$;
COMMENT ON FUNCTION give_back_timers(uuid[], text, integer) IS
  'Internal: returns locked timers to ready; fails those claimed twenty times.';

-- A claim that expired is a claim that crashed.
CREATE OR REPLACE FUNCTION return_expired_timers() RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
#variable_conflict use_column
DECLARE
  v_now timestamptz := clock_timestamp();
  v_expired uuid[];
BEGIN
  v_expired := ARRAY(
    SELECT t.timer_id FROM scheduler_timers t WHERE t.state = 'CLAIMED' AND t.lease_expires_at <= v_now
    ORDER BY t.lease_expires_at LIMIT 1000 FOR UPDATE SKIP LOCKED);
  IF cardinality(v_expired) > 0 THEN
    PERFORM give_back_timers(v_expired, NULL, 0);
  END IF;
END
$$;
COMMENT ON FUNCTION return_expired_timers() IS 'Internal: gives back the timers whose claim expired.';

-- From a due timer to a message, in one transaction: a crash neither loses nor doubles it.
CREATE OR REPLACE FUNCTION enqueue_due_timers(p_batch_size integer)
RETURNS TABLE (timer_id uuid, topic text, due_at timestamptz, outbox_id uuid, error_message text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: batch
#variable_conflict use_column
DECLARE
  v_now timestamptz;
  v_due scheduler_timers[];
BEGIN
  IF p_batch_size IS NULL OR p_batch_size NOT BETWEEN 1 AND 1000 THEN
    PERFORM refuse_argument('p_batch_size', '1 to 1000');
  END IF;
  PERFORM return_expired_timers();
  v_now := clock_timestamp();
  v_due := ARRAY(
    SELECT t FROM scheduler_timers t
    WHERE t.state = 'READY' AND t.delivery = 'outbox' AND t.due_at <= v_now
    ORDER BY t.due_at, t.timer_id LIMIT p_batch_size FOR UPDATE SKIP LOCKED);
  IF cardinality(v_due) = 0 THEN
    RETURN;
  END IF;
  RETURN QUERY
  WITH enqueued AS MATERIALIZED (
    SELECT m.message_id, m.outbox_id, m.error_message
    FROM enqueue_scheduled_messages(
      ARRAY(SELECT d.timer_id FROM unnest(v_due) d), ARRAY(SELECT d.participant_id FROM unnest(v_due) d),
      ARRAY(SELECT d.topic FROM unnest(v_due) d), ARRAY(SELECT d.payload FROM unnest(v_due) d)) m
  ), ended AS (
    UPDATE scheduler_timers t
    SET state = CASE WHEN e.outbox_id IS NULL THEN 'FAILED' ELSE 'ENQUEUED' END, outbox_id = e.outbox_id,
      error_message = e.error_message, started_at = v_now, finished_at = clock_timestamp()
    FROM enqueued e WHERE t.timer_id = e.message_id
    RETURNING t.*
  )
  SELECT n.timer_id, n.topic, n.due_at, n.outbox_id, n.error_message FROM ended n ORDER BY n.due_at, n.timer_id;
END
$$;
COMMENT ON FUNCTION enqueue_due_timers(integer) IS
  'Makes due timers messages of the outbox, in order, at most the batch size; one that the outbox refuses fails alone.';

CREATE OR REPLACE FUNCTION claim_timers(
  p_batch_size integer, p_worker_id text, p_lease_seconds integer, p_topics text[] DEFAULT NULL
) RETURNS TABLE (
  timer_id uuid, topic text, participant_id text, payload jsonb, due_at timestamptz, attempt_count integer,
  lease_token uuid, lease_expires_at timestamptz
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
  PERFORM return_expired_timers();
  v_now := clock_timestamp();
  v_due := ARRAY(
    SELECT t.timer_id FROM scheduler_timers t
    WHERE t.state = 'READY' AND t.due_at <= v_now AND (p_topics IS NULL OR t.topic = ANY (p_topics))
    ORDER BY t.due_at, t.timer_id LIMIT p_batch_size FOR UPDATE SKIP LOCKED);
  v_now := clock_timestamp();
  RETURN QUERY
  WITH leased AS (
    UPDATE scheduler_timers t
    SET state = 'CLAIMED', claimed_by = p_worker_id, lease_token = gen_random_uuid(),
      lease_expires_at = v_now + make_interval(secs => p_lease_seconds), attempt_count = t.attempt_count + 1, started_at = v_now
    WHERE t.timer_id = ANY (v_due)
    RETURNING t.*
  )
  -- UPDATE … RETURNING has no order of its own.
  SELECT l.timer_id, l.topic, l.participant_id, l.payload, l.due_at, l.attempt_count, l.lease_token, l.lease_expires_at
  FROM leased l ORDER BY l.due_at, l.timer_id;
END
$$;
COMMENT ON FUNCTION claim_timers(integer, text, integer, text[]) IS
  'Leases due timers to one worker, at most the batch size, in order; each with its token.';

-- Ends claims: what is not claimed by this worker under this token, or no longer, is left out of the answer.
CREATE OR REPLACE FUNCTION end_timer_claims(
  p_timer_ids uuid[], p_lease_tokens uuid[], p_worker_id text, p_state text, p_error_message text,
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
  PERFORM check_scheduler_leases('p_timer_ids', p_timer_ids, p_lease_tokens, p_worker_id, p_error_message, p_retry_delay_seconds);
  v_shown := ARRAY(
    SELECT g.ordinal
    FROM unnest(p_timer_ids, p_lease_tokens) WITH ORDINALITY AS g(timer_id, lease_token, ordinal)
    JOIN scheduler_timers t ON t.timer_id = g.timer_id
    WHERE t.state = 'CLAIMED' AND t.lease_token = g.lease_token AND t.claimed_by = p_worker_id
    ORDER BY t.timer_id FOR UPDATE OF t);
  -- The rows are locked: only now does the clock say whether the leases still live.
  v_now := clock_timestamp();
  v_held := ARRAY(
    SELECT t.timer_id
    FROM unnest(p_timer_ids) WITH ORDINALITY AS g(timer_id, ordinal)
    JOIN scheduler_timers t ON t.timer_id = g.timer_id
    WHERE g.ordinal = ANY (v_shown) AND t.lease_expires_at > v_now
    GROUP BY t.timer_id ORDER BY min(g.ordinal));
  IF p_state = 'READY' THEN
    PERFORM give_back_timers(v_held, COALESCE(p_error_message, 'abandoned'), p_retry_delay_seconds);
    PERFORM wake_schedulers(v_now + make_interval(secs => p_retry_delay_seconds));
  ELSE
    UPDATE scheduler_timers t
    SET state = p_state, finished_at = v_now, error_message = p_error_message, claimed_by = NULL, lease_token = NULL,
      lease_expires_at = NULL
    WHERE t.timer_id = ANY (v_held);
  END IF;
  RETURN QUERY SELECT h.timer_id FROM unnest(v_held) AS h(timer_id);
END
$$;
COMMENT ON FUNCTION end_timer_claims(uuid[], uuid[], text, text, text, integer) IS
  'Internal: moves live claims of a worker to a state; returns those that it moved.';

CREATE OR REPLACE FUNCTION ack_timers(p_timer_ids uuid[], p_lease_tokens uuid[], p_worker_id text) RETURNS SETOF uuid
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$ SELECT end_timer_claims(p_timer_ids, p_lease_tokens, p_worker_id, 'DONE', NULL, 0) $$;
COMMENT ON FUNCTION ack_timers(uuid[], uuid[], text) IS 'Ends claimed timers as done; returns those that were.';

CREATE OR REPLACE FUNCTION abandon_timers(
  p_timer_ids uuid[], p_lease_tokens uuid[], p_worker_id text, p_error_message text DEFAULT NULL,
  p_retry_delay_seconds integer DEFAULT 0
) RETURNS SETOF uuid
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$ SELECT end_timer_claims(p_timer_ids, p_lease_tokens, p_worker_id, 'READY', p_error_message, p_retry_delay_seconds) $$;
COMMENT ON FUNCTION abandon_timers(uuid[], uuid[], text, text, integer) IS
  'Returns claimed timers to ready, due as before or after a delay; the twentieth time they fail instead.';

CREATE OR REPLACE FUNCTION fail_timers(
  p_timer_ids uuid[], p_lease_tokens uuid[], p_worker_id text, p_error_message text DEFAULT NULL
) RETURNS SETOF uuid
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$ SELECT end_timer_claims(p_timer_ids, p_lease_tokens, p_worker_id, 'FAILED', p_error_message, 0) $$;
COMMENT ON FUNCTION fail_timers(uuid[], uuid[], text, text) IS 'Ends claimed timers as failed, for good; returns those that were.';

CREATE OR REPLACE FUNCTION purge_finished_timers(p_retention_seconds integer, p_batch_size integer) RETURNS integer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
#variable_conflict use_column
DECLARE
  v_before timestamptz := clock_timestamp() - make_interval(secs => p_retention_seconds);
  v_purged integer;
BEGIN
  PERFORM check_scheduler_retention(p_retention_seconds, p_batch_size);
  DELETE FROM scheduler_timers d WHERE d.timer_id = ANY (ARRAY(
    SELECT t.timer_id FROM scheduler_timers t WHERE t.finished_at IS NOT NULL AND t.finished_at < v_before
    ORDER BY t.finished_at LIMIT p_batch_size FOR UPDATE SKIP LOCKED));
  GET DIAGNOSTICS v_purged = ROW_COUNT;
  RETURN v_purged;
END
$$;
COMMENT ON FUNCTION purge_finished_timers(integer, integer) IS
  'Deletes timers that ended longer ago than that, oldest first, at most the batch size; returns how many.';
