-- Ordered dispatch and pauses: items that are blocked by another row.
--
-- Only the first of a participant's ordered items, the head, is not blocked. A completion of the head unblocks the next
-- item. Enqueue, completion and operator do not wait for each other, so each may miss an uncommitted change of another.
-- A transaction that may have missed one sets block_unverified, and the next claim or repair verifies the block. If the
-- cause of the block can be locked (share), the block stands, and the transaction that ends the cause will see this
-- row. If the cause is gone, the row is unblocked. If another transaction is changing the cause, the mark stays for the
-- next verification.

-- Halts the stream of a FAILED item if its participant's policy is halt, and advances the other streams. A cancelled
-- item halts no stream: its application wants the items behind it to go on.
CREATE OR REPLACE FUNCTION settle_ordered_heads(p_attempt_ids uuid[]) RETURNS void
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
    -- Looks up each attempt by id: on a small ledger the planner could choose the index of terminal attempts, and a
    -- connection would keep that plan.
    FROM unnest(p_attempt_ids) AS g(attempt_id)
    CROSS JOIN LATERAL (SELECT t.* FROM payment_outbox_attempts t WHERE t.attempt_id = g.attempt_id OFFSET 0) a
    JOIN participant_outbox_policies y ON y.participant_id = a.participant_id AND y.on_ordered_failure = 'halt'
    WHERE a.state = 'FAILED' AND a.action <> 'cancelled'
  LOOP
    INSERT INTO outbox_pauses (kind, name, reason, paused_by, paused_at)
    VALUES ('stream', v_failed.participant_id, 'ORDERED_HEAD_FAILED', 'symphony', clock_timestamp())
    ON CONFLICT DO NOTHING;
    IF FOUND THEN
      -- The failed item need not be the head, because operators may fail a later item. Then the head is blocked as by
      -- any pause. A head that another transaction has locked is skipped, because that one may wait for a lock of this
      -- transaction.
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
COMMENT ON FUNCTION settle_ordered_heads(uuid[]) IS
  'Internal: halts or advances the ordered streams of these terminal attempts.';

-- Unblocks the first ordered item of each participant that is not paused. Idempotent. The loop repeats the query,
-- because another transaction may have completed the item while this one waited for the row.
--
-- A REPEATABLE READ snapshot misses later enqueues and verifications. The function therefore locks the rows that they
-- change (the participant's sequence, the marked item), which raises 40001 after such a change. An item whose enqueue
-- is not yet committed keeps its mark, because its verification needs locks that this transaction holds.
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
    PERFORM 1 FROM participant_outbox_sequences s
    WHERE s.participant_id = ANY (p_participant_ids) FOR SHARE SKIP LOCKED;
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
      -- A concurrent resume would not see this row. The mark makes a later claim verify the block.
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
COMMENT ON FUNCTION advance_outbox_streams(text[]) IS
  'Internal: unblocks the first ordered item of each participant that is not paused.';

-- Marks the first blocked ordered item behind a position for verification, because the completion of the head may not
-- see it. Its own completion will see the items behind it. Repeats the query if another transaction ended the item.
CREATE OR REPLACE FUNCTION mark_next_blocked_item(p_participant_id text, p_position bigint) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
#variable_conflict use_column
DECLARE
  v_next uuid;
BEGIN
  LOOP
    SELECT p.outbox_id INTO v_next FROM payment_outbox_pending p
    WHERE p.participant_id = p_participant_id AND p.ordered AND p.blocked
      AND COALESCE(p.stream_position, p.sequence_id) > p_position
    ORDER BY p.participant_id, COALESCE(p.stream_position, p.sequence_id) LIMIT 1;
    EXIT WHEN v_next IS NULL;
    UPDATE payment_outbox_pending p SET block_unverified = true WHERE p.outbox_id = v_next AND p.blocked;
    EXIT WHEN FOUND;
  END LOOP;
  IF v_next IS NOT NULL THEN
    PERFORM append_trail_events('BLOCKED', 'symphony', ARRAY[v_next], '{"block_unverified": true}');
  END IF;
END
$$;
COMMENT ON FUNCTION mark_next_blocked_item(text, bigint) IS
  'Internal: marks the first blocked ordered item behind a position for verification.';

-- Verifies items with block_unverified: the transaction that blocked them may have missed a concurrent commit.
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
      WHERE p.participant_id = v_item.participant_id AND p.ordered
        AND COALESCE(p.stream_position, p.sequence_id) < v_item.position
      ORDER BY p.participant_id, COALESCE(p.stream_position, p.sequence_id) LIMIT 1 FOR KEY SHARE SKIP LOCKED;
      v_stands := FOUND;
      v_changing := NOT v_stands AND EXISTS (
        SELECT 1 FROM payment_outbox_pending p
        WHERE p.participant_id = v_item.participant_id AND p.ordered
          AND COALESCE(p.stream_position, p.sequence_id) < v_item.position);
    END IF;
    IF NOT v_changing THEN
      UPDATE payment_outbox_pending p SET blocked = v_stands, block_unverified = false
      WHERE p.outbox_id = v_item.outbox_id;
      v_unblocked := v_unblocked + (NOT v_stands)::integer;
      IF v_item.full_trail THEN
        PERFORM append_outbox_events(CASE WHEN v_stands THEN 'BLOCKED' ELSE 'UNBLOCKED' END, 'symphony',
          ARRAY[v_item.outbox_id], ARRAY[CASE WHEN v_stands THEN '{"block_unverified": false}'::jsonb END]);
      END IF;
    END IF;
  END LOOP;
  RETURN v_unblocked;
END
$$;
COMMENT ON FUNCTION verify_blocked_outbox_items(integer) IS
  'Internal: confirms or lifts blocks that may be due to a missed commit.';

CREATE OR REPLACE FUNCTION set_participant_outbox_policy(p_participant_id text, p_on_ordered_failure text) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
BEGIN
  PERFORM check_id('p_participant_id', p_participant_id);
  IF p_on_ordered_failure IS NULL OR p_on_ordered_failure NOT IN ('continue', 'halt') THEN
    PERFORM refuse_argument('p_on_ordered_failure', 'continue or halt');
  END IF;
  INSERT INTO participant_outbox_policies (participant_id, on_ordered_failure)
  VALUES (p_participant_id, p_on_ordered_failure)
  ON CONFLICT (participant_id) DO UPDATE SET on_ordered_failure = EXCLUDED.on_ordered_failure;
  -- Uses its own scope, because the row lock above does not order the events of a pause of the participant.
  PERFORM append_outbox_scope_event('POLICY_SET', outbox_actor(), 'policy:' || p_participant_id,
    jsonb_build_object('on_ordered_failure', p_on_ordered_failure));
END
$$;
COMMENT ON FUNCTION set_participant_outbox_policy(text, text) IS
  'Sets whether a FAILED head of a participant''s ordered stream unblocks the next item (continue) or halts the stream '
  '(halt).';
