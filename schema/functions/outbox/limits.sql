-- Limits: rules that hold payments at enqueue until people decide.
--
--   approval   holds a payment whose amount is above the limit (AMOUNT_APPROVAL)
--   amount     holds the payment that would raise the sum of a rolling window above the limit, and every later payment
--              (LIMIT_EXCEEDED)
--   count      the same for the number of payments
--
-- After an excess, later payments are held for one window, or until two people set the limit again. A payment that an
-- approval or amount limit cannot check is held as LIMIT_UNREADABLE. A payment counts when a worker can claim it: at
-- enqueue, or when a person releases it.

CREATE OR REPLACE FUNCTION propose_outbox_limit(
  p_limit_name text, p_kind text, p_limit numeric, p_reason text, p_rail_type text DEFAULT NULL,
  p_participant_id text DEFAULT NULL, p_limit_currency text DEFAULT NULL, p_window_seconds integer DEFAULT NULL,
  p_approvals integer DEFAULT NULL
) RETURNS uuid
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
BEGIN
  PERFORM require_read_committed();
  PERFORM check_id('p_limit_name', p_limit_name);
  IF p_kind IS NULL OR p_kind NOT IN ('approval', 'amount', 'count') THEN
    PERFORM refuse_argument('p_kind', 'approval, amount or count');
  END IF;
  -- The upper bound also refuses NaN, which PostgreSQL compares as greater than every number.
  IF p_limit IS NULL OR p_limit < 0 OR p_limit >= 1e18 OR scale(p_limit) > 4
    OR (p_kind = 'count' AND p_limit <> trunc(p_limit))
  THEN
    PERFORM refuse_argument('p_limit', 'an amount below 10^18 with at most 4 decimals, or a whole number for count');
  END IF;
  IF p_rail_type IS NOT NULL THEN
    PERFORM check_id('p_rail_type', p_rail_type);
  ELSIF p_participant_id IS NULL THEN
    PERFORM refuse_argument('p_rail_type', 'a rail, unless a participant is given');
  END IF;
  IF p_participant_id IS NOT NULL THEN
    PERFORM check_id('p_participant_id', p_participant_id);
  END IF;
  IF (p_kind = 'count') <> (p_limit_currency IS NULL) OR p_limit_currency COLLATE "C" !~ '^[A-Z]{3}$' THEN
    PERFORM refuse_argument('p_limit_currency', 'three capital letters, or null for count');
  END IF;
  IF (p_kind = 'approval') <> (p_window_seconds IS NULL) OR p_window_seconds NOT BETWEEN 60 AND 2678400 THEN
    PERFORM refuse_argument('p_window_seconds', '60 to 2678400, or null for approval');
  END IF;
  IF (p_kind = 'approval') <> (p_approvals IS NOT NULL) OR p_approvals NOT IN (1, 2) THEN
    PERFORM refuse_argument('p_approvals', '1 or 2 for approval, null for amount and count');
  END IF;
  RETURN propose_outbox_limit_change(p_limit_name, jsonb_strip_nulls(jsonb_build_object('kind', p_kind,
    'limit_value', p_limit::text, 'rail_type', p_rail_type, 'participant_id', p_participant_id,
    'currency', p_limit_currency, 'window_seconds', p_window_seconds, 'approvals', p_approvals)), p_reason);
END
$$;
COMMENT ON FUNCTION propose_outbox_limit(text, text, numeric, text, text, text, text, integer, integer) IS
  'Proposes to set a limit, or to change the limit of this name. A second person must approve. Returns the proposal.';

CREATE OR REPLACE FUNCTION propose_outbox_limit_removal(p_limit_in_force text, p_reason text) RETURNS uuid
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
#variable_conflict use_column
BEGIN
  PERFORM require_read_committed();
  IF NOT is_id(p_limit_in_force)
    OR NOT EXISTS (SELECT 1 FROM outbox_limits l WHERE l.limit_name = p_limit_in_force)
  THEN
    PERFORM refuse_argument('p_limit_in_force', 'the name of a limit in force');
  END IF;
  RETURN propose_outbox_limit_change(p_limit_in_force, NULL, p_reason);
