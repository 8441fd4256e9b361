-- Timers: schedule, cancel, and the public functions for tasks of the kind timer (tasks.sql).

-- With p_timer_id a repeated call is idempotent: the same id with the same values returns the first timer, in any
-- state. The same id with other values, or the id of a run, is refused. The due time is compared only before the first
-- claim, because a release may move it.
CREATE OR REPLACE FUNCTION schedule_timer(
  p_topic text, p_payload jsonb, p_due_at timestamptz, p_participant_id text DEFAULT NULL,
  p_delivery text DEFAULT 'outbox', p_timer_id uuid DEFAULT NULL
) RETURNS uuid
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
DECLARE
  v_timer_id uuid := COALESCE(p_timer_id, uuid_v7());
  v_known scheduler_tasks;
BEGIN
  PERFORM check_scheduled_message(p_topic, p_payload, p_participant_id, p_delivery);
  PERFORM check_time('p_due_at', p_due_at);
  LOOP
    INSERT INTO scheduler_tasks (task_id, topic, participant_id, payload, delivery, due_at)
    VALUES (v_timer_id, p_topic, p_participant_id, p_payload, p_delivery, p_due_at)
    ON CONFLICT DO NOTHING;
    IF FOUND THEN
      PERFORM wake_schedulers(p_due_at);
      RETURN v_timer_id;
    END IF;
    SELECT t.* INTO v_known FROM scheduler_tasks t WHERE t.task_id = v_timer_id;
    -- Not found: the INSERT met a row that retention has removed since. Tries the INSERT again.
    EXIT WHEN FOUND;
  END LOOP;
  IF (v_known.kind, v_known.topic, v_known.participant_id, v_known.payload, v_known.delivery)
      IS DISTINCT FROM ('timer', p_topic, p_participant_id, p_payload, p_delivery)
    OR (v_known.attempt_count = 0 AND v_known.due_at <> p_due_at)
  THEN
    RAISE EXCEPTION 'IDEMPOTENCY_CONFLICT: timer %: this id already stands for another topic, participant, payload, '
        'delivery or time', v_timer_id
      USING ERRCODE = 'P7004',
        HINT = 'Use a new id for a new timer; repeat the first content to read the first answer.';
  END IF;
  RETURN v_timer_id;
END
$$;
COMMENT ON FUNCTION schedule_timer(text, jsonb, timestamptz, text, text, uuid) IS
  'Schedules a message in the caller''s transaction; a past time is due at once. Idempotent with p_timer_id.';

-- Also cancels a claimed timer. A later ack, abandon or fail of its claim then changes nothing.
CREATE OR REPLACE FUNCTION cancel_timer(p_timer_id uuid) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
BEGIN
  PERFORM outbox_actor('{ingest,operate}');
  IF p_timer_id IS NULL THEN
    PERFORM refuse_argument('p_timer_id', 'an id');
  END IF;
  UPDATE scheduler_tasks t
  SET state = 'CANCELLED', finished_at = clock_timestamp(), claimed_by = NULL, lease_token = NULL,
    lease_expires_at = NULL
  WHERE t.task_id = p_timer_id AND t.kind = 'timer' AND t.state IN ('READY', 'CLAIMED');
  RETURN FOUND;
END
$$;
COMMENT ON FUNCTION cancel_timer(uuid) IS
  'Cancels a timer permanently; returns false if it has ended or does not exist.';

CREATE OR REPLACE FUNCTION enqueue_due_timers(p_batch_size integer)
RETURNS TABLE (timer_id uuid, topic text, due_at timestamptz, outbox_id uuid, error_message text)
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
  SELECT t.task_id, t.topic, t.due_at, t.outbox_id, t.error_message FROM enqueue_due_tasks('timer', p_batch_size) t
$$;
COMMENT ON FUNCTION enqueue_due_timers(integer) IS
  'Enqueues due timers in the outbox as messages, in order, at most the batch size. A refused timer fails; the others '
  'do not.';

CREATE OR REPLACE FUNCTION claim_timers(
  p_batch_size integer, p_worker_id text, p_lease_seconds integer, p_topics text[] DEFAULT NULL
) RETURNS TABLE (
  timer_id uuid, topic text, participant_id text, payload jsonb, due_at timestamptz, attempt_count integer,
  lease_token uuid, lease_expires_at timestamptz
)
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
  SELECT t.task_id, t.topic, t.participant_id, t.payload, t.due_at, t.attempt_count, t.lease_token, t.lease_expires_at
  FROM claim_tasks('timer', p_batch_size, p_worker_id, p_lease_seconds, p_topics) t
$$;
COMMENT ON FUNCTION claim_timers(integer, text, integer, text[]) IS
  'Leases due timers to one worker, at most the batch size, in order; each with its token.';

CREATE OR REPLACE FUNCTION ack_timers(p_timer_ids uuid[], p_lease_tokens uuid[], p_worker_id text) RETURNS SETOF uuid
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$ SELECT end_task_claims('timer', p_timer_ids, p_lease_tokens, p_worker_id, 'DONE', NULL, 0) $$;
COMMENT ON FUNCTION ack_timers(uuid[], uuid[], text) IS 'Ends claimed timers as done; returns those that it ended.';

CREATE OR REPLACE FUNCTION abandon_timers(
  p_timer_ids uuid[], p_lease_tokens uuid[], p_worker_id text, p_error_message text DEFAULT NULL,
  p_retry_delay_seconds integer DEFAULT 0
) RETURNS SETOF uuid
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
  SELECT end_task_claims(
    'timer', p_timer_ids, p_lease_tokens, p_worker_id, 'READY', p_error_message, p_retry_delay_seconds)
$$;
COMMENT ON FUNCTION abandon_timers(uuid[], uuid[], text, text, integer) IS
  'Returns claimed timers to READY, due as before or after a delay. After the 20th attempt they are FAILED.';

CREATE OR REPLACE FUNCTION fail_timers(
  p_timer_ids uuid[], p_lease_tokens uuid[], p_worker_id text, p_error_message text DEFAULT NULL
) RETURNS SETOF uuid
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$ SELECT end_task_claims('timer', p_timer_ids, p_lease_tokens, p_worker_id, 'FAILED', p_error_message, 0) $$;
COMMENT ON FUNCTION fail_timers(uuid[], uuid[], text, text) IS
  'Ends claimed timers as failed, which is final; returns those that it ended.';

CREATE OR REPLACE FUNCTION purge_finished_timers(p_retention_seconds integer, p_batch_size integer) RETURNS integer
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$ SELECT purge_finished_tasks('timer', p_retention_seconds, p_batch_size) $$;
COMMENT ON FUNCTION purge_finished_timers(integer, integer) IS
  'Deletes timers that ended longer ago than the retention, oldest first, at most the batch size; returns their '
  'number.';
