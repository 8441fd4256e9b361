-- The short way of a completion, for items that their rail has paid. The rules of an outcome are in complete.sql.

-- The way of nearly every outcome: the rail said yes. Nothing is to be weighed then, so the item is not locked, read
-- and deleted in three steps but deleted in one, and its ledger row made of what the deletion returns. It returns
-- nothing when there is anything to weigh after all, and has changed nothing then: a lease that ended meanwhile, a
-- token that is not the row's, a lease named twice.
--
-- The keys are visited in the order of ids, as lock_live_outbox_leases does. That the last attempt is read by the
-- snapshot of the deletion is no danger: whoever appends an attempt takes the lease out of the row, and the deletion
-- does not find it.
CREATE OR REPLACE FUNCTION end_dispatched_outbox_items(
  p_outbox_ids uuid[], p_lease_tokens uuid[], p_worker_id text, p_rail_references text[], p_rail_codes text[],
  p_error_codes text[], p_error_messages text[], p_latencies_ms integer[], p_actions text[]
) RETURNS TABLE (
  recorded integer[], outbox_ids uuid[], attempt_ids uuid[], attempt_nos integer[], heads uuid[],
  contradicted uuid[], contradictions jsonb[], contradicted_by uuid[]
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: paid
#variable_conflict use_column
DECLARE
  v_now timestamptz := clock_timestamp();
  v_deleted bigint;
  v_soonest_expiry timestamptz;
BEGIN
  WITH ended AS MATERIALIZED (
    DELETE FROM payment_outbox_pending p
    WHERE p.outbox_id = ANY (p_outbox_ids) AND p.claimed_by = p_worker_id AND p.lease_expires_at > v_now
    RETURNING p.outbox_id, p.instruction_id, p.participant_id, p.sequence_id, p.idempotency_key, p.rail_type, p.payload,
      p.claimed_at, p.lease_token, p.lease_expires_at, p.late_outcome, p.ordered
  ), judged AS MATERIALIZED (
    SELECT g.ordinal::integer, e.*, g.rail_reference, g.rail_code, g.error_code, g.error_message, g.latency_ms,
      COALESCE(g.action, 'sent') AS action, uuid_v7() AS attempt_id, COALESCE(last.attempt_no, 0) + 1 AS attempt_no,
      outbox_other_success(e.late_outcome, g.rail_reference) AS contradiction
    FROM ended e
    JOIN unnest(p_outbox_ids, p_lease_tokens, p_rail_references, p_rail_codes, p_error_codes, p_error_messages,
      p_latencies_ms,
        p_actions)
      WITH ORDINALITY AS g(outbox_id, lease_token, rail_reference, rail_code, error_code, error_message, latency_ms,
        action, ordinal)
      ON g.outbox_id = e.outbox_id AND g.lease_token = e.lease_token
    LEFT JOIN LATERAL (
      SELECT a.attempt_no FROM payment_outbox_attempts a
      WHERE a.outbox_id = e.outbox_id ORDER BY a.attempt_no DESC LIMIT 1
    ) last ON true
  ), appended AS (
    INSERT INTO payment_outbox_attempts
      (attempt_id, outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type, payload,
        attempt_no, state, claimed_at, completed_at, rail_reference, rail_code, error_code, error_message, latency_ms,
        worker_id, lease_token, created_at, action, outcome_unknown)
    SELECT j.attempt_id, j.outbox_id, j.instruction_id, j.participant_id, j.sequence_id, j.idempotency_key,
      j.rail_type, j.payload, j.attempt_no, 'DISPATCHED', j.claimed_at, v_now, j.rail_reference, j.rail_code,
      j.error_code, j.error_message, j.latency_ms, p_worker_id, j.lease_token, v_now,
      j.action, false
    FROM judged j
  ), tallied AS (
    INSERT INTO outbox_attempt_tallies (recorded_at, dispatched)
    SELECT v_now, count(*) FROM ended HAVING count(*) > 0
  )
  SELECT array_agg(j.ordinal), array_agg(j.outbox_id), array_agg(j.attempt_id), array_agg(j.attempt_no),
    array_agg(j.attempt_id) FILTER (WHERE j.ordered),
    array_agg(j.outbox_id) FILTER (WHERE j.contradiction IS NOT NULL),
    array_agg(j.contradiction) FILTER (WHERE j.contradiction IS NOT NULL),
    array_agg(j.attempt_id) FILTER (WHERE j.contradiction IS NOT NULL),
    (SELECT count(*) FROM ended), min(j.lease_expires_at)
  INTO recorded, outbox_ids, attempt_ids, attempt_nos, heads, contradicted, contradictions, contradicted_by,
    v_deleted, v_soonest_expiry
  FROM judged j;
  -- The rows are locked: only now the clock says whose lease is live.
  IF v_deleted <> COALESCE(cardinality(recorded), 0) OR v_soonest_expiry <= clock_timestamp() THEN
    RAISE unique_violation;
  END IF;
  recorded := COALESCE(recorded, '{}');
  RETURN NEXT;
EXCEPTION WHEN unique_violation THEN
  -- Also what a lease named twice raises by itself. Undone as a whole, and left to the long way, which raises what is
  -- one.
  RETURN;
END
$$;
COMMENT ON FUNCTION end_dispatched_outbox_items(uuid[], uuid[], text, text[], text[], text[], text[], integer[],
  text[]) IS
  'Internal: records items that the rail has paid, if nothing else is to be weighed; returns what it did, or nothing.';