END
$$;
COMMENT ON FUNCTION propose_outbox_limit_removal(text, text) IS
  'Proposes to remove a limit. A second person must approve. Returns the proposal.';

-- The unique index of open proposals orders the events of one limit: an insert waits for a transaction that is deciding
-- the earlier proposal.
CREATE OR REPLACE FUNCTION propose_outbox_limit_change(p_limit_name text, p_rule jsonb, p_reason text) RETURNS uuid
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
#variable_conflict use_column
DECLARE
  v_actor text := outbox_actor();
  v_proposal_id uuid := uuid_v7();
  v_open outbox_limit_proposals;
BEGIN
  PERFORM check_text('p_reason', p_reason, 1000);
  INSERT INTO outbox_limit_proposals
    (proposal_id, limit_name, rule, reason, proposed_by, proposed_at, proposed_xid)
  VALUES (v_proposal_id, p_limit_name, p_rule, p_reason, v_actor, clock_timestamp(), pg_current_xact_id())
  ON CONFLICT DO NOTHING;
  IF NOT FOUND THEN
    SELECT * INTO v_open FROM outbox_limit_proposals q WHERE q.limit_name = p_limit_name AND q.status = 'OPEN';
    RAISE EXCEPTION 'HELD: limit %: % has proposed a change already', p_limit_name, v_open.proposed_by
      USING ERRCODE = 'P7006', HINT = format('Approve or withdraw proposal %s.', v_open.proposal_id);
  END IF;
  PERFORM append_outbox_scope_event('LIMIT_PROPOSED', v_actor, 'limit:' || p_limit_name,
    jsonb_build_object('proposal_id', v_proposal_id, 'rule', p_rule, 'reason', p_reason));
  RETURN v_proposal_id;
END
$$;
COMMENT ON FUNCTION propose_outbox_limit_change(text, jsonb, text) IS
  'Internal: writes a proposal to set a limit, or with a null rule to remove it, and its event.';

CREATE OR REPLACE FUNCTION approve_outbox_limit(p_proposal_id uuid) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
#variable_conflict use_column
DECLARE
  v_actor text := outbox_actor();
  v_proposal outbox_limit_proposals;
  v_old outbox_limits;
  v_new outbox_limits;
BEGIN
  PERFORM require_read_committed();
  v_proposal := lock_open_limit_proposal(p_proposal_id);
  PERFORM require_second_person(p_proposal_id, v_proposal.proposed_by, v_proposal.proposed_xid, v_actor);
  DELETE FROM outbox_limits l WHERE l.limit_name = v_proposal.limit_name RETURNING l.* INTO v_old;
  IF v_proposal.rule IS NOT NULL THEN
    INSERT INTO outbox_limits
    SELECT * FROM jsonb_populate_record(NULL::outbox_limits, v_proposal.rule || jsonb_build_object(
      'limit_name', v_proposal.limit_name, 'set_by', v_actor, 'set_at', clock_timestamp()))
    RETURNING * INTO v_new;
  END IF;
  -- A limit with another subject starts at zero. After a change of the window, each bucket counts for the new window.
  IF (v_old.kind, v_old.rail_type, v_old.participant_id, v_old.currency)
    IS DISTINCT FROM (v_new.kind, v_new.rail_type, v_new.participant_id, v_new.currency)
  THEN
    DELETE FROM outbox_limit_usage u WHERE u.limit_name = v_proposal.limit_name;
  ELSIF v_old.window_seconds <> v_new.window_seconds THEN
    UPDATE outbox_limit_usage u
    SET expires_at = u.expires_at + make_interval(secs => v_new.window_seconds - v_old.window_seconds)
    WHERE u.limit_name = v_proposal.limit_name;
  END IF;
  UPDATE outbox_limit_proposals q SET status = 'APPROVED', decided_by = v_actor, decided_at = clock_timestamp()
  WHERE q.proposal_id = p_proposal_id;
  PERFORM append_outbox_scope_event('LIMIT_SET', v_actor, 'limit:' || v_proposal.limit_name, jsonb_build_object(
    'proposal_id', p_proposal_id, 'rule', v_proposal.rule, 'reason', v_proposal.reason,
    'proposed_by', v_proposal.proposed_by, 'approved_by', v_actor));
  RETURN v_proposal.limit_name;
