-- Operator actions: holds and decisions of two people. Each action appends an event.
--
-- A hold only prevents claims. One person resolves a hold by RETRY if the outcome is known. A decision about money
-- takes two people: DISPATCHED (it was paid), FAILED (it was not), REDRIVE of a FAILED item, and RETRY of an unknown
-- outcome, of a payment that a person entered, or above a limit that asks for two. The first proposes; the second
-- approves in a later transaction. Two people must approve a decision that a reconciliation proposed, and a payment
-- that a person entered above a limit that asks for two.

CREATE OR REPLACE FUNCTION place_outbox_hold(p_outbox_id uuid, p_reason text) RETURNS uuid
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
#variable_conflict use_column
DECLARE
  v_actor text := outbox_actor();
  v_held_at timestamptz;
  v_event_id uuid;
BEGIN
  PERFORM require_operator_arguments(p_outbox_id, p_reason);
  IF NOT lock_outbox_item(p_outbox_id) THEN
    PERFORM raise_already_terminal(p_outbox_id);
  END IF;
  UPDATE payment_outbox_pending p
  SET hold_reason = p_reason, held_by = v_actor, held_at = clock_timestamp()
  WHERE p.outbox_id = p_outbox_id AND p.hold_reason IS NULL
  RETURNING p.held_at INTO v_held_at;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'HELD: outbox item %: it is held already', p_outbox_id
      USING ERRCODE = 'P7006', HINT = 'Resolve the hold with resolve_outbox_hold (symphony holds resolve).';
  END IF;
  SELECT e INTO v_event_id
  FROM append_outbox_events('HOLD_PLACED', v_actor, ARRAY[p_outbox_id], ARRAY[
    outbox_hold_detail(p_reason, v_held_at) || '{"by_operator": true}']) e;
  RETURN v_event_id;
END
$$;
COMMENT ON FUNCTION place_outbox_hold(uuid, text) IS
  'Prevents claims of an item until its hold is resolved. A live lease continues and may still complete the item.';

CREATE OR REPLACE FUNCTION note_outbox_item(p_outbox_id uuid, p_note text, p_assignee text DEFAULT NULL) RETURNS uuid
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
#variable_conflict use_column
DECLARE
  v_actor text := outbox_actor();
  v_assignee text := p_assignee;
  v_event_id uuid;
BEGIN
  -- A snapshot from before the lock could miss the latest note, and with it the assignee to keep.
  PERFORM require_read_committed();
  PERFORM check_text('p_note', p_note, 1000);
  PERFORM require_operator_arguments(p_outbox_id, p_note);
  IF p_assignee <> '' AND NOT is_person_name(p_assignee) THEN
    PERFORM refuse_argument('p_assignee',
      'the name of a person, 1 to 200 characters, some visible, without space at either end, without " via "; '
      'empty for nobody; null for no change');
  END IF;
  PERFORM lock_outbox_item(p_outbox_id);
  IF p_assignee IS NULL THEN
    SELECT e.detail ->> 'assignee' INTO v_assignee FROM payment_outbox_events e
    WHERE e.outbox_id = p_outbox_id AND e.event_type = 'NOTE_ADDED' ORDER BY e.event_no DESC LIMIT 1;
  END IF;
  SELECT e INTO v_event_id
  FROM append_outbox_events('NOTE_ADDED', v_actor, ARRAY[p_outbox_id],
    ARRAY[jsonb_strip_nulls(jsonb_build_object('note', p_note, 'assignee', NULLIF(v_assignee, '')))]) e;
  RETURN v_event_id;
END
$$;
COMMENT ON FUNCTION note_outbox_item(uuid, text, text) IS
  'Appends a note to an item in any state. Each note keeps the assignee, sets another one, or clears it by an empty '
  'name. The item does not change.';

CREATE OR REPLACE FUNCTION resolve_outbox_hold(
  p_outbox_id uuid, p_decision text, p_reason text, p_rail_reference text DEFAULT NULL
) RETURNS TABLE (status text, proposal_id uuid)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
#variable_conflict use_column
DECLARE
  v_actor text := outbox_actor();
  v_needs_two boolean;
