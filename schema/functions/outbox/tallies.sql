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
