-- Adds the tallies to totals per minute, and minutes older than two hours to one row. The lock on the settings admits
-- one caller at a time; another caller returns at once.
CREATE OR REPLACE FUNCTION roll_up_outbox_tallies() RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
DECLARE
  v_folded bigint;
BEGIN
  PERFORM 1 FROM symphony_settings s FOR UPDATE SKIP LOCKED;
  IF NOT FOUND THEN
    RETURN 0;
  END IF;
  WITH taken AS (
    DELETE FROM outbox_attempt_tallies t
    WHERE t.ctid = ANY (ARRAY(SELECT c.ctid FROM outbox_attempt_tallies c LIMIT 10000 FOR UPDATE SKIP LOCKED))
    RETURNING t.*
  ), merged AS (
    INSERT INTO outbox_attempt_totals AS o
      (minute, is_message, dispatched, retryable, failed, zombie_requeue, outcome_unknown, returned, cancelled)
    SELECT date_trunc('minute', t.recorded_at, 'UTC'), t.is_message, sum(t.dispatched), sum(t.retryable), sum(t.failed),
      sum(t.zombie_requeue), sum(t.outcome_unknown), sum(t.returned), sum(t.cancelled)
    FROM taken t GROUP BY 1, 2 ORDER BY 1, 2
    ON CONFLICT (minute, is_message) DO UPDATE
    SET dispatched = o.dispatched + EXCLUDED.dispatched, retryable = o.retryable + EXCLUDED.retryable,
      failed = o.failed + EXCLUDED.failed, zombie_requeue = o.zombie_requeue + EXCLUDED.zombie_requeue,
      outcome_unknown = o.outcome_unknown + EXCLUDED.outcome_unknown, returned = o.returned + EXCLUDED.returned,
      cancelled = o.cancelled + EXCLUDED.cancelled
  )
  SELECT count(*) INTO v_folded FROM taken;
  WITH old AS (
    DELETE FROM outbox_attempt_totals o
    WHERE o.minute > '-infinity' AND o.minute < now() - interval '2 hours'
    RETURNING o.*
  )
  INSERT INTO outbox_attempt_totals AS o
    (minute, is_message, dispatched, retryable, failed, zombie_requeue, outcome_unknown, returned, cancelled)
  SELECT '-infinity', d.is_message, sum(d.dispatched), sum(d.retryable), sum(d.failed), sum(d.zombie_requeue),
    sum(d.outcome_unknown), sum(d.returned), sum(d.cancelled)
  FROM old d GROUP BY d.is_message
  ON CONFLICT (minute, is_message) DO UPDATE
  SET dispatched = o.dispatched + EXCLUDED.dispatched, retryable = o.retryable + EXCLUDED.retryable,
    failed = o.failed + EXCLUDED.failed, zombie_requeue = o.zombie_requeue + EXCLUDED.zombie_requeue,
    outcome_unknown = o.outcome_unknown + EXCLUDED.outcome_unknown, returned = o.returned + EXCLUDED.returned,
    cancelled = o.cancelled + EXCLUDED.cancelled;
  RETURN v_folded;
END
$$;
COMMENT ON FUNCTION roll_up_outbox_tallies() IS
  'Internal: adds the tallies of recorded attempts to totals per minute.';

-- Stores counts, because supervisor_outbox_status takes a second to read a million pending items. Counts of a smaller
-- queue are not stored, so that each reader gets exact ones. A queue above 4 GiB is not counted, because the heartbeat
-- would time out. The function counts before its first write, because sealing waits for older writing transactions.
CREATE OR REPLACE FUNCTION count_outbox_queue(p_items_min bigint) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
DECLARE
  v_started CONSTANT timestamptz := clock_timestamp();
  v_last timestamptz;
  v_parts jsonb;
BEGIN
  -- A row has 300 bytes or more, so a table below the lower bound has fewer than p_items_min items.
  IF pg_relation_size('payment_outbox_pending') NOT BETWEEN p_items_min * 300 AND 4294967296 THEN
    RETURN;
  END IF;
  SELECT c.counted_at INTO v_last FROM outbox_queue_counts c
  WHERE v_started NOT BETWEEN c.counted_at AND c.counted_at + c.count_again_after;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  SELECT jsonb_agg(to_jsonb(q)) INTO v_parts FROM outbox_queue_parts q
  HAVING sum(q.items) >= p_items_min AND count(*) <= 1000;
  UPDATE outbox_queue_counts c
  SET counted_at = v_started, parts = v_parts,
    count_again_after = GREATEST(20 * (clock_timestamp() - v_started), interval '5 seconds')
  WHERE c.counted_at = v_last;
END
$$;
COMMENT ON FUNCTION count_outbox_queue(bigint) IS
  'Internal: stores the counts of a queue with at least this many items, unless they are fresh.';