BEGIN
  PERFORM require_read_committed();
  PERFORM require_operator_arguments(p_outbox_id, p_reason);
  IF p_decision IS NULL OR p_decision NOT IN ('DISPATCHED', 'FAILED', 'RETRY') THEN
    PERFORM refuse_argument('p_decision', 'DISPATCHED, FAILED or RETRY');
  END IF;
  IF p_decision = 'DISPATCHED' AND NOT is_short_text(p_rail_reference, 255) THEN
    PERFORM refuse_argument('p_rail_reference', 'the reference under which the rail paid, of 1 to 255 characters');
  END IF;
  IF p_decision <> 'DISPATCHED' AND p_rail_reference IS NOT NULL THEN
    PERFORM refuse_argument('p_rail_reference', 'null unless the decision is DISPATCHED');
  END IF;
  v_needs_two := lock_held_outbox_item(p_outbox_id, v_actor, p_decision);
  PERFORM require_no_open_proposal(p_outbox_id);
  IF p_decision = 'RETRY' AND NOT v_needs_two THEN
    PERFORM apply_outbox_decision(p_outbox_id, p_decision, p_reason, NULL, v_actor, NULL);
    RETURN QUERY SELECT 'APPLIED', NULL::uuid;
    RETURN;
  END IF;
  RETURN QUERY
  SELECT 'PROPOSED', propose_outbox_decision(p_outbox_id, p_decision, p_reason, p_rail_reference, v_actor);
END
$$;
COMMENT ON FUNCTION resolve_outbox_hold(uuid, text, text, text) IS
  'Resolves a hold. Applies RETRY at once if the outcome is known and the hold does not ask for two people; proposes '
  'any other decision to a second person.';

CREATE OR REPLACE FUNCTION approve_outbox_proposal(p_proposal_id uuid)
RETURNS TABLE (outbox_id uuid, decision text, redriven_as uuid, applied boolean)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
#variable_conflict use_column
DECLARE
  v_actor text := outbox_actor();
  v_proposal payment_outbox_proposals;
  v_position bigint;
  v_redriven_as uuid;
BEGIN
  PERFORM require_read_committed();
  v_proposal := lock_open_outbox_proposal(p_proposal_id);
  PERFORM require_second_person(p_proposal_id, v_proposal.proposed_by, v_proposal.proposed_xid, v_actor);
  IF v_proposal.approvals = 2 THEN
    IF v_proposal.first_approved_by IS NULL THEN
      UPDATE payment_outbox_proposals q SET first_approved_by = v_actor WHERE q.proposal_id = p_proposal_id;
      PERFORM lock_outbox_item(v_proposal.outbox_id);
      PERFORM append_outbox_events('DECISION_APPROVED', v_actor, ARRAY[v_proposal.outbox_id],
        ARRAY[jsonb_build_object('proposal_id', p_proposal_id, 'decision', v_proposal.decision)]);
      RETURN QUERY SELECT v_proposal.outbox_id, v_proposal.decision, NULL::uuid, false;
      RETURN;
    END IF;
    IF person_key(v_proposal.first_approved_by) = person_key(v_actor) THEN
      RAISE EXCEPTION 'APPROVAL_REQUIRED: proposal %: it needs a second approver, and % approved it already',
        p_proposal_id, v_proposal.first_approved_by
        USING ERRCODE = 'P7007', HINT = 'Another person must approve it, with their own login or API key.';
    END IF;
  END IF;
  IF v_proposal.decision = 'REDRIVE' THEN
    v_position := lock_redrivable_outbox_item(v_proposal.outbox_id);
    v_redriven_as := create_outbox_redrive(v_proposal.outbox_id, v_position, v_proposal.reason, v_proposal.proposed_by,
      v_actor);
  ELSE
    PERFORM lock_held_outbox_item(v_proposal.outbox_id, v_actor, v_proposal.decision);
    PERFORM apply_outbox_decision(v_proposal.outbox_id, v_proposal.decision, v_proposal.reason,
      v_proposal.rail_reference, v_actor, v_proposal.proposed_by);
  END IF;
  UPDATE payment_outbox_proposals q SET status = 'APPROVED', decided_by = v_actor, decided_at = clock_timestamp()
  WHERE q.proposal_id = p_proposal_id;
  RETURN QUERY SELECT v_proposal.outbox_id, v_proposal.decision, v_redriven_as, true;
