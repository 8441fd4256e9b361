-- Returns: money of a DISPATCHED payment that the rail sent back. DISPATCHED stays the outcome; each return is a later
-- event. A second payment of the same debt is a new instruction, whose item names the old one (replaces).

CREATE OR REPLACE FUNCTION record_outbox_return(
  p_outbox_id uuid, p_amount numeric, p_currency text, p_code text, p_reference text,
  p_occurred_at timestamptz DEFAULT NULL
) RETURNS TABLE (event_id uuid, created boolean, returned_total numeric)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
#variable_conflict use_column
DECLARE
  v_actor text := outbox_actor();
  v_payment record;
  v_earlier record;
  v_first record;
  v_event_id uuid;
BEGIN
  -- 1. Check the arguments. A snapshot from before the lock could miss an earlier return.
  PERFORM require_read_committed();
  IF p_amount IS NULL OR NOT (p_amount > 0 AND p_amount < 1e18) OR scale(p_amount) > 4 THEN
    PERFORM refuse_argument('p_amount', 'an amount above 0 and below 10^18 with at most 4 decimals');
  END IF;
  IF p_currency IS NULL OR p_currency COLLATE "C" !~ '^[A-Z]{3}$' THEN
    PERFORM refuse_argument('p_currency', 'an ISO 4217 code of three capital letters');
  END IF;
  PERFORM check_text('p_code', p_code, 128);
  PERFORM check_text('p_reference', p_reference, 255);
  IF p_occurred_at IS NOT NULL THEN
    PERFORM check_time('p_occurred_at', p_occurred_at);
  END IF;

  -- 2. Lock the payment, then the item. Only a DISPATCHED payment can be returned.
  PERFORM lock_outbox_payment(p_outbox_id);
  PERFORM lock_outbox_item(p_outbox_id);
  SELECT * INTO v_payment FROM require_returnable_outbox_item(p_outbox_id);
  SELECT count(*) AS returns, COALESCE(sum((e.detail ->> 'amount')::numeric), 0) AS total,
    min(e.detail ->> 'currency') AS currency
  INTO v_earlier
  FROM payment_outbox_events e WHERE e.outbox_id = p_outbox_id AND e.event_type = 'RETURN_RECORDED';

  -- 3. Recognise a repeat by its reference. Two sources may report one return at different times, so the time is not
  -- compared.
  SELECT e.event_id, (e.detail ->> 'amount')::numeric = p_amount AND e.detail ->> 'currency' = p_currency
    AND e.detail ->> 'code' = p_code AS is_same
  INTO v_first
  FROM payment_outbox_events e
  WHERE e.outbox_id = p_outbox_id AND e.event_type = 'RETURN_RECORDED' AND e.detail ->> 'reference' = p_reference;
  IF v_first.is_same THEN
    RETURN QUERY SELECT v_first.event_id, false, v_earlier.total;
    RETURN;
  END IF;
  IF v_first.event_id IS NOT NULL THEN
    RAISE EXCEPTION 'IDEMPOTENCY_CONFLICT: outbox item %: this reference already stands for a return with another '
        'amount, currency or code', p_outbox_id
      USING ERRCODE = 'P7004', DETAIL = json_build_object('event_id', v_first.event_id)::text,
        HINT = 'Repeat the first content to read its answer; another return needs its own reference.';
  END IF;

  -- 4. Compare with the payment. Without a readable amount and currency in the payload, the sum has no bound.
  IF p_currency <> COALESCE(v_payment.currency, v_earlier.currency) THEN
    PERFORM refuse_argument('p_currency', 'the currency of the payment');
  END IF;
  IF v_payment.currency IS NOT NULL AND v_earlier.total + p_amount > v_payment.amount THEN
    RAISE EXCEPTION 'RETURN_EXCEEDS_PAYMENT: outbox item %: its returns would exceed the payment', p_outbox_id
      USING ERRCODE = 'P7015', DETAIL = json_build_object('paid', v_payment.amount::text,
          'returned', v_earlier.total::text, 'asked', p_amount::text)::text,
        HINT = format('Compare the returns of the payment with the rail: symphony show %s.', p_outbox_id);
  END IF;

  -- 5. Record the return. The status counts a payment once, with its first return.
  SELECT e INTO v_event_id
  FROM append_outbox_events('RETURN_RECORDED', v_actor, ARRAY[p_outbox_id], ARRAY[jsonb_build_object(
    'amount', p_amount::text, 'currency', p_currency, 'code', p_code, 'reference', p_reference,
    'occurred_at', to_char(COALESCE(p_occurred_at, clock_timestamp()) AT TIME ZONE 'UTC',
      'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'),
    'returned_total', (v_earlier.total + p_amount)::text,
    'bounded', v_payment.currency IS NOT NULL AND v_payment.amount IS NOT NULL)], ARRAY[v_payment.attempt_id]) e;
  IF v_earlier.returns = 0 THEN
    INSERT INTO outbox_attempt_tallies (recorded_at, returned) VALUES (clock_timestamp(), 1);
  END IF;
  RETURN QUERY SELECT v_event_id, true, v_earlier.total + p_amount;
