-- Functions that timers and runs share: messages, argument checks and wake-ups.

-- Wakes schedulers that sleep until a later event. The notification only shortens the wait: polling finds due work.
CREATE OR REPLACE FUNCTION wake_schedulers(p_due_at timestamptz) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
DECLARE
  v_enabled boolean;
BEGIN
  -- No scheduler sleeps longer than a minute, so polling finds later work in time. NOTIFY takes a cluster-wide lock.
  IF p_due_at > clock_timestamp() + interval '1 minute' THEN
    RETURN;
  END IF;
  SELECT s.notify_enabled INTO v_enabled FROM symphony_settings s;
  -- A full notification queue would fail the COMMIT.
  IF v_enabled AND pg_notification_queue_usage() < 0.5 THEN
    NOTIFY scheduler_changed;
  END IF;
END
$$;
COMMENT ON FUNCTION wake_schedulers(timestamptz) IS
  'Internal: sends NOTIFY scheduler_changed for work due within a minute, unless it is switched off or its queue is '
  'half full.';

-- Checks a message when it is scheduled, so that the outbox does not refuse it when it is due.
CREATE OR REPLACE FUNCTION check_scheduled_message(
  p_topic text, p_payload jsonb, p_participant_id text, p_delivery text
) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
DECLARE
  v_payload_defect text := payload_defect(p_payload);
BEGIN
  PERFORM check_id('p_topic', p_topic);
  IF v_payload_defect IS NOT NULL THEN
    PERFORM refuse_argument('p_payload', v_payload_defect);
  END IF;
  IF p_participant_id IS NOT NULL
    AND (NOT is_id(p_participant_id) OR starts_with(p_participant_id, '~outcomes~'))
  THEN
    PERFORM refuse_argument('p_participant_id',
      'null, or 1 to 128 printable ASCII characters without spaces, not beginning with ~outcomes~');
  END IF;
  IF p_delivery IS NULL OR p_delivery NOT IN ('outbox', 'claim') THEN
    PERFORM refuse_argument('p_delivery', 'outbox or claim');
  END IF;
END
$$;
COMMENT ON FUNCTION check_scheduled_message(text, jsonb, text, text) IS
  'Internal: raises 22023 unless a topic, payload, participant and delivery are acceptable.';

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
  PERFORM check_id('p_worker_id', p_worker_id);
  IF p_error_message IS NOT NULL AND NOT is_short_text(p_error_message, 2000) THEN
    PERFORM refuse_argument('p_error_message', 'null, or text of 1 to 2000 characters');
  END IF;
  PERFORM check_number('p_retry_delay_seconds', p_retry_delay_seconds, 0, 2592000);
END
$$;
COMMENT ON FUNCTION check_scheduler_leases(text, uuid[], uuid[], text, text, integer) IS
  'Internal: raises 22023 unless the arguments that end claims are well-formed.';

-- The task id is the instruction id and the key of the item, so that a repeat finds the first item. If the outbox
-- refuses a message, the batch is enqueued again one by one, so that only the refused message fails.
--
-- While a batch waits for one participant, it blocks enqueues for others. The lock timeout bounds each such wait. It is
-- shorter than deadlock_timeout (1 s by default), so that a deadlock ends this call and no call of an application.
CREATE OR REPLACE FUNCTION enqueue_scheduled_messages(
  p_ids uuid[], p_participant_ids text[], p_topics text[], p_payloads jsonb[]
) RETURNS TABLE (message_id uuid, outbox_id uuid, error_message text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT SET lock_timeout = '200ms'
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
  'Internal: enqueues scheduled messages in the outbox; returns the item, or the reason of a refusal. Raises 55P03 if '
  'another transaction holds a participant for longer than 200 ms.';

CREATE OR REPLACE FUNCTION next_scheduler_event(p_outbox_only boolean DEFAULT false)
RETURNS TABLE (next_event_at timestamptz, observed_at timestamptz)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: ordered
#variable_conflict use_column
DECLARE
  v_ready_at timestamptz;
BEGIN
  IF p_outbox_only IS NULL THEN
    PERFORM refuse_argument('p_outbox_only', 'true or false');
  END IF;
  -- The predicates repeat those of the indexes, because the planner does not use the indexes otherwise.
  IF p_outbox_only THEN
    v_ready_at := LEAST(
      (SELECT t.due_at FROM scheduler_tasks t WHERE t.kind = 'timer' AND t.state = 'READY' AND t.delivery = 'outbox'
       ORDER BY t.due_at LIMIT 1),
      (SELECT t.due_at FROM scheduler_tasks t WHERE t.kind = 'run' AND t.state = 'READY' AND t.delivery = 'outbox'
       ORDER BY t.due_at LIMIT 1));
  ELSE
    v_ready_at := LEAST(
      (SELECT t.due_at FROM scheduler_tasks t WHERE t.kind = 'timer' AND t.state = 'READY' ORDER BY t.due_at LIMIT 1),
      (SELECT t.due_at FROM scheduler_tasks t WHERE t.kind = 'run' AND t.state = 'READY' ORDER BY t.due_at LIMIT 1));
  END IF;
  RETURN QUERY SELECT LEAST(
    v_ready_at,
    (SELECT t.lease_expires_at FROM scheduler_tasks t WHERE t.kind = 'timer' AND t.state = 'CLAIMED'
     ORDER BY t.lease_expires_at LIMIT 1),
    (SELECT t.lease_expires_at FROM scheduler_tasks t WHERE t.kind = 'run' AND t.state = 'CLAIMED'
     ORDER BY t.lease_expires_at LIMIT 1),
    (SELECT GREATEST(j.next_due_at, j.postponed_until) FROM scheduler_jobs j WHERE j.state = 'ACTIVE'
     ORDER BY GREATEST(j.next_due_at, j.postponed_until) LIMIT 1)), clock_timestamp();
END
$$;
COMMENT ON FUNCTION next_scheduler_event(boolean) IS
  'Returns the earliest due time of a timer, a run or an active job, or expiry of a claim, or null; and the current '
  'time. With p_outbox_only, READY tasks with delivery claim do not count.';
