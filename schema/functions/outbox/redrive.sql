-- Redrive: two people decide to send a FAILED payment again, as a new item that refers to the old one.

CREATE OR REPLACE FUNCTION redrive_outbox_item(p_outbox_id uuid, p_reason text)
RETURNS TABLE (status text, proposal_id uuid)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
#variable_conflict use_column
DECLARE
  v_actor text := outbox_actor();
BEGIN
  PERFORM require_read_committed();
  PERFORM require_operator_arguments(p_outbox_id, p_reason);
  PERFORM lock_redrivable_outbox_item(p_outbox_id);
  PERFORM require_no_open_proposal(p_outbox_id);
  RETURN QUERY SELECT 'PROPOSED', propose_outbox_decision(p_outbox_id, 'REDRIVE', p_reason, NULL, v_actor);
END
$$;
COMMENT ON FUNCTION redrive_outbox_item(uuid, text) IS
  'Proposes to send a FAILED item again, as a new item of the same instruction. A second person must approve.';

CREATE OR REPLACE FUNCTION outbox_base_key(p_idempotency_key text) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN regexp_replace(p_idempotency_key, '~redrive~[0-9]+$', '');
COMMENT ON FUNCTION outbox_base_key(text) IS 'Internal: returns an idempotency key without its redrive number.';

CREATE OR REPLACE FUNCTION outbox_payment_items(p_outbox_id uuid) RETURNS SETOF payment_outbox_identities
LANGUAGE sql STABLE ROWS 2 SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: batch
  SELECT i.*
  FROM payment_outbox_identities own
  JOIN payment_outbox_identities i ON i.instruction_id = own.instruction_id
    AND outbox_base_key(i.idempotency_key) = outbox_base_key(own.idempotency_key)
  WHERE own.outbox_id = p_outbox_id
$$;
COMMENT ON FUNCTION outbox_payment_items(uuid) IS
  'Internal: returns every item of the payment of this item, itself included.';

-- Locks the payment's first identity, which orders changes to several of its items. Callers take this lock before the
-- lock of an item.
CREATE OR REPLACE FUNCTION lock_outbox_payment(p_outbox_id uuid) RETURNS void
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
  SELECT 1 FROM payment_outbox_identities i
  JOIN payment_outbox_identities first
    ON first.instruction_id = i.instruction_id AND first.idempotency_key = outbox_base_key(i.idempotency_key)
  WHERE i.outbox_id = p_outbox_id
  FOR NO KEY UPDATE OF first
$$;
COMMENT ON FUNCTION lock_outbox_payment(uuid) IS 'Internal: locks the payment of this item.';

-- No item of the payment may be pending, paid or cancelled. No item may replace it, and no late report may say that the
-- rail paid. Returns the position in the ordered stream, or null for the end.
CREATE OR REPLACE FUNCTION lock_redrivable_outbox_item(p_outbox_id uuid) RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
#variable_conflict use_column
DECLARE
  v_other record;
  v_replaced_by uuid;
  v_paid_as uuid;
BEGIN
  PERFORM lock_outbox_payment(p_outbox_id);
  PERFORM lock_outbox_item(p_outbox_id);
  v_replaced_by := outbox_replacement(p_outbox_id);
  IF v_replaced_by IS NOT NULL THEN
    RAISE EXCEPTION 'HELD: outbox item %: item % replaces this payment', p_outbox_id, v_replaced_by
      USING ERRCODE = 'P7006', HINT = 'Redriving it could pay the same debt twice. Redrive or replace that item.';
  END IF;
  FOR v_other IN
    SELECT i.outbox_id, i.idempotency_key, a.state, a.action
    FROM outbox_payment_items(p_outbox_id) i
    -- OFFSET 0 keeps one index lookup per item: on an empty ledger the planner could choose a scan and keep that plan.
    LEFT JOIN LATERAL (
      SELECT t.state, t.action FROM payment_outbox_attempts t
      WHERE t.outbox_id = i.outbox_id AND t.state IN ('DISPATCHED', 'FAILED')
      OFFSET 0
    ) a ON true
  LOOP
    IF v_other.state = 'DISPATCHED' OR v_other.action = 'cancelled' THEN
      PERFORM raise_already_terminal(v_other.outbox_id);
    END IF;
    IF v_other.state IS NULL THEN
      RAISE EXCEPTION 'HELD: outbox item %: this payment is still pending under the key %',
          v_other.outbox_id, v_other.idempotency_key
        USING ERRCODE = 'P7006', HINT = 'Only a FAILED item can be redriven, and only one redrive may be open.';
    END IF;
  END LOOP;
  v_paid_as := late_paid_item(p_outbox_id);
  IF v_paid_as IS NOT NULL THEN
    RAISE EXCEPTION 'HELD: outbox item %: a worker reported late that the rail paid it', v_paid_as
      USING ERRCODE = 'P7006', HINT = 'Reconcile with the rail first: sending it again could pay twice.';
  END IF;
  RETURN redrive_position(p_outbox_id);
