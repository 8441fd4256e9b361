-- Contradictions: a worker reports another outcome than the terminal one in the ledger. The recorded outcome stands. An
-- operator compares both with the rail and records the review.

-- Appends TERMINAL_BLOCKED for items that the caller has locked, and opens a review for each.
CREATE OR REPLACE FUNCTION record_outbox_contradictions(
  p_actor text, p_outbox_ids uuid[], p_details jsonb[], p_attempt_ids uuid[]
) RETURNS SETOF uuid
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
#variable_conflict use_column
DECLARE
  v_event_ids uuid[];
BEGIN
  v_event_ids := ARRAY(
    SELECT append_outbox_events('TERMINAL_BLOCKED', p_actor, p_outbox_ids, p_details, p_attempt_ids));
  RETURN QUERY
  INSERT INTO outbox_contradictions AS c (event_id, outbox_id, recorded_at)
  SELECT e.event_id, e.outbox_id, e.created_at FROM payment_outbox_events e WHERE e.event_id = ANY (v_event_ids)
  RETURNING c.event_id;
END
$$;
COMMENT ON FUNCTION record_outbox_contradictions(text, uuid[], jsonb[], uuid[]) IS
  'Internal: appends TERMINAL_BLOCKED events and opens their reviews.';

CREATE OR REPLACE FUNCTION review_outbox_contradiction(p_event_id uuid, p_reason text) RETURNS uuid
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
#variable_conflict use_column
DECLARE
  v_actor text := outbox_actor();
  v_contradiction outbox_contradictions;
  v_review_id uuid;
BEGIN
  PERFORM require_read_committed();
  SELECT * INTO v_contradiction FROM outbox_contradictions c WHERE c.event_id = p_event_id;
  IF v_contradiction.event_id IS NULL THEN
    PERFORM refuse_argument('p_event_id', 'the id of a TERMINAL_BLOCKED event');
  END IF;
  PERFORM require_operator_arguments(v_contradiction.outbox_id, p_reason);
  PERFORM lock_outbox_item(v_contradiction.outbox_id);
  UPDATE outbox_contradictions c SET reviewed_at = clock_timestamp(), reviewed_by = v_actor, review_reason = p_reason
  WHERE c.event_id = p_event_id AND c.reviewed_at IS NULL;
  IF NOT FOUND THEN
    SELECT * INTO v_contradiction FROM outbox_contradictions c WHERE c.event_id = p_event_id;
    RAISE EXCEPTION 'HELD: contradiction %: % reviewed it at %', p_event_id, v_contradiction.reviewed_by,
        to_char(v_contradiction.reviewed_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"')
      USING ERRCODE = 'P7006', HINT = 'A contradiction is reviewed once. The reason is in the item''s events.';
  END IF;
  SELECT e INTO v_review_id
  FROM append_outbox_events('CONTRADICTION_REVIEWED', v_actor, ARRAY[v_contradiction.outbox_id],
    ARRAY[jsonb_build_object('event_id', p_event_id, 'reason', p_reason)]) e;
  RETURN v_review_id;
END
$$;
COMMENT ON FUNCTION review_outbox_contradiction(uuid, text) IS
  'Records that an operator compared a contradiction with the rail; returns the id of the event. Changes no outcome.';
