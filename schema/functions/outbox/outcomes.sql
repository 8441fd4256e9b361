-- Outcome messages: the application learns the outcome of a payment that it enqueued with an outcome topic.
--
-- The transaction that records a terminal outcome, a hold, the end of a hold or a return also enqueues one message to
-- the topic. The messages of a payment, redrives included, form an ordered stream of their own. Its participant is
-- `~outcomes~` and the outbox id of the payment's first item, and is also their instruction id. Enqueue refuses ids
-- with this prefix, so that no enqueue can conflict with a completion or delay it. outcomeNo is the sequence number in
-- that stream.

-- If p_state is null, each message has the state of its attempt. All attempts must then be terminal, and p_outbox_ids
-- may be null.
CREATE OR REPLACE FUNCTION send_outcome_messages(
  p_outbox_ids uuid[], p_state text, p_attempt_ids uuid[], p_details jsonb[]
) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: batch
#variable_conflict use_column
DECLARE
  v_now CONSTANT timestamptz := clock_timestamp();
  v_streams text[];
  v_topics text[];
  v_traces text[];
  v_payloads jsonb[];
  v_numbers bigint[];
BEGIN
  -- 1. Describe the outcomes of payments with a topic, in the order of the streams' names.
  SELECT array_agg(o.stream), array_agg(o.outcome_topic), array_agg(o.traceparent), array_agg(o.payload)
  INTO v_streams, v_topics, v_traces, v_payloads
  FROM (
    SELECT '~outcomes~' || first.outbox_id AS stream, i.outcome_topic, i.traceparent, jsonb_build_object(
      'instructionId', i.instruction_id, 'idempotencyKey', i.idempotency_key, 'outboxId', i.outbox_id,
      'redriveOf', i.redrive_of, 'replaces', first.replaces, 'participantId', i.participant_id,
      'sequenceId', i.sequence_id,
      'railType', i.rail_type, 'state', COALESCE(p_state, a.state::text), 'railReference', a.rail_reference,
      'errorCode', COALESCE(g.detail ->> 'code', a.error_code),
      'holdReason', CASE WHEN p_state = 'HELD' THEN g.detail ->> 'reason' END, 'attemptNo', a.attempt_no,
      'occurredAt', to_char(COALESCE(CASE WHEN p_state IS NULL THEN a.completed_at END, v_now) AT TIME ZONE 'UTC',
        'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"'))
      || CASE WHEN p_state = 'RETURNED' THEN jsonb_build_object('returned', jsonb_build_object(
        'amount', g.detail -> 'amount', 'currency', g.detail -> 'currency', 'reference', g.detail -> 'reference'))
        ELSE '{}' END AS payload
    FROM unnest(p_outbox_ids, p_attempt_ids, p_details) AS g(outbox_id, attempt_id, detail)
    -- Without an attempt of its own, a hold or a return shows the last attempt.
    LEFT JOIN LATERAL (
      SELECT t.* FROM payment_outbox_attempts t
      WHERE t.attempt_id = COALESCE(g.attempt_id, (
        SELECT l.attempt_id FROM payment_outbox_attempts l
        WHERE l.outbox_id = g.outbox_id ORDER BY l.attempt_no DESC LIMIT 1))
      OFFSET 0
    ) a ON true
    CROSS JOIN LATERAL (
      SELECT n.* FROM payment_outbox_identities n WHERE n.outbox_id = COALESCE(g.outbox_id, a.outbox_id) OFFSET 0) i
    CROSS JOIN LATERAL (
      SELECT f.outbox_id, f.replaces FROM payment_outbox_identities f
      WHERE f.instruction_id = i.instruction_id AND f.idempotency_key = outbox_base_key(i.idempotency_key)
      OFFSET 0) first
    WHERE i.outcome_topic IS NOT NULL AND NOT i.is_message
    ORDER BY first.outbox_id
  ) o;
  IF v_streams IS NULL THEN
    RETURN;
  END IF;
  -- 2. Read the next number of each stream, which locks the stream's row until the transaction ends.
  v_numbers := reserve_outbox_numbers(v_streams, array_fill(0, ARRAY[cardinality(v_streams)]));
  -- 3. Enqueue the messages.
  PERFORM admit_outbox_items(v_streams, v_streams, v_numbers::text[], v_topics,
    ARRAY(SELECT v_payloads[n] || jsonb_build_object('outcomeNo', v_numbers[n])
      FROM generate_series(1, cardinality(v_payloads)) AS n),
    NULL, array_fill(true, ARRAY[cardinality(v_streams)]), NULL, v_traces, true, NULL, NULL, v_topics, NULL);
END
$$;
COMMENT ON FUNCTION send_outcome_messages(uuid[], text, uuid[], jsonb[]) IS
  'Internal: enqueues one message about each item whose payment has an outcome topic.';
