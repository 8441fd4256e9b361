-- Calls of a worker that holds a lease: renew, release, dispatch mark, hold. The lease token fences each call.

-- Answers null for items that another transaction has locked: waiting for one would delay all the others until their
-- leases end. The caller repeats the call for these items.
CREATE OR REPLACE FUNCTION renew_outbox_leases(
  p_outbox_ids uuid[], p_lease_tokens uuid[], p_worker_id text, p_lease_seconds integer
) RETURNS TABLE (ordinal integer, outbox_id uuid, renewed boolean, lease_expires_at timestamptz)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: batch
#variable_conflict use_column
DECLARE
  v_free uuid[];
  v_places tid[];
  v_until timestamptz;
  v_full_trail boolean;
BEGIN
  PERFORM check_outbox_leases(p_outbox_ids, p_lease_tokens, p_worker_id);
  PERFORM check_number('p_lease_seconds', p_lease_seconds, 1, 3600);
  v_free := lock_free_outbox_items(p_outbox_ids);
  v_places := lock_live_outbox_leases(v_free, p_lease_tokens, p_worker_id);
  v_until := clock_timestamp() + make_interval(secs => p_lease_seconds);
  UPDATE payment_outbox_pending p SET lease_expires_at = GREATEST(p.lease_expires_at, v_until)
  WHERE p.ctid = ANY (v_places);
  SELECT s.full_trail INTO v_full_trail FROM symphony_settings s;
  IF v_full_trail THEN
    PERFORM append_outbox_events('LEASE_RENEWED', p_worker_id, array_agg(p.outbox_id),
      array_agg(jsonb_build_object('lease_expires_at', epoch_micros(p.lease_expires_at))))
    FROM unnest(p_outbox_ids, v_places) AS g(outbox_id, place)
    CROSS JOIN LATERAL (
      SELECT q.outbox_id, q.lease_expires_at FROM payment_outbox_pending q WHERE q.outbox_id = g.outbox_id OFFSET 0
    ) p
    WHERE g.place IS NOT NULL;
  END IF;
  RETURN QUERY
  SELECT g.ordinal::integer, g.outbox_id, CASE WHEN g.free_id IS NOT NULL THEN g.place IS NOT NULL END,
    p.lease_expires_at
  FROM unnest(p_outbox_ids, v_free, v_places) WITH ORDINALITY AS g(outbox_id, free_id, place, ordinal)
  LEFT JOIN LATERAL (
    SELECT q.lease_expires_at FROM payment_outbox_pending q WHERE q.outbox_id = g.outbox_id OFFSET 0
  ) p ON g.place IS NOT NULL
  ORDER BY g.ordinal;
END
$$;
COMMENT ON FUNCTION renew_outbox_leases(uuid[], uuid[], text, integer) IS
  'Extends live leases; returns for each whether it was extended, or null if it is locked.';

CREATE OR REPLACE FUNCTION renew_outbox_lease(
  p_outbox_id uuid, p_lease_token uuid, p_worker_id text, p_lease_seconds integer
) RETURNS timestamptz
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
#variable_conflict use_column
DECLARE
  v_verdict record;
BEGIN
  -- Waits for the row, because the call below does not.
  PERFORM 1 FROM payment_outbox_pending p WHERE p.outbox_id = p_outbox_id FOR UPDATE;
  SELECT r.renewed, r.lease_expires_at INTO v_verdict
  FROM renew_outbox_leases(ARRAY[p_outbox_id], ARRAY[p_lease_token], p_worker_id, p_lease_seconds) r;
  IF NOT v_verdict.renewed THEN
    PERFORM raise_lease_lost(p_outbox_id, p_lease_token);
  END IF;
  RETURN v_verdict.lease_expires_at;
END
$$;
COMMENT ON FUNCTION renew_outbox_lease(uuid, uuid, text, integer) IS
  'Extends a live lease of this worker and token, or raises P7002.';

-- Releases leases whose dispatch never began, without counting an attempt. After a marked dispatch has begun, its lease
-- cannot be released: only its outcome, a hold by its worker or the expiry ends the lease. Answers null for locked
-- items, as renew_outbox_leases does.
CREATE OR REPLACE FUNCTION release_outbox_leases(p_outbox_ids uuid[], p_lease_tokens uuid[], p_worker_id text)
RETURNS TABLE (ordinal integer, outbox_id uuid, released boolean)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: batch
#variable_conflict use_column
DECLARE
  v_free uuid[];
  v_places tid[];
  v_full_trail boolean;
  v_released uuid[];