END
$$;
COMMENT ON FUNCTION lock_redrivable_outbox_item(uuid) IS
  'Internal: locks a FAILED item and returns the position of its redrive in a halted stream, or raises P7001 or P7006.';

-- In a stream that halts on failure, a redrive takes the position of the failed item, so that no later item overtakes
-- it. The stream must be halted; the share lock keeps it halted until this transaction ends. No later item may have
-- been sent. In a stream that continues after a failure, the redrive goes to the end.
CREATE OR REPLACE FUNCTION redrive_position(p_outbox_id uuid) RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
#variable_conflict use_column
DECLARE
  v_participant_id text;
  v_position bigint;
  v_halted boolean;
  v_sent uuid;
BEGIN
  SELECT i.participant_id, COALESCE(i.stream_position, i.sequence_id) INTO v_participant_id, v_position
  FROM payment_outbox_identities i WHERE i.outbox_id = p_outbox_id AND i.ordered;
  IF NOT FOUND THEN
    RETURN NULL;
  END IF;
  PERFORM 1 FROM outbox_pauses z WHERE z.kind = 'stream' AND z.name = v_participant_id FOR KEY SHARE;
  v_halted := FOUND;
  IF NOT v_halted AND NOT EXISTS (
    SELECT 1 FROM participant_outbox_policies y
    WHERE y.participant_id = v_participant_id AND y.on_ordered_failure = 'halt')
  THEN
    RETURN NULL;
  END IF;
  SELECT i.outbox_id INTO v_sent FROM payment_outbox_identities i
  WHERE i.participant_id = v_participant_id AND i.ordered AND i.sequence_id > v_position
    AND COALESCE(i.stream_position, i.sequence_id) > v_position
    AND NOT EXISTS (
      SELECT 1 FROM payment_outbox_pending p
      WHERE p.outbox_id = i.outbox_id AND p.lease_token IS NULL AND p.attempt_count = 0 OFFSET 0)
    -- An item was never sent if its first attempt is a cancellation, or if two people failed it before any attempt. A
    -- worker can hold an item after a call without an attempt. So each hold must be that of an operator or at enqueue.
    AND NOT EXISTS (
      SELECT 1 FROM payment_outbox_attempts a
      WHERE a.outbox_id = i.outbox_id AND a.attempt_no = 1
        AND (a.action = 'cancelled' OR (a.action = 'decided' AND a.state = 'FAILED' AND NOT EXISTS (
          SELECT 1 FROM payment_outbox_events e
          WHERE e.outbox_id = i.outbox_id AND e.event_type = 'HOLD_PLACED'
            AND NOT e.detail ?| '{by_operator,limit,approvals}' OFFSET 0)))
      OFFSET 0)
  ORDER BY i.sequence_id LIMIT 1;
  IF v_sent IS NOT NULL THEN
    RAISE EXCEPTION 'HELD: outbox item %: item % behind it in the ordered stream of % was sent already',
        p_outbox_id, v_sent, v_participant_id
      USING ERRCODE = 'P7006',
        HINT = 'A redrive would break the order. To send it anyway, enqueue a new instruction that names it in '
          'replaces.';
  END IF;
  IF NOT v_halted THEN
    RAISE EXCEPTION 'HELD: outbox item %: the ordered stream of % is not halted, so that later items could be sent '
        'before it', p_outbox_id, v_participant_id
      USING ERRCODE = 'P7006', HINT = format('Pause the stream first (symphony pause stream %s).', v_participant_id);
  END IF;
  RETURN v_position;
END
$$;
COMMENT ON FUNCTION redrive_position(uuid) IS
  'Internal: returns the position of a redrive in a halted stream, null for the end. Raises P7006 if later items would '
  'overtake it.';

CREATE OR REPLACE FUNCTION create_outbox_redrive(
  p_outbox_id uuid, p_position bigint, p_reason text, p_proposed_by text, p_actor text
) RETURNS uuid
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
#variable_conflict use_column
DECLARE
  v_item payment_outbox_identities;
  v_payload jsonb;
  v_number bigint;
  v_redriven_as uuid;
  v_blocked uuid[];