END
$$;
COMMENT ON FUNCTION approve_outbox_proposal(uuid) IS
  'Approves a proposed decision and applies it. The proposer may not approve (P7007). A proposal that needs two '
  'approvers is applied when a second person has approved.';

CREATE OR REPLACE FUNCTION withdraw_outbox_proposal(p_proposal_id uuid, p_reason text) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
#variable_conflict use_column
DECLARE
  v_actor text := outbox_actor();
  v_proposal payment_outbox_proposals;
BEGIN
  v_proposal := lock_open_outbox_proposal(p_proposal_id);
  PERFORM require_operator_arguments(v_proposal.outbox_id, p_reason);
  PERFORM lock_outbox_item(v_proposal.outbox_id);
  UPDATE payment_outbox_proposals q SET status = 'WITHDRAWN', decided_by = v_actor, decided_at = clock_timestamp()
  WHERE q.proposal_id = p_proposal_id;
  PERFORM append_outbox_events('DECISION_WITHDRAWN', v_actor, ARRAY[v_proposal.outbox_id],
    ARRAY[jsonb_build_object('proposal_id', p_proposal_id, 'decision', v_proposal.decision, 'reason', p_reason)]);
END
$$;
COMMENT ON FUNCTION withdraw_outbox_proposal(uuid, text) IS
  'Withdraws or refuses an open proposal; the item does not change.';

-- A transaction-wide snapshot would hide another actor's open proposal, or a late report that the rail paid.
CREATE OR REPLACE FUNCTION require_read_committed() RETURNS void
LANGUAGE plpgsql STABLE SET search_path FROM CURRENT
AS $$
BEGIN
  IF current_setting('transaction_isolation') <> 'read committed' THEN
    RAISE EXCEPTION 'this call needs READ COMMITTED; this transaction runs under %',
      upper(current_setting('transaction_isolation'))
      USING ERRCODE = 'serialization_failure', HINT = 'Run the call in a READ COMMITTED transaction.';
  END IF;
END
$$;
COMMENT ON FUNCTION require_read_committed() IS
  'Internal: raises 40001 unless the transaction runs under READ COMMITTED.';

CREATE OR REPLACE FUNCTION require_second_person(
  p_proposal_id uuid, p_proposed_by text, p_proposed_xid xid8, p_actor text
) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
BEGIN
  IF person_key(p_proposed_by) = person_key(p_actor) THEN
    RAISE EXCEPTION 'APPROVAL_REQUIRED: proposal %: it needs a second person, and % proposed it', p_proposal_id,
      p_proposed_by
      USING ERRCODE = 'P7007', HINT = 'Another person must approve it, with their own login or API key.';
  END IF;
  IF p_proposed_xid = pg_current_xact_id() THEN
    RAISE EXCEPTION 'APPROVAL_REQUIRED: proposal %: it must be committed before anyone can approve it', p_proposal_id
      USING ERRCODE = 'P7007', HINT = 'Commit the proposal; approve it in a later transaction.';
  END IF;
END
$$;
COMMENT ON FUNCTION require_second_person(uuid, text, xid8, text) IS
  'Internal: raises P7007 unless another person approves, in a later transaction than the proposal.';

CREATE OR REPLACE FUNCTION require_operator_arguments(p_outbox_id uuid, p_reason text) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
#variable_conflict use_column
BEGIN
  IF NOT is_short_text(p_reason, 1000) THEN
    PERFORM refuse_argument('p_reason', 'text of 1 to 1000 characters');
  END IF;
  IF p_outbox_id IS NULL OR NOT EXISTS (SELECT 1 FROM payment_outbox_identities i WHERE i.outbox_id = p_outbox_id) THEN
    PERFORM refuse_argument('p_outbox_id', 'the id of an outbox item');
  END IF;
END
$$;
COMMENT ON FUNCTION require_operator_arguments(uuid, text) IS
  'Internal: raises 22023 unless the item exists and a reason is given.';

CREATE OR REPLACE FUNCTION raise_already_terminal(p_outbox_id uuid) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
#variable_conflict use_column
DECLARE
  v_state text;
  v_cancelled boolean;