BEGIN
  PERFORM check_outbox_leases(p_outbox_ids, p_lease_tokens, p_worker_id);
  v_free := lock_free_outbox_items(p_outbox_ids);
  v_places := lock_live_outbox_leases(v_free, p_lease_tokens, p_worker_id);
  WITH released AS (
    UPDATE payment_outbox_pending p
    SET claimed_by = NULL, lease_token = NULL, lease_expires_at = NULL, claimed_at = NULL, dispatch_mark = NULL
    WHERE p.ctid = ANY (v_places) AND p.dispatch_mark IS DISTINCT FROM 'begun'
    RETURNING p.outbox_id
  )
  SELECT COALESCE(array_agg(r.outbox_id), '{}') INTO v_released FROM released r;
  SELECT s.full_trail INTO v_full_trail FROM symphony_settings s;
  IF v_full_trail THEN
    PERFORM append_outbox_events('LEASE_RELEASED', p_worker_id, v_released, NULL);
  END IF;
  RETURN QUERY
  SELECT g.ordinal::integer, g.outbox_id,
    CASE WHEN g.free_id IS NOT NULL THEN g.place IS NOT NULL AND g.outbox_id = ANY (v_released) END
  FROM unnest(p_outbox_ids, v_free, v_places) WITH ORDINALITY AS g(outbox_id, free_id, place, ordinal)
  ORDER BY g.ordinal;
END
$$;
COMMENT ON FUNCTION release_outbox_leases(uuid[], uuid[], text) IS
  'Releases leases whose dispatch never began; returns for each whether it was released, or null if it is locked.';

CREATE OR REPLACE FUNCTION release_outbox_lease(p_outbox_id uuid, p_lease_token uuid, p_worker_id text) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
#variable_conflict use_column
DECLARE
  v_released boolean;
BEGIN
  -- Waits for the row, because the call below does not.
  PERFORM 1 FROM payment_outbox_pending p WHERE p.outbox_id = p_outbox_id FOR UPDATE;
  SELECT r.released INTO v_released FROM release_outbox_leases(ARRAY[p_outbox_id], ARRAY[p_lease_token], p_worker_id) r;
  IF NOT v_released THEN
    IF EXISTS (
      SELECT 1 FROM payment_outbox_pending p
      WHERE p.outbox_id = p_outbox_id AND p.lease_token = p_lease_token AND p.claimed_by = p_worker_id
        AND p.dispatch_mark = 'begun' AND p.lease_expires_at > clock_timestamp())
    THEN
      RAISE EXCEPTION 'HELD: outbox item %: its dispatch has begun, so its lease cannot be released', p_outbox_id
        USING ERRCODE = 'P7006',
          HINT = 'Complete the item with the rail''s answer, or with outcome_unknown if there was none.';
    END IF;
    PERFORM raise_lease_lost(p_outbox_id, p_lease_token);
  END IF;
END
$$;
COMMENT ON FUNCTION release_outbox_lease(uuid, uuid, text) IS
  'Releases one lease whose dispatch never began, or raises P7002 or P7006.';

CREATE OR REPLACE FUNCTION begin_outbox_dispatch(p_outbox_id uuid, p_lease_token uuid, p_worker_id text) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: batch
#variable_conflict use_column
DECLARE
  v_places tid[];
  v_full_trail boolean;
BEGIN
  PERFORM check_outbox_leases(ARRAY[p_outbox_id], ARRAY[p_lease_token], p_worker_id);
  -- A freeze also stops the dispatch of items leased before it.
  IF NOT is_dispatch_open(NULL, p_worker_id) THEN
    PERFORM raise_dispatch_frozen(true);
  END IF;
  v_places := lock_live_outbox_leases(ARRAY[p_outbox_id], ARRAY[p_lease_token], p_worker_id);
  UPDATE payment_outbox_pending p SET dispatch_mark = 'begun' WHERE p.ctid = ANY (v_places);
  IF NOT FOUND THEN
    PERFORM raise_lease_lost(p_outbox_id, p_lease_token);
  END IF;
  SELECT s.full_trail INTO v_full_trail FROM symphony_settings s;
  IF v_full_trail THEN
    PERFORM append_outbox_events('DISPATCH_BEGUN', p_worker_id, ARRAY[p_outbox_id], NULL);
  END IF;
END
$$;
COMMENT ON FUNCTION begin_outbox_dispatch(uuid, uuid, text) IS
  'Marks a dispatch as begun, for rails with onUnknown: hold. If the lease then expires, the item is held. Raises '
  'P7009 while dispatch is frozen.';