BEGIN
  SELECT * INTO v_item FROM payment_outbox_identities i WHERE i.outbox_id = p_outbox_id;
  SELECT a.payload INTO v_payload FROM payment_outbox_attempts a WHERE a.outbox_id = p_outbox_id AND a.state = 'FAILED';
  SELECT count(*) INTO v_number FROM outbox_payment_items(p_outbox_id);
  -- The new key needs no key scope to be unique, because enqueue refuses keys that end in ~redrive~N.
  SELECT e.outbox_id INTO v_redriven_as
  FROM admit_outbox_items(ARRAY[v_item.instruction_id], ARRAY[v_item.participant_id],
    ARRAY[outbox_base_key(v_item.idempotency_key) || '~redrive~' || v_number], ARRAY[v_item.rail_type],
    ARRAY[v_payload], NULL, ARRAY[v_item.ordered], p_outbox_id, ARRAY[v_item.traceparent], v_item.is_message,
    NULL, p_position, ARRAY[v_item.outcome_topic], NULL) e;
  -- The halt of the stream skips a head that is locked. Blocks such a head here, so that the redrive is sent first.
  IF p_position IS NOT NULL THEN
    WITH blocked AS (
      UPDATE payment_outbox_pending p SET blocked = true
      WHERE p.outbox_id = ANY (ARRAY(
        SELECT q.outbox_id FROM payment_outbox_pending q
        WHERE q.participant_id = v_item.participant_id AND q.ordered AND NOT q.blocked
          AND COALESCE(q.stream_position, q.sequence_id) > p_position
        ORDER BY q.outbox_id FOR NO KEY UPDATE))
      RETURNING p.outbox_id
    )
    SELECT array_agg(b.outbox_id) INTO v_blocked FROM blocked b;
    PERFORM append_trail_events('BLOCKED', p_actor, v_blocked, '{"block_unverified": false}');
  END IF;
  PERFORM append_outbox_events('REDRIVE_CREATED', p_actor, ARRAY[p_outbox_id], ARRAY[jsonb_build_object(
    'redriven_as', v_redriven_as, 'reason', p_reason, 'proposed_by', p_proposed_by, 'approved_by', p_actor)]);
  RETURN v_redriven_as;
END
$$;
COMMENT ON FUNCTION create_outbox_redrive(uuid, bigint, text, text, text) IS
  'Internal: enqueues a FAILED item again as a new item that refers to it.';

-- Includes the payments that this one replaces, directly or in turn: they stand for the same debt.
CREATE OR REPLACE FUNCTION late_paid_item(p_outbox_id uuid) RETURNS uuid
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: batch
  WITH RECURSIVE item AS (
    SELECT i.outbox_id, i.replaces FROM outbox_payment_items(p_outbox_id) i
    UNION
    SELECT i.outbox_id, i.replaces FROM item n CROSS JOIN LATERAL outbox_payment_items(n.replaces) i
  )
  SELECT i.outbox_id
  FROM item i
  -- LATERAL keeps one index lookup per item: the planner could hash an EXISTS and read every event.
  CROSS JOIN LATERAL (
    SELECT 1 FROM payment_outbox_events e
    WHERE e.outbox_id = i.outbox_id AND e.event_type = 'TERMINAL_BLOCKED' AND e.detail ->> 'state' = 'DISPATCHED'
    LIMIT 1
  ) late
  LIMIT 1
$$;
COMMENT ON FUNCTION late_paid_item(uuid) IS
  'Internal: returns the item that the rail paid, according to a late report, of this payment or of one that it '
  'replaces.';

-- Called when a late report says that the rail paid an item, and contradicts its terminal outcome. Holds the redrive of
-- its payment and the replacements, if still pending, until two people decide. A payment has at most one open redrive
-- and one replacement.
CREATE OR REPLACE FUNCTION hold_outbox_redrives(p_outbox_id uuid, p_found_by text) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: batch
#variable_conflict use_column
DECLARE
  v_payment uuid := p_outbox_id;
  v_held uuid[];
  v_details jsonb[];
BEGIN
  WHILE v_payment IS NOT NULL LOOP
    WITH held AS (
      UPDATE payment_outbox_pending p
      SET hold_reason = 'EARLIER_ITEM_PAID', held_by = p_found_by, held_at = clock_timestamp()
      FROM outbox_payment_items(v_payment) i
      WHERE p.outbox_id = i.outbox_id AND p.hold_reason IS NULL
      RETURNING p.outbox_id, p.hold_reason, p.held_at
    )
    SELECT array_agg(h.outbox_id),
      array_agg(outbox_hold_detail(h.hold_reason, h.held_at) || jsonb_build_object('paid_as', p_outbox_id))
    INTO v_held, v_details FROM held h;
    PERFORM append_outbox_events('HOLD_PLACED', p_found_by, v_held, v_details);
    -- The caller has locked the first payment. The lock on each further payment prevents a concurrent redrive or
    -- replacement of it.
    v_payment := outbox_replacement(v_payment);
    PERFORM lock_outbox_payment(v_payment);
  END LOOP;
  -- A REPEATABLE READ snapshot misses a later redrive or replacement. Both take a sequence number of this participant,
  -- so that locking the participant's row raises 40001.
  IF current_setting('transaction_isolation') IN ('repeatable read', 'serializable') THEN
    PERFORM 1 FROM participant_outbox_sequences s
    JOIN payment_outbox_identities i ON i.participant_id = s.participant_id
    WHERE i.outbox_id = p_outbox_id FOR SHARE OF s;
  END IF;
END
$$;
COMMENT ON FUNCTION hold_outbox_redrives(uuid, text) IS
  'Internal: holds the open redrive and the open replacement of a payment that a late report says the rail paid.';