BEGIN
  SELECT a.state::text, a.action = 'cancelled' INTO v_state, v_cancelled FROM payment_outbox_attempts a
  WHERE a.outbox_id = p_outbox_id AND a.state IN ('DISPATCHED', 'FAILED');
  IF v_cancelled THEN
    RAISE EXCEPTION 'ALREADY_TERMINAL: outbox item %: it was cancelled', p_outbox_id
      USING ERRCODE = 'P7001', HINT = 'A cancelled payment is not sent again. Enqueue a new instruction that names it '
        'in replaces.';
  END IF;
  RAISE EXCEPTION 'ALREADY_TERMINAL: outbox item %: it has ended as %', p_outbox_id, COALESCE(v_state, 'unknown')
    USING ERRCODE = 'P7001', HINT = 'A terminal outcome is final. Redrive a FAILED payment with redrive_outbox_item.';
END
$$;
COMMENT ON FUNCTION raise_already_terminal(uuid) IS 'Internal: raises P7001 with the terminal state of the item.';

CREATE OR REPLACE FUNCTION lock_open_outbox_proposal(p_proposal_id uuid) RETURNS payment_outbox_proposals
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
#variable_conflict use_column
DECLARE
  v_proposal payment_outbox_proposals;
BEGIN
  SELECT * INTO v_proposal FROM payment_outbox_proposals q WHERE q.proposal_id = p_proposal_id FOR UPDATE;
  IF v_proposal.proposal_id IS NULL THEN
    PERFORM refuse_argument('p_proposal_id', 'the id of a proposal');
  END IF;
  IF v_proposal.status <> 'OPEN' THEN
    RAISE EXCEPTION 'HELD: proposal %: it was % by %', p_proposal_id, lower(v_proposal.status), v_proposal.decided_by
      USING ERRCODE = 'P7006', HINT = format('Nothing is left to decide. See the payment: symphony show %s.',
        v_proposal.outbox_id);
  END IF;
  RETURN v_proposal;
END
$$;
COMMENT ON FUNCTION lock_open_outbox_proposal(uuid) IS 'Internal: locks an open proposal, or raises 22023 or P7006.';

