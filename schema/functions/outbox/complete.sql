-- Outcomes of attempts. An outcome has one of four sources, and each appends exactly one ledger row: a worker completes
-- (complete_outbox_attempts), a lease expires (expire_outbox_leases), two people decide (decisions.sql), or a caller
-- cancels (cancel.sql).
--
-- Rules for outcomes:
--   * the attempt number is the ledger's highest plus one, read after the row is locked;
--   * DISPATCHED and FAILED are terminal; a unique index refuses a second terminal attempt;
--   * the 20th RETRYABLE makes the item FAILED, or held if its outcome is unknown;
--   * an item of unknown outcome is held instead of FAILED, whichever counter, rail code or check would fail it;
--   * an outcome message is held at the ceiling and never FAILED by it; its backoff grows to six hours;
--   * an operator's RETRY, or a late success that was still unused when the lease expired, allows one attempt beyond
--     the ceiling; if that attempt is not terminal, the item is held again;
--   * a completion resets expiry_streak, unless it only inquired and the outcome is still unknown: then the call that
--     may have crashed the workers was not repeated.

CREATE OR REPLACE FUNCTION outbox_attempt_ceiling() RETURNS integer
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN 20;
COMMENT ON FUNCTION outbox_attempt_ceiling() IS
  'Returns the number of recorded attempts after which an item is FAILED or held.';

-- Returns 5 s, 10 s, 20 s … at most p_longest_seconds. A hash of the id shortens each delay by up to a fifth. So items
-- that failed together are retried at different times, and the same arguments always give the same delay.
CREATE OR REPLACE FUNCTION outbox_backoff(p_attempt_no integer, p_outbox_id uuid, p_longest_seconds integer DEFAULT 300)
RETURNS interval
LANGUAGE plpgsql IMMUTABLE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
DECLARE
  v_hash bytea;
BEGIN
  IF p_attempt_no IS NULL OR p_attempt_no < 1 THEN
    PERFORM refuse_argument('p_attempt_no', '1 or more');
  END IF;
  IF p_outbox_id IS NULL THEN
    PERFORM refuse_argument('p_outbox_id', 'an id');
  END IF;
  IF p_longest_seconds IS NULL OR p_longest_seconds NOT BETWEEN 5 AND 86400 THEN
    PERFORM refuse_argument('p_longest_seconds', '5 to 86400');
  END IF;
  v_hash := sha256(uuid_send(p_outbox_id));
  RETURN make_interval(secs => LEAST(5 * 2 ^ LEAST(p_attempt_no - 1, 16), p_longest_seconds)
    * (1 - 0.2 * (get_byte(v_hash, 0) * 256 + get_byte(v_hash, 1)) / 65536.0));
END
$$;
COMMENT ON FUNCTION outbox_backoff(integer, uuid, integer) IS
  'Returns the delay after attempt n: exponential, at most p_longest_seconds, spread by a hash of the id.';

-- Two successes under two rail references may be two payments. The second one, recorded by a worker or by operators,
-- opens a contradiction.
CREATE OR REPLACE FUNCTION contradicting_late_success(p_late_outcome jsonb, p_rail_reference text) RETURNS jsonb
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN CASE
  WHEN p_late_outcome ->> 'state' = 'DISPATCHED' AND p_late_outcome ->> 'rail_reference' IS DISTINCT
    FROM p_rail_reference
  THEN p_late_outcome
END;
COMMENT ON FUNCTION contradicting_late_success(jsonb, text) IS
  'Internal: returns the late outcome if it is a success under another rail reference; else null.';

