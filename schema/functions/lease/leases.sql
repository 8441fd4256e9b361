-- Returns no row if another owner holds the resource. An owner that acquires again gets a new lease_id, which replaces
-- the earlier one. So an owner that missed the answer need not wait for its own lease to expire.
CREATE OR REPLACE FUNCTION acquire_lease(
  p_resource text, p_owner text, p_duration_ms integer, p_context jsonb DEFAULT '{}'
) RETURNS TABLE (lease_id uuid, fencing_token bigint, acquired_at timestamptz, expires_at timestamptz)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
DECLARE
  v_now timestamptz;
  v_held symphony_leases;
  v_defect text := payload_defect(p_context);
BEGIN
  PERFORM check_id('p_resource', p_resource);
  PERFORM check_id('p_owner', p_owner);
  PERFORM check_lease_duration(p_duration_ms);
  IF v_defect IS NOT NULL THEN
    PERFORM refuse_argument('p_context', v_defect);
  END IF;
  PERFORM require_read_committed();

  LOOP
    SELECT * INTO v_held FROM symphony_leases l WHERE l.resource = p_resource FOR UPDATE;
    EXIT WHEN FOUND;
    -- Inserts a free row, which the next iteration locks. FOR SHARE locks the floor until this transaction ends: a
    -- purge of this resource has either committed before, or waits.
    v_now := clock_timestamp();
    INSERT INTO symphony_leases (resource, owner, fencing_token, acquired_at, renewed_at, expires_at, released_at)
    SELECT p_resource, p_owner, f.fencing_token, v_now, v_now, v_now, v_now FROM symphony_lease_floor f FOR SHARE
    ON CONFLICT DO NOTHING;
  END LOOP;

  -- The clock is read after the lock: the wait may have been longer than the lease.
  v_now := clock_timestamp();
  IF v_held.lease_id IS NOT NULL AND v_held.expires_at > v_now AND v_held.owner <> p_owner THEN
    RETURN;
  END IF;
  RETURN QUERY
  UPDATE symphony_leases l
  SET owner = p_owner, lease_id = gen_random_uuid(), fencing_token = l.fencing_token + 1, acquired_at = v_now,
    renewed_at = v_now, expires_at = v_now + make_interval(secs => p_duration_ms / 1000.0), released_at = NULL,
    context = p_context, floor_seen = (SELECT f.fencing_token FROM symphony_lease_floor f)
  WHERE l.resource = p_resource
  RETURNING l.lease_id, l.fencing_token, l.acquired_at, l.expires_at;
END
$$;
COMMENT ON FUNCTION acquire_lease(text, text, integer, jsonb) IS
  'Acquires a resource that is free, expired or held by the same owner, with a new lease_id and a greater token. '
  'Returns no row while another owner holds it.';

-- Never shortens a lease. An expired lease stays lost, because its holder has already stopped.
CREATE OR REPLACE FUNCTION renew_lease(p_resource text, p_owner text, p_lease_id uuid, p_duration_ms integer)
RETURNS TABLE (fencing_token bigint, expires_at timestamptz)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
DECLARE
  v_live_at timestamptz;
BEGIN
  PERFORM check_id('p_resource', p_resource);
  PERFORM check_id('p_owner', p_owner);
  PERFORM check_lease_duration(p_duration_ms);
  v_live_at := lock_live_lease(p_resource, p_owner, p_lease_id);
  RETURN QUERY
  UPDATE symphony_leases l
  SET fencing_token = l.fencing_token + 1, renewed_at = v_live_at,
    expires_at = GREATEST(l.expires_at, v_live_at + make_interval(secs => p_duration_ms / 1000.0))
  WHERE l.resource = p_resource AND v_live_at IS NOT NULL
  RETURNING l.fencing_token, l.expires_at;
END
$$;
COMMENT ON FUNCTION renew_lease(text, text, uuid, integer) IS
  'Extends a live lease of this owner and lease_id, with a greater token; returns no row if the lease is lost.';

CREATE OR REPLACE FUNCTION release_lease(p_resource text, p_owner text, p_lease_id uuid) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
DECLARE
  v_live_at timestamptz;
