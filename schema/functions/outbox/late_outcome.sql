-- Late outcomes: results that workers report after losing their lease. They are evidence and change no recorded
-- outcome.

CREATE OR REPLACE FUNCTION record_late_outcome(
  p_outbox_id uuid, p_lease_token uuid, p_worker_id text, p_state text,
  p_rail_reference text DEFAULT NULL, p_rail_code text DEFAULT NULL,
  p_error_code text DEFAULT NULL, p_error_message text DEFAULT NULL, p_latency_ms integer DEFAULT NULL
) RETURNS TABLE (event_id uuid, event_type text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: batch
#variable_conflict use_column
DECLARE
  v_is_pending boolean;
  v_issued boolean;
  v_terminal record;
  v_detail jsonb;
  v_event_type text := 'LATE_OUTCOME';
  v_event record;
BEGIN
  PERFORM check_outbox_leases(ARRAY[p_outbox_id], ARRAY[p_lease_token], p_worker_id);
  PERFORM check_outbox_outcomes(1, ARRAY[p_state], ARRAY[p_rail_reference], ARRAY[p_rail_code], ARRAY[p_error_code],
    ARRAY[p_error_message], ARRAY[p_latency_ms], NULL, NULL, NULL, NULL);
  PERFORM lock_outbox_payment(p_outbox_id);
  v_is_pending := lock_outbox_item(p_outbox_id);
  SELECT EXISTS (
      SELECT 1 FROM payment_outbox_pending p
      WHERE p.outbox_id = p_outbox_id AND p.lease_token = p_lease_token AND p.claimed_by = p_worker_id)
    OR EXISTS (
      SELECT 1 FROM payment_outbox_attempts a
      WHERE a.outbox_id = p_outbox_id AND a.lease_token = p_lease_token AND a.worker_id = p_worker_id)
  INTO v_issued;
  IF NOT v_issued THEN
    PERFORM raise_lease_lost(p_outbox_id, p_lease_token);
  END IF;

  v_detail := jsonb_strip_nulls(jsonb_build_object('state', p_state, 'rail_reference', p_rail_reference,
    'rail_code', p_rail_code, 'error_code', p_error_code, 'error_message', p_error_message, 'latency_ms', p_latency_ms,
    'lease_token_hash', encode(sha256(uuid_send(p_lease_token)), 'hex')));
  SELECT a.attempt_id, a.state, a.rail_reference INTO v_terminal
  FROM payment_outbox_attempts a WHERE a.outbox_id = p_outbox_id AND a.state IN ('DISPATCHED', 'FAILED');
  -- RETRYABLE contradicts no outcome. Another terminal outcome, or another rail reference, does.
  IF v_terminal.attempt_id IS NOT NULL AND p_state <> 'RETRYABLE'
    AND (v_terminal.state::text <> p_state OR v_terminal.rail_reference IS DISTINCT FROM p_rail_reference)
  THEN
    v_event_type := 'TERMINAL_BLOCKED';
  END IF;

  -- A worker repeats its report if the answer was lost; the repeat appends no event. If a contradicting outcome was
  -- recorded meanwhile, the repeat has another event type and is appended. The detail contains the hash of the lease
  -- token, so reports of two claims differ.
  SELECT e.event_id, e.event_type INTO v_event FROM payment_outbox_events e
  WHERE e.outbox_id = p_outbox_id AND e.event_type = v_event_type AND e.detail = v_detail
  ORDER BY e.event_no LIMIT 1;
  IF v_event.event_id IS NOT NULL THEN
    RETURN QUERY SELECT v_event.event_id, v_event.event_type;
    RETURN;
  END IF;

  IF v_is_pending THEN
    -- No later report replaces a stored success. A success also sets outcome_unknown: while the outcome is unknown, a
    -- rule that would make the item FAILED holds it instead (complete.sql).
    UPDATE payment_outbox_pending p
    SET late_outcome = CASE WHEN p.late_outcome ->> 'state' = 'DISPATCHED' THEN p.late_outcome ELSE v_detail END,
      outcome_unknown = p.outcome_unknown OR p_state = 'DISPATCHED'
    WHERE p.outbox_id = p_outbox_id;
  END IF;
  IF v_event_type = 'TERMINAL_BLOCKED' AND p_state = 'DISPATCHED' THEN
    PERFORM hold_outbox_redrives(p_outbox_id, p_worker_id);
  END IF;
  BEGIN
    IF v_event_type = 'TERMINAL_BLOCKED' THEN
      RETURN QUERY
      SELECT e, v_event_type
      FROM record_outbox_contradictions(
        p_worker_id, ARRAY[p_outbox_id], ARRAY[v_detail], ARRAY[v_terminal.attempt_id]) e;
    ELSE
      RETURN QUERY
      SELECT e, v_event_type
      FROM append_outbox_events(
        v_event_type, p_worker_id, ARRAY[p_outbox_id], ARRAY[v_detail], ARRAY[v_terminal.attempt_id]) e;
    END IF;
  EXCEPTION WHEN unique_violation THEN
    -- Another event of the item has taken this number. The lock on the item excludes a concurrent event, so the
    -- snapshot of this transaction must be older than the lock and misses that event.
    RAISE EXCEPTION 'outbox item %: another event was recorded at the same time', p_outbox_id
      USING ERRCODE = 'serialization_failure', HINT = 'Retry the transaction, or run it under READ COMMITTED.';
  END;
END
$$;
COMMENT ON FUNCTION record_late_outcome(uuid, uuid, text, text, text, text, text, text, integer) IS
  'Records a late outcome; TERMINAL_BLOCKED if it contradicts the recorded one. Changes no outcome.';

-- Takes the lock that orders all changes of one item: its pending row, or its identity once it is terminal.
CREATE OR REPLACE FUNCTION lock_outbox_item(p_outbox_id uuid) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
#variable_conflict use_column
BEGIN
  PERFORM 1 FROM payment_outbox_pending p WHERE p.outbox_id = p_outbox_id FOR UPDATE;
  IF FOUND THEN
    RETURN true;
  END IF;
  PERFORM 1 FROM payment_outbox_identities i WHERE i.outbox_id = p_outbox_id FOR NO KEY UPDATE;
  RETURN false;
END
$$;
COMMENT ON FUNCTION lock_outbox_item(uuid) IS 'Internal: locks an item; returns true if it is pending.';