CREATE OR REPLACE FUNCTION hold_leased_outbox_item(
  p_outbox_id uuid, p_lease_token uuid, p_worker_id text, p_reason text
) RETURNS uuid
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: batch
#variable_conflict use_column
DECLARE
  v_places tid[];
  v_unknown boolean;
  v_held_at timestamptz;
  v_full_trail boolean;
  v_event_id uuid;
BEGIN
  PERFORM check_outbox_leases(ARRAY[p_outbox_id], ARRAY[p_lease_token], p_worker_id);
  PERFORM check_text('p_reason', p_reason, 1000);
  v_places := lock_live_outbox_leases(ARRAY[p_outbox_id], ARRAY[p_lease_token], p_worker_id);
  -- A begun dispatch without a result leaves the outcome unknown.
  UPDATE payment_outbox_pending p
  SET claimed_by = NULL, lease_token = NULL, lease_expires_at = NULL, claimed_at = NULL, dispatch_mark = NULL,
    outcome_unknown = p.outcome_unknown OR p.dispatch_mark IS NOT DISTINCT FROM 'begun',
    hold_reason = COALESCE(p.hold_reason, p_reason), held_by = COALESCE(p.held_by, p_worker_id),
    held_at = COALESCE(p.held_at, clock_timestamp())
  WHERE p.ctid = ANY (v_places)
  RETURNING p.outcome_unknown, p.held_at INTO v_unknown, v_held_at;
  IF NOT FOUND THEN
    PERFORM raise_lease_lost(p_outbox_id, p_lease_token);
  END IF;
  SELECT s.full_trail INTO v_full_trail FROM symphony_settings s;
  IF v_full_trail THEN
    PERFORM append_outbox_events('LEASE_RELEASED', p_worker_id, ARRAY[p_outbox_id],
      ARRAY[jsonb_build_object('outcome_unknown', v_unknown)]);
  END IF;
  SELECT e INTO v_event_id
  FROM append_outbox_events('HOLD_PLACED', p_worker_id, ARRAY[p_outbox_id],
    ARRAY[outbox_hold_detail(p_reason, v_held_at)]) e;
  RETURN v_event_id;
END
$$;
COMMENT ON FUNCTION hold_leased_outbox_item(uuid, uuid, text, text) IS
  'Holds an item that this worker has leased and will not dispatch; clears the lease and appends an event.';

CREATE OR REPLACE FUNCTION check_outbox_leases(p_outbox_ids uuid[], p_lease_tokens uuid[], p_worker_id text)
RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
DECLARE
  v_count integer := cardinality(p_outbox_ids);
  v_list CONSTANT text := format('[1:%s]', v_count);
BEGIN
  IF v_count IS NULL OR v_count NOT BETWEEN 1 AND 1000 OR array_dims(p_outbox_ids) <> v_list
    OR num_nulls(VARIADIC p_outbox_ids) > 0
  THEN
    PERFORM refuse_argument('p_outbox_id', 'a plain list of 1 to 1000 ids, none of them null');
  END IF;
  IF array_dims(p_lease_tokens) IS DISTINCT FROM v_list OR num_nulls(VARIADIC p_lease_tokens) > 0 THEN
    PERFORM refuse_argument('p_lease_token', 'one token for each id, none of them null');
  END IF;
  IF NOT is_id(p_worker_id) THEN
    PERFORM refuse_argument('p_worker_id', '1 to 128 printable ASCII characters without spaces');
  END IF;
  -- The snapshot of a transaction at these levels may be older than the item.
  IF current_setting('transaction_isolation') IN ('repeatable read', 'serializable') AND EXISTS (
    SELECT 1 FROM unnest(p_outbox_ids) AS given(outbox_id)
    WHERE NOT EXISTS (SELECT 1 FROM payment_outbox_identities i WHERE i.outbox_id = given.outbox_id OFFSET 0))
  THEN
    RAISE EXCEPTION 'an outbox item is unknown to the snapshot of this transaction'
      USING ERRCODE = 'serialization_failure', HINT = 'Retry the transaction, or run it under READ COMMITTED.';
  END IF;
END
$$;
COMMENT ON FUNCTION check_outbox_leases(uuid[], uuid[], text) IS
  'Internal: raises 22023 unless ids, tokens and worker are well-formed, and 40001 for items newer than the snapshot.';

