-- Ordered dispatch and pauses: when an item must wait for something outside its own row.
--
-- Of a participant's ordered items only the first, the head, is not blocked. Who ends a head unblocks the next one. Three
-- parties act without waiting for each other, an enqueuer, a completer and an operator, so each may miss what another has
-- not yet committed. Whoever could have missed something leaves the row marked block_unverified, and the next claim or
-- repair settles it: either what it waits for can be locked (share), so it surely still stands and its ending will see
-- this row; or it is gone, and the row is unblocked; or it is being changed right now, and the mark stays for next time.

-- After ordered items ended: where one FAILED and its participant's policy says so, the stream halts; all others go on.
CREATE OR REPLACE FUNCTION end_outbox_heads(p_attempt_ids uuid[]) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: batch
#variable_conflict use_column
DECLARE
  v_failed record;
  v_blocked uuid[];
BEGIN
  FOR v_failed IN
    SELECT DISTINCT a.participant_id, a.outbox_id
    -- By id alone, one by one: on a small ledger the index of endings would look just as good, and stay in the plan.
    FROM unnest(p_attempt_ids) AS g(attempt_id)
    CROSS JOIN LATERAL (SELECT t.* FROM payment_outbox_attempts t WHERE t.attempt_id = g.attempt_id OFFSET 0) a
    JOIN participant_outbox_policies y ON y.participant_id = a.participant_id AND y.on_ordered_failure = 'halt'
    WHERE a.state = 'FAILED'
  LOOP
    INSERT INTO outbox_pauses (kind, name, reason, paused_by, paused_at)
    VALUES ('stream', v_failed.participant_id, 'ORDERED_HEAD_FAILED', 'symphony', clock_timestamp())
    ON CONFLICT DO NOTHING;
    IF FOUND THEN
      -- What failed need not have been the head: two people may end an item further back. Then the head is marked, as by
      -- any pause, unless somebody is changing it right now: who does may be waiting for what is held here.
      WITH blocked AS (
        UPDATE payment_outbox_pending p SET blocked = true
        WHERE p.outbox_id = ANY (ARRAY(
          SELECT q.outbox_id FROM payment_outbox_pending q
          WHERE q.participant_id = v_failed.participant_id AND q.ordered AND NOT q.blocked
          FOR NO KEY UPDATE SKIP LOCKED))
        RETURNING p.outbox_id
      )
      SELECT array_agg(b.outbox_id) INTO v_blocked FROM blocked b;
      PERFORM append_trail_events('BLOCKED', 'symphony', v_blocked, '{"block_unverified": false}');
      PERFORM append_outbox_scope_event('PAUSED', 'symphony', 'stream:' || v_failed.participant_id,
        jsonb_build_object('reason', 'ORDERED_HEAD_FAILED', 'outbox_id', v_failed.outbox_id));
    END IF;
  END LOOP;
  PERFORM advance_outbox_streams(ARRAY(
    SELECT DISTINCT a.participant_id FROM payment_outbox_attempts a WHERE a.attempt_id = ANY (p_attempt_ids)));
END
$$;
COMMENT ON FUNCTION end_outbox_heads(uuid[]) IS 'Internal: halts or advances the ordered streams in which these attempts ended an item.';