END
$$;
COMMENT ON FUNCTION record_outbox_return(uuid, numeric, text, text, text, timestamptz) IS
  'Records that the rail returned money of a DISPATCHED payment, once per reference. The sum of the returns cannot '
  'exceed the payment (P7015).';

-- Returns the terminal attempt with amount and currency of the payload; null where they are encrypted or absent.
CREATE OR REPLACE FUNCTION require_returnable_outbox_item(
  p_outbox_id uuid, OUT attempt_id uuid, OUT amount numeric, OUT currency text
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
#variable_conflict use_column
DECLARE
  v_state text;
BEGIN
  PERFORM 1 FROM payment_outbox_identities i WHERE i.outbox_id = p_outbox_id AND NOT i.is_message;
  IF NOT FOUND THEN
    PERFORM refuse_argument('p_outbox_id', 'the id of a payment');
  END IF;
  SELECT a.attempt_id, a.state::text, payload_amount(a.payload), payload_currency(a.payload)
  INTO attempt_id, v_state, amount, currency
  FROM payment_outbox_attempts a WHERE a.outbox_id = p_outbox_id AND a.state IN ('DISPATCHED', 'FAILED');
  IF v_state IS NULL THEN
    RAISE EXCEPTION 'HELD: outbox item %: it has no outcome yet, and only a DISPATCHED payment can be returned',
        p_outbox_id
      USING ERRCODE = 'P7006', HINT = 'If the rail paid it, record that first: two people decide DISPATCHED.';
  END IF;
  IF v_state = 'FAILED' THEN
    RAISE EXCEPTION 'ALREADY_TERMINAL: outbox item %: it has ended as FAILED, and only a DISPATCHED payment can be '
        'returned', p_outbox_id
      USING ERRCODE = 'P7001', HINT = 'Compare the payment with the rail: a FAILED payment moved no money.';
  END IF;
END
$$;
COMMENT ON FUNCTION require_returnable_outbox_item(uuid) IS
  'Internal: returns attempt, amount and currency of a DISPATCHED payment, or raises 22023, P7001 or P7006.';

-- Replacements --------------------------------------------------------------------------------------------------------

-- Locks the payments that the items of an enqueue replace, before the enqueue locks any participant: a redrive and a
-- return also lock the payment first. The order of ids keeps two calls from a deadlock. A replacement without an
-- outcome topic gets that of the replaced payment: the application that learned one outcome must also learn the next.
CREATE OR REPLACE FUNCTION lock_replaced_outbox_payments(p_replaces uuid[], p_outcome_topic text[]) RETURNS text[]
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: batch
#variable_conflict use_column
BEGIN
  IF num_nonnulls(VARIADIC p_replaces) = 0 THEN
    RETURN p_outcome_topic;
  END IF;
  -- A snapshot from before the lock could miss a redrive or another replacement.
  PERFORM require_read_committed();
  PERFORM 1 FROM payment_outbox_identities f
  WHERE f.outbox_id = ANY (ARRAY(
    SELECT first.outbox_id
    FROM unnest(p_replaces) AS given(outbox_id)
    JOIN payment_outbox_identities i ON i.outbox_id = given.outbox_id
    JOIN payment_outbox_identities first
      ON first.instruction_id = i.instruction_id AND first.idempotency_key = outbox_base_key(i.idempotency_key)))
  ORDER BY f.outbox_id FOR NO KEY UPDATE;
  RETURN ARRAY(
    SELECT COALESCE(p_outcome_topic[n], (
      SELECT i.outcome_topic FROM payment_outbox_identities i WHERE i.outbox_id = p_replaces[n]))
    FROM generate_series(1, cardinality(p_replaces)) AS n ORDER BY n);
END
$$;
COMMENT ON FUNCTION lock_replaced_outbox_payments(uuid[], text[]) IS
  'Internal: locks the payments of these items, in the order of their ids, and returns the outcome topics of their '
  'replacements. Nulls are allowed.';

-- Checks the replacements among these items, after their insert and under the lock of the replaced payments.
CREATE OR REPLACE FUNCTION check_outbox_replacements(p_outbox_ids uuid[]) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: batch
#variable_conflict use_column
DECLARE
  v_refused record;
BEGIN
  SELECT g.ordinal, i.replaces, why.reason INTO v_refused
  FROM unnest(p_outbox_ids) WITH ORDINALITY AS g(outbox_id, ordinal)
  JOIN payment_outbox_identities i ON i.outbox_id = g.outbox_id AND i.replaces IS NOT NULL
  CROSS JOIN LATERAL (SELECT outbox_not_replaceable(i.replaces, i.participant_id, i.outbox_id) AS reason OFFSET 0) why
  WHERE why.reason IS NOT NULL
  ORDER BY g.ordinal LIMIT 1;
  IF FOUND THEN
    RAISE EXCEPTION 'NOT_REPLACEABLE: item %: outbox item % cannot be replaced (%)', v_refused.ordinal,
        v_refused.replaces, v_refused.reason
      USING ERRCODE = 'P7017', DETAIL = json_build_object('reason', v_refused.reason, 'ordinal', v_refused.ordinal,
          'replaces', v_refused.replaces)::text,
        HINT = 'Only a FAILED payment, or a DISPATCHED one with a return, can be replaced, and only once.';
  END IF;
END
$$;
COMMENT ON FUNCTION check_outbox_replacements(uuid[]) IS
  'Internal: raises P7017 for the first item that replaces a payment which cannot be replaced.';

-- Returns the first reason that applies. UNKNOWN_PAYMENT: no payment of this participant has the id. ALREADY_REPLACED:
-- another item replaces the payment. PENDING: an item of the payment is pending. PAID: another item of the payment was
-- paid. REPORTED_PAID: a worker reported late that the rail paid. NOT_RETURNED: the item was paid, and the rail has
-- returned nothing.
CREATE OR REPLACE FUNCTION outbox_not_replaceable(p_outbox_id uuid, p_participant_id text, p_by uuid) RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: batch
  SELECT CASE
    WHEN NOT EXISTS (
      SELECT 1 FROM payment_outbox_identities o
      WHERE o.outbox_id = p_outbox_id AND o.participant_id = p_participant_id AND NOT o.is_message)
      THEN 'UNKNOWN_PAYMENT'
    WHEN outbox_replacement(p_outbox_id, p_by) IS NOT NULL THEN 'ALREADY_REPLACED'
    WHEN bool_or(s.state IS NULL) THEN 'PENDING'
    WHEN bool_or(s.state = 'DISPATCHED' AND i.outbox_id <> p_outbox_id) THEN 'PAID'
    WHEN late_paid_item(p_outbox_id) IS NOT NULL THEN 'REPORTED_PAID'
    WHEN bool_or(s.state = 'DISPATCHED') AND NOT EXISTS (
      SELECT 1 FROM payment_outbox_events e WHERE e.outbox_id = p_outbox_id AND e.event_type = 'RETURN_RECORDED')
      THEN 'NOT_RETURNED'
  END
  FROM outbox_payment_items(p_outbox_id) i
  LEFT JOIN LATERAL (
    SELECT a.state FROM payment_outbox_attempts a
    WHERE a.outbox_id = i.outbox_id AND a.state IN ('DISPATCHED', 'FAILED') OFFSET 0
  ) s ON true
$$;
COMMENT ON FUNCTION outbox_not_replaceable(uuid, text, uuid) IS
  'Internal: returns why an item cannot replace this payment; null if it can.';

CREATE OR REPLACE FUNCTION outbox_replacement(p_outbox_id uuid, p_except uuid DEFAULT NULL) RETURNS uuid
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: batch
  SELECT r.outbox_id
  FROM outbox_payment_items(p_outbox_id) i
  JOIN payment_outbox_identities r ON r.replaces = i.outbox_id
  WHERE r.outbox_id IS DISTINCT FROM p_except
  LIMIT 1
$$;
COMMENT ON FUNCTION outbox_replacement(uuid, uuid) IS
  'Internal: returns the item that replaces the payment of this item, other than p_except; null if there is none.';
