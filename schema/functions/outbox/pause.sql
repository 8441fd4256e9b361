-- Claims and enqueues call this function only while some participant or stream is paused. Each lookup is by key, so the
-- cost does not grow with the number of pauses.
CREATE OR REPLACE FUNCTION is_outbox_paused(p_participant_id text, p_ordered boolean) RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
  SELECT EXISTS (SELECT 1 FROM outbox_pauses z WHERE z.kind = 'participant' AND z.name = p_participant_id)
    OR (p_ordered AND EXISTS (SELECT 1 FROM outbox_pauses z WHERE z.kind = 'stream' AND z.name = p_participant_id))
$$;
COMMENT ON FUNCTION is_outbox_paused(text, boolean) IS
  'Internal: returns whether a participant, or its ordered stream for an ordered item, is paused.';

-- A pause only stops claims. Claims leave a paused rail out. The items of a paused participant or stream are marked as
-- blocked, so that claims do not read them.
CREATE OR REPLACE FUNCTION pause_outbox(p_kind text, p_name text, p_reason text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
#variable_conflict use_column
DECLARE
  v_actor text := outbox_actor();
  v_blocked uuid[];
BEGIN
  PERFORM check_outbox_pause(p_kind, p_name, p_reason);
  INSERT INTO outbox_pauses (kind, name, reason, paused_by, paused_at)
  VALUES (p_kind, p_name, p_reason, v_actor, clock_timestamp())
  ON CONFLICT DO NOTHING;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  IF p_kind IN ('participant', 'stream') THEN
    -- Locks in the same order as completions, so that the two cannot deadlock.
    WITH blocked AS (
      UPDATE payment_outbox_pending p SET blocked = true
      WHERE p.outbox_id = ANY (ARRAY(
        SELECT q.outbox_id FROM payment_outbox_pending q
        WHERE q.participant_id = p_name AND NOT q.blocked AND (p_kind = 'participant' OR q.ordered)
        ORDER BY q.outbox_id FOR NO KEY UPDATE))
      RETURNING p.outbox_id
    )
    SELECT array_agg(b.outbox_id) INTO v_blocked FROM blocked b;
    PERFORM append_trail_events('BLOCKED', v_actor, v_blocked, '{"block_unverified": false}');
  END IF;
  PERFORM append_outbox_scope_event('PAUSED', v_actor,
    CASE WHEN p_kind = 'all' THEN 'all' ELSE p_kind || ':' || p_name END, jsonb_build_object('reason', p_reason));
  RETURN true;
END
$$;
COMMENT ON FUNCTION pause_outbox(text, text, text) IS
  'Pauses a rail, participant, ordered stream, or everything (all, all); returns false if already paused. Leases stay '
  'valid.';

CREATE OR REPLACE FUNCTION resume_outbox(p_kind text, p_name text, p_reason text) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
#variable_conflict use_column
DECLARE
  v_actor text := outbox_actor();
  v_unblocked uuid[];
BEGIN
  PERFORM check_outbox_pause(p_kind, p_name, p_reason);
  DELETE FROM outbox_pauses z WHERE z.kind = p_kind AND z.name = p_name;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  IF p_kind IN ('participant', 'stream') THEN
    -- Locks every row that a completion may hold, in the same order as completions.
    PERFORM 1 FROM payment_outbox_pending p
    WHERE p.participant_id = p_name AND p.blocked AND (p.lease_token IS NOT NULL OR NOT p.ordered)
    ORDER BY p.outbox_id FOR NO KEY UPDATE;
  END IF;
  IF p_kind = 'participant' THEN
    WITH unblocked AS (
      UPDATE payment_outbox_pending p SET blocked = false, block_unverified = false
      WHERE p.participant_id = p_name AND p.blocked AND NOT p.ordered
      RETURNING p.outbox_id
    )
    SELECT array_agg(u.outbox_id) INTO v_unblocked FROM unblocked u;
    PERFORM append_trail_events('UNBLOCKED', v_actor, v_unblocked, NULL);
  END IF;
  IF p_kind IN ('participant', 'stream') THEN
    PERFORM advance_outbox_streams(ARRAY[p_name]);
    -- Items that the pause blocked now wait for the head only. A concurrent completion of the head may not see them, so
    -- the first waiting item is marked for verification. Its own completion will see the items behind it.
    PERFORM mark_next_blocked_item(p_name, 0);
  END IF;
  PERFORM append_outbox_scope_event('RESUMED', v_actor,
    CASE WHEN p_kind = 'all' THEN 'all' ELSE p_kind || ':' || p_name END, jsonb_build_object('reason', p_reason));
  PERFORM wake_outbox_workers();
  RETURN true;
END
$$;
COMMENT ON FUNCTION resume_outbox(text, text, text) IS 'Ends a pause; returns false if there was none.';

-- Wakes workers that sleep until a later due time.
CREATE OR REPLACE FUNCTION wake_outbox_workers() RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
DECLARE
  v_enabled boolean;
BEGIN
  SELECT s.notify_enabled INTO v_enabled FROM symphony_settings s;
  -- A full notification queue would fail the COMMIT, and with it the operator's decision.
  IF v_enabled AND pg_notification_queue_usage() < 0.5 THEN
    NOTIFY outbox_pending, 'new_work';
  END IF;
END
$$;
COMMENT ON FUNCTION wake_outbox_workers() IS
  'Internal: sends NOTIFY outbox_pending, unless it is switched off or its queue is half full.';

CREATE OR REPLACE FUNCTION check_outbox_pause(p_kind text, p_name text, p_reason text) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
BEGIN
  IF p_kind IS NULL OR p_kind NOT IN ('rail', 'participant', 'stream', 'all') THEN
    PERFORM refuse_argument('p_kind', 'rail, participant, stream or all');
  END IF;
  IF p_kind = 'all' AND p_name IS DISTINCT FROM 'all' THEN
    PERFORM refuse_argument('p_name', 'all for a pause of everything');
  END IF;
  PERFORM check_id('p_name', p_name);
  PERFORM check_text('p_reason', p_reason, 1000);
END
$$;
COMMENT ON FUNCTION check_outbox_pause(text, text, text) IS 'Internal: raises 22023 unless a pause is well-formed.';