-- Locks a held item for a decision, and returns whether even a RETRY needs two people: the outcome is unknown, or a
-- hold asks for two approvals.
CREATE OR REPLACE FUNCTION lock_held_outbox_item(p_outbox_id uuid, p_actor text, p_decision text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
#variable_conflict use_column
DECLARE
  v_item payment_outbox_pending;
  v_paid_as uuid;
BEGIN
  PERFORM lock_outbox_payment(p_outbox_id);
  IF NOT lock_outbox_item(p_outbox_id) THEN
    PERFORM raise_already_terminal(p_outbox_id);
  END IF;
  -- Records an expired lease in the ledger before the decision.
  PERFORM expire_outbox_leases(ARRAY[p_outbox_id], p_actor, true);
  SELECT * INTO v_item FROM payment_outbox_pending p WHERE p.outbox_id = p_outbox_id;
  IF v_item.lease_token IS NOT NULL THEN
    RAISE EXCEPTION 'HELD: outbox item %: worker % has leased it', p_outbox_id, v_item.claimed_by
      USING ERRCODE = 'P7006', HINT = 'Decide when the worker has completed the item or its lease has expired.';
  END IF;
  IF v_item.hold_reason IS NULL THEN
    RAISE EXCEPTION 'HELD: outbox item %: it is not held', p_outbox_id
      USING ERRCODE = 'P7006', HINT = 'Place a hold first, so that no worker sends it before the decision.';
  END IF;
  IF p_decision <> 'DISPATCHED' AND v_item.late_outcome ->> 'state' = 'DISPATCHED' THEN
    RAISE EXCEPTION 'HELD: outbox item %: a worker reported late that the rail paid it', p_outbox_id
      USING ERRCODE = 'P7006', HINT = 'Check the reported reference with the rail, then decide DISPATCHED.';
  END IF;
  v_paid_as := late_paid_item(p_outbox_id);
  IF p_decision = 'RETRY' AND v_paid_as IS NOT NULL THEN
    RAISE EXCEPTION 'HELD: outbox item %: a worker reported late that the rail paid the same payment as item %',
      p_outbox_id, v_paid_as
      USING ERRCODE = 'P7006',
        HINT = 'Sending it could pay twice. To end it without sending, two people decide FAILED.';
  END IF;
  RETURN v_item.outcome_unknown OR COALESCE(outbox_hold_placed(p_outbox_id) -> 'approvals' = '2', false);
END
$$;
COMMENT ON FUNCTION lock_held_outbox_item(uuid, text, text) IS 'Internal: locks a held item, or raises P7001 or P7006.';

-- While a proposal is open, no other decision about the item is allowed: the approver must decide about the same state
-- as the proposer.
CREATE OR REPLACE FUNCTION require_no_open_proposal(p_outbox_id uuid) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
#variable_conflict use_column
DECLARE
  v_open payment_outbox_proposals;
BEGIN
  SELECT * INTO v_open FROM payment_outbox_proposals q WHERE q.outbox_id = p_outbox_id AND q.status = 'OPEN';
  IF v_open.proposal_id IS NOT NULL THEN
    RAISE EXCEPTION 'HELD: outbox item %: % has proposed % already', p_outbox_id, v_open.proposed_by, v_open.decision
      USING ERRCODE = 'P7006', HINT = format('Approve or withdraw proposal %s.', v_open.proposal_id);
  END IF;
END
$$;
COMMENT ON FUNCTION require_no_open_proposal(uuid) IS
  'Internal: raises P7006 if a proposal about the item is open.';

CREATE OR REPLACE FUNCTION propose_outbox_decision(
  p_outbox_id uuid, p_decision text, p_reason text, p_rail_reference text, p_actor text, p_approvals integer DEFAULT 1
) RETURNS uuid
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
#variable_conflict use_column
DECLARE
  v_proposal_id uuid := uuid_v7();
BEGIN
  INSERT INTO payment_outbox_proposals
    (proposal_id, outbox_id, decision, reason, rail_reference, proposed_by, proposed_at, proposed_xid,
      approvals)
  VALUES (v_proposal_id, p_outbox_id, p_decision, p_reason, p_rail_reference, p_actor, clock_timestamp(),
    pg_current_xact_id(), p_approvals);
  PERFORM append_outbox_events(CASE p_decision WHEN 'REDRIVE' THEN 'REDRIVE_PROPOSED' ELSE 'DECISION_PROPOSED' END,
    p_actor, ARRAY[p_outbox_id], ARRAY[jsonb_strip_nulls(jsonb_build_object('proposal_id', v_proposal_id,
      'decision', p_decision, 'reason', p_reason, 'rail_reference', p_rail_reference))]);
  RETURN v_proposal_id;
END
$$;
COMMENT ON FUNCTION propose_outbox_decision(uuid, text, text, text, text, integer) IS
  'Internal: writes a proposal and its event.';

CREATE OR REPLACE FUNCTION apply_outbox_decision(
  p_outbox_id uuid, p_decision text, p_reason text, p_rail_reference text, p_actor text, p_proposed_by text
) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
#variable_conflict use_column
DECLARE
  v_now timestamptz := clock_timestamp();
  v_due timestamptz;
  v_attempt_id uuid;
  v_contradiction jsonb;
BEGIN
  IF p_decision = 'RETRY' THEN
    PERFORM count_released_outbox_item(p_outbox_id);
    UPDATE payment_outbox_pending p
    SET hold_reason = NULL, held_by = NULL, held_at = NULL, outcome_unknown = false, expiry_streak = 0,
      -- Ends a backoff. An item without an attempt keeps the time that the application gave it.
      next_attempt_at = CASE p.attempt_count WHEN 0 THEN p.next_attempt_at ELSE LEAST(p.next_attempt_at, v_now) END
    WHERE p.outbox_id = p_outbox_id
    RETURNING p.next_attempt_at INTO v_due;
    PERFORM wake_outbox_workers();
  ELSE
    IF p_decision = 'DISPATCHED' THEN
      SELECT contradicting_late_success(p.late_outcome, p_rail_reference) INTO v_contradiction
      FROM payment_outbox_pending p WHERE p.outbox_id = p_outbox_id;
    END IF;
    v_attempt_id := end_outbox_item(p_outbox_id, p_decision, 'decided', 'OPERATOR_DECISION', p_reason,
      p_rail_reference, p_actor);
  END IF;
  PERFORM append_outbox_events('HOLD_RESOLVED', p_actor, ARRAY[p_outbox_id], ARRAY[jsonb_strip_nulls(jsonb_build_object(
    'decision', p_decision, 'reason', p_reason, 'rail_reference', p_rail_reference, 'proposed_by', p_proposed_by,
    'approved_by', CASE WHEN p_proposed_by IS NOT NULL THEN p_actor END, 'next_attempt_at', epoch_micros(v_due)))],
    ARRAY[v_attempt_id]);
  IF v_contradiction IS NOT NULL THEN
    PERFORM record_outbox_contradictions(p_actor, ARRAY[p_outbox_id], ARRAY[v_contradiction], ARRAY[v_attempt_id]);
  END IF;
END
$$;
COMMENT ON FUNCTION apply_outbox_decision(uuid, text, text, text, text, text) IS
  'Internal: makes a held item terminal, with its ledger row, or requeues it; appends the event.';

-- Makes an item terminal by a decision of people or by a cancellation. The caller has locked the item.
CREATE OR REPLACE FUNCTION end_outbox_item(
  p_outbox_id uuid, p_state text, p_action text, p_error_code text, p_reason text, p_rail_reference text, p_actor text
) RETURNS uuid
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
#variable_conflict use_column
DECLARE
  v_now timestamptz := clock_timestamp();
  v_attempt_id uuid;
  v_ordered boolean;
  v_is_message boolean;
  v_participant_id text;
  v_position bigint;
  v_unverified boolean;
BEGIN
  WITH ended AS MATERIALIZED (
    DELETE FROM payment_outbox_pending p WHERE p.outbox_id = p_outbox_id RETURNING p.*
  ), recorded AS (
    INSERT INTO payment_outbox_attempts
      (attempt_id, outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type, payload,
        attempt_no, state, completed_at, rail_reference, error_code, error_message, worker_id, created_at, action,
        outcome_unknown)
    SELECT uuid_v7(), e.outbox_id, e.instruction_id, e.participant_id, e.sequence_id, e.idempotency_key, e.rail_type,
      e.payload, COALESCE(last.attempt_no, 0) + 1, p_state::outbox_attempt_state, v_now, p_rail_reference, p_error_code,
      p_reason, p_actor, v_now, p_action, false
    FROM ended e
    LEFT JOIN LATERAL (
      SELECT a.attempt_no FROM payment_outbox_attempts a
      WHERE a.outbox_id = e.outbox_id ORDER BY a.attempt_no DESC LIMIT 1
    ) last ON true
    RETURNING attempt_id
  )
  SELECT r.attempt_id, e.ordered, e.is_message, e.participant_id, COALESCE(e.stream_position, e.sequence_id),
    e.block_unverified
  INTO v_attempt_id, v_ordered, v_is_message, v_participant_id, v_position, v_unverified
  FROM recorded r CROSS JOIN ended e;
  INSERT INTO outbox_attempt_tallies (recorded_at, is_message, dispatched, failed, cancelled)
  VALUES (v_now, v_is_message, (p_state = 'DISPATCHED')::integer, (p_state = 'FAILED')::integer,
    (p_action = 'cancelled')::integer);
  IF v_ordered THEN
    PERFORM settle_ordered_heads(ARRAY[v_attempt_id]);
    -- The completion of the head leaves an unverified item to its verification, and so does not reach the items behind.
    IF v_unverified THEN
      PERFORM mark_next_blocked_item(v_participant_id, v_position);
    END IF;
  END IF;
  PERFORM send_outcome_messages(NULL, NULL, ARRAY[v_attempt_id], NULL);
  RETURN v_attempt_id;
END
$$;
COMMENT ON FUNCTION end_outbox_item(uuid, text, text, text, text, text, text) IS
  'Internal: appends the terminal attempt of a decision or a cancellation, removes the item from the queue and '
  'advances its ordered stream; returns the id of the attempt.';
