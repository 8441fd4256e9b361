-- Payments that a person enters: the item is held from the start, and a worker may claim it only after another person
-- has approved the proposal. Above a limit that asks for two people, two others must approve: the key of the entering
-- person has the scope ingest, and create_api_key lets one person choose the owner of such a key.

CREATE OR REPLACE FUNCTION propose_payment_outbox(
  p_instruction_id text, p_participant_id text, p_idempotency_key text, p_rail_type text, p_payload jsonb,
  p_reason text, p_key_scope text DEFAULT NULL, p_replaces uuid DEFAULT NULL, p_outcome_topic text DEFAULT NULL
) RETURNS TABLE (outbox_id uuid, sequence_id bigint, created_at timestamptz, state text, created boolean,
  proposal_id uuid)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
#variable_conflict use_column
DECLARE
  v_actor text := outbox_actor('{ingest}');
  v_replaces CONSTANT uuid[] := CASE WHEN p_replaces IS NOT NULL THEN ARRAY[p_replaces] END;
  v_item record;
  v_limit_hold jsonb;
  v_reason text;
  v_held_at timestamptz;
  v_proposal_id uuid;
BEGIN
  PERFORM require_read_committed();
  PERFORM check_text('p_reason', p_reason, 1000);
  PERFORM check_outbox_items(ARRAY[p_instruction_id], ARRAY[p_participant_id], ARRAY[p_idempotency_key],
    ARRAY[p_rail_type], ARRAY[p_payload], NULL, NULL, NULL, false, p_key_scope, ARRAY[p_outcome_topic], v_replaces);
  SELECT * INTO v_item
  FROM admit_outbox_items(ARRAY[p_instruction_id], ARRAY[p_participant_id], ARRAY[p_idempotency_key],
    ARRAY[p_rail_type], ARRAY[p_payload], NULL, NULL, NULL, NULL, false, p_key_scope, NULL, ARRAY[p_outcome_topic],
    v_replaces, p_is_held => true);
  IF v_item.created THEN
    -- The hold of a limit keeps its reason and the name of the limit, so that the release counts for the limit.
    v_limit_hold := COALESCE((apply_outbox_limits(ARRAY[v_item.outbox_id], true))[1] - 'outbox_id', '{}');
    UPDATE payment_outbox_pending p
    SET hold_reason = COALESCE(v_limit_hold ->> 'reason', 'PAYMENT_APPROVAL'), held_by = v_actor,
      held_at = clock_timestamp()
    WHERE p.outbox_id = v_item.outbox_id
    RETURNING p.hold_reason, p.held_at INTO v_reason, v_held_at;
    PERFORM append_outbox_events('HOLD_PLACED', v_actor, ARRAY[v_item.outbox_id], ARRAY[
      v_limit_hold || outbox_hold_detail(v_reason, v_held_at) || '{"approvals": 2}']);
    v_proposal_id := propose_outbox_decision(v_item.outbox_id, 'RETRY', p_reason, NULL, v_actor,
      COALESCE((v_limit_hold ->> 'approvals')::integer, 1));
  ELSE
    SELECT q.proposal_id INTO v_proposal_id FROM payment_outbox_proposals q
    WHERE q.outbox_id = v_item.outbox_id AND q.status = 'OPEN';
  END IF;
  RETURN QUERY SELECT v_item.outbox_id, v_item.sequence_id, v_item.created_at, v_item.state, v_item.created,
    v_proposal_id;
END
$$;
COMMENT ON FUNCTION propose_payment_outbox(text, text, text, text, jsonb, text, text, uuid, text) IS
  'Enqueues a payment that is held until another person approves it, or two above a limit that asks for two. A repeat '
  'returns the first item, and its open proposal or null.';
