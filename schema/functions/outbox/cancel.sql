-- Cancel: ends an item that no call can still pay, as FAILED with the error code CANCELLED.
--
-- The holder of a lease may be in a call to the rail, even after the lease has expired. Repair or a takeover then
-- records the expiry with an unknown outcome. So an item with a lease, live or expired, cannot be cancelled. A claim
-- and a cancel both lock the row, and the second sees the change of the first: exactly one of them wins.
--
-- The error code of a worker's FAILED is free text and may also be CANCELLED. Only the action `cancelled` identifies a
-- cancellation.

CREATE OR REPLACE FUNCTION cancel_outbox_item(p_outbox_id uuid, p_reason text)
RETURNS TABLE (outbox_id uuid, attempt_id uuid)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
#variable_conflict use_column
BEGIN
  PERFORM require_read_committed();
  PERFORM require_operator_arguments(p_outbox_id, p_reason);
  RETURN QUERY SELECT c.outbox_id, c.attempt_id FROM cancel_unsent_outbox_item(p_outbox_id, false, p_reason) c;
END
$$;
COMMENT ON FUNCTION cancel_outbox_item(uuid, text) IS
  'Cancels an item without a lease that was never sent or only refused definitely, in the caller''s transaction. '
  'Raises P7013 if a call may still pay it, or if it is terminal; DETAIL has the reason.';

CREATE OR REPLACE FUNCTION cancel_outbox_instruction(p_instruction_id text, p_idempotency_key text, p_reason text)
RETURNS TABLE (outbox_id uuid, attempt_id uuid)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
#variable_conflict use_column
DECLARE
  v_outbox_id uuid;
BEGIN
  PERFORM require_read_committed();
  PERFORM check_id('p_instruction_id', p_instruction_id);
  IF NOT is_id(p_idempotency_key) OR p_idempotency_key <> outbox_base_key(p_idempotency_key) THEN
    PERFORM refuse_argument('p_idempotency_key', 'the key with which the payment was enqueued');
  END IF;
  PERFORM check_text('p_reason', p_reason, 1000);
  SELECT i.outbox_id INTO v_outbox_id FROM payment_outbox_identities i
  WHERE i.instruction_id = p_instruction_id AND i.idempotency_key = p_idempotency_key;
  IF v_outbox_id IS NULL THEN
    PERFORM refuse_argument('p_instruction_id', 'the instruction of an existing item with this idempotency key');
  END IF;
  RETURN QUERY SELECT c.outbox_id, c.attempt_id FROM cancel_unsent_outbox_item(v_outbox_id, true, p_reason) c;
END
$$;
COMMENT ON FUNCTION cancel_outbox_instruction(text, text, text) IS
  'Cancels the newest item of a payment, like cancel_outbox_item. The payment is named by instruction id and key.';

CREATE OR REPLACE FUNCTION cancel_unsent_outbox_item(p_outbox_id uuid, p_newest boolean, p_reason text)
RETURNS TABLE (outbox_id uuid, attempt_id uuid)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
#variable_conflict use_column
DECLARE
  v_actor text;
  v_outbox_id uuid := p_outbox_id;
  v_proposal payment_outbox_proposals;
  v_attempt_id uuid;
BEGIN
  -- A gateway cancels its own messages, such as notices of alerts, without a person. It enqueues them without one, too.
  v_actor := CASE
    WHEN concat(current_setting('symphony.api_key', true), current_setting('symphony.actor', true)) = ''
      AND EXISTS (SELECT 1 FROM payment_outbox_identities i WHERE i.outbox_id = p_outbox_id AND i.is_message)
    THEN session_user::text
    ELSE outbox_actor('{ingest,operate}')
  END;
  -- Locks proposal, payment and item in the same order as an approval.
  PERFORM 1 FROM payment_outbox_proposals q
  WHERE q.status = 'OPEN' AND q.outbox_id = ANY (ARRAY(SELECT i.outbox_id FROM outbox_payment_items(p_outbox_id) i))
  ORDER BY q.proposal_id FOR UPDATE;
  PERFORM lock_outbox_payment(p_outbox_id);
  IF p_newest THEN
    SELECT i.outbox_id INTO v_outbox_id FROM outbox_payment_items(p_outbox_id) i ORDER BY i.sequence_id DESC LIMIT 1;
  END IF;
  PERFORM lock_outbox_item(v_outbox_id);
  PERFORM require_cancellable_item(v_outbox_id, v_actor);
  UPDATE payment_outbox_proposals q SET status = 'WITHDRAWN', decided_by = v_actor, decided_at = clock_timestamp()
  WHERE q.outbox_id = v_outbox_id AND q.status = 'OPEN'
  RETURNING * INTO v_proposal;
  IF FOUND THEN
    PERFORM append_outbox_events('DECISION_WITHDRAWN', v_actor, ARRAY[v_outbox_id], ARRAY[jsonb_build_object(
      'proposal_id', v_proposal.proposal_id, 'decision', v_proposal.decision, 'reason', p_reason)]);
  END IF;
  v_attempt_id := end_outbox_item(v_outbox_id, 'FAILED', 'cancelled', 'CANCELLED', p_reason, NULL, v_actor);
  PERFORM record_completion_events(ARRAY[v_attempt_id], v_actor, clock_timestamp(), s.full_trail)
  FROM symphony_settings s WHERE s.full_trail;
  RETURN QUERY SELECT v_outbox_id, v_attempt_id;