-- Locks items in the order of their ids, so that two calls cannot deadlock. Returns one ctid per id: the row, if this
-- worker and token hold a live lease, else null. If a lease is listed twice, the first counts. The clock is read after
-- the locks. The query looks up rows by id alone, because with another condition the planner could use another index.
CREATE OR REPLACE FUNCTION lock_live_outbox_leases(p_outbox_ids uuid[], p_lease_tokens uuid[], p_worker_id text)
RETURNS tid[]
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: batch
#variable_conflict use_column
DECLARE
  v_ordinals integer[];
  v_places tid[];
  v_expiries timestamptz[];
  v_now timestamptz;
BEGIN
  SELECT array_agg(l.ordinal), array_agg(l.place), array_agg(l.lease_expires_at)
  INTO v_ordinals, v_places, v_expiries
  FROM (
    SELECT g.ordinal::integer AS ordinal,
      CASE WHEN p.lease_token = g.lease_token AND p.claimed_by = p_worker_id THEN p.place END AS place,
      p.lease_expires_at
    FROM (
      SELECT i.outbox_id, i.lease_token, i.ordinal
      FROM unnest(p_outbox_ids, p_lease_tokens) WITH ORDINALITY AS i(outbox_id, lease_token, ordinal)
      ORDER BY i.outbox_id, i.lease_token, i.ordinal
    ) g
    LEFT JOIN LATERAL (
      SELECT q.ctid AS place, q.lease_token, q.claimed_by, q.lease_expires_at
      FROM payment_outbox_pending q WHERE q.outbox_id = g.outbox_id OFFSET 0 FOR UPDATE
    ) p ON true
  ) l;
  v_now := clock_timestamp();
  -- The rows are in the order of ids and tokens, so a lease that is listed twice is in neighbouring rows.
  RETURN ARRAY(
    SELECT CASE WHEN l.expiry > v_now AND l.place IS DISTINCT FROM l.place_before THEN l.place END
    FROM (
      SELECT u.ordinal, u.place, u.expiry, lag(u.place) OVER () AS place_before
      FROM unnest(v_ordinals, v_places, v_expiries) AS u(ordinal, place, expiry)
    ) l
    ORDER BY l.ordinal);
END
$$;
COMMENT ON FUNCTION lock_live_outbox_leases(uuid[], uuid[], text) IS
  'Internal: locks items; returns the rows whose live lease this worker and token hold.';

-- Returns the list with NULL in the place of each item that another transaction has locked. Keeps an id without a
-- pending row: its lease has ended.
CREATE OR REPLACE FUNCTION lock_free_outbox_items(p_outbox_ids uuid[]) RETURNS uuid[]
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: batch
#variable_conflict use_column
BEGIN
  RETURN ARRAY(
    SELECT CASE
        WHEN f.outbox_id IS NOT NULL THEN g.outbox_id
        WHEN NOT EXISTS (SELECT 1 FROM payment_outbox_pending p WHERE p.outbox_id = g.outbox_id OFFSET 0)
          THEN g.outbox_id
      END
    FROM unnest(p_outbox_ids) WITH ORDINALITY AS g(outbox_id, ordinal)
    LEFT JOIN LATERAL (
      SELECT q.outbox_id FROM payment_outbox_pending q
      WHERE q.outbox_id = g.outbox_id OFFSET 0 FOR UPDATE SKIP LOCKED
    ) f ON true
    ORDER BY g.ordinal);
END
$$;
COMMENT ON FUNCTION lock_free_outbox_items(uuid[]) IS
  'Internal: locks items without waiting; returns the list with NULL for each item that is locked.';

-- A worker that missed the answer to its COMMIT also gets this error. DETAIL says whether this token recorded an
-- outcome.
CREATE OR REPLACE FUNCTION raise_lease_lost(p_outbox_id uuid, p_lease_token uuid) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
-- Planner: lookup
#variable_conflict use_column
DECLARE
  v_detail json;
BEGIN
  SELECT json_build_object('recorded', true, 'attempt_no', a.attempt_no, 'state', a.state) INTO v_detail
  FROM payment_outbox_attempts a
  WHERE a.outbox_id = p_outbox_id AND a.lease_token = p_lease_token AND a.state <> 'ZOMBIE_REQUEUE'
  ORDER BY a.attempt_no LIMIT 1;
  RAISE EXCEPTION 'LEASE_LOST: outbox item %: no live lease of this worker and token', p_outbox_id
    USING ERRCODE = 'P7002', DETAIL = COALESCE(v_detail, json_build_object('recorded', false))::text,
      HINT = 'If DETAIL says recorded, the outcome stands and only its answer was lost. '
        'Otherwise record the outcome with record_late_outcome.';
END
$$;
COMMENT ON FUNCTION raise_lease_lost(uuid, uuid) IS
  'Internal: raises P7002; DETAIL is the outcome that this token recorded.';