END
$$;
COMMENT ON FUNCTION approve_outbox_limit(uuid) IS
  'Approves a proposed limit, or its removal, and applies it. The proposer may not approve (P7007). Returns the name.';

CREATE OR REPLACE FUNCTION withdraw_outbox_limit(p_proposal_id uuid, p_reason text) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
#variable_conflict use_column
DECLARE
  v_actor text := outbox_actor();
  v_proposal outbox_limit_proposals;
BEGIN
  PERFORM require_read_committed();
  PERFORM check_text('p_reason', p_reason, 1000);
  v_proposal := lock_open_limit_proposal(p_proposal_id);
  UPDATE outbox_limit_proposals q SET status = 'WITHDRAWN', decided_by = v_actor, decided_at = clock_timestamp()
  WHERE q.proposal_id = p_proposal_id;
  PERFORM append_outbox_scope_event('LIMIT_WITHDRAWN', v_actor, 'limit:' || v_proposal.limit_name,
    jsonb_build_object('proposal_id', p_proposal_id, 'reason', p_reason));
END
$$;
COMMENT ON FUNCTION withdraw_outbox_limit(uuid, text) IS
  'Withdraws or refuses an open proposal of a limit; the limit does not change.';

CREATE OR REPLACE FUNCTION lock_open_limit_proposal(p_proposal_id uuid) RETURNS outbox_limit_proposals
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
#variable_conflict use_column
DECLARE
  v_proposal outbox_limit_proposals;
BEGIN
  SELECT * INTO v_proposal FROM outbox_limit_proposals q WHERE q.proposal_id = p_proposal_id FOR UPDATE;
  IF v_proposal.proposal_id IS NULL THEN
    PERFORM refuse_argument('p_proposal_id', 'the id of a proposal of a limit');
  END IF;
  IF v_proposal.status <> 'OPEN' THEN
    RAISE EXCEPTION 'HELD: proposal %: it was % by %', p_proposal_id, lower(v_proposal.status), v_proposal.decided_by
      USING ERRCODE = 'P7006', HINT = 'Nothing is left to decide. See the limits: symphony limits list.';
  END IF;
  RETURN v_proposal;
END
$$;
COMMENT ON FUNCTION lock_open_limit_proposal(uuid) IS
  'Internal: locks an open proposal of a limit, or raises 22023 or P7006.';

-- Reads the amount as libs/core/money.ts does: a decimal string, above zero, in one spelling. Any other value, such as
-- a number or an encrypted field, is unreadable.
CREATE OR REPLACE FUNCTION payload_amount(p_payload jsonb) RETURNS numeric
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE
  WHEN jsonb_typeof(p_payload -> 'amount') = 'string' AND octet_length(p_payload ->> 'amount') <= 40
    AND (p_payload ->> 'amount') COLLATE "C" ~ '^(0|[1-9][0-9]*)([.][0-9]+)?$'
  THEN NULLIF((p_payload ->> 'amount')::numeric, 0)
END;
COMMENT ON FUNCTION payload_amount(jsonb) IS 'Returns the amount of a payment''s payload, or null if it is unreadable.';

CREATE OR REPLACE FUNCTION outbox_limits_of(p_participant_ids text[], p_rail_types text[]) RETURNS SETOF outbox_limits
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
  SELECT l.* FROM outbox_limits l
  WHERE l.participant_id = ANY (p_participant_ids) AND (l.rail_type IS NULL OR l.rail_type = ANY (p_rail_types))
  UNION ALL
  SELECT l.* FROM outbox_limits l WHERE l.participant_id IS NULL AND l.rail_type = ANY (p_rail_types)
