-- Claims. A claim leases rows and removes none, so a crash costs one lease length and never a row.

-- The planner inlines this function, so that the partial index ix_pending_claimable serves the condition. A view would
-- do the same, but each claim would lock it, and a deployment that replaces the view could deadlock with a claim.
CREATE OR REPLACE FUNCTION is_claimable_item(p_lease_token uuid, p_hold_reason text, p_blocked boolean) RETURNS boolean
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN p_lease_token IS NULL AND p_hold_reason IS NULL AND NOT p_blocked;
COMMENT ON FUNCTION is_claimable_item(uuid, text, boolean) IS
  'Internal: returns whether an item has no lease, no hold and no block.';

CREATE OR REPLACE FUNCTION claim_outbox_batch(
  p_batch_size integer, p_worker_id text, p_lease_seconds integer,
  p_rails text[] DEFAULT NULL, p_marked_rails text[] DEFAULT NULL, p_report_unleased boolean DEFAULT false,
  p_epoch_id uuid DEFAULT NULL, p_is_message boolean DEFAULT NULL
) RETURNS TABLE (
  outbox_id uuid, instruction_id text, participant_id text, sequence_id bigint, idempotency_key text, rail_type text,
  payload jsonb, attempt_count integer, lease_token uuid, lease_expires_at timestamptz, claimed_at timestamptz,
  outcome_unknown boolean, expiry_streak integer, taken_over boolean, ordered boolean, evidence jsonb,
  created_at timestamptz, due_at timestamptz, trace_context text, hold_reason text
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: claim
#variable_conflict use_column
DECLARE
  v_now timestamptz;
  v_is_open boolean;
  v_rails text[];
  v_kinds boolean[];
  v_paused_rails text[];
  v_any_paused boolean;
  v_all_paused boolean;
  v_any_unverified boolean;
  v_any_expired boolean;
  v_expired uuid[] := '{}'::uuid[];
  v_rows tid[] := '{}'::tid[];
  v_wanted integer;
  v_full_trail boolean;
  v_claimed uuid[];
BEGIN
  -- 1. Check the arguments.
  IF p_batch_size IS NULL OR p_batch_size NOT BETWEEN 1 AND 1000 THEN
    PERFORM refuse_argument('p_batch_size', '1 to 1000');
  END IF;
  IF NOT is_id(p_worker_id) THEN
    PERFORM refuse_argument('p_worker_id', '1 to 128 printable ASCII characters without spaces');
  END IF;
  IF p_lease_seconds IS NULL OR p_lease_seconds NOT BETWEEN 1 AND 3600 THEN
    PERFORM refuse_argument('p_lease_seconds', '1 to 3600');
  END IF;
  IF p_rails IS NOT NULL AND NOT is_id_list(p_rails) THEN
    PERFORM refuse_argument('p_rails', 'null for all rails, or a plain list of 1 to 1000 of them');
  END IF;
  IF p_marked_rails IS NOT NULL AND NOT is_id_list(p_marked_rails) THEN
    PERFORM refuse_argument('p_marked_rails', 'null for none, or a plain list of 1 to 1000 rails');
  END IF;
  IF p_report_unleased IS NULL THEN
    PERFORM refuse_argument('p_report_unleased', 'true or false');
  END IF;

  -- 2. Read every condition in one statement: freeze, pauses, blocked items to verify, expired leases, full trail,
  -- kinds. A new pause of a participant may miss an item that is enqueued or unblocked at the same time, so steps 4
  -- and 5 check pauses too.
  v_now := clock_timestamp();
  SELECT
    (SELECT NOT e.frozen AND e.epoch_id = COALESCE(p_epoch_id, e.epoch_id)
        AND e.server_started_at = pg_postmaster_start_time()
        AND e.database_name = current_database() AND e.table_oid = e.tableoid
      FROM dispatch_epochs e ORDER BY e.epoch_no DESC LIMIT 1),
    ARRAY(SELECT z.name FROM outbox_pauses z WHERE z.kind = 'rail'),
    EXISTS (SELECT 1 FROM outbox_pauses z WHERE z.kind IN ('participant', 'stream')),
    EXISTS (SELECT 1 FROM outbox_pauses z WHERE z.kind = 'all'),
    EXISTS (SELECT 1 FROM payment_outbox_pending p WHERE p.block_unverified),
    EXISTS (SELECT 1 FROM payment_outbox_pending p WHERE p.lease_token IS NOT NULL AND p.lease_expires_at <= v_now),
    (SELECT s.full_trail FROM symphony_settings s),
    -- A rail nearly always has one kind. With both kinds the claim must merge them by due time.
    CASE WHEN p_is_message IS NOT NULL THEN ARRAY[p_is_message] WHEN p_rails IS NOT NULL THEN ARRAY(
      SELECT k.is_message FROM (VALUES (false), (true)) AS k(is_message)
      WHERE EXISTS (
        SELECT 1 FROM unnest(p_rails) AS r(name)
        CROSS JOIN LATERAL (
          SELECT 1 FROM payment_outbox_pending c
          WHERE c.rail_type = r.name AND c.is_message = k.is_message
            AND is_claimable_item(c.lease_token, c.hold_reason, c.blocked) LIMIT 1
        ) waiting)) END
  INTO v_is_open, v_paused_rails, v_any_paused, v_all_paused, v_any_unverified, v_any_expired, v_full_trail, v_kinds;

  -- 3. Stop while dispatch is frozen or everything is paused. If the epoch that was read is not open, is_dispatch_open
  -- decides, because it may begin a new epoch. During a pause only repair ends expired leases, because a takeover would
  -- lease the items again.
  IF v_is_open IS NOT TRUE AND NOT is_dispatch_open(p_epoch_id, p_worker_id) THEN
    RETURN;
  END IF;
  IF v_all_paused THEN
    RETURN;
  END IF;
  IF v_any_unverified THEN
    -- An ordered item may be blocked although its predecessor is already terminal.
    PERFORM verify_blocked_outbox_items(100);
    v_kinds := CASE WHEN p_is_message IS NULL THEN '{false,true}' ELSE v_kinds END;
  END IF;

  -- 4. Take over expired leases first, because they have waited longest. The query is separate, because "unleased or
  -- expired" in one condition can use neither index. Each expired lease gets its ledger row before its item is leased
  -- again. A dead worker may leave hundreds of expired leases. The claim takes over up to 100, or the batch size if
  -- larger, and requeues those that it cannot lease.
  IF v_any_expired THEN
    v_expired := ARRAY(
      SELECT p.outbox_id FROM payment_outbox_pending p
      WHERE p.lease_token IS NOT NULL AND p.lease_expires_at <= v_now AND p.hold_reason IS NULL AND NOT p.blocked
        AND (p_rails IS NULL OR p.rail_type = ANY (p_rails)) AND p.rail_type <> ALL (v_paused_rails)
        AND (p_is_message IS NULL OR p.is_message = p_is_message)
        AND NOT (v_any_paused AND is_outbox_paused(p.participant_id, p.ordered))
      ORDER BY p.lease_expires_at LIMIT GREATEST(p_batch_size, 100) FOR UPDATE SKIP LOCKED);
  END IF;
  IF cardinality(v_expired) > 0 THEN
    BEGIN
      PERFORM expire_outbox_leases(v_expired, p_worker_id, false);
      v_rows := ARRAY(
        SELECT p.ctid
        FROM unnest(v_expired) AS x(outbox_id)
        CROSS JOIN LATERAL (
          SELECT q.ctid, q.hold_reason FROM payment_outbox_pending q WHERE q.outbox_id = x.outbox_id OFFSET 0
        ) p
        WHERE p.hold_reason IS NULL LIMIT p_batch_size);
    EXCEPTION WHEN OTHERS THEN
      -- Repair handles expired leases row by row: one bad row must not block the claims of all workers.
      RAISE WARNING 'claim: % expired leases stay for repair: % (%)', cardinality(v_expired), SQLERRM, SQLSTATE;
    END;
  END IF;

  -- 5. Lock due rows, oldest first: here if they are of one rail and kind, else in lock_due_outbox_rows.
  v_wanted := p_batch_size - cardinality(v_rows);
  IF v_wanted > 0 THEN
    IF p_rails IS NULL THEN
      SELECT array_agg(r.rail_type), array_agg(r.is_message) INTO v_rails, v_kinds
      FROM claimable_outbox_rails() r
      WHERE r.rail_type <> ALL (v_paused_rails) AND (p_is_message IS NULL OR r.is_message = p_is_message);
    ELSIF cardinality(v_paused_rails) = 0 AND cardinality(p_rails) = 1 AND cardinality(v_kinds) = 1 THEN
      v_rails := p_rails;
    ELSE
      SELECT array_agg(r.name), array_agg(r.is_message) INTO v_rails, v_kinds
      FROM (
        SELECT DISTINCT g.name, k.is_message
        FROM unnest(p_rails) AS g(name) CROSS JOIN unnest(v_kinds) AS k(is_message)
      ) r
      WHERE r.name <> ALL (v_paused_rails);
    END IF;
    IF cardinality(v_rails) = 1 THEN
      v_rows := v_rows || ARRAY(
        SELECT c.ctid FROM payment_outbox_pending c
        WHERE c.rail_type = v_rails[1] AND c.is_message = v_kinds[1]
          AND is_claimable_item(c.lease_token, c.hold_reason, c.blocked)
          AND c.next_attempt_at <= v_now AND NOT (v_any_paused AND is_outbox_paused(c.participant_id, c.ordered))
          AND c.ctid <> ALL (v_rows)
        ORDER BY c.rail_type, c.is_message, c.next_attempt_at, c.created_at, c.sequence_id
        LIMIT v_wanted FOR UPDATE SKIP LOCKED);
    ELSIF cardinality(v_rails) > 1 THEN
      v_rows := v_rows || lock_due_outbox_rows(v_rails, v_kinds, v_wanted, v_now, v_any_paused, v_rows);
    END IF;
  END IF;

  -- 6. Lease the rows. Read the clock again after the locks, so that the lease has its full length.
  v_now := clock_timestamp();
  IF v_full_trail THEN
    v_claimed := ARRAY(
      SELECT p.outbox_id FROM payment_outbox_pending p WHERE p.ctid = ANY (v_rows) AND p.lease_token IS NULL);
  END IF;
  RETURN QUERY
  WITH leased AS (
    UPDATE payment_outbox_pending p
    SET claimed_by = p_worker_id, lease_token = gen_random_uuid(), claimed_at = v_now,
      lease_expires_at = v_now + make_interval(secs => p_lease_seconds),
      dispatch_mark = CASE WHEN p.rail_type = ANY (p_marked_rails) THEN 'awaited' END
    WHERE p.ctid = ANY (v_rows) AND p.lease_token IS NULL
    RETURNING p.*
  )
  SELECT l.outbox_id, l.instruction_id, l.participant_id, l.sequence_id, l.idempotency_key, l.rail_type, l.payload,
    l.attempt_count, l.lease_token, l.lease_expires_at, l.claimed_at, l.outcome_unknown, l.expiry_streak,
    l.outbox_id = ANY (v_expired), l.ordered,
    CASE WHEN l.outcome_unknown OR l.late_outcome IS NOT NULL THEN outbox_evidence(l.outbox_id, l.late_outcome) END,
    l.created_at, l.next_attempt_at, l.trace_context, l.hold_reason
  FROM leased l
  -- UPDATE … RETURNING has no order.
  ORDER BY l.next_attempt_at, l.created_at, l.sequence_id;
  IF v_full_trail THEN
    PERFORM append_outbox_events('LEASE_CLAIMED', p_worker_id, array_agg(p.outbox_id),
      array_agg(jsonb_strip_nulls(jsonb_build_object('claimed_at', epoch_micros(p.claimed_at),
        'lease_expires_at', epoch_micros(p.lease_expires_at), 'dispatch_mark', p.dispatch_mark,
        'lease_token_hash', encode(sha256(uuid_send(p.lease_token)), 'hex')))))
    FROM payment_outbox_pending p WHERE p.outbox_id = ANY (v_claimed);
  END IF;

  -- 7. Report takeovers that were held or requeued, if the caller asks for them.
  IF p_report_unleased AND cardinality(v_expired) > 0 THEN
    RETURN QUERY
    SELECT p.outbox_id, p.instruction_id, p.participant_id, p.sequence_id, p.idempotency_key, p.rail_type, p.payload,
      p.attempt_count, p.lease_token, p.lease_expires_at, p.claimed_at, p.outcome_unknown, p.expiry_streak, true,
      p.ordered, NULL::jsonb, p.created_at, p.next_attempt_at, p.trace_context, p.hold_reason
    FROM payment_outbox_pending p WHERE p.outbox_id = ANY (v_expired) AND p.lease_token IS NULL;
  END IF;
END
$$;
COMMENT ON FUNCTION claim_outbox_batch(integer, text, integer, text[], text[], boolean, uuid, boolean) IS
  'Leases due items to one worker, in order, each with its token; the items stay in pending. p_is_message: true for '
  'messages, false for payments, null for both. p_report_unleased adds takeovers that the claim did not lease, without '
  'a token. Returns nothing while dispatch is frozen or everything is paused.';

-- Evidence for the next worker of an item with an unknown outcome: the last attempt and the late outcome.
CREATE OR REPLACE FUNCTION outbox_evidence(p_outbox_id uuid, p_late_outcome jsonb) RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
  SELECT jsonb_build_object('late_outcome', p_late_outcome, 'last_attempt', (
    SELECT jsonb_build_object('attempt_no', a.attempt_no, 'state', a.state, 'rail_reference', a.rail_reference,
      'rail_code', a.rail_code, 'error_code', a.error_code, 'worker_id', a.worker_id,
      'claimed_at', a.claimed_at, 'completed_at', a.completed_at, 'action', a.action,
      'outcome_unknown', a.outcome_unknown)
    FROM payment_outbox_attempts a WHERE a.outbox_id = p_outbox_id ORDER BY a.attempt_no DESC LIMIT 1))
$$;
COMMENT ON FUNCTION outbox_evidence(uuid, jsonb) IS 'Internal: returns the evidence of an unknown outcome.';

-- Reads one row per rail and kind from the index, so that its cost does not depend on the number of items.
CREATE OR REPLACE FUNCTION claimable_outbox_rails() RETURNS TABLE (rail_type text, is_message boolean)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: ordered
#variable_conflict use_column
BEGIN
  RETURN QUERY
  WITH RECURSIVE hop(rail_type, is_message) AS (
    (SELECT c.rail_type, c.is_message FROM payment_outbox_pending c
      WHERE is_claimable_item(c.lease_token, c.hold_reason, c.blocked)
      ORDER BY c.rail_type, c.is_message LIMIT 1)
    UNION ALL
    SELECT n.rail_type, n.is_message
    FROM hop h
    CROSS JOIN LATERAL (
      SELECT c.rail_type, c.is_message FROM payment_outbox_pending c
      WHERE is_claimable_item(c.lease_token, c.hold_reason, c.blocked)
        AND (c.rail_type, c.is_message) > (h.rail_type, h.is_message)
      ORDER BY c.rail_type, c.is_message LIMIT 1
    ) n
  )
  SELECT h.rail_type, h.is_message FROM hop h;
END
$$;
COMMENT ON FUNCTION claimable_outbox_rails() IS
  'Internal: returns the rails and kinds with at least one claimable item, due or not.';

-- Locks up to p_wanted due rows of several queues and returns their ctids. A queue is one rail and one kind. A first
-- query, without locks, counts how many of the oldest rows belong to each queue. A second query locks each queue's
-- share. If another claim has locked rows of one queue, other queues fill the batch. Rows in p_taken_over are left out.
-- The function uses the planner settings of its caller, because setting its own costs time at every claim.
CREATE OR REPLACE FUNCTION lock_due_outbox_rows(
  p_rails text[], p_kinds boolean[], p_wanted integer, p_now timestamptz, p_any_paused boolean, p_taken_over tid[]
) RETURNS tid[]
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
DECLARE
  v_queues integer[];
  v_shares integer[];
  v_rows tid[];
BEGIN
  SELECT COALESCE(array_agg(share.queue), '{}'), COALESCE(array_agg(share.size), '{}') INTO v_queues, v_shares
  FROM (
    SELECT oldest.queue, count(*)::integer AS size
    FROM (
      SELECT q.ordinal::integer AS queue
      FROM unnest(p_rails, p_kinds) WITH ORDINALITY AS q(rail, is_message, ordinal)
      CROSS JOIN LATERAL (
        SELECT c.next_attempt_at, c.created_at, c.sequence_id FROM payment_outbox_pending c
        WHERE c.rail_type = q.rail AND c.is_message = q.is_message
          AND is_claimable_item(c.lease_token, c.hold_reason, c.blocked)
          AND c.next_attempt_at <= p_now AND NOT (p_any_paused AND is_outbox_paused(c.participant_id, c.ordered))
          AND c.ctid <> ALL (p_taken_over)
        ORDER BY c.rail_type, c.is_message, c.next_attempt_at, c.created_at, c.sequence_id LIMIT p_wanted
      ) due
      ORDER BY due.next_attempt_at, due.created_at, due.sequence_id LIMIT p_wanted
    ) oldest
    GROUP BY oldest.queue
  ) share;
  v_rows := ARRAY(
    SELECT due.ctid
    FROM unnest(v_queues, v_shares) AS share(queue, size)
    CROSS JOIN LATERAL (
      SELECT c.ctid FROM payment_outbox_pending c
      WHERE c.rail_type = p_rails[share.queue] AND c.is_message = p_kinds[share.queue]
        AND is_claimable_item(c.lease_token, c.hold_reason, c.blocked)
        AND c.next_attempt_at <= p_now AND NOT (p_any_paused AND is_outbox_paused(c.participant_id, c.ordered))
        AND c.ctid <> ALL (p_taken_over)
      ORDER BY c.rail_type, c.is_message, c.next_attempt_at, c.created_at, c.sequence_id
      LIMIT share.size FOR UPDATE SKIP LOCKED
    ) due);
  FOR v_queue IN 1 .. cardinality(p_rails) LOOP
    EXIT WHEN cardinality(v_rows) >= p_wanted;
    v_rows := v_rows || ARRAY(
      SELECT c.ctid FROM payment_outbox_pending c
      WHERE c.rail_type = p_rails[v_queue] AND c.is_message = p_kinds[v_queue]
        AND is_claimable_item(c.lease_token, c.hold_reason, c.blocked)
        AND c.next_attempt_at <= p_now AND NOT (p_any_paused AND is_outbox_paused(c.participant_id, c.ordered))
        AND c.ctid <> ALL (v_rows || p_taken_over)
      ORDER BY c.rail_type, c.is_message, c.next_attempt_at, c.created_at, c.sequence_id
      LIMIT p_wanted - cardinality(v_rows) FOR UPDATE SKIP LOCKED);
  END LOOP;
  RETURN v_rows;
END
$$;
COMMENT ON FUNCTION lock_due_outbox_rows(text[], boolean[], integer, timestamptz, boolean, tid[]) IS
  'Internal: locks due, claimable rows of several rails and kinds, oldest first.';

CREATE OR REPLACE FUNCTION next_outbox_event(p_rails text[] DEFAULT NULL, p_is_message boolean DEFAULT NULL)
RETURNS timestamptz
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: ordered
#variable_conflict use_column
DECLARE
  v_now timestamptz := clock_timestamp();
  v_any_paused boolean := EXISTS (SELECT 1 FROM outbox_pauses z WHERE z.kind IN ('participant', 'stream'));
BEGIN
  IF p_rails IS NOT NULL AND NOT is_id_list(p_rails) THEN
    PERFORM refuse_argument('p_rails', 'null for all rails, or a plain list of 1 to 1000 of them');
  END IF;
  -- While dispatch is frozen or everything is paused, no item can be claimed. A past time would make workers poll again
  -- at once, for ever. The lift of the freeze and the resume wake them.
  IF (SELECT e.frozen FROM dispatch_epochs e ORDER BY e.epoch_no DESC LIMIT 1)
    OR EXISTS (SELECT 1 FROM outbox_pauses z WHERE z.kind = 'all')
  THEN
    RETURN NULL;
  END IF;
  RETURN LEAST(
    (SELECT min(due.next_attempt_at)
      FROM (
        SELECT r.name, k.is_message FROM unnest(p_rails) AS r(name) CROSS JOIN (VALUES (false), (true)) AS k(is_message)
        UNION
        SELECT c.rail_type, c.is_message FROM claimable_outbox_rails() c WHERE p_rails IS NULL
      ) AS served(rail, is_message)
      CROSS JOIN LATERAL (
        SELECT c.next_attempt_at FROM payment_outbox_pending c
        WHERE c.rail_type = served.rail AND c.is_message = served.is_message
          AND is_claimable_item(c.lease_token, c.hold_reason, c.blocked)
          AND NOT (v_any_paused AND is_outbox_paused(c.participant_id, c.ordered))
        ORDER BY c.rail_type, c.is_message, c.next_attempt_at LIMIT 1
      ) due
      WHERE (p_is_message IS NULL OR served.is_message = p_is_message)
        AND NOT EXISTS (SELECT 1 FROM outbox_pauses z WHERE z.kind = 'rail' AND z.name = served.rail)),
    (SELECT min(p.lease_expires_at) FROM payment_outbox_pending p WHERE p.lease_expires_at > v_now),
    -- Expired leases that a claim of these rails would take over. Repair handles the others.
    (SELECT p.lease_expires_at FROM payment_outbox_pending p
      WHERE p.lease_expires_at <= v_now AND p.hold_reason IS NULL AND NOT p.blocked
        AND (p_rails IS NULL OR p.rail_type = ANY (p_rails)) AND (p_is_message IS NULL OR p.is_message = p_is_message)
        AND NOT EXISTS (SELECT 1 FROM outbox_pauses z WHERE z.kind = 'rail' AND z.name = p.rail_type)
        AND NOT (v_any_paused AND is_outbox_paused(p.participant_id, p.ordered))
      ORDER BY p.lease_expires_at LIMIT 1));
END
$$;
COMMENT ON FUNCTION next_outbox_event(text[], boolean) IS
  'Returns the next due time of a claimable item of these rails or expiry of any lease; null if there is none, or '
  'while dispatch is frozen or everything is paused. Includes a lease that has expired only if a claim of these rails '
  'would take it over. p_is_message filters due items and expired leases as in claim_outbox_batch.';