-- Unblocks the first ordered item of each participant, unless a pause stands. Idempotent. It looks again after each
-- step, because the item it found may have been ended by someone else while it waited for the row.
--
-- On a snapshot that does not move (REPEATABLE READ), an item enqueued since would stay unseen, and a mark settled since
-- would still look unsettled. So whatever may have changed since (the participant's number, the mark) is touched here,
-- which raises 40001 if it has; and an item whose enqueuer has yet to commit can be settled by nobody while this
-- transaction holds what it waits for.
CREATE OR REPLACE FUNCTION advance_outbox_streams(p_participant_ids text[]) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: batch
#variable_conflict use_column
DECLARE
  v_snapshot_stays boolean := current_setting('transaction_isolation') <> 'read committed';
  v_heads uuid[];
  v_unblocked uuid[];
  v_blocked uuid[];
  v_full_trail boolean;
BEGIN
  IF v_snapshot_stays THEN
    INSERT INTO participant_outbox_sequences (participant_id, next_sequence_id)
    SELECT s.participant_id, 1 FROM unnest(p_participant_ids) AS s(participant_id)
    WHERE NOT EXISTS (SELECT 1 FROM participant_outbox_sequences q WHERE q.participant_id = s.participant_id)
    ON CONFLICT DO NOTHING;
    PERFORM 1 FROM participant_outbox_sequences s WHERE s.participant_id = ANY (p_participant_ids) FOR SHARE SKIP LOCKED;
  END IF;
  LOOP
    v_heads := ARRAY(
      SELECT head.outbox_id
      FROM unnest(p_participant_ids) AS s(participant_id)
      CROSS JOIN LATERAL (
        SELECT p.outbox_id, p.blocked, p.block_unverified FROM payment_outbox_pending p
        WHERE p.participant_id = s.participant_id AND p.ordered
        ORDER BY p.participant_id, COALESCE(p.stream_position, p.sequence_id) LIMIT 1
      ) head
      WHERE head.blocked AND (v_snapshot_stays OR NOT head.block_unverified));
    EXIT WHEN cardinality(v_heads) = 0;
    WITH settled AS (
      UPDATE payment_outbox_pending p
      -- A pause that is being lifted this very moment would not see this row: the mark makes someone look again.
      SET blocked = paused.now, block_unverified = paused.now
      FROM (
        SELECT h.outbox_id, EXISTS (
          SELECT 1 FROM outbox_pauses z
          JOIN payment_outbox_pending q ON q.outbox_id = h.outbox_id AND z.name = q.participant_id
          WHERE z.kind IN ('participant', 'stream')) AS now
        FROM unnest(v_heads) AS h(outbox_id)
      ) paused
      WHERE p.outbox_id = paused.outbox_id
      RETURNING p.outbox_id, p.blocked
    )
    SELECT array_agg(s.outbox_id) FILTER (WHERE NOT s.blocked), array_agg(s.outbox_id) FILTER (WHERE s.blocked)
    INTO v_unblocked, v_blocked FROM settled s;
    SELECT s.full_trail INTO v_full_trail FROM symphony_settings s;
    IF v_full_trail THEN
      PERFORM append_outbox_events('UNBLOCKED', 'symphony', v_unblocked, NULL);
      PERFORM append_trail_events('BLOCKED', 'symphony', v_blocked, '{"block_unverified": true}');
    END IF;
    EXIT WHEN v_snapshot_stays;
  END LOOP;
END
$$;
COMMENT ON FUNCTION advance_outbox_streams(text[]) IS 'Internal: unblocks the first ordered item of each participant that is not paused.';

-- Settles items that were blocked on the word of a transaction that may not have seen another commit beside it.
CREATE OR REPLACE FUNCTION verify_blocked_outbox_items(p_limit integer) RETURNS integer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: ordered
#variable_conflict use_column
DECLARE
  v_item record;
  v_stands boolean;
  v_changing boolean;
  v_unblocked integer := 0;
BEGIN
  FOR v_item IN
    SELECT p.outbox_id, p.participant_id, COALESCE(p.stream_position, p.sequence_id) AS position, p.ordered,
      (SELECT s.full_trail FROM symphony_settings s) AS full_trail
    FROM payment_outbox_pending p
    WHERE p.block_unverified
    ORDER BY p.participant_id, p.sequence_id LIMIT p_limit FOR UPDATE SKIP LOCKED
  LOOP
    PERFORM 1 FROM outbox_pauses z
    WHERE z.name = v_item.participant_id AND (z.kind = 'participant' OR (z.kind = 'stream' AND v_item.ordered))
    FOR KEY SHARE SKIP LOCKED;
    v_stands := FOUND;
    v_changing := NOT v_stands AND EXISTS (
      SELECT 1 FROM outbox_pauses z
      WHERE z.name = v_item.participant_id AND (z.kind = 'participant' OR (z.kind = 'stream' AND v_item.ordered)));
    IF v_item.ordered AND NOT v_stands AND NOT v_changing THEN
      PERFORM 1 FROM payment_outbox_pending p
      WHERE p.participant_id = v_item.participant_id AND p.ordered AND COALESCE(p.stream_position, p.sequence_id) < v_item.position
      ORDER BY p.participant_id, COALESCE(p.stream_position, p.sequence_id) LIMIT 1 FOR KEY SHARE SKIP LOCKED;
      v_stands := FOUND;
      v_changing := NOT v_stands AND EXISTS (
        SELECT 1 FROM payment_outbox_pending p
        WHERE p.participant_id = v_item.participant_id AND p.ordered AND COALESCE(p.stream_position, p.sequence_id) < v_item.position);
    END IF;
    IF NOT v_changing THEN
      UPDATE payment_outbox_pending p SET blocked = v_stands, block_unverified = false
      WHERE p.outbox_id = v_item.outbox_id;
      v_unblocked := v_unblocked + (NOT v_stands)::integer;
      IF v_item.full_trail THEN
        PERFORM append_outbox_events(CASE WHEN v_stands THEN 'BLOCKED' ELSE 'UNBLOCKED' END, 'symphony', ARRAY[v_item.outbox_id],
          ARRAY[CASE WHEN v_stands THEN '{"block_unverified": false}'::jsonb END]);
      END IF;
    END IF;
  END LOOP;
  RETURN v_unblocked;
END
$$;
COMMENT ON FUNCTION verify_blocked_outbox_items(integer) IS 'Internal: confirms or lifts blocks that may rest on a missed commit.';

CREATE OR REPLACE FUNCTION set_participant_outbox_policy(p_participant_id text, p_on_ordered_failure text) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
BEGIN
  IF NOT is_id(p_participant_id) THEN
    PERFORM refuse_argument('p_participant_id', '1 to 128 printable ASCII characters without spaces');
  END IF;
  IF p_on_ordered_failure IS NULL OR p_on_ordered_failure NOT IN ('continue', 'halt') THEN
    PERFORM refuse_argument('p_on_ordered_failure', 'continue or halt');
  END IF;
  INSERT INTO participant_outbox_policies (participant_id, on_ordered_failure)
  VALUES (p_participant_id, p_on_ordered_failure)
  ON CONFLICT (participant_id) DO UPDATE SET on_ordered_failure = EXCLUDED.on_ordered_failure;
  -- A scope of its own: the row lock above orders its events, and would not order those of a pause.
  PERFORM append_outbox_scope_event('POLICY_SET', outbox_actor(), 'policy:' || p_participant_id,
    jsonb_build_object('on_ordered_failure', p_on_ordered_failure));
END
$$;
COMMENT ON FUNCTION set_participant_outbox_policy(text, text) IS
  'Says whether a FAILED head of a participant''s ordered stream lets the next one go (continue) or stops the stream (halt).';