$$;
COMMENT ON FUNCTION outbox_limits_of(text[], text[]) IS
  'Internal: returns the limits that can apply to payments of these participants on these rails.';

-- Checks the new payments of a call in their order. The caller holds the row locks of their participants, so that two
-- calls for one participant see each other's usage. For a limit without a participant, a call does not see payments
-- that concurrent calls enqueue. Returns the holds of the limits. With p_are_held the caller places them, and the
-- payments count when released.
CREATE OR REPLACE FUNCTION apply_outbox_limits(p_outbox_ids uuid[], p_are_held boolean) RETURNS jsonb[]
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: batch
#variable_conflict use_column
DECLARE
  v_now CONSTANT timestamptz := clock_timestamp();
  v_limits outbox_limits[];
  -- Per limit: usage of the window; usage that this call adds; excess before this call; excess of this call.
  v_used numeric[];
  v_added numeric[];
  v_was_exceeded boolean[];
  v_exceeded boolean[];
  v_item record;
  v_limit outbox_limits;
  v_no bigint;
  v_size numeric;
  v_holds jsonb[] := '{}'::jsonb[];
  v_exceeded_name text;
BEGIN
  -- 1. Read the limits that can apply, and their usage.
  v_limits := ARRAY(
    SELECT l
    FROM (
      SELECT array_agg(p.participant_id) AS participant_ids, array_agg(p.rail_type) AS rail_types
      FROM payment_outbox_pending p WHERE p.outbox_id = ANY (p_outbox_ids)
    ) g
    CROSS JOIN LATERAL outbox_limits_of(g.participant_ids, g.rail_types) l
    ORDER BY l.limit_name);
  IF cardinality(v_limits) = 0 THEN
    RETURN v_holds;
  END IF;
  SELECT array_agg(COALESCE(u.used, 0) ORDER BY l.ordinality),
    array_agg(COALESCE(u.exceeded_at >= l.set_at, false) ORDER BY l.ordinality)
  INTO v_used, v_was_exceeded
  FROM unnest(v_limits) WITH ORDINALITY AS l
  CROSS JOIN LATERAL (
    SELECT sum(s.used) AS used, max(s.exceeded_at) AS exceeded_at FROM outbox_limit_usage s
    WHERE s.limit_name = l.limit_name AND s.expires_at > v_now
  ) u;
  v_added := array_fill(0::numeric, ARRAY[cardinality(v_limits)]);
  v_exceeded := v_was_exceeded;

  -- 2. Find the windows of each payment, and the limits that hold the payment whatever the usage is.
  FOR v_item IN
    SELECT p.outbox_id, m.amount, c.*
    FROM unnest(p_outbox_ids) WITH ORDINALITY AS g(outbox_id, ordinal)
    CROSS JOIN LATERAL (SELECT q.* FROM payment_outbox_pending q WHERE q.outbox_id = g.outbox_id OFFSET 0) p
    CROSS JOIN LATERAL (SELECT payload_amount(p.payload) AS amount, p.payload ->> 'currency' AS currency) m
    CROSS JOIN LATERAL (
      SELECT array_agg(r.ordinality ORDER BY r.ordinality)
          FILTER (WHERE r.kind = 'count' OR (r.kind = 'amount' AND r.currency = m.currency)) AS window_nos,
        min(r.limit_name) FILTER (WHERE r.is_unreadable) AS unreadable_by,
        (array_agg(r.limit_name ORDER BY r.approvals DESC, r.limit_name) FILTER (WHERE r.is_above))[1] AS approval_by,
        -- An unreadable amount may be above the limit, so its release needs as many people as an amount above it.
        max(r.approvals) FILTER (WHERE r.is_unreadable OR r.is_above) AS approvals
      FROM (
        SELECT l.*, l.kind = 'approval' AND l.currency = m.currency AND m.amount > l.limit_value AS is_above,
          l.kind <> 'count' AND (m.amount IS NULL OR NOT bool_or(COALESCE(l.currency = m.currency, false))
            OVER (PARTITION BY l.kind, l.rail_type, l.participant_id)) AS is_unreadable
        FROM unnest(v_limits) WITH ORDINALITY AS l
        WHERE COALESCE(l.rail_type = p.rail_type, true) AND COALESCE(l.participant_id = p.participant_id, true)
      ) r
    ) c
    ORDER BY g.ordinal
  LOOP
    -- 3. Compare the payment with the windows. A held payment does not count.
    v_exceeded_name := NULL;
    IF v_item.unreadable_by IS NULL AND v_item.approval_by IS NULL THEN
      FOREACH v_no IN ARRAY COALESCE(v_item.window_nos, '{}') LOOP
        v_limit := v_limits[v_no];
        v_size := CASE v_limit.kind WHEN 'count' THEN 1 ELSE v_item.amount END;
        IF v_exceeded[v_no] OR v_used[v_no] + v_added[v_no] + v_size > v_limit.limit_value THEN
          v_exceeded[v_no] := true;
          v_exceeded_name := COALESCE(v_exceeded_name, v_limit.limit_name);
        END IF;
      END LOOP;
    END IF;
    IF COALESCE(v_item.unreadable_by, v_item.approval_by, v_exceeded_name) IS NOT NULL THEN
      v_holds := array_append(v_holds, jsonb_strip_nulls(jsonb_build_object('outbox_id', v_item.outbox_id,
        'reason', CASE WHEN v_item.unreadable_by IS NOT NULL THEN 'LIMIT_UNREADABLE'
          WHEN v_item.approval_by IS NOT NULL THEN 'AMOUNT_APPROVAL' ELSE 'LIMIT_EXCEEDED' END,
        'limit', COALESCE(v_item.unreadable_by, v_item.approval_by, v_exceeded_name),
        'approvals', v_item.approvals)));
      CONTINUE;
    END IF;
    CONTINUE WHEN p_are_held;
    FOREACH v_no IN ARRAY COALESCE(v_item.window_nos, '{}') LOOP
      v_limit := v_limits[v_no];
      v_added[v_no] := v_added[v_no] + CASE v_limit.kind WHEN 'count' THEN 1 ELSE v_item.amount END;
    END LOOP;
  END LOOP;

  -- 4. Write the usage and the holds.
  PERFORM count_outbox_limit(l, v_added[n], v_exceeded[n] AND NOT v_was_exceeded[n], v_now)
  FROM generate_series(1, cardinality(v_limits)) AS n
  CROSS JOIN LATERAL (SELECT v_limits[n] AS l OFFSET 0) g
  WHERE v_added[n] > 0 OR (v_exceeded[n] AND NOT v_was_exceeded[n]);
  IF p_are_held THEN
    RETURN v_holds;
  END IF;
  UPDATE payment_outbox_pending p
  SET hold_reason = h.hold ->> 'reason', held_by = 'symphony', held_at = v_now
  FROM unnest(v_holds) AS h(hold)
  WHERE p.outbox_id = (h.hold ->> 'outbox_id')::uuid;
  IF FOUND THEN
    PERFORM append_outbox_events('HOLD_PLACED', 'symphony', array_agg((h.hold ->> 'outbox_id')::uuid),
      array_agg(outbox_hold_detail(h.hold ->> 'reason', v_now) || (h.hold - 'outbox_id')))
    FROM unnest(v_holds) AS h(hold);
  END IF;
  RETURN v_holds;