CREATE OR REPLACE FUNCTION complete_outbox_attempts(
  p_outbox_ids uuid[], p_lease_tokens uuid[], p_worker_id text, p_states text[],
  p_rail_references text[] DEFAULT NULL, p_rail_codes text[] DEFAULT NULL,
  p_error_codes text[] DEFAULT NULL, p_error_messages text[] DEFAULT NULL,
  p_latencies_ms integer[] DEFAULT NULL, p_retry_delays_seconds integer[] DEFAULT NULL,
  p_outcomes_unknown boolean[] DEFAULT NULL, p_hold_reasons text[] DEFAULT NULL, p_is_message boolean DEFAULT NULL,
  p_actions text[] DEFAULT NULL
) RETURNS TABLE (
  ordinal integer, outbox_id uuid, verdict text, attempt_no integer, state outbox_attempt_state, held boolean,
  contradicted boolean
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: batch
#variable_conflict use_column
DECLARE
  v_now timestamptz;
  v_places tid[];
  v_full_trail boolean;
  v_recorded integer[];
  v_outbox_ids uuid[];
  v_attempt_ids uuid[];
  v_attempt_nos integer[];
  v_states text[];
  v_helds boolean[];
  v_newly_held boolean;
  v_heads uuid[];
  v_beyond uuid;
  v_contradicted uuid[];
  v_contradictions jsonb[];
  v_contradicted_by uuid[];
  v_reported uuid[];
BEGIN
  -- 1. Check the arguments.
  PERFORM check_outbox_leases(p_outbox_ids, p_lease_tokens, p_worker_id);
  PERFORM check_outbox_outcomes(cardinality(p_outbox_ids), p_states, p_rail_references, p_rail_codes, p_error_codes,
    p_error_messages, p_latencies_ms, p_retry_delays_seconds, p_outcomes_unknown, p_hold_reasons, p_actions);
  IF p_is_message IS NOT NULL THEN
    -- Replaces the token of an item of the other kind by one that no lease has, so that its verdict is LEASE_LOST.
    p_lease_tokens := ARRAY(
      SELECT CASE WHEN i.is_message = p_is_message THEN g.lease_token ELSE '00000000-0000-0000-0000-000000000000' END
      FROM unnest(p_outbox_ids, p_lease_tokens) WITH ORDINALITY AS g(outbox_id, lease_token, ordinal)
      LEFT JOIN LATERAL (SELECT n.is_message FROM payment_outbox_identities n
        WHERE n.outbox_id = g.outbox_id OFFSET 0) i ON true
      ORDER BY g.ordinal);
  END IF;
  -- 2. Record a batch of successes by the fast path.
  IF 'DISPATCHED' = ALL (p_states) THEN
    SELECT e.recorded, e.outbox_ids, e.attempt_ids, e.attempt_nos, e.heads, e.contradicted, e.contradictions,
      e.contradicted_by, e.reported,
      array_fill('DISPATCHED'::text, ARRAY[cardinality(e.recorded)]), array_fill(false, ARRAY[cardinality(e.recorded)]),
        false
    INTO v_recorded, v_outbox_ids, v_attempt_ids, v_attempt_nos, v_heads, v_contradicted, v_contradictions,
      v_contradicted_by, v_reported,
      v_states, v_helds, v_newly_held
    FROM complete_dispatched_outbox_items(p_outbox_ids, p_lease_tokens, p_worker_id, p_rail_references, p_rail_codes,
      p_error_codes, p_error_messages, p_latencies_ms, p_actions) e;
  END IF;
  -- 3. Otherwise lock the leases and apply the rules above to each outcome.
  IF v_recorded IS NULL THEN
    v_places := lock_live_outbox_leases(p_outbox_ids, p_lease_tokens, p_worker_id);
    v_now := clock_timestamp();

    WITH judged AS MATERIALIZED (
      SELECT w.*,
        CASE
          WHEN w.wanted = 'DISPATCHED' THEN 'DISPATCHED'
          WHEN w.unknown THEN 'RETRYABLE'
          WHEN w.wanted = 'FAILED' THEN 'FAILED'
          WHEN w.asked_hold_reason IS NULL AND w.attempt_no = outbox_attempt_ceiling() AND NOT w.reports_outcome
            THEN 'FAILED'
          ELSE 'RETRYABLE'
        END::outbox_attempt_state AS effective,
        CASE
          WHEN w.wanted = 'DISPATCHED' OR (w.wanted = 'FAILED' AND NOT w.unknown) THEN NULL
          WHEN w.wanted = 'FAILED' THEN COALESCE(w.asked_hold_reason, 'FAILED_WHILE_OUTCOME_UNKNOWN')
          WHEN w.asked_hold_reason IS NOT NULL THEN w.asked_hold_reason
          WHEN w.reports_outcome AND w.attempt_no >= outbox_attempt_ceiling() THEN 'OUTCOME_NOT_DELIVERED'
          WHEN w.attempt_no > outbox_attempt_ceiling() THEN 'RETRY_CEILING'
          WHEN w.unknown AND w.attempt_no = outbox_attempt_ceiling() THEN 'RETRY_CEILING'
          WHEN w.unknown AND w.dispatch_mark = 'begun' THEN 'OUTCOME_UNKNOWN'
        END AS new_hold_reason
      FROM (
        SELECT g.ordinal::integer, g.place, p.outbox_id, p.instruction_id, p.participant_id, p.sequence_id,
          p.idempotency_key,
          p.rail_type, p.payload, p.claimed_at, p.lease_token, p.dispatch_mark, p.late_outcome, p.hold_reason,
          p.ordered, p.outcome_topic, p.is_message, p.is_message AND p.outcome_topic IS NOT NULL AS reports_outcome,
          g.wanted, g.rail_reference, g.rail_code, g.error_code, g.error_message, g.latency_ms, g.retry_delay_seconds,
          g.asked_hold_reason, COALESCE(g.action, 'sent') AS action, uuid_v7() AS attempt_id, COALESCE(last.attempt_no,
          0) + 1 AS attempt_no,
          -- After a late success only another success or an operator makes the outcome known.
          COALESCE(g.outcome_unknown, p.outcome_unknown)
            OR COALESCE(p.late_outcome ->> 'state' = 'DISPATCHED', false) AS unknown
        FROM unnest(v_places, p_states, p_rail_references, p_rail_codes, p_error_codes, p_error_messages,
          p_latencies_ms,
            p_retry_delays_seconds, p_outcomes_unknown, p_hold_reasons, p_actions) WITH ORDINALITY
          AS g(place, wanted, rail_reference, rail_code, error_code, error_message, latency_ms, retry_delay_seconds,
            outcome_unknown, asked_hold_reason, action, ordinal)
        CROSS JOIN LATERAL (SELECT q.* FROM payment_outbox_pending q WHERE q.ctid = g.place OFFSET 0) p
        LEFT JOIN LATERAL (
          SELECT a.attempt_no FROM payment_outbox_attempts a
          WHERE a.outbox_id = p.outbox_id ORDER BY a.attempt_no DESC LIMIT 1
        ) last ON true
        -- OFFSET 0 keeps the planner from merging the subquery and calling uuid_v7() more than once per row.
        OFFSET 0
      ) w
    -- 4. Append the ledger rows; delete terminal items, and requeue or hold the others.
    ), recorded AS (
      INSERT INTO payment_outbox_attempts
        (attempt_id, outbox_id, instruction_id, participant_id, sequence_id, idempotency_key, rail_type, payload,
          attempt_no, state, claimed_at, completed_at, rail_reference, rail_code, error_code, error_message, latency_ms,
          worker_id, lease_token, created_at, action, outcome_unknown)
      SELECT j.attempt_id, j.outbox_id, j.instruction_id, j.participant_id, j.sequence_id, j.idempotency_key,
        j.rail_type, j.payload, j.attempt_no, j.effective, j.claimed_at, v_now, j.rail_reference, j.rail_code,
        j.error_code, j.error_message, j.latency_ms, p_worker_id, j.lease_token, v_now,
        j.action, j.unknown AND j.effective = 'RETRYABLE'
      FROM judged j
    ), ended AS (
      DELETE FROM payment_outbox_pending p USING judged j
      WHERE p.ctid = j.place AND j.effective IN ('DISPATCHED', 'FAILED')
    ), returned AS (
      UPDATE payment_outbox_pending p
      SET claimed_by = NULL, lease_token = NULL, lease_expires_at = NULL, claimed_at = NULL, dispatch_mark = NULL,
        expiry_streak = CASE WHEN j.unknown AND j.action = 'inquired' THEN p.expiry_streak ELSE 0 END,
        outcome_unknown = j.unknown,
        attempt_count = GREATEST(p.attempt_count, LEAST(j.attempt_no, outbox_attempt_ceiling())),
        next_attempt_at = v_now + COALESCE(
          make_interval(secs => j.retry_delay_seconds), outbox_backoff(j.attempt_no, j.outbox_id,
          CASE WHEN j.reports_outcome THEN 21600 ELSE 300 END)),
        hold_reason = COALESCE(p.hold_reason, j.new_hold_reason),
        held_by = COALESCE(p.held_by, CASE WHEN j.new_hold_reason IS NOT NULL THEN p_worker_id END),
        held_at = COALESCE(p.held_at, CASE WHEN j.new_hold_reason IS NOT NULL THEN v_now END)
      FROM judged j
      WHERE p.ctid = j.place AND j.effective = 'RETRYABLE'
    ), tallied AS (
      INSERT INTO outbox_attempt_tallies (recorded_at, is_message, dispatched, retryable, failed, outcome_unknown)
      SELECT v_now, j.is_message, count(*) FILTER (WHERE j.effective = 'DISPATCHED'),
        count(*) FILTER (WHERE j.effective = 'RETRYABLE'),
        count(*) FILTER (WHERE j.effective = 'FAILED'), count(*) FILTER (WHERE j.effective = 'RETRYABLE' AND j.unknown)
      FROM judged j GROUP BY j.is_message
    )
    -- 5. Collect the verdicts.
    SELECT COALESCE(array_agg(j.ordinal), '{}'), array_agg(j.outbox_id), array_agg(j.attempt_id),
      array_agg(j.attempt_no),
      array_agg(j.effective::text), array_agg(j.held), COALESCE(bool_or(j.new_hold_reason IS NOT NULL
      AND j.hold_reason IS NULL), false),
      array_agg(j.attempt_id) FILTER (WHERE j.ordered AND j.effective <> 'RETRYABLE'),
      array_agg(j.outbox_id) FILTER (WHERE j.contradiction IS NOT NULL),
      array_agg(j.contradiction) FILTER (WHERE j.contradiction IS NOT NULL),
      array_agg(j.attempt_id) FILTER (WHERE j.contradiction IS NOT NULL),
      array_agg(j.attempt_id) FILTER (WHERE j.outcome_topic IS NOT NULL AND NOT j.is_message
        AND j.effective <> 'RETRYABLE')
    INTO v_recorded, v_outbox_ids, v_attempt_ids, v_attempt_nos, v_states, v_helds, v_newly_held, v_heads,
      v_contradicted, v_contradictions, v_contradicted_by, v_reported
    FROM (
      SELECT j.*, j.new_hold_reason IS NOT NULL OR (j.effective = 'RETRYABLE' AND j.hold_reason IS NOT NULL) AS held,
        CASE WHEN j.effective = 'DISPATCHED' THEN contradicting_late_success(j.late_outcome,
          j.rail_reference) END AS contradiction
      FROM judged j
    ) j;
    IF 'RETRYABLE' = ANY (v_states) THEN
      SELECT r.outbox_id INTO v_beyond
      FROM unnest(v_outbox_ids, v_attempt_nos, v_states, v_helds) AS r(outbox_id, attempt_no, state, held)
      WHERE r.state = 'RETRYABLE' AND r.attempt_no >= outbox_attempt_ceiling() AND NOT r.held LIMIT 1;
      IF FOUND THEN
        RAISE EXCEPTION 'RETRY_CEILING: outbox item %: its next attempt would be beyond the ceiling', v_beyond
          USING ERRCODE = 'P7008';
      END IF;
    END IF;
  END IF;

  -- 6. Send outcome messages, advance ordered streams, and write events.
  IF v_reported IS NOT NULL THEN
    PERFORM send_outcome_messages(NULL, NULL, v_reported, NULL);
  END IF;
  IF v_heads IS NOT NULL THEN
    PERFORM settle_ordered_heads(v_heads);
  END IF;
  SELECT s.full_trail INTO v_full_trail FROM symphony_settings s;
  IF v_newly_held OR v_full_trail THEN
    PERFORM record_completion_events(v_attempt_ids, p_worker_id, v_now, v_full_trail);
  END IF;
  IF v_contradicted IS NOT NULL THEN
    PERFORM record_outbox_contradictions(p_worker_id, v_contradicted, v_contradictions, v_contradicted_by);
  END IF;

  -- 7. Return the verdicts. An item without a live lease is ALREADY_RECORDED by this token, or LEASE_LOST.
  RETURN QUERY
  SELECT r.ordinal, r.outbox_id, 'RECORDED', r.attempt_no, r.state::outbox_attempt_state, r.held,
    COALESCE(r.outbox_id = ANY (v_contradicted), false)
  FROM unnest(v_recorded, v_outbox_ids, v_attempt_nos, v_states, v_helds) AS r(ordinal, outbox_id, attempt_no, state,
    held)
  ORDER BY r.ordinal;
  IF cardinality(v_recorded) < cardinality(p_outbox_ids) THEN
    RETURN QUERY
    SELECT g.ordinal::integer, g.outbox_id, CASE WHEN a.attempt_no IS NULL
      THEN 'LEASE_LOST' ELSE 'ALREADY_RECORDED' END,
      a.attempt_no, a.state, false,
      -- OFFSET 0 keeps one index lookup per row. Without it the planner may hash all events.
      EXISTS (
        SELECT 1 FROM payment_outbox_events e
        WHERE e.outbox_id = g.outbox_id AND e.attempt_id = a.attempt_id AND e.event_type = 'TERMINAL_BLOCKED'
          AND e.actor = p_worker_id OFFSET 0)
    FROM unnest(p_outbox_ids, p_lease_tokens) WITH ORDINALITY AS g(outbox_id, lease_token, ordinal)
    LEFT JOIN LATERAL (
      SELECT t.attempt_id, t.attempt_no, t.state FROM payment_outbox_attempts t
      WHERE t.outbox_id = g.outbox_id AND t.lease_token = g.lease_token AND t.state <> 'ZOMBIE_REQUEUE'
      ORDER BY t.attempt_no LIMIT 1
    ) a ON true
    WHERE g.ordinal <> ALL (v_recorded)
    ORDER BY g.ordinal;
  END IF;
END
$$;
COMMENT ON FUNCTION complete_outbox_attempts(
  uuid[], uuid[], text, text[], text[], text[], text[], text[], integer[], integer[], boolean[], text[], boolean,
    text[]) IS
  'Records the outcomes of up to 1000 leased items. Returns a verdict for each: RECORDED, ALREADY_RECORDED by this '
  'token, or LEASE_LOST. With p_is_message true, payments get LEASE_LOST; with false, messages do.';

CREATE OR REPLACE FUNCTION complete_outbox_attempt(
  p_outbox_id uuid, p_lease_token uuid, p_worker_id text, p_state text,
  p_rail_reference text DEFAULT NULL, p_rail_code text DEFAULT NULL,
  p_error_code text DEFAULT NULL, p_error_message text DEFAULT NULL,
  p_latency_ms integer DEFAULT NULL, p_retry_delay_seconds integer DEFAULT NULL,
  p_outcome_unknown boolean DEFAULT NULL, p_hold_reason text DEFAULT NULL, p_action text DEFAULT NULL
) RETURNS TABLE (attempt_no integer, state outbox_attempt_state, held boolean)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
DECLARE
  v_verdict record;
BEGIN
  SELECT c.verdict, c.attempt_no, c.state, c.held INTO v_verdict
  FROM complete_outbox_attempts(ARRAY[p_outbox_id], ARRAY[p_lease_token], p_worker_id, ARRAY[p_state],
    ARRAY[p_rail_reference], ARRAY[p_rail_code], ARRAY[p_error_code], ARRAY[p_error_message], ARRAY[p_latency_ms],
    ARRAY[p_retry_delay_seconds], ARRAY[p_outcome_unknown], ARRAY[p_hold_reason], NULL, ARRAY[p_action]) c;
  IF v_verdict.verdict <> 'RECORDED' THEN
    PERFORM raise_lease_lost(p_outbox_id, p_lease_token);
  END IF;
  RETURN QUERY SELECT v_verdict.attempt_no, v_verdict.state, v_verdict.held;
END
$$;
COMMENT ON FUNCTION complete_outbox_attempt(
  uuid, uuid, text, text, text, text, text, text, integer, integer, boolean, text, text) IS
  'Records the outcome of one leased item: a batch of one. Returns the recorded state, which differs from p_state at '
  'the retry ceiling, and for a FAILED item of unknown outcome. Raises P7002 if the lease is lost.';

-- For an untyped literal PostgreSQL picks the overload above, because it prefers text.
CREATE OR REPLACE FUNCTION complete_outbox_attempt(
  p_outbox_id uuid, p_lease_token uuid, p_worker_id text, p_state outbox_attempt_state,
  p_rail_reference text DEFAULT NULL, p_rail_code text DEFAULT NULL,
  p_error_code text DEFAULT NULL, p_error_message text DEFAULT NULL,
  p_latency_ms integer DEFAULT NULL, p_retry_delay_seconds integer DEFAULT NULL,
  p_outcome_unknown boolean DEFAULT NULL, p_hold_reason text DEFAULT NULL, p_action text DEFAULT NULL
) RETURNS TABLE (attempt_no integer, state outbox_attempt_state, held boolean)
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
  SELECT * FROM complete_outbox_attempt(p_outbox_id, p_lease_token, p_worker_id, p_state::text, p_rail_reference,
    p_rail_code, p_error_code, p_error_message, p_latency_ms, p_retry_delay_seconds, p_outcome_unknown, p_hold_reason,
    p_action)
$$;
COMMENT ON FUNCTION complete_outbox_attempt(
  uuid, uuid, text, outbox_attempt_state, text, text, text, text, integer, integer, boolean, text, text) IS
  'Records the outcome of one leased item, with a state of the enum type.';

CREATE OR REPLACE FUNCTION check_outbox_outcomes(
  p_count integer, p_states text[], p_rail_references text[], p_rail_codes text[], p_error_codes text[],
  p_error_messages text[], p_latencies_ms integer[], p_retry_delays_seconds integer[], p_outcomes_unknown boolean[],
  p_hold_reasons text[], p_actions text[]
) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
DECLARE
  v_list CONSTANT text := format('[1:%s]', p_count);
  v_misshapen text;
  v_bad record;
BEGIN
  IF array_dims(p_states) IS DISTINCT FROM v_list OR num_nulls(VARIADIC p_states) > 0 THEN
    PERFORM refuse_argument('p_state', 'DISPATCHED, FAILED or RETRYABLE for each item');
  END IF;
  v_misshapen := CASE
    WHEN p_rail_references IS NOT NULL AND array_dims(p_rail_references) IS DISTINCT FROM v_list
      THEN 'p_rail_references'
    WHEN p_rail_codes IS NOT NULL AND array_dims(p_rail_codes) IS DISTINCT FROM v_list THEN 'p_rail_codes'
    WHEN p_error_codes IS NOT NULL AND array_dims(p_error_codes) IS DISTINCT FROM v_list THEN 'p_error_codes'
    WHEN p_error_messages IS NOT NULL AND array_dims(p_error_messages) IS DISTINCT FROM v_list THEN 'p_error_messages'
    WHEN p_latencies_ms IS NOT NULL AND array_dims(p_latencies_ms) IS DISTINCT FROM v_list THEN 'p_latencies_ms'
    WHEN p_retry_delays_seconds IS NOT NULL AND array_dims(p_retry_delays_seconds) IS DISTINCT FROM v_list
      THEN 'p_retry_delays_seconds'
    WHEN p_outcomes_unknown IS NOT NULL AND array_dims(p_outcomes_unknown) IS DISTINCT FROM v_list
      THEN 'p_outcomes_unknown'
    WHEN p_hold_reasons IS NOT NULL AND array_dims(p_hold_reasons) IS DISTINCT FROM v_list THEN 'p_hold_reasons'
    WHEN p_actions IS NOT NULL AND array_dims(p_actions) IS DISTINCT FROM v_list THEN 'p_actions'
  END;
  IF v_misshapen IS NOT NULL THEN
    PERFORM refuse_argument(v_misshapen, 'null, or a plain list with one element for each item');
  END IF;
  SELECT c.* INTO v_bad
  FROM (
    SELECT g.ordinal, g.state NOT IN ('DISPATCHED', 'FAILED', 'RETRYABLE') AS bad_state,
      CASE
        WHEN g.rail_reference IS NOT NULL AND NOT is_short_text(g.rail_reference, 255) THEN 'p_rail_reference'
        WHEN g.rail_code IS NOT NULL AND NOT is_short_text(g.rail_code, 128) THEN 'p_rail_code'
        WHEN g.error_code IS NOT NULL AND NOT is_short_text(g.error_code, 128) THEN 'p_error_code'
        WHEN g.error_message IS NOT NULL AND NOT is_short_text(g.error_message, 2000) THEN 'p_error_message'
        WHEN g.hold_reason IS NOT NULL AND NOT is_short_text(g.hold_reason, 1000) THEN 'p_hold_reason'
      END AS bad_text,
      COALESCE(g.latency_ms < 0, false) AS bad_latency,
      COALESCE(g.retry_delay_seconds NOT BETWEEN 0 AND 2592000, false) AS bad_delay,
      g.hold_reason IS NOT NULL AND g.state = 'DISPATCHED' AS bad_hold,
      g.action NOT IN ('sent', 'inquired', 'not_sent') OR (g.action = 'not_sent'
        AND g.state = 'DISPATCHED') AS bad_action
    FROM unnest(p_states, p_rail_references, p_rail_codes, p_error_codes, p_error_messages, p_latencies_ms,
        p_retry_delays_seconds, p_hold_reasons, p_actions) WITH ORDINALITY
      AS g(state, rail_reference, rail_code, error_code, error_message, latency_ms, retry_delay_seconds, hold_reason,
        action,
        ordinal)
    OFFSET 0
  ) c
  WHERE c.bad_state OR c.bad_text IS NOT NULL OR c.bad_latency OR c.bad_delay OR c.bad_hold OR c.bad_action
  ORDER BY c.ordinal LIMIT 1;
  IF NOT FOUND THEN
    RETURN;
  END IF;
  IF v_bad.bad_state THEN
    RAISE EXCEPTION 'INVALID_COMPLETION_STATE: p_state of item %: expected DISPATCHED, FAILED or RETRYABLE',
      v_bad.ordinal
      USING ERRCODE = 'P7003', HINT = 'ZOMBIE_REQUEUE is written for expired leases; DISPATCHING is never stored.';
  END IF;
  IF v_bad.bad_text IS NOT NULL THEN
    PERFORM refuse_argument(format('%s of item %s', v_bad.bad_text, v_bad.ordinal),
      'null, or text that is not blank, within its length and without control characters');
  END IF;
  IF v_bad.bad_latency THEN
    PERFORM refuse_argument(format('p_latency_ms of item %s', v_bad.ordinal), 'null, or 0 or more');
  END IF;
  IF v_bad.bad_delay THEN
    PERFORM refuse_argument(format('p_retry_delay_seconds of item %s', v_bad.ordinal), 'null, or 0 to 2592000');
  END IF;
  IF v_bad.bad_hold THEN
    PERFORM refuse_argument(format('p_hold_reason of item %s', v_bad.ordinal), 'null for a DISPATCHED item');
  END IF;
  PERFORM refuse_argument(format('p_action of item %s', v_bad.ordinal),
    'null or sent, inquired, or not_sent for an item that is not DISPATCHED');
END
$$;
COMMENT ON FUNCTION check_outbox_outcomes(
  integer, text[], text[], text[], text[], text[], integer[], integer[], boolean[], text[], text[]) IS
  'Internal: raises 22023 or P7003 for the first invalid outcome.';

CREATE OR REPLACE FUNCTION record_completion_events(
  p_attempt_ids uuid[], p_worker_id text, p_now timestamptz, p_full_trail boolean
) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
#variable_conflict use_column
BEGIN
  IF p_full_trail THEN
    PERFORM append_outbox_events('ATTEMPT_COMPLETED', p_worker_id, array_agg(a.outbox_id),
      array_agg(jsonb_build_object('state', a.state, 'attempt_no', a.attempt_no)), array_agg(a.attempt_id))
    FROM payment_outbox_attempts a WHERE a.attempt_id = ANY (p_attempt_ids);
    PERFORM append_outbox_events('RESCHEDULED', p_worker_id, array_agg(p.outbox_id),
      array_agg(jsonb_build_object('next_attempt_at', epoch_micros(p.next_attempt_at),
        'outcome_unknown', p.outcome_unknown, 'expiry_streak', p.expiry_streak)),
      array_agg(a.attempt_id))
    FROM payment_outbox_attempts a
    JOIN payment_outbox_pending p ON p.outbox_id = a.outbox_id
    WHERE a.attempt_id = ANY (p_attempt_ids);
  END IF;
  PERFORM append_outbox_events('HOLD_PLACED', p_worker_id, array_agg(p.outbox_id),
    array_agg(outbox_hold_detail(p.hold_reason, p.held_at)), array_agg(a.attempt_id))
  FROM payment_outbox_attempts a
  JOIN payment_outbox_pending p ON p.outbox_id = a.outbox_id
  WHERE a.attempt_id = ANY (p_attempt_ids) AND p.held_at = p_now;
END
$$;
COMMENT ON FUNCTION record_completion_events(uuid[], text, timestamptz, boolean) IS
  'Internal: appends the events of a completion: new holds always, all others if the full trail is on.';

-- The fast path of a completion, for a batch of successes. One statement deletes the items and inserts their ledger
-- rows. It leaves out items without a live lease of this worker. If a live lease has another token, expires while the
-- DELETE waits for locks, or is listed twice, the function changes nothing and returns no row. The slow path then
-- records the batch.
--
-- The DELETE locks rows in the order of ids, as lock_live_outbox_leases does. The statement reads the last attempts in
-- its own snapshot. That is safe: a transaction that appends an attempt also ends the lease, and the DELETE skips the
-- row.
CREATE OR REPLACE FUNCTION complete_dispatched_outbox_items(
  p_outbox_ids uuid[], p_lease_tokens uuid[], p_worker_id text, p_rail_references text[], p_rail_codes text[],
  p_error_codes text[], p_error_messages text[], p_latencies_ms integer[], p_actions text[]
) RETURNS TABLE (
  recorded integer[], outbox_ids uuid[], attempt_ids uuid[], attempt_nos integer[], heads uuid[],
  contradicted uuid[], contradictions jsonb[], contradicted_by uuid[], reported uuid[]
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
      p.claimed_at, p.lease_token, p.lease_expires_at, p.late_outcome, p.ordered, p.outcome_topic, p.is_message
  ), judged AS MATERIALIZED (
    SELECT g.ordinal::integer, e.*, g.rail_reference, g.rail_code, g.error_code, g.error_message, g.latency_ms,
      COALESCE(g.action, 'sent') AS action, uuid_v7() AS attempt_id, COALESCE(last.attempt_no, 0) + 1 AS attempt_no,
      contradicting_late_success(e.late_outcome, g.rail_reference) AS contradiction
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
    INSERT INTO outbox_attempt_tallies (recorded_at, is_message, dispatched)
    SELECT v_now, e.is_message, count(*) FROM ended e GROUP BY e.is_message
  )
  SELECT array_agg(j.ordinal), array_agg(j.outbox_id), array_agg(j.attempt_id), array_agg(j.attempt_no),
    array_agg(j.attempt_id) FILTER (WHERE j.ordered),
    array_agg(j.outbox_id) FILTER (WHERE j.contradiction IS NOT NULL),
    array_agg(j.contradiction) FILTER (WHERE j.contradiction IS NOT NULL),
    array_agg(j.attempt_id) FILTER (WHERE j.contradiction IS NOT NULL),
    array_agg(j.attempt_id) FILTER (WHERE j.outcome_topic IS NOT NULL AND NOT j.is_message),
    (SELECT count(*) FROM ended), min(j.lease_expires_at)
  INTO recorded, outbox_ids, attempt_ids, attempt_nos, heads, contradicted, contradictions, contradicted_by,
    reported, v_deleted, v_soonest_expiry
  FROM judged j;
  -- Compares with the clock again, because a lease may have expired while the DELETE waited for locks.
  IF v_deleted <> COALESCE(cardinality(recorded), 0) OR v_soonest_expiry <= clock_timestamp() THEN
    RAISE unique_violation;
  END IF;
  recorded := COALESCE(recorded, '{}');
  RETURN NEXT;
EXCEPTION WHEN unique_violation THEN
  -- One lease that is listed twice also raises unique_violation. The subtransaction rolls back, and the slow path
  -- records the batch or raises the real violation.
  RETURN;
END
$$;
COMMENT ON FUNCTION complete_dispatched_outbox_items(uuid[], uuid[], text, text[], text[], text[], text[], integer[],
  text[]) IS
  'Internal: the fast path for a batch of successes. Returns nothing if the slow path must record the batch.';