END
$$;
COMMENT ON FUNCTION cancel_unsent_outbox_item(uuid, boolean, text) IS
  'Internal: cancels this item, or the newest item of its payment, and withdraws its open proposal; or raises P7013.';

CREATE OR REPLACE FUNCTION require_cancellable_item(p_outbox_id uuid, p_actor text) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
#variable_conflict use_column
DECLARE
  v_item payment_outbox_pending;
BEGIN
  SELECT * INTO v_item FROM payment_outbox_pending p WHERE p.outbox_id = p_outbox_id;
  IF v_item.outbox_id IS NULL THEN
    PERFORM raise_not_cancellable(p_outbox_id, (
      SELECT CASE WHEN a.action = 'cancelled' THEN 'CANCELLED' ELSE a.state::text END
      FROM payment_outbox_attempts a WHERE a.outbox_id = p_outbox_id AND a.state IN ('DISPATCHED', 'FAILED')));
  ELSIF v_item.is_message AND v_item.outcome_topic IS NOT NULL THEN
    PERFORM raise_not_cancellable(p_outbox_id, 'OUTCOME_MESSAGE');
  ELSIF v_item.lease_token IS NOT NULL THEN
    PERFORM raise_not_cancellable(p_outbox_id, 'LEASED');
  -- Refuses also if a late report says that the rail paid an earlier item for the same debt: after a cancellation the
  -- application would pay that debt again.
  ELSIF v_item.late_outcome IS NOT NULL OR late_paid_item(p_outbox_id) IS NOT NULL THEN
    PERFORM raise_not_cancellable(p_outbox_id, 'LATE_OUTCOME');
  ELSIF v_item.outcome_unknown THEN
    PERFORM raise_not_cancellable(p_outbox_id, 'OUTCOME_UNKNOWN');
  -- The outcome of an item that was pending at the freeze is unknown, also before a heartbeat has marked it. If no
  -- worker has called since a restore, current_dispatch_epoch begins the epoch here, which may freeze dispatch.
  ELSIF (SELECT e.frozen AND v_item.created_at <= e.frozen_at FROM current_dispatch_epoch(p_actor) e) THEN
    PERFORM raise_not_cancellable(p_outbox_id, 'DISPATCH_FROZEN');
  END IF;
END
$$;
COMMENT ON FUNCTION require_cancellable_item(uuid, text) IS
  'Internal: raises P7013 for a locked item that is terminal, or that a call may have paid or may still pay.';

CREATE OR REPLACE FUNCTION raise_not_cancellable(p_outbox_id uuid, p_reason text) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
BEGIN
  RAISE EXCEPTION 'NOT_CANCELLABLE: outbox item %: %', p_outbox_id, CASE p_reason
      WHEN 'CANCELLED' THEN 'it was cancelled before'
      WHEN 'OUTCOME_MESSAGE' THEN 'it tells the application the outcome of a payment'
      WHEN 'LEASED' THEN 'a worker has claimed it and may pay it'
      WHEN 'LATE_OUTCOME' THEN 'a worker reported a result after it had lost its lease'
      WHEN 'OUTCOME_UNKNOWN' THEN 'the rail may have paid it'
      WHEN 'DISPATCH_FROZEN' THEN 'dispatch is frozen, and the rail may have paid it before the freeze'
      ELSE format('it has ended as %s', p_reason)
    END
    USING ERRCODE = 'P7013', DETAIL = json_build_object('reason', p_reason)::text, HINT = CASE p_reason
      WHEN 'CANCELLED' THEN 'Nothing is left to do.'
      WHEN 'DISPATCHED' THEN 'Ask the payee or the rail to return the money, and record the return.'
      WHEN 'FAILED' THEN 'It was not paid, and nothing sends it again. If it was redriven, cancel the redrive.'
      WHEN 'OUTCOME_MESSAGE' THEN 'Hold it; then two people can end it (symphony holds resolve --decision failed).'
      WHEN 'LEASED' THEN 'Wait for its outcome. If it is pending again without a lease, cancel it then.'
      WHEN 'DISPATCH_FROZEN' THEN 'Hold it before the freeze is lifted, and let two people decide '
        '(symphony holds place, symphony holds resolve).'
      ELSE 'Compare it with the records of the rail. To end it, hold it, and let two people decide '
        '(symphony holds place, symphony holds resolve).'
    END;
END
$$;
COMMENT ON FUNCTION raise_not_cancellable(uuid, text) IS
  'Internal: raises P7013 with the reason in DETAIL and the remedy in HINT.';