END
$$;
COMMENT ON FUNCTION apply_outbox_limits(uuid[], boolean) IS
  'Internal: holds the new payments of a call that a limit does not allow, and counts the others. Only returns the '
  'holds if the caller holds the payments.';

-- Adds the usage to the current bucket, a hundredth of the window. If another transaction has locked the bucket's row,
-- adds a second row. Under a stricter isolation level every call adds a row, because an update could raise 40001.
CREATE OR REPLACE FUNCTION count_outbox_limit(
  p_limit outbox_limits, p_used numeric, p_exceeded boolean, p_now timestamptz
) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
#variable_conflict use_column
DECLARE
  v_window CONSTANT interval := make_interval(secs => p_limit.window_seconds);
  v_expires_at CONSTANT timestamptz := date_bin(v_window / 100, p_now, 'epoch') + v_window / 100 + v_window;
  v_slot_id uuid;
BEGIN
  IF current_setting('transaction_isolation') = 'read committed' THEN
    SELECT u.slot_id INTO v_slot_id FROM outbox_limit_usage u
    WHERE u.limit_name = p_limit.limit_name AND u.expires_at = v_expires_at
    LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED;
  END IF;
  IF v_slot_id IS NULL THEN
    INSERT INTO outbox_limit_usage (limit_name, expires_at, slot_id, used, exceeded_at)
    VALUES (p_limit.limit_name, v_expires_at, uuid_v7(), p_used, CASE WHEN p_exceeded THEN p_now END);
  ELSE
    UPDATE outbox_limit_usage u
    SET used = u.used + p_used, exceeded_at = CASE WHEN p_exceeded THEN p_now ELSE u.exceeded_at END
    WHERE u.limit_name = p_limit.limit_name AND u.expires_at = v_expires_at AND u.slot_id = v_slot_id;
  END IF;