BEGIN
  PERFORM check_id('p_resource', p_resource);
  PERFORM check_id('p_owner', p_owner);
  v_live_at := lock_live_lease(p_resource, p_owner, p_lease_id);
  UPDATE symphony_leases l SET lease_id = NULL, released_at = v_live_at, expires_at = v_live_at
  WHERE l.resource = p_resource AND v_live_at IS NOT NULL;
  RETURN FOUND;
END
$$;
COMMENT ON FUNCTION release_lease(text, text, uuid) IS
  'Releases a live lease of this owner and lease_id; returns false if the lease is lost. The row stays, with its '
  'token.';

-- Locks the floor before it removes rows, and raises it in the same transaction, so that no token is issued twice.
CREATE OR REPLACE FUNCTION purge_idle_leases(p_idle_seconds integer, p_batch_size integer) RETURNS integer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
#variable_conflict use_column
DECLARE
  v_idle_since timestamptz;
  v_removed integer;
  v_highest bigint;
BEGIN
  IF p_idle_seconds IS NULL OR p_idle_seconds NOT BETWEEN 3600 AND 315360000 THEN
    PERFORM refuse_argument('p_idle_seconds', '3600 (an hour) to 315360000 (ten years)');
  END IF;
  PERFORM check_number('p_batch_size', p_batch_size, 1, 1000);
  PERFORM require_read_committed();
  PERFORM FROM symphony_lease_floor f FOR UPDATE;
  v_idle_since := clock_timestamp() - make_interval(secs => p_idle_seconds);
  WITH idle AS (
    SELECT l.resource FROM symphony_leases l WHERE l.expires_at <= v_idle_since
    LIMIT p_batch_size FOR UPDATE SKIP LOCKED
  ), removed AS (
    DELETE FROM symphony_leases l USING idle WHERE l.resource = idle.resource RETURNING l.fencing_token
  )
  SELECT count(*), max(r.fencing_token) INTO v_removed, v_highest FROM removed r;
  UPDATE symphony_lease_floor f SET fencing_token = v_highest WHERE f.fencing_token < v_highest;
  RETURN v_removed;
END
$$;
COMMENT ON FUNCTION purge_idle_leases(integer, integer) IS
  'Removes leases that ended at least p_idle_seconds ago, and raises the floor to their highest token. Returns their '
  'number.';

-- A shorter lease would not survive one slow round trip. A longer one would block others for hours after a crash.
CREATE OR REPLACE FUNCTION check_lease_duration(p_duration_ms integer) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
BEGIN
  IF p_duration_ms IS NULL OR p_duration_ms NOT BETWEEN 1000 AND 3600000 THEN
    PERFORM refuse_argument('p_duration_ms', '1000 (a second) to 3600000 (an hour)');
  END IF;
END
$$;
COMMENT ON FUNCTION check_lease_duration(integer) IS 'Internal: raises 22023 unless the duration is 1 s to 1 hour.';

-- The clock is read after the lock: a lease may expire while its holder waits.
CREATE OR REPLACE FUNCTION lock_live_lease(p_resource text, p_owner text, p_lease_id uuid) RETURNS timestamptz
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path FROM CURRENT
AS $$
DECLARE
  v_lease symphony_leases;
  v_now timestamptz;
BEGIN
  IF p_lease_id IS NULL THEN
    PERFORM refuse_argument('p_lease_id', 'the lease_id that acquire_lease returned');
  END IF;
  PERFORM require_read_committed();
  SELECT * INTO v_lease FROM symphony_leases l WHERE l.resource = p_resource FOR UPDATE;
  v_now := clock_timestamp();
  IF v_lease.lease_id = p_lease_id AND v_lease.owner = p_owner AND v_lease.expires_at > v_now THEN
    RETURN v_now;
  END IF;
  RETURN NULL;
END
$$;
COMMENT ON FUNCTION lock_live_lease(text, text, uuid) IS
  'Internal: locks a resource; returns the time if this owner and lease_id hold it live, else null.';
