-- Marks: state changes for callers that use the inbox for deduplication only. No worker claims such a message.

CREATE OR REPLACE FUNCTION mark_inbox_processing(p_source text, p_message_id text) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
BEGIN
  PERFORM mark_inbox_message(p_source, p_message_id, 'processing', NULL);
END
$$;
COMMENT ON FUNCTION mark_inbox_processing(text, text) IS
  'Marks a sighted message as processing; a repeat counts another attempt. Raises P7011 for an unknown message, P7010 '
  'for a forbidden transition.';

CREATE OR REPLACE FUNCTION mark_inbox_processed(p_source text, p_message_id text) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
BEGIN
  PERFORM mark_inbox_message(p_source, p_message_id, 'done', NULL);
END
$$;
COMMENT ON FUNCTION mark_inbox_processed(text, text) IS
  'Marks a processing message as done, which is final. Raises P7011 for an unknown message, P7010 for a forbidden '
  'transition.';

CREATE OR REPLACE FUNCTION mark_inbox_dead(p_source text, p_message_id text, p_error text) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
BEGIN
  PERFORM check_text('p_error', p_error, 2000);
  PERFORM mark_inbox_message(p_source, p_message_id, 'dead', p_error);
END
$$;
COMMENT ON FUNCTION mark_inbox_dead(text, text, text) IS
  'Marks a message as dead until an operator revives it. Raises P7011 for an unknown message, P7010 for a forbidden '
  'transition.';

CREATE OR REPLACE FUNCTION mark_inbox_message(p_source text, p_message_id text, p_state text, p_error text) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
#variable_conflict use_column
DECLARE
  v_known inbox_messages;
  v_now timestamptz;
BEGIN
  PERFORM check_inbox_key(p_source, p_message_id);
  v_known := lock_inbox_message(p_source, p_message_id);
  -- A repeated mark as done or dead changes nothing: the answer to the first call may have been lost.
  IF v_known.topic IS NULL AND v_known.state = p_state AND p_state <> 'processing' THEN
    RETURN;
  END IF;
  IF v_known.topic IS NOT NULL THEN
    RAISE EXCEPTION 'INBOX_TRANSITION: the inbox message was enqueued, so only its claims change its state'
      USING ERRCODE = 'P7010', DETAIL = json_build_object('from', v_known.state, 'to', p_state)::text,
        HINT = 'Claim it, and then ack, abandon or fail it. Marks are for messages known only for deduplication.';
  END IF;
  IF NOT (v_known.state = 'processing' OR (v_known.state = 'seen' AND p_state <> 'done')) THEN
    RAISE EXCEPTION 'INBOX_TRANSITION: the inbox message is % and cannot become %', v_known.state, p_state
      USING ERRCODE = 'P7010', DETAIL = json_build_object('from', v_known.state, 'to', p_state)::text,
        HINT = 'A message is seen, then processing, then done or dead. Done is final. An operator revives a dead one.';
  END IF;
  v_now := clock_timestamp();
  UPDATE inbox_messages m
  SET state = p_state, last_error = COALESCE(p_error, m.last_error),
    attempt_count = m.attempt_count + CASE WHEN p_state = 'processing' THEN 1 ELSE 0 END,
    ended_at = CASE WHEN p_state <> 'processing' THEN v_now END
  WHERE m.source = p_source AND m.message_id = p_message_id;
  IF p_state = 'dead' THEN
    INSERT INTO inbox_events (event_id, source, message_id, event_type, actor, detail, created_at)
    VALUES (uuid_v7(), p_source, p_message_id, 'DIED', session_user,
      jsonb_build_object('attempts', v_known.attempt_count, 'error', p_error), v_now);
  END IF;
END
$$;
COMMENT ON FUNCTION mark_inbox_message(text, text, text, text) IS
  'Internal: moves a message known only for deduplication to a state, or raises P7010.';

CREATE OR REPLACE FUNCTION lock_inbox_message(p_source text, p_message_id text) RETURNS inbox_messages
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
#variable_conflict use_column
DECLARE
  v_known inbox_messages;
BEGIN
  SELECT m.* INTO v_known FROM inbox_messages m
  WHERE m.source = p_source AND m.message_id = p_message_id FOR UPDATE;
  IF NOT FOUND THEN
    -- The snapshot of a REPEATABLE READ transaction may be older than the message.
    IF current_setting('transaction_isolation') <> 'read committed' THEN
      RAISE EXCEPTION 'the inbox message is unknown to the snapshot of this transaction'
        USING ERRCODE = 'serialization_failure', HINT = 'Retry the transaction, or run it under READ COMMITTED.';
    END IF;
    RAISE EXCEPTION 'INBOX_UNKNOWN: there is no inbox message with this source and id'
      USING ERRCODE = 'P7011', HINT = 'Check the source and the id. The message was never received, or was purged.';
  END IF;
  RETURN v_known;
END
$$;
COMMENT ON FUNCTION lock_inbox_message(text, text) IS 'Internal: locks a message and returns it, or raises P7011.';