END
$$;
COMMENT ON FUNCTION count_outbox_limit(outbox_limits, numeric, boolean, timestamptz) IS
  'Internal: adds to the usage of a limit with a window, and marks an excess.';

CREATE OR REPLACE FUNCTION outbox_hold_placed(p_outbox_id uuid) RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
  SELECT e.detail FROM payment_outbox_events e
  WHERE e.outbox_id = p_outbox_id AND e.event_type = 'HOLD_PLACED' ORDER BY e.event_no DESC LIMIT 1
$$;
COMMENT ON FUNCTION outbox_hold_placed(uuid) IS
  'Internal: returns the detail of an item''s latest hold, with `limit` if a limit placed it; null without a hold.';

-- A released payment was not counted at enqueue. It counts now and is not checked again, because a person has decided.
CREATE OR REPLACE FUNCTION count_released_outbox_item(p_outbox_id uuid) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
#variable_conflict use_column
BEGIN
  -- Only a limit or propose_payment_outbox writes these fields. A person may choose any reason for a hold.
  IF NOT COALESCE(outbox_hold_placed(p_outbox_id) ?| '{limit,approvals}', false) THEN
    RETURN;
  END IF;
  PERFORM count_outbox_limit(l, CASE l.kind WHEN 'count' THEN 1 ELSE payload_amount(p.payload) END, false,
    clock_timestamp())
  FROM payment_outbox_pending p
  CROSS JOIN LATERAL outbox_limits_of(ARRAY[p.participant_id], ARRAY[p.rail_type]) l
  WHERE p.outbox_id = p_outbox_id AND (l.kind = 'count' OR (l.kind = 'amount'
    AND l.currency = p.payload ->> 'currency' AND payload_amount(p.payload) IS NOT NULL));
END
$$;
COMMENT ON FUNCTION count_released_outbox_item(uuid) IS
  'Internal: counts an item whose release ends a hold from its enqueue, by a limit or by propose_payment_outbox.';

CREATE OR REPLACE FUNCTION prune_outbox_limit_usage() RETURNS void
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: batch
  DELETE FROM outbox_limit_usage u
  WHERE u.ctid = ANY (ARRAY(
    SELECT e.ctid FROM outbox_limit_usage e WHERE e.expires_at <= now() LIMIT 10000 FOR UPDATE SKIP LOCKED))
$$;
COMMENT ON FUNCTION prune_outbox_limit_usage() IS 'Internal: deletes expired buckets of limits.';
