-- Expired leases: the ledger row and the next state of their items. complete.sql has the rules of outcomes.

CREATE OR REPLACE FUNCTION expire_outbox_leases(p_outbox_ids uuid[], p_found_by text, p_reschedule boolean)
RETURNS TABLE (outbox_id uuid, attempt_no integer, placed_hold text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: batch
#variable_conflict use_column
DECLARE
  v_now timestamptz := clock_timestamp();
  v_full_trail boolean;
  v_expired uuid[];
  v_numbers integer[];
  v_attempt_ids uuid[];
  v_placed_holds text[];
BEGIN
  WITH judged AS MATERIALIZED (
    SELECT p.*, uuid_v7() AS attempt_id, COALESCE(last.attempt_no, 0) + 1 AS attempt_no,
      p.outcome_unknown OR p.dispatch_mark IS DISTINCT FROM 'awaited' AS unknown,
      CASE
        WHEN COALESCE(last.attempt_no, 0) >= outbox_attempt_ceiling() THEN p.ceiling_hold
        -- The next claimer completes the item with the late success and calls no rail. A hold would prevent that claim.
        -- One such claim is allowed beyond the ceiling (complete.sql).
        WHEN p.late_outcome ->> 'state' = 'DISPATCHED' THEN NULL
        WHEN COALESCE(last.attempt_no, 0) + 1 >= outbox_attempt_ceiling() THEN p.ceiling_hold
        WHEN p.dispatch_mark = 'begun' THEN 'OUTCOME_UNKNOWN'
      END AS new_hold_reason
    FROM unnest(p_outbox_ids) AS g(outbox_id)
    CROSS JOIN LATERAL (SELECT q.*, q.ctid AS place, CASE WHEN q.is_message AND q.outcome_topic IS NOT NULL
      THEN 'OUTCOME_NOT_DELIVERED' ELSE 'RETRY_CEILING' END AS ceiling_hold
      FROM payment_outbox_pending q WHERE q.outbox_id = g.outbox_id OFFSET 0) p
    LEFT JOIN LATERAL (
      SELECT a.attempt_no FROM payment_outbox_attempts a
      WHERE a.outbox_id = p.outbox_id ORDER BY a.attempt_no DESC LIMIT 1
    ) last ON true
    WHERE p.lease_expires_at <= v_now
  ), recorded AS (
    INSERT INTO payment_outbox_attempts
      (attempt_id, outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type, payload,
        attempt_no, state, claimed_at, completed_at, error_code, worker_id, lease_token, created_at, action,
        outcome_unknown)
    SELECT j.attempt_id, j.outbox_id, j.instruction_id, j.participant_id, j.sequence_id, j.idempotency_key,
      j.rail_type, j.payload, j.attempt_no, 'ZOMBIE_REQUEUE', j.claimed_at, v_now, 'LEASE_EXPIRED', j.claimed_by,
      j.lease_token, v_now, 'expired', j.unknown
    FROM judged j
  ), returned AS (
    UPDATE payment_outbox_pending p
    SET claimed_by = NULL, lease_token = NULL, lease_expires_at = NULL, claimed_at = NULL, dispatch_mark = NULL,
      expiry_streak = p.expiry_streak + 1,
      outcome_unknown = j.unknown,
      attempt_count = GREATEST(p.attempt_count, LEAST(j.attempt_no, outbox_attempt_ceiling())),
      next_attempt_at = CASE WHEN p_reschedule THEN v_now + interval '1 second' ELSE p.next_attempt_at END,
      hold_reason = COALESCE(p.hold_reason, j.new_hold_reason),
      held_by = COALESCE(p.held_by, CASE WHEN j.new_hold_reason IS NOT NULL THEN p_found_by END),
      held_at = COALESCE(p.held_at, CASE WHEN j.new_hold_reason IS NOT NULL THEN v_now END)
    FROM judged j
    WHERE p.ctid = j.place
  ), tallied AS (
    INSERT INTO outbox_attempt_tallies (recorded_at, is_message, zombie_requeue, outcome_unknown)
    SELECT v_now, j.is_message, count(*), count(*) FILTER (WHERE j.unknown) FROM judged j GROUP BY j.is_message
  )
  SELECT COALESCE(array_agg(j.outbox_id), '{}'), COALESCE(array_agg(j.attempt_no), '{}'),
    COALESCE(array_agg(j.attempt_id), '{}'),
    -- An earlier hold stays and is not reported as new.
    COALESCE(array_agg(CASE WHEN j.hold_reason IS NULL THEN j.new_hold_reason END), '{}')
  INTO v_expired, v_numbers, v_attempt_ids, v_placed_holds
  FROM judged j;

  SELECT s.full_trail INTO v_full_trail FROM symphony_settings s;
  IF v_full_trail THEN
    PERFORM append_outbox_events('LEASE_EXPIRED_REPAIRED', p_found_by, array_agg(p.outbox_id),
      array_agg(jsonb_build_object('next_attempt_at', epoch_micros(p.next_attempt_at), 'attempt_no', x.attempt_no,
        'outcome_unknown', p.outcome_unknown)), array_agg(x.attempt_id))
    FROM unnest(v_expired, v_numbers, v_attempt_ids) AS x(outbox_id, attempt_no, attempt_id)
    JOIN payment_outbox_pending p ON p.outbox_id = x.outbox_id;
  END IF;
  PERFORM append_outbox_events('HOLD_PLACED', p_found_by, array_agg(p.outbox_id),
    array_agg(outbox_hold_detail(p.hold_reason, p.held_at)), array_agg(x.attempt_id))
  FROM unnest(v_expired, v_attempt_ids) AS x(outbox_id, attempt_id)
  JOIN payment_outbox_pending p ON p.outbox_id = x.outbox_id
  WHERE p.held_at = v_now;

  RETURN QUERY SELECT x.outbox_id, x.attempt_no, x.placed_hold
  FROM unnest(v_expired, v_numbers, v_placed_holds) AS x(outbox_id, attempt_no, placed_hold);
END
$$;
COMMENT ON FUNCTION expire_outbox_leases(uuid[], text, boolean) IS
  'Internal: writes ZOMBIE_REQUEUE for locked rows whose lease expired, clears the lease and sets outcome_unknown. '
  'Holds an item at the ceiling or with a begun dispatch. A known late success prevents the hold, but not beyond the '
  'ceiling.';

CREATE OR REPLACE FUNCTION repair_expired_leases(
  p_batch_size integer, p_worker_id text, p_report_failures boolean DEFAULT false
) RETURNS TABLE (outbox_id uuid, attempt_no integer, placed_hold text, failure text)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: claim
#variable_conflict use_column
DECLARE
  v_now timestamptz;
  v_wanted integer := p_batch_size;
  v_expired uuid[];
  v_last boolean;
  v_outbox_id uuid;
  v_bad uuid[] := '{}'::uuid[];
BEGIN
  IF p_batch_size IS NULL OR p_batch_size NOT BETWEEN 1 AND 1000 THEN
    PERFORM refuse_argument('p_batch_size', '1 to 1000');
  END IF;
  IF NOT is_id(p_worker_id) THEN
    PERFORM refuse_argument('p_worker_id', '1 to 128 printable ASCII characters without spaces');
  END IF;
  IF p_report_failures IS NULL THEN
    PERFORM refuse_argument('p_report_failures', 'true or false');
  END IF;
  PERFORM verify_blocked_outbox_items(1000);
  PERFORM roll_up_outbox_tallies();
  PERFORM prune_outbox_limit_usage();
  PERFORM prune_reconciliation_uploads();
  -- A row that cannot be repaired must not block the others. The call skips such rows, and ends once it has skipped
  -- 1,000 or more. The next call tries them again.
  LOOP
    v_now := clock_timestamp();
    v_expired := ARRAY(
      SELECT p.outbox_id FROM payment_outbox_pending p
      WHERE p.lease_token IS NOT NULL AND p.lease_expires_at <= v_now AND p.outbox_id <> ALL (v_bad)
      ORDER BY p.lease_expires_at LIMIT v_wanted FOR UPDATE SKIP LOCKED);
    EXIT WHEN cardinality(v_expired) = 0;
    BEGIN
      RETURN QUERY
      SELECT e.outbox_id, e.attempt_no, e.placed_hold, NULL::text FROM expire_outbox_leases(v_expired, p_worker_id,
        true) e;
      EXIT;
    EXCEPTION
      WHEN serialization_failure OR deadlock_detected THEN
        RAISE;
      WHEN OTHERS THEN
        RAISE WARNING 'lease repair: the set of % failed (%), repairing one by one', cardinality(v_expired), SQLERRM;
    END;
    v_last := cardinality(v_expired) < v_wanted;
    FOREACH v_outbox_id IN ARRAY v_expired LOOP
      BEGIN
        RETURN QUERY
        SELECT e.outbox_id, e.attempt_no, e.placed_hold, NULL::text
        FROM expire_outbox_leases(ARRAY[v_outbox_id], p_worker_id, true) e;
        v_wanted := v_wanted - 1;
      EXCEPTION
        WHEN serialization_failure OR deadlock_detected THEN
          RAISE;
        WHEN OTHERS THEN
          RAISE WARNING 'lease repair: outbox item % stays leased: % (%)', v_outbox_id, SQLERRM, SQLSTATE;
          v_bad := v_bad || v_outbox_id;
          IF p_report_failures THEN
            RETURN QUERY
            SELECT v_outbox_id, COALESCE(max(a.attempt_no), 0) + 1, NULL::text, SQLSTATE
            FROM payment_outbox_attempts a WHERE a.outbox_id = v_outbox_id;
          END IF;
      END;
    END LOOP;
    EXIT WHEN v_last OR v_wanted = 0 OR cardinality(v_bad) >= 1000;
  END LOOP;
END
$$;
COMMENT ON FUNCTION repair_expired_leases(integer, text, boolean) IS
  'Requeues items whose lease expired, each with its ledger row. Returns the repaired items and new holds; with '
  'p_report_failures also the items that it could not repair, with the SQLSTATE.';
